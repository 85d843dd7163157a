# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes of the facts that travel between plugins. Private to the collection.

Every shape is plain data, so that it passes through Ansible variables unchanged.
Sizes are bytes, memory included, unless a key says otherwise.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Mount(TypedDict):
    """A bind mount as a recipe declares it; ``host`` may start with ``~/``."""

    host: str
    container: str
    read_only: bool
    create: bool


class Recipe(TypedDict):
    """A validated recipe, as the lookup ``dgxspark.vllm.recipe`` returns it."""

    id: str
    path: str
    engine: str
    name: str
    parked: bool
    parked_reason: str
    docker_image: str
    docker_image_dir: str | None
    model: str
    required_nodes: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    distributed_backend: str
    shm_size: int | None
    entrypoint: list[str] | None
    args: list[str]
    host: str | None
    port: int | None
    served_names: list[str]
    gpu_memory_utilization: float | None
    mods: list[str]
    env: dict[str, str]
    mounts: list[Mount]
    nccl: dict[str, dict[str, str]]
    warnings: list[str]


class Rank(TypedDict):
    """A node's place in one serving run."""

    rank: int
    node: str
    world_size: int
    container: str


class Network(TypedDict):
    """What one rank needs to know of the fabric; addresses are IPv4."""

    address: str
    interface: str
    master_address: str
    env: dict[str, str]


class Settings(TypedDict):
    """The inventory's choices that shape a container."""

    host: str
    port: int
    master_port: int
    privileged: bool
    gpus: str
    engine_env: dict[str, str]
    fabric_env: dict[str, str]
    fabric_profile: str
    secrets: dict[str, str]


class BindMount(TypedDict):
    """A bind mount of one container: absolute paths on the node and in the container."""

    source: str
    target: str
    read_only: bool


class Container(TypedDict):
    """One rank's container: all that ``docker create`` is told, by Docker's own names."""

    name: str
    image: str
    entrypoint: str | None
    command: list[str]
    env: dict[str, str]
    secret_env: list[str]
    mounts: list[BindMount]
    devices: list[str]
    gpus: str
    network: str
    ipc: str
    shm_size: int | None
    cap_add: list[str]
    privileged: bool
    ulimits: dict[str, int]
    init: bool
    stop_signal: str
    stop_timeout: int
    log_driver: str
    log_options: dict[str, str]
    oom_score_adj: int
    restart: str
    labels: dict[str, str]


class NodeProblem(TypedDict):
    """Why a run is refused: which node, what, why it matters and the cure."""

    node: str
    what: str
    why: str
    cure: str


# What the module dgxspark.vllm.node_info returns as ``node``; its RETURN documentation is the reference.
NodeFacts = dict[str, Any]
