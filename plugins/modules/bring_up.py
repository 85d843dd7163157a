# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action bring_up, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bring_up
short_description: Start ranks in order and wait until the model really answers
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Starts created containers one after the other, in rank order, then watches all of them at the same time.
  - Ready means that every container runs, C(/health) answers, C(/v1/models) has the names, and one token comes out.
    The first two are up before the engine can serve, so only the token proves that all ranks work.
  - Fails within seconds when any rank is not running, whatever its exit code, and says which, how and why.
  - Shows the stage of every rank, as its log tells it, whenever one changes.
  - Runs on the controller and opens a connection to every node, so it works with any number of forks.
    Use it with C(run_once).
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying any node.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
options:
  recipe:
    description: Id of the recipe, for messages.
    type: str
    required: true
  ranks:
    description: For each rank, in order, C(rank), C(node) and C(container); see P(dgxspark.vllm.ranks#filter).
    type: list
    elements: dict
    required: true
  base:
    description: URL of the engine as the head itself sees it.
    type: str
    required: true
  names:
    description: Names that the model must be served under. The first is asked.
    type: list
    elements: str
    required: true
  api_key:
    description: Key for the requests. It reaches the head on standard input.
    type: str
    default: ""
  secrets:
    description: Further texts to hide in messages.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds for all of it.
    type: float
    default: 3600
  canary_timeout:
    description: Seconds for the first token. The first request may compile kernels.
    type: float
    default: 300
  since:
    description: Moment (seconds since the epoch) from which RV(seconds) counts C(create).
    type: float
notes:
  - An interrupted run leaves what it started. The next one replaces it, and the playbook C(stop) removes it.
"""

EXAMPLES = r"""
- name: Bring the ranks up
  dgxspark.vllm.bring_up:
    recipe: dsv41-flash-8x
    ranks: "{{ recipe | dgxspark.vllm.ranks(groups.sparks) }}"
    base: http://127.0.0.1:8000
    names: [deepseek-v4-flash]
  run_once: true
"""

RETURN = r"""
seconds:
  description: Seconds of each phase - C(create) (when O(since) is given), C(start), C(ready), C(canary).
  returned: success
  type: dict
"""
