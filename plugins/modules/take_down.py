# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action take_down, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: take_down
short_description: Stop and remove ranks, the head first
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Stops the head, so that no request is taken any more, then all workers at once, and removes the containers.
  - Only containers that carry the collection's label are touched. None at all is no error.
  - A node that cannot be reached does not keep the others from being served; it fails the task at the end.
  - Runs on the controller and opens a connection to every node. Use it with C(run_once).
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying any node.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
options:
  nodes:
    description: Nodes to look at.
    type: list
    elements: str
    required: true
  recipes:
    description: Ids of the recipes to take down. With O(runs) empty too, every recipe's.
    type: list
    elements: str
    default: []
  runs:
    description: Ids of the runs to take down, as in the label C(dgxspark.vllm.run).
    type: list
    elements: str
    default: []
  save_to:
    description:
      - Folder on the controller for every rank's log (its last 100000 lines) and its C(docker inspect), made if missing
        and readable by its owner alone.
      - Secrets are hidden in both. Nothing is saved when empty.
    type: path
    default: ""
  secrets:
    description: Texts to hide in what is saved.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Stop one recipe
  dgxspark.vllm.take_down:
    nodes: "{{ groups.sparks }}"
    recipes: [dsv41-flash-8x]
  run_once: true
"""

RETURN = r"""
ranks:
  description: For each container taken down C(recipe), C(rank), C(node) and C(container).
  returned: always
  type: list
  elements: dict
saved:
  description: Paths of the files saved.
  returned: always
  type: list
  elements: str
"""
