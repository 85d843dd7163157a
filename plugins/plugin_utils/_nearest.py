# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nearest names for a typo. Private to the collection."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return the known names that look most like ``word``, the nearest first; case, ``-`` and ``_`` do not count."""
    names = {_plain(name): name for name in sorted(known, reverse=True)}
    return [names[match] for match in difflib.get_close_matches(_plain(word), list(names), n=count, cutoff=0.6)]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the cure for a typo, or an empty string when nothing is near."""
    return "".join(f"did you mean {name}?" for name in nearest(word, known))


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")
