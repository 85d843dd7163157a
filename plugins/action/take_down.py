# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop the ranks of a set, the head first, and remove their containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._connections import connect, on_all
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._take_down import TakeDown


class ActionModule(ActionBase):
    """The rim between Ansible and the core; options and results are in the documentation."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Take the ranks down; what fails on one node is reported after all others were served."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            {
                "nodes": {"type": "list", "elements": "str", "required": True},
                "recipes": {"type": "list", "elements": "str", "default": []},
                "runs": {"type": "list", "elements": "str", "default": []},
                "save_to": {"type": "path", "default": ""},
                "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
            }
        )
        connections = connect(self, options["nodes"], (task_vars or {})["hostvars"])
        down = TakeDown(connections, on_all)
        present = down.find(options["recipes"], options["runs"])
        result.update(changed=bool(present), ranks=present, saved=[])
        if present and not self._task.check_mode:
            folder = Path(options["save_to"])
            # The states as they are now, before stopping changes them; the logs with all that stopping adds.
            if options["save_to"]:
                result["saved"] += down.save_states(present, folder, options["secrets"])
            down.stop(present)
            if options["save_to"]:
                result["saved"] += down.save_logs(present, folder, options["secrets"])
            down.remove(present)
        for connection in connections.values():
            connection.close()
        if down.errors:
            result.update(failed=True, msg="\n".join(["Not everything could be taken down:", *down.errors]))
        return result
