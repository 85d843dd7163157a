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
                "save_to": {"type": "path", "default": ""},
                "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
            }
        )
        connections = connect(self, options["nodes"], (task_vars or {})["hostvars"])
        reader = TakeDown(connections, on_all)
        present = reader.find(options["recipes"], [])
        result.update(changed=False, saved=[], ranks=present)
        if options["save_to"]:
            result["saved"] = reader.save_states(present, Path(options["save_to"]), options["secrets"])
            result["saved"] += reader.save_logs(present, Path(options["save_to"]), options["secrets"])
        else:
            reader.errors += self._show(present, connections, options)
        for connection in connections.values():
            connection.close()
        if reader.errors:
            result.update(failed=True, msg="\n".join(["Not every log could be read:", *reader.errors]))
        return result

    def _show(self, ranks: list[Rank], connections: dict[str, Any], options: dict[str, Any]) -> list[str]:
        """Show every log that can be read, and return what could not."""
        errors = []
        for rank in ranks:
            name = f"rank {rank['rank']} on {rank['node']} ({rank['container']})"
            answer = connections[rank["node"]].run(observe_words(rank["container"], options["lines"]))
            if not answer.ok:
                errors.append(f"{name} could not give its log: {answer.stderr or answer.text.strip()}")
                continue
            seen = read_observation(answer.text)
            text = "\n".join([f"{name}, {seen.status}:", *excerpt(seen.lines, options["lines"])])
            display.display(redact(text, options["secrets"]))
        return errors
