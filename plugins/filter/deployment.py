# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what serve has to do."""

from __future__ import annotations

DOCUMENTATION = r"""
name: deployment
short_description: Decide what serving a recipe takes on the nodes as they are
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Compares what every rank should be with what stands on its node, and says what has to be done, and why.
  - A set of ranks is kept or replaced as a whole, never one rank of it.
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
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    deployment: "{{ recipe | dgxspark.vllm.deployment(ranks, looks, settings, options) }}"
"""

RETURN = r"""
_value:
  description:
    - C(verdict) - V(refuse) (there are C(problems)), V(unchanged), V(create) or V(replace), and the C(reasons).
    - C(ranks) - for each C(rank) its C(node), C(container) (name), C(spec) (see P(dgxspark.vllm.container#filter)),
      C(arguments), C(run_line), C(digest), C(state) and C(started) of what stands there, whether it C(matches),
      C(leftovers) (other containers to remove), C(cache_paths) (folders to make),
      C(cache_foreign) (root is needed for them) and C(drop_page_cache).
    - C(image), C(image_digest) (its content) and C(image_equal) (whether all nodes hold it).
    - C(standing) - the C(runs) to take down first, and whether parts of them stand C(elsewhere).
    - C(addresses) - each node's fabric address.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._deployment import deploy


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"deployment": deploy}
