# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what became of an image transfer."""

from __future__ import annotations

DOCUMENTATION = r"""
name: image_outcome
short_description: Tell what became of an image transfer
version_added: "0.1.0"
author:
  - The dgxspark.vllm contributors (@dgxspark)
description:
  - Puts together what senders and receivers of an image told, and finds the cause for each node that still lacks it.
options:
  _input:
    description: The plan, as P(dgxspark.vllm.image_routes#filter) returned it.
    type: dict
    required: true
  prepared:
    description: For each source the result of O(dgxspark.vllm.image_sender#module:state=prepared).
    type: dict
    required: true
  opened:
    description: For each receiver the result of O(dgxspark.vllm.image_receiver#module:state=open).
    type: dict
    required: true
  sent:
    description: For each source the result of O(dgxspark.vllm.image_sender#module:state=sent).
    type: dict
    required: true
  closed:
    description: For each receiver the result of O(dgxspark.vllm.image_receiver#module:state=closed).
    type: dict
    required: true
seealso:
  - plugin: dgxspark.vllm.image_routes
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Tell
  ansible.builtin.debug:
    msg: "{{ (plan | dgxspark.vllm.image_outcome(prepared, opened, sent, closed)).problems }}"
"""

RETURN = r"""
_value:
  description:
    - C(results), for each receiver C(action), C(source), C(bytes), C(layers_sent), C(layers_skipped), C(seconds),
      C(replaced), C(kept_as) and C(why_whole).
    - C(texts), one for each receiver that has it now.
    - C(problems), one text for each receiver that still lacks the image.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._image_outcome import outcome


class FilterModule:
    """The filter for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"image_outcome": outcome}
