# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking sets down: the head first, one node's fault keeps no other from it, and no secret reaches the disk."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils import _connections as connections
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._take_down import LIST, TakeDown

SECRET = 'hu"sh-é'  # noqa: S105 - JSON writes it differently


@dataclass
class Answer:
    """What a node's connection gives back."""

    text: str = ""
    rc: int = 0
    stderr: str = ""
    ok: bool = field(init=False)

    def __post_init__(self) -> None:
        self.ok = self.rc == 0


@dataclass
class Node:
    """A node that holds containers and does what docker would; ``broken`` names the commands that fail, and how."""

    name: str
    journal: list[str]
    containers: list[str] = field(default_factory=list)
    broken: dict[str, Answer] = field(default_factory=dict)

    def run(self, words: list[str], stdin: bytes | None = None) -> Answer:
        assert stdin is None
        what = {"ps": "list", "container": "inspect", "-c": "logs"}.get(words[1], words[1])
        self.journal.append(f"{self.name}: {what}" + ("" if what == "list" else f" {words[-1]}"))
        broken = self.broken.get(what) or self.broken.get("all")
        if broken:
            return broken
        if what == "list":
            assert words == LIST
            return Answer("".join(f"{line}\n" for line in self.containers))
        if what == "inspect":
            return Answer(json.dumps([{"Name": words[-1], "Config": {"Env": [f"VLLM_API_KEY={SECRET}", "A=1"]}}]))
        return Answer(f"log of {words[-1]}\nkey {SECRET}\n" if what == "logs" else "")


def in_turn(items: Any, work: Any) -> dict[str, Any]:
    """Stand for the controller's threads: one after the other, so that order shows."""
    return {key: work(key) for key in items}


class Cluster:
    """Three nodes with a set each of two recipes."""

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.nodes = {name: Node(name, self.journal) for name in ("dgx1", "dgx2", "dgx3")}
        self.nodes["dgx1"].containers = ["small-r1\tsmall\t1\trun1"]
        self.nodes["dgx2"].containers = ["small-r0\tsmall\t0\trun1", "qwen-r1\tqwen\t1\trun2"]
        self.nodes["dgx3"].containers = ["qwen-r0\tqwen\t0\trun2", "small-r2\tsmall\t2\trun1"]
        self.down = TakeDown(self.nodes, in_turn)

    def done(self, what: str) -> list[str]:
        return [line.replace(f" {what} ", " ") for line in self.journal if f": {what} " in line]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


SMALL = [
    {"recipe": "small", "rank": 0, "node": "dgx2", "container": "small-r0"},
    {"recipe": "small", "rank": 1, "node": "dgx1", "container": "small-r1"},
    {"recipe": "small", "rank": 2, "node": "dgx3", "container": "small-r2"},
]
QWEN = [
    {"recipe": "qwen", "rank": 0, "node": "dgx3", "container": "qwen-r0"},
    {"recipe": "qwen", "rank": 1, "node": "dgx2", "container": "qwen-r1"},
]


@pytest.mark.parametrize(
    ("recipes", "runs", "found"),
    [
        ([], [], [*QWEN, *SMALL]),
        (["small"], [], SMALL),
        (["qwen"], ["run1"], [*QWEN, *SMALL]),
        ([], ["run2"], QWEN),
        (["other"], [], []),
    ],
)
def test_find(cluster: Cluster, recipes: list[str], runs: list[str], found: list[dict[str, Any]]) -> None:
    assert cluster.down.find(recipes, runs) == found
    assert cluster.down.errors == []


def test_the_question_is_for_our_containers_running_or_not() -> None:
    assert [
        *["docker", "ps", "--all", "--filter", "label=dgxspark.vllm.recipe", "--format"],
        '{{.Names}}\t{{.Label "dgxspark.vllm.recipe"}}'
        '\t{{.Label "dgxspark.vllm.rank"}}\t{{.Label "dgxspark.vllm.run"}}',
    ] == LIST


def test_find_goes_on_past_a_node_that_is_gone(cluster: Cluster) -> None:
    cluster.nodes["dgx1"].broken["all"] = Answer(rc=255, stderr="Connection\n timed out")
    cluster.nodes["dgx3"].broken["all"] = Answer(rc=127)
    assert cluster.down.find(["small"], []) == [SMALL[0]]
    assert cluster.down.errors == [
        "dgx1 could not be asked for its containers: Connection timed out",
        "dgx3 could not be asked for its containers: exit code 127",
    ]


def test_heads_stop_before_any_worker(cluster: Cluster) -> None:
    cluster.down.stop(cluster.down.find([], []))
    assert cluster.done("stop") == [
        "dgx3: qwen-r0",
        "dgx2: small-r0",
        "dgx2: qwen-r1",
        "dgx1: small-r1",
        "dgx3: small-r2",
    ]


def test_a_head_that_cannot_be_stopped_keeps_no_worker_alive(cluster: Cluster) -> None:
    present = cluster.down.find(["small"], [])
    cluster.nodes["dgx2"].broken["all"] = Answer(rc=255, stderr="Connection timed out")
    cluster.down.stop(present)
    cluster.down.remove(present)
    assert cluster.done("stop") == ["dgx2: small-r0", "dgx1: small-r1", "dgx3: small-r2"]
    assert cluster.done("rm") == ["dgx2: small-r0", "dgx1: small-r1", "dgx3: small-r2"]
    assert cluster.down.errors == [
        "rank 0 on dgx2 (small-r0) could not be stopped: Connection timed out",
        "rank 0 on dgx2 (small-r0) could not be removed: Connection timed out",
    ]


def test_a_container_that_is_already_gone_is_no_fault(cluster: Cluster) -> None:
    present = cluster.down.find(["small"], [])
    cluster.nodes["dgx1"].broken["rm"] = Answer(rc=1, stderr="Error: No such container: small-r1")
    cluster.down.remove(present)
    assert cluster.down.errors == []


def save(cluster: Cluster, present: list[Any], folder: Path, secrets: list[str]) -> list[str]:
    states = cluster.down.save_states(present, folder, secrets)
    return states + cluster.down.save_logs(present, folder, secrets)


def test_files_are_private_and_redacted(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "small-1"
    saved = save(cluster, cluster.down.find(["small"], []), folder, [SECRET])
    assert [Path(path).name for path in saved] == [
        f"small-r{rank}-{node}.{kind}"
        for kind in ("inspect.json", "log")
        for rank, node in enumerate(("dgx2", "dgx1", "dgx3"))
    ]
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in map(Path, saved):
        assert path.parent == folder
        assert path.stat().st_mode & 0o777 == 0o600
        text = path.read_text(encoding="utf-8")
        assert SECRET not in text
        assert json.dumps(SECRET)[1:-1] not in text
    assert (folder / "small-r1-dgx1.log").read_text(encoding="utf-8") == "log of small-r1\nkey (hidden)\n"
    (inspect,) = json.loads((folder / "small-r0-dgx2.inspect.json").read_text(encoding="utf-8"))
    assert inspect == {"Name": "small-r0", "Config": {"Env": ["VLLM_API_KEY=(hidden)", "A=1"]}}


def test_a_file_that_stood_open_before_is_closed(cluster: Cluster, tmp_path: Path) -> None:
    old = tmp_path / "small-r1-dgx1.log"
    old.write_text("old and much longer than what comes\n" * 9, encoding="utf-8")
    old.chmod(0o644)
    save(cluster, cluster.down.find(["small"], []), tmp_path, [SECRET])
    assert old.stat().st_mode & 0o777 == 0o600
    assert old.read_text(encoding="utf-8") == "log of small-r1\nkey (hidden)\n"


def test_what_cannot_be_saved_is_told_and_the_rest_is_there(cluster: Cluster, tmp_path: Path) -> None:
    present = cluster.down.find(["small"], [])
    cluster.nodes["dgx1"].broken["all"] = Answer(rc=255, stderr="Connection timed out")
    cluster.nodes["dgx2"].broken["logs"] = Answer(rc=1)
    saved = save(cluster, present, tmp_path, [])
    assert [Path(path).name for path in saved] == [
        "small-r0-dgx2.inspect.json",
        "small-r2-dgx3.inspect.json",
        "small-r2-dgx3.log",
    ]
    assert cluster.down.errors == [
        "rank 1 on dgx1 (small-r1) could not be described: Connection timed out",
        "rank 0 on dgx2 (small-r0) could not give its log: exit code 1",
        "rank 1 on dgx1 (small-r1) could not give its log: Connection timed out",
    ]


def test_nothing_there(cluster: Cluster, tmp_path: Path) -> None:
    cluster.down.stop([])
    cluster.down.remove([])
    assert save(cluster, [], tmp_path / "new", []) == []
    assert cluster.journal == []


def test_a_folder_that_cannot_be_written_is_told(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    assert save(cluster, cluster.down.find(["small"], [])[:1], tmp_path / "file", []) == []
    assert [error.rpartition("/")[2] for error in cluster.down.errors] == [
        "small-r0-dgx2.inspect.json could not be written: File exists",
        "small-r0-dgx2.log could not be written: File exists",
    ]


def test_one_that_never_answers_does_not_keep_the_others_waiting() -> None:
    def work(key: str) -> connections.Answer:
        if key == "hangs":
            threading.Event().wait(3)
        return connections.Answer(0, b"", "")

    answers = connections.on_all({"hangs": None, "answers": None}, work, patience=0.2)
    assert answers["answers"].ok
    assert (answers["hangs"].reached, answers["hangs"].stderr) == (False, "no answer within 0 s")
