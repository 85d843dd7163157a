# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What serve has to do, decided once from the recipe, the ranks and the nodes' facts. Private to the collection."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypedDict

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._container import expand_home, labelled, rank_container
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._digest import spec_digest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._docker_argv import create_arguments, run_line
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._preflight import Options, inspect_nodes
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import (
    Container,
    NodeFacts,
    NodeProblem,
    Rank,
    Recipe,
    Settings,
)

# What vLLM itself takes when the recipe does not say.
DEFAULT_MEMORY_SHARE = 0.9


class RankDeployment(TypedDict):
    """One rank: the container it should have, and what stands on its node now."""

    rank: int
    node: str
    container: str
    spec: Container
    arguments: list[str]
    run_line: str
    digest: str
    state: str
    started: str
    matches: bool
    leftovers: list[str]
    cache_paths: list[str]
    cache_foreign: bool
    drop_page_cache: bool


class Standing(TypedDict):
    """The runs that must be gone first. ``elsewhere``: parts of them stand on nodes that were not chosen."""

    runs: list[str]
    elsewhere: bool


class Deployment(TypedDict):
    """The whole run. ``verdict`` is ``refuse`` (there are problems), ``unchanged``, ``create`` or ``replace``."""

    recipe: str
    verdict: str
    problems: list[NodeProblem]
    reasons: list[str]
    ranks: list[RankDeployment]
    image: str
    image_digest: str
    image_equal: bool
    standing: Standing
    addresses: dict[str, str]


def deploy(
    recipe: Recipe, ranks: list[Rank], looks: dict[str, dict[str, Any]], settings: Settings, options: Options
) -> Deployment:
    """Decide what serve has to do.

    Args:
        recipe: the validated recipe.
        ranks: the ranks, in order.
        looks: for each node what the module node_info returned, its error included.
        settings: the inventory's choices that shape containers.
        options: serve's own options; ``image_digest`` says what the nodes hold after an image sync.
    """
    found = inspect_nodes(recipe, ranks, looks, settings, options)
    nodes = found["nodes"]
    held = [facts["image"]["digest"] if facts["image"] else "" for facts in nodes.values()]
    image = options["image_digest"] or next((digest for digest in held if digest), "")
    deployed: list[RankDeployment] = []
    for rank in ranks if found["complete"] else []:
        facts, network = nodes[rank["node"]], found["networks"].get(rank["node"])
        container = rank_container(recipe, rank, facts, network, settings)
        digest = spec_digest(container, image, settings["secrets"])
        deployed.append(_deploy_rank(recipe, rank, facts, _final(container, digest, options["run"])))
    reasons = _reasons(deployed, nodes)
    return Deployment(
        recipe=recipe["id"],
        verdict="refuse" if found["problems"] else _verdict(deployed, reasons),
        problems=found["problems"],
        reasons=reasons,
        ranks=deployed,
        image=recipe["docker_image"],
        image_digest=image,
        image_equal=bool(image) and all(digest == image for digest in held),
        standing=_standing(deployed, nodes),
        addresses={node: network["address"] for node, network in found["networks"].items()},
    )


def _final(container: Container, digest: str, run: str) -> Container:
    labels = {"digest": digest, "run": run} if run else {"digest": digest}
    return labelled(container, **labels)


def _deploy_rank(recipe: Recipe, rank: Rank, facts: NodeFacts, container: Container) -> RankDeployment:
    digest = container["labels"]["dgxspark.vllm.digest"]
    standing = {entry["name"]: entry for entry in facts["containers"]}
    current = standing.pop(rank["container"], None)
    return RankDeployment(
        rank=rank["rank"],
        node=rank["node"],
        container=rank["container"],
        spec=container,
        arguments=create_arguments(container),
        run_line=run_line(container),
        digest=digest,
        state=current["state"] if current else "absent",
        started=current["started"] if current and current["running"] else "",
        matches=bool(current) and current["digest"] == digest,
        # Another rank of this recipe from an earlier choice of nodes, or a recipe that serve_replace gives way for.
        leftovers=[name for name, entry in standing.items() if entry["running"] or entry["recipe"] == recipe["id"]],
        cache_paths=_missing_caches(recipe, facts),
        cache_foreign=_foreign_caches(recipe, facts),
        drop_page_cache=_short_of_free_memory(recipe, facts),
    )


def _missing_caches(recipe: Recipe, facts: NodeFacts) -> list[str]:
    """Return the folders that the recipe wants made and that are missing, or belong to somebody else."""
    found = {path["path"]: path for path in facts["paths"]}
    wanted = [expand_home(mount["host"], facts["user"]["home"]) for mount in recipe["mounts"] if mount["create"]]
    return [path for path in wanted if not found[path]["exists"] or found[path]["owner_uid"] != facts["user"]["uid"]]


def _foreign_caches(recipe: Recipe, facts: NodeFacts) -> bool:
    """Say whether root is needed to make them: what stands there, or the folder they go into, is somebody else's."""
    missing = _missing_caches(recipe, facts)
    return any(path["path"] in missing and path["owner_uid"] != facts["user"]["uid"] for path in facts["paths"])


def _short_of_free_memory(recipe: Recipe, facts: NodeFacts) -> bool:
    """Say whether the page cache must give way: the engine counts it as used when it starts."""
    share = recipe["gpu_memory_utilization"] or DEFAULT_MEMORY_SHARE
    return bool(facts["memory"]["free"] < share * facts["memory"]["total"] <= facts["memory"]["available"])


def _reasons(ranks: list[RankDeployment], nodes: dict[str, NodeFacts]) -> list[str]:
    """Return why the set must be made or made anew; empty when all of it stands and answers."""
    reasons = []
    for rank in ranks:
        name = f"rank {rank['rank']} on {rank['node']}"
        if rank["state"] == "absent":
            reasons.append(f"{name} has no container")
        elif not rank["matches"]:
            reasons.append(f"{name} was made from another specification")
        elif rank["state"] != "running":
            reasons.append(f"{name} is {rank['state']}")
        if rank["leftovers"]:
            reasons.append(f"{rank['node']} also has {', '.join(rank['leftovers'])}")
    if ranks and not reasons:
        endpoint = nodes[ranks[0]["node"]]["endpoint"] or {"error": "the head was not asked"}
        if endpoint["error"]:
            reasons.append(f"the head does not serve: {endpoint['error']}")
    return reasons


def _standing(ranks: list[RankDeployment], nodes: dict[str, NodeFacts]) -> Standing:
    """Return the runs whose containers stand on the chosen nodes: a set goes as a whole or not at all."""
    found = [
        entry
        for rank in ranks
        for entry in nodes[rank["node"]]["containers"]
        if entry["name"] == rank["container"] or entry["name"] in rank["leftovers"]
    ]
    runs = Counter(entry["run"] for entry in found)
    return Standing(runs=sorted(runs), elsewhere=any(entry["world_size"] > runs[entry["run"]] for entry in found))


def _verdict(ranks: list[RankDeployment], reasons: list[str]) -> str:
    if not reasons:
        return "unchanged"
    standing = any(rank["state"] != "absent" or rank["leftovers"] for rank in ranks)
    return "replace" if standing else "create"
