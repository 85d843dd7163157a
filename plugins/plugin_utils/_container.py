# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one rank's container is. Private to the collection.

The result is plain data by Docker's own names. One rendering of it serves the plan that people read, the
``docker create`` that runs and the digest that tells whether anything changed.
"""

from __future__ import annotations

import shlex

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import (
    BindMount,
    Container,
    Network,
    NodeFacts,
    Rank,
    Recipe,
    Settings,
)

CACHE_TARGET = "/root/.cache/huggingface"
ENGINE_ENV = {"HF_HOME": CACHE_TARGET}
LABEL = "dgxspark.vllm."
ULIMITS = {"memlock": -1, "nofile": 1048576, "stack": 67108864}


def engine_flags(recipe: Recipe, rank: Rank, network: Network | None, settings: Settings) -> list[str]:
    """Return the engine's words for one rank: the model, the recipe's flags and the launcher's own."""
    words = [recipe["model"], *recipe["args"]]
    words += ["--tensor-parallel-size", str(recipe["tensor_parallel_size"])]
    words += ["--pipeline-parallel-size", str(recipe["pipeline_parallel_size"])]
    if network is not None and rank["world_size"] > 1:
        words += ["--distributed-executor-backend", recipe["distributed_backend"]]
        words += ["--nnodes", str(rank["world_size"]), "--node-rank", str(rank["rank"])]
        words += ["--master-addr", network["master_address"], "--master-port", str(settings["master_port"])]
    if rank["rank"] > 0:
        return [*words, "--headless"]
    return [*words, "--host", recipe["host"] or settings["host"], "--port", str(recipe["port"] or settings["port"])]


def start_command(recipe: Recipe, flags: list[str]) -> tuple[str | None, list[str]]:
    """Return Docker's entrypoint (None keeps the image's own) and command.

    With mods a shell runs them and then becomes the engine, so that signals reach the engine itself.
    """
    entry = recipe["entrypoint"]
    if recipe["mods"]:
        engine = shlex.join([*(entry or ["vllm", "serve"]), *flags])
        return "sh", ["-c", "\n".join(["set -e", *recipe["mods"], f"exec {engine}"])]
    if entry:
        return entry[0], [*entry[1:], *flags]
    return None, flags


def expand_home(path: str, home: str) -> str:
    """Return ``path`` with a leading ``~`` replaced by the login user's home on the node."""
    if path == "~" or path.startswith("~/"):
        return home.rstrip("/") + path[1:]
    return path


def bind_mounts(recipe: Recipe, facts: NodeFacts) -> list[BindMount]:
    """Return the model's mount, then the recipe's, with paths as they are on this node."""
    home = facts["user"]["home"]
    if recipe["model"].startswith("/"):
        model = BindMount(source=recipe["model"], target=recipe["model"], read_only=True)
    else:
        model = BindMount(source=facts["model"]["cache"], target=CACHE_TARGET, read_only=False)
    extra = [
        BindMount(source=expand_home(mount["host"], home), target=mount["container"], read_only=mount["read_only"])
        for mount in recipe["mounts"]
    ]
    return [model, *extra]


def environment(recipe: Recipe, network: Network | None, settings: Settings) -> dict[str, str]:
    """Return a rank's environment without its secrets, sorted by name; later sources win."""
    profile = settings["fabric_profile"]
    layers = [
        ENGINE_ENV,
        settings["engine_env"],
        network["env"] if network else {},
        settings["fabric_env"],
        recipe["nccl"].get("all", {}),
        recipe["nccl"].get(profile, {}) if profile != "all" else {},
        recipe["env"],
    ]
    merged = {key: str(value) for layer in layers for key, value in layer.items()}
    return dict(sorted(merged.items()))


def rank_container(
    recipe: Recipe, rank: Rank, facts: NodeFacts, network: Network | None, settings: Settings
) -> Container:
    """Return one rank's container, labelled with what is known without its digest.

    Args:
        recipe: the validated recipe.
        rank: the rank, its node and the world size.
        facts: what ``node_info`` says of the rank's node.
        network: the rank's part of the fabric; None for a single node.
        settings: the inventory's choices.
    """
    entrypoint, command = start_command(recipe, engine_flags(recipe, rank, network, settings))
    shm = recipe["shm_size"]
    return Container(
        name=rank["container"],
        image=recipe["docker_image"],
        entrypoint=entrypoint,
        command=command,
        env=environment(recipe, network, settings),
        secret_env=sorted(name for name, value in settings["secrets"].items() if value),
        mounts=bind_mounts(recipe, facts),
        devices=["/dev/infiniband"] if facts["fabric"]["infiniband_device"] else [],
        gpus=settings["gpus"],
        network="host",
        ipc="host" if shm is None else "private",
        shm_size=shm,
        cap_add=["IPC_LOCK"],
        privileged=settings["privileged"],
        ulimits=dict(ULIMITS),
        init=True,
        stop_signal="SIGTERM",
        stop_timeout=60,
        log_driver="json-file",
        log_options={"max-file": "5", "max-size": "50m"},
        oom_score_adj=500,
        restart="no",
        labels={
            f"{LABEL}recipe": recipe["id"],
            f"{LABEL}rank": str(rank["rank"]),
            f"{LABEL}world_size": str(rank["world_size"]),
        },
    )


def labelled(container: Container, **labels: str) -> Container:
    """Return the container with further labels of ours, for example its digest."""
    copy = container.copy()
    copy["labels"] = {**container["labels"], **{f"{LABEL}{key}": value for key, value in labels.items()}}
    return copy
