# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is served now: a verdict that only a canary makes good, and a line for each rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._status import cluster_status

Make = Callable[..., Any]


def status(cluster: Any) -> Any:
    return cluster_status(cluster.ranks, cluster.looks, cluster.deploy())


def line(rank: int, **changes: str) -> dict[str, Any]:
    whole = {"rank": rank, "node": f"dgx{rank + 1}", "state": "running", "since": "2026-01-02T03:04:05Z"}
    return {**whole, "match": "yes", **changes}


@pytest.fixture
def serving(cluster: Make) -> Any:
    made = cluster("dsv4-vision-aiden-4x")
    made.stand()
    return made


def test_a_set_that_serves(serving: Any) -> None:
    assert status(serving) == {
        "verdict": "serving",
        "ranks": [line(rank) for rank in range(4)],
        "endpoint": serving.nodes["dgx1"]["endpoint"],
        "notes": [],
    }


def test_nothing_there(cluster: Make) -> None:
    found = status(cluster("dsv4-vision-aiden-4x"))
    assert found["verdict"] == "stopped"
    assert found["ranks"] == [line(rank, state="absent", since="", match="") for rank in range(4)]
    assert (found["endpoint"], found["notes"]) == (None, [])


@pytest.mark.parametrize(
    ("change", "rank", "expected", "notes"),
    [
        (
            # A worker that was killed: /health of the head stays 200.
            lambda made: made.nodes["dgx3"]["containers"][0].update(running=False, state="exited", exit_code=137),
            2,
            {"state": "exited (137)", "since": ""},
            [],
        ),
        (
            # A head that dies of an engine error exits with code 0.
            lambda made: (
                made.nodes["dgx1"]["containers"][0].update(running=False, state="exited"),
                made.nodes["dgx1"].update(endpoint=None),
            ),
            0,
            {"state": "exited (0)", "since": ""},
            [],
        ),
        (
            lambda made: made.nodes["dgx3"].update(containers=[]),
            2,
            {"state": "absent", "since": "", "match": ""},
            [],
        ),
        (
            lambda made: made.nodes["dgx1"]["endpoint"].update(canary="failed", error="the canary failed"),
            0,
            {},
            ["the head: the canary failed"],
        ),
        (
            lambda made: made.looks.update(dgx3={"unreachable": True, "msg": "timed\n out"}),
            2,
            {"state": "unknown", "since": "", "match": "unknown"},
            ["dgx3: timed out"],
        ),
        (
            lambda made: made.nodes["dgx3"]["docker"].update(error="there is no Docker engine at /x"),
            2,
            {"state": "unknown", "since": "", "match": "unknown"},
            ["dgx3: there is no Docker engine at /x"],
        ),
        (
            lambda made: made.looks.update(dgx3={}),
            2,
            {"state": "unknown", "since": "", "match": "unknown"},
            ["dgx3: no answer"],
        ),
    ],
)
def test_a_broken_set(
    serving: Any, change: Callable[[Any], Any], rank: int, expected: dict[str, str], notes: list[str]
) -> None:
    change(serving)
    found = status(serving)
    assert found["verdict"] == "broken"
    assert found["notes"] == notes
    assert {**found["ranks"][rank], "match": ""} == {**line(rank, **expected), "match": ""}
    if "match" in expected:
        assert found["ranks"][rank]["match"] == expected["match"]


def test_a_set_of_another_specification_serves_all_the_same(serving: Any) -> None:
    serving.nodes["dgx2"]["containers"][0]["digest"] = "sha256:0"
    found = status(serving)
    assert found["verdict"] == "serving"
    assert [entry["match"] for entry in found["ranks"]] == ["yes", "no", "yes", "yes"]


def test_what_cannot_be_worked_out_is_unknown(serving: Any) -> None:
    serving.looks["dgx4"] = {"unreachable": True, "msg": "x"}
    assert [entry["match"] for entry in status(serving)["ranks"]] == ["unknown"] * 4


def test_a_node_that_is_out_of_reach_is_not_stopped(cluster: Make) -> None:
    made = cluster("dsv4-vision-aiden-4x")
    made.looks["dgx1"] = {"unreachable": True, "msg": "x"}
    assert status(made)["verdict"] == "broken"
