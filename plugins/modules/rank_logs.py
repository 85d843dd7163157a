# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action rank_logs, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rank_logs
short_description: Show the end of every rank's log, or save the logs
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Shows the last lines of every rank's log, by rank, or saves the logs on the controller.
  - Runs on the controller and opens a connection to every node. Use it with C(run_once).
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what it would return without it.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
    details: The action changes nothing on a node.
options:
  nodes:
    description: Nodes to look at.
    type: list
    elements: str
    required: true
  recipes:
    description: Ids of the recipes whose logs are wanted, every recipe's when empty.
    type: list
    elements: str
    default: []
  lines:
    description: Number of lines to show for each rank.
    type: int
    default: 50
  save_to:
    description: Folder on the controller. When given, whole logs are saved there and none is shown.
    type: path
    default: ""
  secrets:
    description: Texts to hide.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the last lines of every rank
  dgxspark.vllm.rank_logs:
    nodes: "{{ groups.sparks }}"
    recipes: [dsv41-flash-8x]
    lines: 20
  run_once: true
"""

RETURN = r"""
ranks:
  description: For each container found C(recipe), C(rank), C(node) and C(container).
  returned: always
  type: list
  elements: dict
saved:
  description: Paths of the files saved.
  returned: always
  type: list
  elements: str
"""
