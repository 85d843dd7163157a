# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the end of every rank's log, or save the logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._connections import connect, on_all
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._rank_state import (
    excerpt,
    observe_words,
    read_observation,
    redact,
)
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._take_down import Rank, TakeDown

display = Display()


class ActionModule(ActionBase):
    """The rim between Ansible and the core; options and results are in the documentation."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Show or save the logs; nothing on a node changes."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            {
                "nodes": {"type": "list", "elements": "str", "required": True},
                "recipes": {"type": "list", "elements": "str", "default": []},
                "lines": {"type": "int", "default": 50},
                "save_to": {"type": "str", "default": ""},
                "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
            }
        )
        connections = connect(self, options["nodes"], (task_vars or {})["hostvars"])
        reader = TakeDown(connections, on_all)
        present = reader.find(options["recipes"], [])
        result.update(changed=False, saved=[], ranks=present)
        if options["save_to"]:
            result["saved"] = reader.save(present, Path(options["save_to"]), options["secrets"])
        else:
            self._show(present, connections, options)
        for connection in connections.values():
            connection.close()
        if reader.errors:
            result.update(failed=True, msg="\n".join(["Not every log could be read:", *reader.errors]))
        return result

    def _show(self, ranks: list[Rank], connections: dict[str, Any], options: dict[str, Any]) -> None:
        for rank in ranks:
            answer = connections[rank["node"]].run(observe_words(rank["container"], options["lines"]))
            seen = read_observation(answer.text)
            head = f"rank {rank['rank']} on {rank['node']} ({rank['container']}), {seen.status}:"
            text = "\n".join([head, *excerpt(seen.lines, options["lines"])])
            display.display(redact(text, options["secrets"]))
