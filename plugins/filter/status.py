# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what is served now."""

from __future__ import annotations

DOCUMENTATION = r"""
name: status
short_description: Tell the state of every rank, of the endpoint and of the whole set
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - A set serves when every rank runs and the canary answered. C(/health) alone proves nothing, it stays 200 when a
    worker has died.
options:
  _input:
    description: The ranks, as the filter P(dgxspark.vllm.ranks#filter) returns them.
    type: list
    elements: dict
    required: true
  looks:
    description: For each node the result of the module M(dgxspark.vllm.node_info), an error or "unreachable" included.
    type: dict
    required: true
  deployment:
    description: What serve would do, from the filter P(dgxspark.vllm.deployment#filter).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail unless it serves
  ansible.builtin.assert:
    that: (ranks | dgxspark.vllm.status(looks, deployment)).verdict == "serving"
"""

RETURN = r"""
_value:
  description:
    - C(verdict) - V(serving), V(broken) (a part of it is there, or it does not answer) or V(stopped).
    - C(ranks) - for each C(rank) its C(node), C(state) (with the exit code when it has ended), C(since) (UTC) and
      C(match) (whether its container is what the recipe asks for - V(yes), V(no), V(unknown)).
    - C(endpoint) - what the head answered, see M(dgxspark.vllm.node_info).
    - C(notes) - what could not be seen, and what the head answered wrongly.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._status import cluster_status


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"status": cluster_status}
