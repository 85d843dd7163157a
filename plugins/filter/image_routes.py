# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which node sends which layers of an image to which node."""

from __future__ import annotations

DOCUMENTATION = r"""
name: image_routes
short_description: Decide which node sends which layers of an image to which node
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Takes what M(dgxspark.vllm.image_info) told of every node and plans the sync. Several holders share the work.
options:
  _input:
    description: For each node its C(name), its C(address) and SSH C(port) for other nodes, and its C(facts), in
      rank order.
    type: list
    elements: dict
    required: true
  image:
    description: Name and tag of the image.
    type: str
    required: true
  reference:
    description: Name of the node whose image counts. Empty for the lowest rank that holds the image.
    type: str
    default: ""
  reserve:
    description: Bytes that must stay free on a receiver's disk.
    type: int
    default: 0
seealso:
  - module: dgxspark.vllm.image_info
"""

EXAMPLES = r"""
- name: Plan the sync
  ansible.builtin.set_fact:
    plan: "{{ nodes | dgxspark.vllm.image_routes('dsv41-flash:local') }}"
"""

RETURN = r"""
_value:
  description:
    - C(digest) of the content that counts, C(reference) node, C(held) (whether any node has the tag), C(holders).
    - C(receivers), for each its C(source), C(bytes), C(layers_skipped), C(why_whole), the content it C(replaces),
      and all that in words as C(foretold).
    - C(sources), for each the C(targets) of M(dgxspark.vllm.image_sender).
    - C(problems), one text each.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._image_routes import Node, plan


def image_routes(nodes: list[dict[str, Any]], image: str, reference: str = "", reserve: int = 0) -> dict[str, Any]:
    """Return the plan of a sync; see DOCUMENTATION."""
    return plan(
        [Node(node["name"], node["address"], node["facts"], int(node["port"])) for node in nodes],
        image,
        reference,
        reserve,
    )


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"image_routes": image_routes}
