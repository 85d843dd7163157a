# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a recipe and its ranks on the controller, with one clear error where that cannot be."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._ranks import assign_ranks, name_nodes


class ActionModule(ActionBase):
    """The lookup and the filter in one step; raised while a template is worked out, their errors drown in context."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the recipe and its ranks, or fail with all that is wrong with them."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            {
                "recipe": {"type": "str", "required": True},
                "nodes": {"type": "raw", "required": True},
                "inventory": {"type": "list", "elements": "str", "required": True},
            }
        )
        lookup = lookup_loader.get("dgxspark.vllm.recipe", loader=self._loader, templar=self._templar)
        result["changed"] = False
        try:
            recipe = lookup.run([options["recipe"]], variables=task_vars)[0]
            ranks = assign_ranks(recipe, name_nodes(options["nodes"], options["inventory"]))
        except (AnsibleError, RecipeError) as error:
            result.update(failed=True, msg=str(error))
            return result
        result.update(recipe=recipe, ranks=ranks, warnings=recipe["warnings"])
        return result
