# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in engine: behaves on the outside as vLLM 0.32 does under `vllm serve`, with no GPU and no model."""

from __future__ import annotations

VERSION = "0.32.0"
