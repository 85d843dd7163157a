# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for a sender and shows how far each receiver is; see the module of the same name."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._image_progress import progress_line

MODULE = "dgxspark.vllm.image_sender"
# Every look starts a program on the node, which is worth less the longer it all takes.
SHORTEST_LOOK, LONGEST_LOOK, LOOK_SHARE = 2.0, 10.0, 0.15

display = Display()


class ActionModule(ActionBase):
    """Starts the sender on the node, then looks at it until it has ended."""

    _supports_check_mode = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module once, or for C(state=sent) until the sender has ended."""
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if arguments.get("state") != "sent":
            return self._module(arguments, task_vars)
        return self._send(arguments, task_vars)

    def _send(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        expected = {target["node"]: int(target.get("size", 0)) for target in arguments.get("targets", [])}
        source = str((task_vars or {}).get("inventory_hostname", ""))
        began = time.monotonic()
        state = self._module({**arguments, "state": "started", "wait": SHORTEST_LOOK}, task_vars)
        while not (state.get("failed") or state.get("unreachable")):
            for node, receiver in sorted(state["receivers"].items()):
                display.display(f"{node} <- {source}: {progress_line(receiver, expected.get(node, 0))}")
            seconds = time.monotonic() - began
            if state["ended"]:
                told = {key: state[key] for key in ("receivers", "error", "cleaned")}
                return {"changed": True, "seconds": round(seconds, 2), **told}
            wait = min(LONGEST_LOOK, max(SHORTEST_LOOK, LOOK_SHARE * seconds))
            state = self._module({"state": "watched", "run": arguments["run"], "wait": wait}, task_vars)
        return state

    def _module(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        result: dict[str, Any] = self._execute_module(MODULE, module_args=arguments, task_vars=task_vars)
        return result
