# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every reason not to start, each with its node, what, why and cure; and nothing on nodes that can serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._preflight import NETWORK_FILESYSTEMS, earlyoom_limit

Make = Callable[..., Any]
GIB = 1024**3
TOTAL = 130595946496


def told(cluster: Any) -> list[str]:
    return [" | ".join(problem[key] for key in ("node", "what", "why", "cure")) for problem in cluster.problems()]


@pytest.mark.parametrize("name", ["dsv41-flash-8x", "dsv4-vision-aiden-4x"])
def test_nodes_that_can_serve(cluster: Make, name: str) -> None:
    assert told(cluster(name)) == []


def test_the_fixture_as_it_was_recorded_lacks_the_image_and_the_cache_folders(cluster: Make) -> None:
    made = cluster()
    for facts in made.nodes.values():
        facts["image"] = None
        for path in facts["paths"]:
            path.update(exists=False, kind="")
    assert told(made) == [
        "dgx1 | no node holds the image dsv41-flash:local and no folder dsv41-flash with a Dockerfile is in"
        " image_build_path | a :local image is never pulled from a registry | build or load it on one node: the"
        " others receive it from there; or add the folder that has dsv41-flash to image_build_path"
    ]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda facts: facts.update(foreign="exited"),
            "a container named dsv41-flash-8x-r2 is there (exited), not made by dgxspark.vllm"
            " | this rank's container takes that name | rename or remove it: docker rm -f dsv41-flash-8x-r2",
        ),
        (
            lambda facts: facts["docker"].update(error="there is no Docker engine at /var/run/docker.sock"),
            "there is no Docker engine at /var/run/docker.sock | the engine runs in a Docker container"
            " | run provision.yml (role container_runtime), which starts Docker and lets the login user use it",
        ),
        (
            lambda facts: facts["memory"].update(available=80 * GIB),
            "80.0 GiB of memory are available, 110.7 GiB are needed"
            " | at start the engine claims 0.91 of 121.6 GiB, and gives up on less"
            " | stop what holds memory (a desktop session costs 2-3 GiB), or lower --gpu-memory-utilization",
        ),
        (
            lambda facts: facts["memory"].update(cma_free=2, cma_total=1),
            "CmaFree exceeds CmaTotal in /proc/meminfo"
            " | a fault of kernel 7.0 that makes RDMA registration fail with ENOMEM"
            " | boot with kho=off on the kernel command line",
        ),
        (
            lambda facts: facts.update(earlyoom=["-M", str(12 * 1024**2)]),
            "earlyoom acts below 12.0 GiB, and the recipe leaves 10.9 GiB | it would kill the healthy engine"
            " | lower the limit with role earlyoom, or lower --gpu-memory-utilization",
        ),
        (
            lambda facts: facts["model"].update(cache_exists=False, exists=False),
            "the Hugging Face cache /home/spark/.cache/huggingface is not there"
            " | every rank reads its weights from its own node"
            " | make the folder, or point model_cache_dir to the node's cache",
        ),
        (
            lambda facts: facts["model"].update(exists=False),
            "the model is not at /home/spark/.cache/huggingface/hub/models--deepseek-ai--DeepSeek-V4.1-Flash"
            " | every rank reads its weights from its own node, and the recipe sets HF_HUB_OFFLINE"
            " | put deepseek-ai/DeepSeek-V4.1-Flash there, or point model_cache_dir to a cache that holds it",
        ),
        (
            lambda facts: facts["paths"][1].update(blocked="/home/spark/sm121-cache", exists=False),
            "/home/spark/sm121-cache is no folder, so /home/spark/sm121-cache/jit-121f/torchinductor cannot be"
            " | the recipe mounts it at /root/.cache/torchinductor | move the file away",
        ),
        (
            lambda facts: facts["paths"][1].update(fstype="nfs4"),
            "/home/spark/sm121-cache/jit-121f/torchinductor is on nfs4"
            " | the recipe mounts it at /root/.cache/torchinductor"
            " | mount a local folder: caches of compiled kernels belong to one node and break on shared storage",
        ),
        (
            lambda facts: facts["fabric"].update(infiniband_device=False),
            "the node has RDMA links and no /dev/infiniband"
            " | the containers would fall back to TCP, at a fraction of the speed"
            " | load the module ib_uverbs: modprobe ib_uverbs",
        ),
        (
            lambda facts: facts["fabric"]["links"][0].update(mtu=1500),
            "enp1s0f0np0 has MTU 1500, not 9000"
            " | a reboot or a firmware update resets it, and mixed sizes stall large transfers"
            " | run provision.yml (role fabric), which sets and keeps it",
        ),
        (
            lambda facts: facts["fabric"].update(links=[]),
            "no RDMA device was found | the ranks of one model talk over the fabric"
            " | check the ConnectX-7 driver, or name plain interfaces in fabric_interfaces to serve over TCP",
        ),
    ],
)
def test_one_fault_on_one_node(cluster: Make, change: Callable[[Any], Any], line: str) -> None:
    made = cluster()
    change(made.nodes["dgx3"])
    assert told(made) == [f"dgx3 | {line}"]


@pytest.mark.parametrize(
    ("look", "line"),
    [
        (
            {"unreachable": True, "msg": "Failed to connect to the host via ssh:\n  Connection timed out\n"},
            "cannot be reached: Failed to connect to the host via ssh: Connection timed out"
            " | every rank of the run needs its node"
            " | see that 'ssh dgx3' works with the inventory's address, user and key, or choose other nodes",
        ),
        (
            {"failed": True, "msg": "No such file or directory: 'ip'"},
            "could not be looked at: No such file or directory: 'ip'"
            " | nothing is started on a node whose state is unknown"
            " | the node needs Python 3 and the ip program (iproute2)",
        ),
        (
            {},
            "could not be looked at: no answer | nothing is started on a node whose state is unknown"
            " | the node needs Python 3 and the ip program (iproute2)",
        ),
    ],
)
def test_a_node_that_was_not_seen(cluster: Make, look: dict[str, Any], line: str) -> None:
    made = cluster()
    made.looks["dgx3"] = look
    assert told(made) == [f"dgx3 | {line}"]


def test_all_faults_of_all_nodes_at_once(cluster: Make) -> None:
    made = cluster()
    made.looks["dgx2"] = {"unreachable": True, "msg": "no route"}
    made.nodes["dgx4"]["docker"]["error"] = "the login user may not use /var/run/docker.sock"
    made.nodes["dgx6"]["model"]["exists"] = False
    made.nodes["dgx6"]["memory"]["available"] = GIB
    made.nodes["dgx8"]["foreign"] = "running"
    assert [problem["node"] for problem in made.problems()] == ["dgx2", "dgx4", "dgx6", "dgx6", "dgx8"]
    assert made.deploy()["verdict"] == "refuse"


def test_a_backend_that_serve_cannot_bring_up(cluster: Make) -> None:
    assert told(cluster(distributed_backend="ray")) == [
        "dgx1 | the recipe asks for distributed_backend ray"
        " | serve brings up vLLM's own multi-node mode, which needs no Ray cluster"
        ' | set distributed_backend = "mp" in the recipe'
    ]
    assert told(cluster(distributed_backend="ray", required_nodes=1, tensor_parallel_size=1)) == []


def test_another_recipe_is_named(cluster: Make) -> None:
    made = cluster()
    made.nodes["dgx5"]["containers"] = [
        {"name": "qwen-r0", "recipe": "qwen", "running": True},
        {"name": "old-r1", "recipe": "old", "running": False},
    ]
    assert told(made) == [
        "dgx5 | recipe qwen runs here (qwen-r0) | a node has one GPU and serves one recipe"
        " | stop it with stop.yml -e recipe=qwen, or replace it with -e serve_replace=true"
    ]
    made.options["replace"] = True
    assert told(made) == []


@pytest.mark.parametrize(
    ("taken", "line"),
    [
        (
            {"port": 8000, "pid": 812, "process": "nginx"},
            "port 8000 is taken by nginx (pid 812) | the head needs it for HTTP"
            " | stop that process, or set serve_port to another port",
        ),
        (
            {"port": 29501, "pid": None, "process": None},
            "port 29501 is taken by another process | the head needs it for the ranks' rendezvous"
            " | stop that process, or set serve_master_port to another port",
        ),
    ],
)
def test_ports_of_the_head(cluster: Make, taken: dict[str, Any], line: str) -> None:
    made = cluster()
    made.nodes["dgx1"]["ports"] = [taken]
    assert told(made) == [f"dgx1 | {line}"]
    # A rank of ours that runs there holds them itself, and goes before the new one comes.
    made.nodes["dgx1"]["containers"] = [{"recipe": "dsv41-flash-8x", "name": "dsv41-flash-8x-r0", "running": True}]
    assert told(made) == []


def test_the_recipes_own_port(cluster: Make) -> None:
    made = cluster(port=9000)
    made.nodes["dgx1"]["ports"] = [{"port": 9000, "pid": 1, "process": "x"}]
    assert [problem["what"] for problem in made.problems()] == ["port 9000 is taken by x (pid 1)"]


def test_one_port_for_two_uses(cluster: Make) -> None:
    made = cluster(port=29501)
    assert told(made) == [
        "dgx1 | port 29501 is asked for twice, for HTTP and for the ranks' rendezvous"
        " | the head needs a port for each | set serve_master_port to another port"
    ]


def test_memory_that_our_own_ranks_hold_is_no_problem(cluster: Make) -> None:
    made = cluster()
    made.stand()
    for facts in made.nodes.values():
        facts["memory"].update(available=10 * GIB, free=GIB)
    assert told(made) == []


def test_a_kernel_fault_is_told_whatever_the_recipe_claims(cluster: Make) -> None:
    made = cluster(gpu_memory_utilization=None)
    made.nodes["dgx2"]["memory"].update(cma_free=2, cma_total=1)
    assert [problem["what"] for problem in made.problems()] == ["CmaFree exceeds CmaTotal in /proc/meminfo"]


@pytest.mark.parametrize("fstype", NETWORK_FILESYSTEMS)
def test_a_mount_that_is_not_made_by_us_may_be_on_a_nas(cluster: Make, fstype: str) -> None:
    mounts = [{"host": "/nas", "container": "/data", "read_only": True, "create": False}]
    made = cluster(mounts=mounts)
    made.nodes["dgx1"]["paths"][0]["fstype"] = fstype
    assert told(made) == []


def test_a_mount_that_must_be_there(cluster: Make) -> None:
    made = cluster(mounts=[{"host": "/nas", "container": "/data", "read_only": True, "create": False}])
    made.nodes["dgx7"]["paths"][0]["exists"] = False
    assert told(made) == [
        "dgx7 | /nas is not there | the recipe mounts it at /data"
        " | make it on this node, or set create = true for the mount in the recipe"
    ]


def test_a_model_that_may_be_downloaded_need_not_be_there(cluster: Make) -> None:
    for offline in ({}, {"HF_HUB_OFFLINE": "0"}, {"HF_HUB_OFFLINE": ""}):
        made = cluster(env=offline)
        made.nodes["dgx1"]["model"]["exists"] = False
        assert told(made) == []


def test_a_model_by_path(cluster: Make) -> None:
    made = cluster(model="/nas/small", env={})
    made.nodes["dgx1"]["model"].update(exists=False, cache_exists=False)
    assert told(made) == [
        "dgx1 | the model is not at /nas/small | every rank reads its weights from its own node | put /nas/small there"
    ]


@pytest.mark.parametrize("options", [{"build_dir": "/x"}, {"archive": "/x.tar"}])
def test_an_image_that_nobody_holds_but_that_can_be_had(cluster: Make, options: dict[str, Any]) -> None:
    made = cluster()
    for facts in made.nodes.values():
        facts["image"] = None
    made.options.update(options)
    assert told(made) == []


def test_an_image_that_can_be_pulled(cluster: Make) -> None:
    made = cluster("dsv4-vision-aiden-4x")
    for facts in made.nodes.values():
        facts["image"] = None
    assert told(made) == []


def test_a_local_image_without_a_folder(cluster: Make) -> None:
    made = cluster(docker_image_dir=None)
    for facts in made.nodes.values():
        facts["image"] = None
    assert told(made) == [
        "dgx1 | no node holds the image dsv41-flash:local | a :local image is never pulled from a registry"
        " | build or load it on one node: the others receive it from there"
    ]


def test_one_node_needs_no_fabric(cluster: Make) -> None:
    made = cluster(required_nodes=1, tensor_parallel_size=1)
    made.nodes["dgx1"]["fabric"].update(links=[], interfaces=[], infiniband_device=False)
    assert told(made) == []


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        ([], TOTAL / 10),
        (["-r", "60"], TOTAL / 10),
        (["-m", "2"], TOTAL * 0.02),
        (["-m2"], TOTAL * 0.02),
        (["-m", "2.5,1"], TOTAL * 0.025),
        (["-M", "2097152"], 2 * GIB),
        (["-M2097152,1048576"], 2 * GIB),
        (["-r", "0", "-M", "2097152", "--avoid", "^(sshd)$"], 2 * GIB),
        (["-m"], TOTAL / 10),
        (["-m", "junk"], TOTAL / 10),
    ],
)
def test_the_limit_of_earlyoom(arguments: list[str], limit: float) -> None:
    assert earlyoom_limit(arguments, TOTAL) == pytest.approx(limit)


@pytest.mark.parametrize(
    ("share", "arguments", "refused"),
    [(0.91, ["-m", "2"], False), (0.91, [], True), (0.75, [], False), (None, ["-m", "90"], False)],
)
def test_earlyoom_against_the_recipe(cluster: Make, share: float | None, arguments: list[str], refused: bool) -> None:
    made = cluster(gpu_memory_utilization=share)
    made.nodes["dgx1"]["earlyoom"] = arguments
    assert bool(told(made)) == refused
