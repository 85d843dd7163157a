# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error of the controller's core: a list of problems that people can act on. Private to the collection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it stands, what is there, what belongs there, what to do about it."""

    place: str
    found: str
    expected: str = ""
    cure: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.found}"
        if self.expected:
            text += f", expected {self.expected}"
        return f"{text}; {self.cure}" if self.cure else text


class RecipeError(Exception):
    """Every problem of one input at once; ``str()`` gives one line a problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
