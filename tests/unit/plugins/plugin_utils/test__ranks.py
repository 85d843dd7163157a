# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node is which rank: order, and every refusal with its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._ranks import assign_ranks, name_nodes

FOUR = ["dgx1", "dgx2", "dgx3", "dgx4"]
TOO_FEW = "; add nodes to the inventory group sparks, or choose a recipe for fewer nodes"
TWICE = ", expected each node once; name each node once: a node has one GPU and takes one rank"
PLACE = "recipes/dsv4-vision-aiden-4x/recipe.toml: required_nodes"


def test_ranks_follow_the_order_of_the_nodes(recipe: Callable[..., Any]) -> None:
    ranks = assign_ranks(recipe("dsv4-vision-aiden-4x"), ["dgx4", "dgx2", "dgx1", "dgx3", "dgx5"])
    assert ranks == [
        {"rank": 0, "node": "dgx4", "world_size": 4, "container": "dsv4-vision-aiden-4x-r0"},
        {"rank": 1, "node": "dgx2", "world_size": 4, "container": "dsv4-vision-aiden-4x-r1"},
        {"rank": 2, "node": "dgx1", "world_size": 4, "container": "dsv4-vision-aiden-4x-r2"},
        {"rank": 3, "node": "dgx3", "world_size": 4, "container": "dsv4-vision-aiden-4x-r3"},
    ]


@pytest.mark.parametrize(
    ("nodes", "lines"),
    [
        (["dgx1", "dgx2", "dgx3"], [f"{PLACE}: 3 nodes (dgx1, dgx2, dgx3), expected 4 nodes{TOO_FEW}"]),
        (["dgx1"], [f"{PLACE}: 1 node (dgx1), expected 4 nodes{TOO_FEW}"]),
        ([], [f"{PLACE}: 0 nodes (none), expected 4 nodes{TOO_FEW}"]),
        ([*FOUR, "dgx2"], [f"nodes: dgx2 stands 2 times{TWICE}"]),
        # A duplicate does not fill the set up: both faults are told at once.
        (
            ["dgx1", "dgx1", "dgx2", "dgx2", "dgx2"],
            [
                f"nodes: dgx1 stands 2 times{TWICE}",
                f"nodes: dgx2 stands 3 times{TWICE}",
                f"{PLACE}: 2 nodes (dgx1, dgx2), expected 4 nodes{TOO_FEW}",
            ],
        ),
    ],
)
def test_refusals(recipe: Callable[..., Any], nodes: list[str], lines: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        assign_ranks(recipe("dsv4-vision-aiden-4x"), nodes)
    assert str(caught.value).splitlines() == lines


@pytest.mark.parametrize(
    ("nodes", "named"),
    [
        (FOUR, FOUR),
        ("dgx2,dgx1", ["dgx2", "dgx1"]),
        (" dgx2 , dgx1,, ", ["dgx2", "dgx1"]),
        ("dgx1", ["dgx1"]),
        ("", []),
        ("dgx1,dgx1", ["dgx1", "dgx1"]),
    ],
)
def test_nodes_by_name(nodes: str | list[str], named: list[str]) -> None:
    assert name_nodes(nodes, FOUR) == named
    assert name_nodes(nodes, None) == named


def test_unknown_nodes_are_named_once_each() -> None:
    with pytest.raises(RecipeError) as caught:
        name_nodes("dgx9,dgx1,dgx9,x", FOUR)
    known = "expected a node of the inventory group sparks, which has dgx1, dgx2, dgx3, dgx4"
    assert str(caught.value).splitlines() == [f"nodes: dgx9, {known}", f"nodes: x, {known}"]


def test_an_empty_inventory_is_said() -> None:
    with pytest.raises(RecipeError) as caught:
        name_nodes(["dgx1"], [])
    assert str(caught.value) == "nodes: dgx1, expected a node of the inventory group sparks, which has no node"
