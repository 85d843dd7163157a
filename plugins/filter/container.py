# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe one rank's container."""

from __future__ import annotations

DOCUMENTATION = r"""
name: container
short_description: Describe the container of one rank
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Returns all that Docker is told of one rank's container, as plain data by Docker's own names.
  - The labels lack the digest, which needs the image's content; the filter P(dgxspark.vllm.deployment#filter) adds it.
options:
  _input:
    description: A recipe, as the lookup P(dgxspark.vllm.recipe#lookup) returns it.
    type: dict
    required: true
  rank:
    description: One rank, as the filter P(dgxspark.vllm.ranks#filter) returns it.
    type: dict
    required: true
  facts:
    description: Facts of the rank's node, C(node) of the module M(dgxspark.vllm.node_info).
    type: dict
    required: true
  settings:
    description:
      - The inventory's choices - C(host), C(port), C(master_port), C(privileged), C(gpus), C(engine_env),
        C(fabric_env), C(fabric_profile) and C(secrets) (values by environment name).
    type: dict
    required: true
  network:
    description: The rank's part of the fabric - C(address), C(interface), C(master_address), C(env). None for one node.
    type: dict
"""

EXAMPLES = r"""
- name: Show the container of a single node
  vars:
    recipe: "{{ lookup('dgxspark.vllm.recipe', 'tiny-cpu-1x') }}"
    rank: "{{ (recipe | dgxspark.vllm.ranks(['dgx1'])) | first }}"
    facts:
      user: {home: /home/spark}
      model: {cache: /home/spark/.cache/huggingface}
      fabric: {infiniband_device: false}
    settings:
      host: 0.0.0.0
      port: 8000
      master_port: 29501
      privileged: false
      gpus: all
      engine_env: {}
      fabric_env: {}
      fabric_profile: ""
      secrets: {}
  ansible.builtin.debug:
    msg: "{{ (recipe | dgxspark.vllm.container(rank, facts, settings)).name }}"
  # -> tiny-cpu-1x-r0
"""

RETURN = r"""
_value:
  description:
    - The container - C(name), C(image), C(entrypoint), C(command), C(env), C(secret_env), C(mounts), C(devices),
      C(gpus), C(network), C(ipc), C(shm_size) (bytes), C(cap_add), C(privileged), C(ulimits), C(init), C(stop_signal),
      C(stop_timeout) (seconds), C(log_driver), C(log_options), C(oom_score_adj), C(restart) and C(labels).
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._container import rank_container
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import (
    Container,
    Network,
    NodeFacts,
    Rank,
    Recipe,
    Settings,
)


def container(
    recipe: Recipe, rank: Rank, facts: NodeFacts, settings: Settings, network: Network | None = None
) -> Container:
    """Return one rank's container; see DOCUMENTATION."""
    return rank_container(recipe, rank, facts, network, settings)


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"container": container}
