# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List why a run would be refused."""

from __future__ import annotations

DOCUMENTATION = r"""
name: problems
short_description: List every problem that keeps a recipe from being served
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Returns all problems of all nodes at once, before anything is touched.
options:
  _input:
    description: A recipe, as the lookup P(dgxspark.vllm.recipe#lookup) returns it.
    type: dict
    required: true
  ranks:
    description: The ranks, as the filter P(dgxspark.vllm.ranks#filter) returns them.
    type: list
    elements: dict
    required: true
  looks:
    description: For each node the result of the module M(dgxspark.vllm.node_info), an error or "unreachable" included.
    type: dict
    required: true
  settings:
    description: The choices of the inventory, as for the filter P(dgxspark.vllm.container#filter).
    type: dict
    required: true
  options:
    description:
      - C(build_dir) (folder with a Dockerfile, on the controller), C(archive) (file to load the image from),
        C(replace) (whether another recipe gives way), C(image_digest) (content of the image after a sync),
        C(run) (id of the run); empty where unknown.
    type: dict
    required: true
seealso:
  - plugin: dgxspark.vllm.deployment
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Refuse
  ansible.builtin.assert:
    that: (recipe | dgxspark.vllm.problems(ranks, looks, settings, options)) | length == 0
"""

RETURN = r"""
_value:
  description: For each problem C(node), C(what) is wrong, C(why) it matters and the C(cure).
  type: list
  elements: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._preflight import Options, inspect_nodes
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import NodeProblem, Rank, Recipe, Settings


def problems(
    recipe: Recipe, ranks: list[Rank], looks: dict[str, dict[str, Any]], settings: Settings, options: Options
) -> list[NodeProblem]:
    """Return every problem of a run; see DOCUMENTATION."""
    return inspect_nodes(recipe, ranks, looks, settings, options)["problems"]


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"problems": problems}
