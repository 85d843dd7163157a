# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to this collection: bytes, rates and shares of an image transfer as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNITS = ("B", "kB", "MB", "GB", "TB")


def size_text(size: float) -> str:
    """1234567 as ``1.2 MB``."""
    unit = 0
    while size >= 999.5 and unit < len(UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size:.0f} {UNITS[unit]}" if unit < 2 else f"{size:.1f} {UNITS[unit]}"


def progress_line(receiver: Mapping[str, Any], expected: int) -> str:
    """One receiver's state, bytes, share and rate."""
    sent, seconds = int(receiver["bytes"]), float(receiver["seconds"])
    rate = f"{size_text(sent / seconds)}/s" if seconds > 0 else "-"
    if receiver["state"] == "failed":
        return f"failed after {size_text(sent)}: {receiver['error']}"
    if receiver["state"] == "loaded":
        return f"loaded, {size_text(sent)} in {seconds:.1f} s ({rate})"
    if receiver["state"] == "loading":
        return f"all {size_text(sent)} sent, Docker takes it in, {seconds:.0f} s"
    # What tar adds is not known beforehand, so a little more may be sent than was expected.
    share = f"{min(99, 100 * sent // expected)} % of {size_text(expected)}, " if expected > 0 else ""
    return f"sending, {share}{size_text(sent)}, {rate}"
