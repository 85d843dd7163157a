# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action resolve, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: resolve
short_description: Resolve a recipe and its ranks on the controller
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Does what the lookup P(dgxspark.vllm.recipe#lookup) and the filter P(dgxspark.vllm.ranks#filter) do, as a task of
    its own, so that an error stands alone and the recipe's warnings are shown as warnings.
  - Takes the variables that the lookup takes. Touches no node. Use it with C(run_once).
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what it would return without it.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
options:
  recipe:
    description: Recipe, by id or by path.
    type: str
    required: true
  nodes:
    description: Nodes to choose from, in rank order, as a list or as one string with commas.
    type: raw
    required: true
  inventory:
    description: All nodes that may be named.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Resolve a recipe
  dgxspark.vllm.resolve:
    recipe: dsv41-flash-8x
    nodes: "{{ groups.sparks }}"
    inventory: "{{ groups.sparks }}"
  run_once: true
  register: resolved
"""

RETURN = r"""
recipe:
  description: The recipe, see P(dgxspark.vllm.recipe#lookup).
  returned: success
  type: dict
ranks:
  description: The ranks, see P(dgxspark.vllm.ranks#filter).
  returned: success
  type: list
  elements: dict
"""
