# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let plain pytest find the collection's plugins; ansible-test brings its own finder."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader([str(Path(__file__).resolve().parents[2] / ".collections")])
