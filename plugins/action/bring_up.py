# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the ranks in order and wait until the model really answers."""

from __future__ import annotations

import inspect
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.dgxspark.vllm.plugins.module_utils import _endpoint
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._bring_up import BringUp, BringUpError, Order
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._connections import connect
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._rank_state import redact

display = Display()


class ActionModule(ActionBase):
    """The rim between Ansible and the watching core; options and results are in the documentation."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Bring the ranks up, or say in check mode that it would."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            {
                "recipe": {"type": "str", "required": True},
                "ranks": {"type": "list", "elements": "dict", "required": True},
                "base": {"type": "str", "required": True},
                "names": {"type": "list", "elements": "str", "required": True},
                "api_key": {"type": "str", "default": "", "no_log": True},
                "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
                "timeout": {"type": "float", "default": 3600},
                "canary_timeout": {"type": "float", "default": 300},
                "since": {"type": "float"},
            }
        )
        result["changed"] = True
        if self._task.check_mode:
            return result
        variables = task_vars or {}
        nodes = [rank["node"] for rank in options["ranks"]]
        connections = connect(self, nodes, variables["hostvars"])
        asking = connect(self, nodes[:1], variables["hostvars"])[nodes[0]]
        since, secrets = options.pop("since"), options.pop("secrets")
        prepared = {} if since is None else {"create": round(time.time() - since, 1)}
        order = Order(probe=inspect.getsource(_endpoint), **options)
        try:
            result["seconds"] = prepared | BringUp(order, connections, asking, display.display).run()
        except BringUpError as error:
            result.update(failed=True, msg=redact(str(error), [options["api_key"], *secrets]))
        finally:
            for connection in [*connections.values(), asking]:
                connection.close()
        return result
