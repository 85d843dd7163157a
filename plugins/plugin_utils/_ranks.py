# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node is which rank. Private to the collection."""

from __future__ import annotations

from collections import Counter

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem, RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Rank, Recipe


def container_name(recipe_id: str, rank: int) -> str:
    """Return the name of a rank's container, ``<recipe id>-r<rank>``."""
    return f"{recipe_id}-r{rank}"


def name_nodes(nodes: str | list[str], inventory: list[str] | None) -> list[str]:
    """Return node names in order, from a list or from one string with commas.

    Raises:
        RecipeError: a name is not in ``inventory``.
    """
    named = [node.strip() for node in nodes.split(",") if node.strip()] if isinstance(nodes, str) else list(nodes)
    unknown = [] if inventory is None else [node for node in dict.fromkeys(named) if node not in inventory]
    if unknown:
        known = ", ".join(inventory or []) or "no node"
        raise RecipeError(
            [Problem("nodes", node, f"a node of the inventory group sparks, which has {known}", "") for node in unknown]
        )
    return named


def assign_ranks(recipe: Recipe, nodes: list[str]) -> list[Rank]:
    """Give the first ``required_nodes`` of ``nodes`` their ranks, in order.

    Raises:
        RecipeError: a node is named twice, or there are fewer nodes than the recipe requires.
    """
    problems = [
        Problem(
            place="nodes",
            found=f"{node} stands {count} times",
            expected="each node once",
            cure="name each node once: a node has one GPU and takes one rank",
        )
        for node, count in Counter(nodes).items()
        if count > 1
    ]
    size = recipe["required_nodes"]
    distinct = len(set(nodes))
    if distinct < size:
        problems.append(
            Problem(
                place=f"{recipe['path']}: required_nodes",
                found=f"{distinct} node{'' if distinct == 1 else 's'} ({', '.join(dict.fromkeys(nodes)) or 'none'})",
                expected=f"{size} nodes",
                cure="add nodes to the inventory group sparks, or choose a recipe for fewer nodes",
            )
        )
    if problems:
        raise RecipeError(problems)
    return [
        Rank(rank=rank, node=node, world_size=size, container=container_name(recipe["id"], rank))
        for rank, node in enumerate(nodes[:size])
    ]
