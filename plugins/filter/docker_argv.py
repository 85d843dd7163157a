# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a container for docker create."""

from __future__ import annotations

DOCUMENTATION = r"""
name: docker_argv
short_description: Render a container as the arguments of docker create
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Returns the words that follow C(docker create), or C(docker run --detach).
  - Secrets are named without their values, which Docker then takes from its environment.
options:
  _input:
    description: A container, as the filter P(dgxspark.vllm.container#filter) returns it.
    type: dict
    required: true
seealso:
  - plugin: dgxspark.vllm.docker_run
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Create a container
  dgxspark.vllm.rank:
    name: "{{ container.name }}"
    arguments: "{{ container | dgxspark.vllm.docker_argv }}"
    digest: "{{ container.labels['dgxspark.vllm.digest'] }}"
"""

RETURN = r"""
_value:
  description: The words, unquoted.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._docker_argv import create_arguments


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"docker_argv": create_arguments}
