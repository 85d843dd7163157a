# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and progress as people read them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._image_progress import progress_line, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1.0 MB"), (1_234_567, "1.2 MB"), (17.2e9, "17.2 GB")],
)
def test_size(size: float, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("receiver", "text"),
    [
        ({"state": "sending", "bytes": 450 * 10**6}, "sending, 45 % of 1.0 GB, 450.0 MB, 225.0 MB/s"),
        ({"state": "sending", "bytes": 1001 * 10**6}, "sending, 99 % of 1.0 GB, 1.0 GB, 500.5 MB/s"),
        ({"state": "sending", "bytes": 0, "seconds": 0.0}, "sending, 0 % of 1.0 GB, 0 B, -"),
        ({"state": "loading", "bytes": 10**9}, "all 1.0 GB sent, Docker takes it in, 2 s"),
        ({"state": "loaded", "bytes": 10**9}, "loaded, 1.0 GB in 2.0 s (500.0 MB/s)"),
        ({"state": "failed", "bytes": 10**6, "error": "no space"}, "failed after 1.0 MB: no space"),
    ],
)
def test_progress(receiver: dict[str, Any], text: str) -> None:
    assert progress_line({"seconds": 2.0} | receiver, 10**9) == text


def test_progress_without_a_known_size() -> None:
    assert progress_line({"state": "sending", "bytes": 5000, "seconds": 1.0}, 0) == "sending, 5 kB, 5 kB/s"
