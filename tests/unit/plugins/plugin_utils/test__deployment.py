# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What serve decides: verdicts, their reasons, what stands in the way, and what each rank still needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Make = Callable[..., Any]
IMAGE = "sha256:" + "1" * 64


def entry(cluster: Any, node: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.nodes[node]["containers"][0]
    return found


def test_empty_nodes(cluster: Make) -> None:
    deployed = cluster().deploy()
    assert deployed["verdict"] == "create"
    assert deployed["reasons"] == [f"rank {rank} on dgx{rank + 1} has no container" for rank in range(8)]
    assert deployed["standing"] == {"runs": [], "elsewhere": False}
    assert deployed["addresses"] == {f"dgx{number}": f"10.77.1.1{number}" for number in range(1, 9)}
    assert (deployed["image"], deployed["image_digest"], deployed["image_equal"]) == ("dsv41-flash:local", IMAGE, True)


def test_a_rank(cluster: Make) -> None:
    rank = cluster().deploy()["ranks"][2]
    assert rank["spec"]["labels"] == {
        "dgxspark.vllm.recipe": "dsv41-flash-8x",
        "dgxspark.vllm.rank": "2",
        "dgxspark.vllm.world_size": "8",
        "dgxspark.vllm.digest": rank["digest"],
        "dgxspark.vllm.run": "20260101T000000Z",
    }
    assert rank["run_line"].startswith("docker run --detach --name dsv41-flash-8x-r2 ")
    assert rank["arguments"][:2] == ["--name", "dsv41-flash-8x-r2"]
    assert (rank["state"], rank["started"], rank["matches"], rank["leftovers"]) == ("absent", "", False, [])


def test_the_run_does_not_change_the_digest_and_may_be_unknown(cluster: Make) -> None:
    made = cluster()
    first = made.deploy()["ranks"][0]
    made.options["run"] = ""
    second = made.deploy()["ranks"][0]
    assert second["digest"] == first["digest"]
    assert "dgxspark.vllm.run" not in second["spec"]["labels"]


def test_a_whole_set_that_answers_is_left_alone(cluster: Make) -> None:
    made = cluster()
    made.stand()
    deployed = made.deploy()
    assert (deployed["verdict"], deployed["reasons"], deployed["problems"]) == ("unchanged", [], [])
    assert deployed["ranks"][3]["started"] == "2026-01-02T03:04:05.678901234Z"
    assert all(rank["matches"] and rank["state"] == "running" for rank in deployed["ranks"])


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        (
            lambda made: entry(made, "dgx4").update(state="exited", running=False),
            ["rank 3 on dgx4 is exited"],
        ),
        (
            lambda made: made.nodes["dgx4"].update(containers=[]),
            ["rank 3 on dgx4 has no container"],
        ),
        (
            lambda made: entry(made, "dgx4").update(digest="sha256:0"),
            ["rank 3 on dgx4 was made from another specification"],
        ),
        (
            lambda made: entry(made, "dgx4").update(digest="", state="exited", running=False),
            ["rank 3 on dgx4 was made from another specification"],
        ),
        (
            lambda made: made.nodes["dgx1"]["endpoint"].update(error="the canary did not answer: timed out"),
            ["the head does not serve: the canary did not answer: timed out"],
        ),
        (
            lambda made: made.nodes["dgx1"].update(endpoint=None),
            ["the head does not serve: the head was not asked"],
        ),
        (
            lambda made: made.nodes["dgx2"]["containers"].append(
                {**entry(made, "dgx2"), "name": "dsv41-flash-8x-r7", "running": False, "state": "exited"}
            ),
            ["dgx2 also has dsv41-flash-8x-r7"],
        ),
        (
            lambda made: made.settings.update(port=8001),
            ["rank 0 on dgx1 was made from another specification"],
        ),
        (
            lambda made: made.settings["secrets"].update(VLLM_API_KEY="new"),
            [f"rank {rank} on dgx{rank + 1} was made from another specification" for rank in range(8)],
        ),
        (
            # After a reboot the GID index has moved: the old container would hang.
            lambda made: [link.update(gid_index=9) for link in made.nodes["dgx6"]["fabric"]["links"]],
            ["rank 5 on dgx6 was made from another specification"],
        ),
    ],
)
def test_anything_else_replaces_the_whole_set(cluster: Make, change: Callable[[Any], Any], reasons: list[str]) -> None:
    made = cluster()
    made.stand()
    change(made)
    deployed = made.deploy()
    assert deployed["problems"] == []
    assert (deployed["verdict"], deployed["reasons"]) == ("replace", reasons)
    assert deployed["standing"]["runs"] == ["earlier"]


def test_a_new_image_replaces_the_set(cluster: Make) -> None:
    made = cluster()
    made.stand()
    made.options["image_digest"] = "sha256:" + "3" * 64
    deployed = made.deploy()
    assert deployed["verdict"] == "replace"
    assert deployed["image_digest"] == made.options["image_digest"]


@pytest.mark.parametrize(
    ("digests", "digest", "equal"),
    [
        ({}, IMAGE, True),
        ({"dgx1": None}, IMAGE, False),
        ({"dgx8": None}, IMAGE, False),
        ({"dgx2": "sha256:5"}, IMAGE, False),
        ({"dgx1": "sha256:5"}, "sha256:5", False),
    ],
)
def test_the_image(cluster: Make, digests: dict[str, str | None], digest: str, equal: bool) -> None:
    made = cluster()
    for node, held in digests.items():
        made.nodes[node]["image"] = held and {"digest": held}
    deployed = made.deploy()
    assert (deployed["image_digest"], deployed["image_equal"]) == (digest, equal)


def test_no_image_anywhere_is_not_equal(cluster: Make) -> None:
    made = cluster("dsv4-vision-aiden-4x")
    for facts in made.nodes.values():
        facts["image"] = None
    deployed = made.deploy()
    assert (deployed["image_digest"], deployed["image_equal"], deployed["verdict"]) == ("", False, "create")


def test_problems_refuse_and_still_show_the_ranks_where_they_are_known(cluster: Make) -> None:
    made = cluster()
    made.nodes["dgx2"]["model"]["exists"] = False
    deployed = made.deploy()
    assert deployed["verdict"] == "refuse"
    assert len(deployed["ranks"]) == 8


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.looks.update(dgx2={"unreachable": True, "msg": "x"}),
        lambda made: made.nodes["dgx2"]["docker"].update(error="x"),
        lambda made: made.nodes["dgx2"]["fabric"].update(links=[]),
    ],
)
def test_no_ranks_while_a_node_is_unknown(cluster: Make, change: Callable[[Any], Any]) -> None:
    made = cluster()
    change(made)
    deployed = made.deploy()
    assert (deployed["verdict"], deployed["ranks"], deployed["addresses"]) == ("refuse", [], {})


def test_a_set_that_also_stands_on_nodes_that_were_not_chosen(cluster: Make) -> None:
    made = cluster("dsv4-vision-aiden-4x")
    made.stand()
    # dgx1 to dgx4 once were the ranks 1 to 4 of a set of five: its head stands elsewhere.
    for rank, node in enumerate(made.nodes, start=1):
        entry(made, node).update(rank=rank, world_size=5, name=f"dsv4-vision-aiden-4x-r{rank}")
    deployed = made.deploy()
    assert deployed["standing"] == {"runs": ["earlier"], "elsewhere": True}
    assert deployed["reasons"][:2] == [
        "rank 0 on dgx1 has no container",
        "dgx1 also has dsv4-vision-aiden-4x-r1",
    ]
    assert deployed["verdict"] == "replace"


def test_a_set_that_stands_here_as_a_whole(cluster: Make) -> None:
    made = cluster("dsv4-vision-aiden-4x")
    made.stand()
    assert made.deploy()["standing"] == {"runs": ["earlier"], "elsewhere": False}


def test_another_recipe_gives_way_only_when_told_to(cluster: Make) -> None:
    made = cluster("dsv4-vision-aiden-4x")
    other = {
        "name": "qwen-r1", "recipe": "qwen", "rank": 1, "world_size": 2, "digest": "x", "run": "theirs",
        "state": "running", "running": True, "exit_code": 0, "started": "", "error": "",
    }  # fmt: skip
    made.nodes["dgx3"]["containers"] = [other]
    assert made.deploy()["verdict"] == "refuse"
    made.options["replace"] = True
    deployed = made.deploy()
    assert deployed["verdict"] == "replace"
    assert deployed["ranks"][2]["leftovers"] == ["qwen-r1"]
    assert deployed["standing"] == {"runs": ["theirs"], "elsewhere": True}
    # A stopped one is nobody's business.
    other.update(running=False, state="exited")
    deployed = made.deploy()
    assert (deployed["verdict"], deployed["standing"]["runs"]) == ("create", [])


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({}, []),
        ({"exists": False}, ["/home/spark/sm121-cache/jit-121f/vllm"]),
        ({"owner_uid": 0}, ["/home/spark/sm121-cache/jit-121f/vllm"]),
    ],
)
def test_cache_folders_to_make(cluster: Make, change: dict[str, Any], missing: list[str]) -> None:
    made = cluster()
    made.nodes["dgx1"]["paths"][2].update(change)
    assert made.deploy()["ranks"][0]["cache_paths"] == missing


def test_folders_that_are_not_ours_to_make(cluster: Make) -> None:
    made = cluster(mounts=[{"host": "/nas", "container": "/data", "read_only": True, "create": False}])
    made.nodes["dgx1"]["paths"][0]["owner_uid"] = 0
    assert made.deploy()["ranks"][0]["cache_paths"] == []


@pytest.mark.parametrize(
    ("free", "available", "drop"),
    [(115, 118, False), (60, 118, True), (60, 60, False)],
)
def test_the_page_cache_gives_way_only_where_that_helps(cluster: Make, free: int, available: int, drop: bool) -> None:
    made = cluster()
    made.nodes["dgx1"]["memory"].update(free=free * 1024**3, available=available * 1024**3)
    assert made.deploy()["ranks"][0]["drop_page_cache"] is drop


def test_no_secret_is_in_a_deployment(cluster: Make) -> None:
    made = cluster()
    made.settings["secrets"] = {"VLLM_API_KEY": "hush-hush", "HF_TOKEN": "whisper"}
    text = repr(made.deploy())
    assert "hush-hush" not in text
    assert "whisper" not in text
    assert "--env VLLM_API_KEY " in text
