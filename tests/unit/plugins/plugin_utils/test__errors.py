# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line a problem, whatever parts it has."""

from __future__ import annotations

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem, RecipeError


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem("a.toml: model", "missing"), "a.toml: model: missing"),
        (Problem("a.toml: model", "missing", "a text"), "a.toml: model: missing, expected a text"),
        (
            Problem("a.toml: modle", "unknown key", cure="did you mean model?"),
            "a.toml: modle: unknown key; did you mean model?",
        ),
        (
            Problem("nodes", "dgx1 stands twice", "each node once", "remove one"),
            "nodes: dgx1 stands twice, expected each node once; remove one",
        ),
    ],
)
def test_problem_is_one_line(problem: Problem, line: str) -> None:
    assert str(problem) == line


def test_error_has_a_line_for_each_problem() -> None:
    error = RecipeError(Problem("x", found) for found in ("one", "two"))
    assert str(error) == "x: one\nx: two"
    assert [problem.found for problem in error.problems] == ["one", "two"]
