# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every reason not to start a run, found before anything is touched. Private to the collection."""

from __future__ import annotations

from typing import Any, TypedDict

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._container import expand_home
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._fabric import choose_fabric
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import (
    Network,
    NodeFacts,
    NodeProblem,
    Rank,
    Recipe,
    Settings,
)

GIB = 1024**3
NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "9p")


class Options(TypedDict):
    """Serve's own options: they choose what is done, not what a container is."""

    build_dir: str
    archive: str
    replace: bool
    image_digest: str
    run: str


class Findings(TypedDict):
    """What a look at all nodes found; ``networks`` is empty for one node, and where there is no shared fabric."""

    problems: list[NodeProblem]
    networks: dict[str, Network]
    nodes: dict[str, NodeFacts]
    complete: bool


def inspect_nodes(
    recipe: Recipe, ranks: list[Rank], looks: dict[str, dict[str, Any]], settings: Settings, options: Options
) -> Findings:
    """Return every problem of every node at once, and the fabric.

    Args:
        recipe: the validated recipe.
        ranks: the ranks, in order.
        looks: for each node what the module node_info returned, its error included.
        settings: the inventory's choices that shape containers.
        options: serve's own options.
    """
    nodes = {rank["node"]: looks[rank["node"]]["node"] for rank in ranks if looks[rank["node"]].get("node")}
    complete = len(nodes) == len(ranks) and not any(facts["docker"]["error"] for facts in nodes.values())
    problems = [*recipe_problems(recipe, ranks[0]["node"]), *unseen_problems(looks)]
    networks: dict[str, Network] = {}
    if complete:
        problems += image_problems(recipe, nodes, options["build_dir"], options["archive"])
    if complete and len(ranks) > 1:
        networks, found = choose_fabric(nodes)
        problems += found
    for rank in ranks:
        if rank["node"] in nodes:
            problems += node_problems(recipe, rank, nodes[rank["node"]], settings, options["replace"])
    complete = complete and (len(ranks) == 1 or bool(networks))
    return Findings(problems=problems, networks=networks, nodes=nodes, complete=complete)


def unseen_problems(looks: dict[str, dict[str, Any]]) -> list[NodeProblem]:
    """Return a problem for every node that could not be looked at: unreachable, or its look failed."""
    problems = []
    for node, look in looks.items():
        if look.get("node"):
            continue
        message = " ".join(str(look.get("msg", "no answer")).split())
        if look.get("unreachable"):
            problem = NodeProblem(
                node=node,
                what=f"cannot be reached: {message}",
                why="every rank of the run needs its node",
                cure=f"see that 'ssh {node}' works with the inventory's address, user and key, or choose other nodes",
            )
        else:
            problem = NodeProblem(
                node=node,
                what=f"could not be looked at: {message}",
                why="nothing is started on a node whose state is unknown",
                cure="the node needs Python 3 and the ip program (iproute2)",
            )
        problems.append(problem)
    return problems


def recipe_problems(recipe: Recipe, head: str) -> list[NodeProblem]:
    """Return what a valid recipe asks for that serve cannot do."""
    if recipe["distributed_backend"] == "mp" or recipe["required_nodes"] == 1:
        return []
    return [
        NodeProblem(
            node=head,
            what=f"the recipe asks for distributed_backend {recipe['distributed_backend']}",
            why="serve brings up vLLM's own multi-node mode, which needs no Ray cluster",
            cure='set distributed_backend = "mp" in the recipe',
        )
    ]


def node_problems(recipe: Recipe, rank: Rank, facts: NodeFacts, settings: Settings, replace: bool) -> list[NodeProblem]:
    """Return all problems of one rank's node. Nothing else is asked of a node whose Docker engine does not answer."""
    if facts["docker"]["error"]:
        return [
            NodeProblem(
                node=rank["node"],
                what=facts["docker"]["error"],
                why="the engine runs in a Docker container",
                cure="run provision.yml (role container_runtime), which starts Docker and lets the login user use it",
            )
        ]
    return [
        *_occupied(recipe, rank, facts, replace),
        *_ports(recipe, rank, facts, settings),
        *_memory(recipe, rank, facts),
        *_pinned_memory(rank, facts),
        *_earlyoom(recipe, rank, facts),
        *_model(recipe, rank, facts),
        *_mounts(recipe, rank, facts),
        *_rdma_device(rank, facts),
    ]


def other_sets(recipe: Recipe, facts: NodeFacts) -> list[dict[str, Any]]:
    """Return the running containers of other recipes on a node."""
    return [entry for entry in facts["containers"] if entry["running"] and entry["recipe"] != recipe["id"]]


def _serving(facts: NodeFacts) -> bool:
    """Say whether a rank of ours runs on the node: its ports and its memory are then ours."""
    return any(entry["running"] for entry in facts["containers"])


def _occupied(recipe: Recipe, rank: Rank, facts: NodeFacts, replace: bool) -> list[NodeProblem]:
    problems = []
    if facts["foreign"]:
        problems.append(
            NodeProblem(
                node=rank["node"],
                what=f"a container named {rank['container']} is there ({facts['foreign']}), not made by dgxspark.vllm",
                why="this rank's container takes that name",
                cure=f"rename or remove it: docker rm -f {rank['container']}",
            )
        )
    problems += [
        NodeProblem(
            node=rank["node"],
            what=f"recipe {entry['recipe']} runs here ({entry['name']})",
            why="a node has one GPU and serves one recipe",
            cure=f"stop it with stop.yml -e recipe={entry['recipe']}, or replace it with -e serve_replace=true",
        )
        for entry in ([] if replace else other_sets(recipe, facts))
    ]
    return problems


def _ports(recipe: Recipe, rank: Rank, facts: NodeFacts, settings: Settings) -> list[NodeProblem]:
    if rank["rank"]:
        return []
    http, master = recipe["port"] or settings["port"], settings["master_port"]
    if http == master and rank["world_size"] > 1:
        return [
            NodeProblem(
                node=rank["node"],
                what=f"port {http} is asked for twice, for HTTP and for the ranks' rendezvous",
                why="the head needs a port for each",
                cure="set serve_master_port to another port",
            )
        ]
    use = {http: ("HTTP", "set serve_port"), master: ("the ranks' rendezvous", "set serve_master_port")}
    problems = []
    for taken in [] if _serving(facts) else facts["ports"]:
        purpose, knob = use[taken["port"]]
        owner = f"{taken['process']} (pid {taken['pid']})" if taken["pid"] else "another process"
        problems.append(
            NodeProblem(
                node=rank["node"],
                what=f"port {taken['port']} is taken by {owner}",
                why=f"the head needs it for {purpose}",
                cure=f"stop that process, or {knob} to another port",
            )
        )
    return problems


def _memory(recipe: Recipe, rank: Rank, facts: NodeFacts) -> list[NodeProblem]:
    share = recipe["gpu_memory_utilization"]
    if share is None or _serving(facts):
        return []
    memory = facts["memory"]
    needed = share * memory["total"]
    if memory["available"] >= needed:
        return []
    return [
        NodeProblem(
            node=rank["node"],
            what=f"{memory['available'] / GIB:.1f} GiB of memory are available, {needed / GIB:.1f} GiB are needed",
            why=f"at start the engine claims {share:g} of {memory['total'] / GIB:.1f} GiB, and gives up on less",
            cure="stop what holds memory (a desktop session costs 2-3 GiB), or lower --gpu-memory-utilization",
        )
    ]


def _pinned_memory(rank: Rank, facts: NodeFacts) -> list[NodeProblem]:
    memory = facts["memory"]
    if memory["cma_free"] <= memory["cma_total"] or _serving(facts):
        return []
    return [
        NodeProblem(
            node=rank["node"],
            what="CmaFree exceeds CmaTotal in /proc/meminfo",
            why="a fault of kernel 7.0 that makes RDMA registration fail with ENOMEM",
            cure="boot with kho=off on the kernel command line",
        )
    ]


def _earlyoom(recipe: Recipe, rank: Rank, facts: NodeFacts) -> list[NodeProblem]:
    share, arguments = recipe["gpu_memory_utilization"], facts["earlyoom"]
    if share is None or arguments is None:
        return []
    limit = earlyoom_limit(arguments, facts["memory"]["total"])
    headroom = (1 - share) * facts["memory"]["total"]
    if limit < headroom:
        return []
    return [
        NodeProblem(
            node=rank["node"],
            what=f"earlyoom acts below {limit / GIB:.1f} GiB, and the recipe leaves {headroom / GIB:.1f} GiB",
            why="it would kill the healthy engine",
            cure="lower the limit with role earlyoom, or lower --gpu-memory-utilization",
        )
    ]


def earlyoom_limit(arguments: list[str], total: int) -> float:
    """Return the available memory in bytes below which earlyoom terminates processes, from its arguments.

    earlyoom's own default is 10 percent; -m gives percent and -M KiB, each as ``TERM[,KILL]``.
    """
    limit = 0.10 * total
    for option, value in zip(arguments, [*arguments[1:], ""], strict=False):
        name, given = option[:2], option[2:] or value
        number = given.partition(",")[0]
        if name == "-m" and number.replace(".", "", 1).isdigit():
            limit = float(number) / 100 * total
        elif name == "-M" and number.isdigit():
            limit = float(number) * 1024
    return limit


def _model(recipe: Recipe, rank: Rank, facts: NodeFacts) -> list[NodeProblem]:
    model, by_path = facts["model"], recipe["model"].startswith("/")
    offline = recipe["env"].get("HF_HUB_OFFLINE", "0") not in ("", "0")
    why = "every rank reads its weights from its own node"
    if not by_path and not model["cache_exists"]:
        what = f"the Hugging Face cache {model['cache']} is not there"
        cure = "make the folder, or point model_cache_dir to the node's cache"
    elif model["exists"] or not (by_path or offline):
        return []
    else:
        what = f"the model is not at {model['path']}"
        cure = f"put {recipe['model']} there"
        if not by_path:
            why += ", and the recipe sets HF_HUB_OFFLINE"
            cure += ", or point model_cache_dir to a cache that holds it"
    return [NodeProblem(node=rank["node"], what=what, why=why, cure=cure)]


def _mounts(recipe: Recipe, rank: Rank, facts: NodeFacts) -> list[NodeProblem]:
    home = facts["user"]["home"]
    found = {path["path"]: path for path in facts["paths"]}
    problems = []
    for mount in recipe["mounts"]:
        path = found[expand_home(mount["host"], home)]
        if path["blocked"]:
            what, cure = f"{path['blocked']} is no folder, so {path['path']} cannot be", "move the file away"
        elif not mount["create"] and not path["exists"]:
            what = f"{path['path']} is not there"
            cure = "make it on this node, or set create = true for the mount in the recipe"
        elif mount["create"] and path["fstype"] in NETWORK_FILESYSTEMS:
            what = f"{path['path']} is on {path['fstype']}"
            cure = "mount a local folder: caches of compiled kernels belong to one node and break on shared storage"
        else:
            continue
        why = f"the recipe mounts it at {mount['container']}"
        problems.append(NodeProblem(node=rank["node"], what=what, why=why, cure=cure))
    return problems


def _rdma_device(rank: Rank, facts: NodeFacts) -> list[NodeProblem]:
    if rank["world_size"] == 1 or facts["fabric"]["infiniband_device"] or not facts["fabric"]["links"]:
        return []
    return [
        NodeProblem(
            node=rank["node"],
            what="the node has RDMA links and no /dev/infiniband",
            why="the containers would fall back to TCP, at a fraction of the speed",
            cure="load the module ib_uverbs: modprobe ib_uverbs",
        )
    ]


def image_problems(recipe: Recipe, nodes: dict[str, NodeFacts], build_dir: str, archive: str) -> list[NodeProblem]:
    """Return a problem when no node holds a local image and nothing says how to get it."""
    held = any(facts["image"] for facts in nodes.values())
    if held or build_dir or archive or not recipe["docker_image"].endswith(":local"):
        return []
    wanted = recipe["docker_image_dir"]
    looked = f" and no folder {wanted} with a Dockerfile is in image_build_path" if wanted else ""
    return [
        NodeProblem(
            node=next(iter(nodes)),
            what=f"no node holds the image {recipe['docker_image']}{looked}",
            why="a :local image is never pulled from a registry",
            cure="build or load it on one node: the others receive it from there"
            + (f"; or add the folder that has {wanted} to image_build_path" if wanted else ""),
        )
    ]
