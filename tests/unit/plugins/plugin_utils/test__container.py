# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank's container, setting by setting as the design has it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._container import (
    environment,
    expand_home,
    labelled,
    rank_container,
    start_command,
)
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._fabric import choose_fabric
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Network

Make = Callable[..., Any]


@pytest.fixture
def container(cluster: Make) -> Make:
    """Build the container of one rank of a recipe with some facts changed."""

    def build(
        rank: int, name: str = "dsv41-flash-8x", *, inventory: dict[str, Any] | None = None, **changes: Any
    ) -> Any:
        made = cluster(name, **changes)
        made.settings.update(inventory or {})
        networks, _problems = choose_fabric(made.nodes)
        place = made.ranks[rank]
        network = networks[place["node"]] if len(made.ranks) > 1 else None
        return rank_container(made.recipe, place, made.nodes[place["node"]], network, made.settings)

    return build


def test_settings_that_do_not_depend_on_the_recipe(container: Make) -> None:
    made = container(0)
    expected = {
        "name": "dsv41-flash-8x-r0",
        "image": "dsv41-flash:local",
        "network": "host",
        "gpus": "all",
        "devices": ["/dev/infiniband"],
        "cap_add": ["IPC_LOCK"],
        "privileged": False,
        "ulimits": {"memlock": -1, "nofile": 1048576, "stack": 67108864},
        "restart": "no",
        "init": True,
        "stop_signal": "SIGTERM",
        "stop_timeout": 60,
        "log_driver": "json-file",
        "log_options": {"max-file": "5", "max-size": "50m"},
        "oom_score_adj": 500,
        "labels": {
            "dgxspark.vllm.recipe": "dsv41-flash-8x",
            "dgxspark.vllm.rank": "0",
            "dgxspark.vllm.world_size": "8",
        },
    }
    assert {key: made[key] for key in expected} == expected


def test_shared_memory_is_private_only_with_a_size(container: Make) -> None:
    made = container(0)
    assert (made["ipc"], made["shm_size"]) == ("private", 32 * 1024**3)
    made = container(0, shm_size=None)
    assert (made["ipc"], made["shm_size"]) == ("host", None)


def test_no_device_on_a_node_without_rdma(cluster: Make) -> None:
    made = cluster()
    made.nodes["dgx1"]["fabric"]["infiniband_device"] = False
    networks, _problems = choose_fabric(made.nodes)
    spec = rank_container(made.recipe, made.ranks[0], made.nodes["dgx1"], networks["dgx1"], made.settings)
    assert spec["devices"] == []


def test_the_inventory_may_make_it_privileged_and_leave_the_gpus_out(container: Make) -> None:
    made = container(0, inventory={"privileged": True, "gpus": ""})
    assert (made["privileged"], made["gpus"]) == (True, "")


LAUNCHER = ["--tensor-parallel-size", "8", "--pipeline-parallel-size", "1", "--distributed-executor-backend", "mp"]


def test_the_head_serves_http(container: Make) -> None:
    made = container(0, args=["--max-model-len", "8"])
    assert made["entrypoint"] is None
    assert made["command"] == [
        *["deepseek-ai/DeepSeek-V4.1-Flash", "--max-model-len", "8", *LAUNCHER, "--nnodes", "8", "--node-rank", "0"],
        *["--master-addr", "10.77.1.11", "--master-port", "29501", "--host", "0.0.0.0", "--port", "8000"],  # noqa: S104
    ]


@pytest.mark.parametrize("rank", range(1, 8))
def test_every_other_rank_is_headless(container: Make, rank: int) -> None:
    made = container(rank, args=["--max-model-len", "8"], host="10.0.0.1", port=9000)
    assert made["command"] == [
        *["deepseek-ai/DeepSeek-V4.1-Flash", "--max-model-len", "8", *LAUNCHER],
        *["--nnodes", "8", "--node-rank", str(rank), "--master-addr", "10.77.1.11", "--master-port", "29501"],
        "--headless",
    ]
    assert made["env"]["VLLM_HOST_IP"] == f"10.77.1.{11 + rank}"
    assert made["labels"]["dgxspark.vllm.rank"] == str(rank)


def test_the_recipes_own_host_and_port_go_first(container: Make) -> None:
    inventory = {"host": "127.0.0.1", "port": 8001, "master_port": 29777}
    assert container(0, inventory=inventory)["command"][-4:] == ["--host", "127.0.0.1", "--port", "8001"]
    assert "29777" in container(7, inventory=inventory)["command"]
    made = container(0, inventory=inventory, host="10.0.0.1", port=9000)
    assert made["command"][-4:] == ["--host", "10.0.0.1", "--port", "9000"]


def test_one_node_alone_meets_nobody(container: Make) -> None:
    made = container(0, required_nodes=1, tensor_parallel_size=1, args=["--trust-remote-code"], nccl={}, env={})
    assert made["command"] == [
        *["deepseek-ai/DeepSeek-V4.1-Flash", "--trust-remote-code"],
        *["--tensor-parallel-size", "1", "--pipeline-parallel-size", "1", "--host", "0.0.0.0", "--port", "8000"],  # noqa: S104
    ]
    assert made["env"] == {"HF_HOME": "/root/.cache/huggingface"}


FLAGS = ["acme/small", "--json", '{"a": "it\'s"}', "two words", "$HOME", ""]
QUOTED = """acme/small --json '{"a": "it'"'"'s"}' 'two words' '$HOME' ''"""


@pytest.mark.parametrize(
    ("entrypoint", "mods", "entry", "command"),
    [
        (None, [], None, FLAGS),
        (["vllm", "serve"], [], "vllm", ["serve", *FLAGS]),
        (["/start me"], [], "/start me", FLAGS),
        (None, ["true"], "sh", ["-c", f"set -e\ntrue\nexec vllm serve {QUOTED}"]),
        (
            ["/start me", "now"],
            ["pip install x && y", "echo 'a\nb'"],
            "sh",
            ["-c", f"set -e\npip install x && y\necho 'a\nb'\nexec '/start me' now {QUOTED}"],
        ),
    ],
)
def test_what_starts(
    recipe: Make, entrypoint: list[str] | None, mods: list[str], entry: str | None, command: list[str]
) -> None:
    assert start_command(recipe("dsv41-flash-8x", entrypoint=entrypoint, mods=mods), FLAGS) == (entry, command)


def test_after_the_mods_the_engine_gets_the_very_same_words(recipe: Make) -> None:
    _entry, command = start_command(recipe("dsv41-flash-8x", mods=["true"]), FLAGS)
    assert shlex.split(command[1].splitlines()[-1]) == ["exec", "vllm", "serve", *FLAGS]


def test_environment_later_wins(recipe: Make, settings: Any) -> None:
    """Each source sets its own name and every later one's: what is left tells the order."""
    names = ["ENGINE", "FOUND", "INVENTORY", "ALL", "PROFILE", "RECIPE"]
    layers = [dict.fromkeys(names[place:], name.lower()) for place, name in enumerate(names)]
    settings.update(engine_env={**layers[0], "HF_HOME": "/hub"}, fabric_env=layers[2], fabric_profile="ring")
    network = Network(address="", interface="", master_address="", env=layers[1])
    made = recipe("dsv41-flash-8x", env=layers[5], nccl={"all": layers[3], "ring": layers[4], "mesh": {"ALL": "mesh"}})
    found = environment(made, network, settings)
    assert found == {"HF_HOME": "/hub", **{name: name.lower() for name in names}}
    assert list(found) == sorted(found)


@pytest.mark.parametrize(("profile", "value"), [("", "all"), ("all", "all"), ("ring", "ring"), ("unknown", "all")])
def test_profiles(recipe: Make, settings: Any, profile: str, value: str) -> None:
    settings["fabric_profile"] = profile
    made = recipe("dsv41-flash-8x", env={}, nccl={"all": {"X": "all"}, "ring": {"X": "ring"}})
    assert environment(made, None, settings) == {"HF_HOME": "/root/.cache/huggingface", "X": value}


def test_numbers_from_the_inventory_become_text(recipe: Make, settings: Any) -> None:
    settings["fabric_env"] = {"NCCL_IB_TC": 106}
    assert environment(recipe("dsv41-flash-8x", env={}), None, settings)["NCCL_IB_TC"] == "106"


def test_an_exact_match_for_nccl_survives(container: Make) -> None:
    made = container(1, env={"NCCL_SOCKET_IFNAME": "=enp1s0f0np0"})
    assert made["env"]["NCCL_SOCKET_IFNAME"] == "=enp1s0f0np0"


def test_secrets_go_by_name_only_and_only_those_that_are_set(container: Make) -> None:
    made = container(0, inventory={"secrets": {"VLLM_API_KEY": "hush", "HF_TOKEN": "", "A": "x"}})
    assert made["secret_env"] == ["A", "VLLM_API_KEY"]
    assert "hush" not in repr(made)


def test_mounts(container: Make) -> None:
    mounts = [
        {"host": "~/jit", "container": "/jit", "read_only": False, "create": True},
        {"host": "~", "container": "/me", "read_only": True, "create": True},
        {"host": "/nas/~x", "container": "/nas", "read_only": True, "create": False},
    ]
    assert container(0, mounts=mounts)["mounts"] == [
        {"source": "/home/spark/.cache/huggingface", "target": "/root/.cache/huggingface", "read_only": False},
        {"source": "/home/spark/jit", "target": "/jit", "read_only": False},
        {"source": "/home/spark", "target": "/me", "read_only": True},
        {"source": "/nas/~x", "target": "/nas", "read_only": True},
    ]


def test_a_model_by_path_is_mounted_itself_and_only_to_read(container: Make) -> None:
    made = container(0, model="/nas/models/small", mounts=[])
    assert made["mounts"] == [{"source": "/nas/models/small", "target": "/nas/models/small", "read_only": True}]
    assert made["command"][0] == "/nas/models/small"


@pytest.mark.parametrize(
    ("path", "home", "expanded"),
    [
        ("~", "/home/spark", "/home/spark"),
        ("~/a", "/home/spark/", "/home/spark/a"),
        ("~/a", "/", "/a"),
        ("~other/a", "/home/spark", "~other/a"),
        ("/a/~/b", "/home/spark", "/a/~/b"),
    ],
)
def test_home(path: str, home: str, expanded: str) -> None:
    assert expand_home(path, home) == expanded


def test_labels_are_added_to_a_copy(container: Make) -> None:
    made = container(0)
    before = dict(made["labels"])
    assert labelled(made, digest="sha256:1", run="r")["labels"] == {
        **before,
        "dgxspark.vllm.digest": "sha256:1",
        "dgxspark.vllm.run": "r",
    }
    assert made["labels"] == before
