# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action show, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: show
short_description: Print a text as it is
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Prints a text with its line ends, so that a table stays one and a command line can be pasted into a shell.
attributes:
  check_mode:
    description: Can run in C(check_mode) and print what it would print without it.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
options:
  text:
    description: The text.
    type: str
    required: true
seealso:
  - module: ansible.builtin.debug
"""

EXAMPLES = r"""
- name: Show a table
  dgxspark.vllm.show:
    text: |
      rank  node
      0     dgx1
"""

RETURN = r"""
{}
"""
