# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give nodes their ranks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ranks
short_description: Give a recipe's nodes their ranks
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Returns the ranks of one serving run, in order - the first C(required_nodes) of the nodes, rank 0 (the head) first.
  - Refuses a node that stands twice, one that is not in O(inventory), and too few nodes.
options:
  _input:
    description: A recipe, as the lookup P(dgxspark.vllm.recipe#lookup) returns it.
    type: dict
    required: true
  nodes:
    description: Node names in order, as a list, or as one string with commas.
    type: raw
    required: true
  inventory:
    description: All nodes that may be named. Not checked when left out.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Say which node is the head
  vars:
    recipe: "{{ lookup('dgxspark.vllm.recipe', 'dsv4-vision-aiden-4x') }}"
  ansible.builtin.debug:
    msg: "{{ (recipe | dgxspark.vllm.ranks(['dgx1', 'dgx2', 'dgx3', 'dgx4']))[0].node }}"
  # -> dgx1
"""

RETURN = r"""
_value:
  description: For each rank C(rank) (0 to N-1), C(node), C(world_size) and C(container) (the container's name).
  type: list
  elements: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._ranks import assign_ranks, name_nodes
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Rank, Recipe


def ranks(recipe: Recipe, nodes: str | list[str], inventory: list[str] | None = None) -> list[Rank]:
    """Return the ranks of one run, in order; see DOCUMENTATION."""
    try:
        return assign_ranks(recipe, name_nodes(nodes, inventory))
    except RecipeError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"ranks": ranks}
