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
SHOW_EVERY = 2.0

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
        started = self._module({**arguments, "state": "started"}, task_vars)
        if started.get("failed") or started.get("unreachable"):
            return started
        return self._watch(arguments, task_vars)

    def _watch(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        expected = {target["node"]: int(target.get("size", 0)) for target in arguments.get("targets", [])}
        source = str((task_vars or {}).get("inventory_hostname", ""))
        began, shown = time.monotonic(), 0.0
        while True:
            state = self._module({"state": "watched", "run": arguments["run"]}, task_vars)
            if state.get("failed") or state.get("unreachable"):
                return state
            if state["ended"] or time.monotonic() - shown >= SHOW_EVERY:
                shown = time.monotonic()
                for node, receiver in sorted(state["receivers"].items()):
                    display.display(f"{node} <- {source}: {progress_line(receiver, expected.get(node, 0))}")
            if state["ended"]:
                seconds = round(time.monotonic() - began, 2)
                told = {key: state[key] for key in ("receivers", "error", "cleaned")}
                return {"changed": True, "seconds": seconds, **told}

    def _module(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        result: dict[str, Any] = self._execute_module(MODULE, module_args=arguments, task_vars=task_vars)
        return result
