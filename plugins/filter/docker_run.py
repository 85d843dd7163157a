# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a container as a line to read, or to paste."""

from __future__ import annotations

DOCUMENTATION = r"""
name: docker_run
short_description: Render a container as a docker run line
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Returns the C(docker run) line that starts the container, quoted for a POSIX shell.
  - Secrets are named without their values.
options:
  _input:
    description: A container, as the filter P(dgxspark.vllm.container#filter) returns it.
    type: dict
    required: true
seealso:
  - plugin: dgxspark.vllm.docker_argv
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Print what would run
  ansible.builtin.debug:
    msg: "{{ container | dgxspark.vllm.docker_run }}"
"""

RETURN = r"""
_value:
  description: The line.
  type: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._docker_argv import run_line


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"docker_run": run_line}
