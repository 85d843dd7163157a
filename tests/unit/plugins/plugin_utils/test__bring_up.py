# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bringing a set up, against scripted nodes: the order of starts, every way to fail with its message, and the end."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils import _bring_up
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._bring_up import BringUp, BringUpError, Order

OK = {"health": 200, "models": ["small"], "canary": "ok", "seconds": 0.25, "error": ""}
BOOTING = {"health": 0, "models": [], "canary": "", "seconds": 0.0, "error": "/health did not answer: refused"}
READY = "INFO:     Application startup complete."


@dataclass
class Answer:
    """What a node's connection gives back."""

    text: str = ""
    rc: int = 0
    stderr: str = ""
    reached: bool = True

    @property
    def ok(self) -> bool:
        return self.reached and self.rc == 0


SILENT = "Connection timed out"
UNREACHED = Answer(rc=255, stderr="Connection timed out", reached=False)


def runs(*lines: str) -> Answer:
    state = {"Running": True, "Status": "running", "ExitCode": 0, "FinishedAt": "0001-01-01T00:00:00Z"}
    return Answer("\n".join([json.dumps(state), *lines]))


def ended(code: int, *lines: str, at: str = "2026-01-02T03:04:05Z", **state: Any) -> Answer:
    whole = {"Running": False, "Status": "exited", "ExitCode": code, "FinishedAt": at, **state}
    return Answer("\n".join([json.dumps(whole), *lines]))


@dataclass
class Node:
    """A node that answers by script: each list is used up, and its last entry stays."""

    name: str
    journal: list[str]
    looks: list[Answer] = field(default_factory=lambda: [runs(READY)])
    probes: list[dict[str, Any] | Answer] = field(default_factory=lambda: [OK])
    start: Answer = field(default_factory=Answer)
    python: str = "/usr/bin/python3"
    programs: list[bytes] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, words: list[str], stdin: bytes | None = None) -> Answer:
        with self.lock:
            if words[:2] == ["docker", "start"]:
                self.journal.append(f"{self.name}: start {words[2]}")
                return self.start
            if words == [self.python, "-"]:
                self.journal.append(f"{self.name}: probe")
                self.programs.append(stdin or b"")
                probe = self._next(self.probes)
                return probe if isinstance(probe, Answer) else Answer(f"noise\n{json.dumps(probe)}\n")
            assert words[:2] == ["sh", "-c"]
            self.journal.append(f"{self.name}: look at {words[3]}")
            found: Answer = self._next(self.looks)
            return found

    @staticmethod
    def _next(script: list[Any]) -> Any:
        return script.pop(0) if len(script) > 1 else script[0]


class Set:
    """A set of ranks on scripted nodes."""

    def __init__(self, size: int = 3) -> None:
        self.journal: list[str] = []
        self.shown: list[str] = []
        self.nodes = [Node(f"dgx{number + 1}", self.journal) for number in range(size)]

    def order(self, **changes: Any) -> Order:
        ranks = [
            {"rank": rank, "node": node.name, "container": f"small-r{rank}"} for rank, node in enumerate(self.nodes)
        ]
        whole: dict[str, Any] = {
            "recipe": "small", "ranks": ranks, "base": "http://127.0.0.1:8000", "names": ["small"],
            "probe": "import json", "api_key": "hush", "timeout": 20.0, "canary_timeout": 5.0,
        }  # fmt: skip
        return Order(**{**whole, **changes})

    def bring_up(self, **changes: Any) -> dict[str, float]:
        connections = {node.name: node for node in self.nodes}
        return BringUp(self.order(**changes), connections, self.nodes[0], self.shown.append).run()

    @property
    def starts(self) -> list[str]:
        """The starts, in order; looks at ranks that run already stand between them."""
        return [entry for entry in self.journal if ": start " in entry]

    def told(self, **changes: Any) -> str:
        """Return the message, with its times made equal."""
        with pytest.raises(BringUpError) as caught:
            self.bring_up(**changes)
        return re.sub(r"after \d+ s", "after 0 s", str(caught.value))


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Three ranks, and a clock that is quick enough for tests."""
    for name, seconds in {"TICK": 0.01, "LOOK_EVERY": 0.02, "SETTLE": 0.3}.items():
        monkeypatch.setattr(_bring_up, name, seconds)
    return Set()


def test_ranks_start_in_order(ranks: Set) -> None:
    seconds = ranks.bring_up()
    assert ranks.starts == ["dgx1: start small-r0", "dgx2: start small-r1", "dgx3: start small-r2"]
    assert sum("start" in line for line in ranks.journal) == 3
    assert list(seconds) == ["start", "ready", "canary"]
    assert seconds["canary"] == pytest.approx(0.2, abs=0.1)


def test_only_the_head_is_asked(ranks: Set) -> None:
    ranks.bring_up()
    assert {line for line in ranks.journal if "probe" in line} == {"dgx1: probe"}


def test_the_key_travels_on_standard_input_and_the_program_is_one(ranks: Set) -> None:
    ranks.bring_up(probe="def probe(**question):\n    return question\nimport json", api_key="h'u\"s\\h\u00e9")
    assert "hush" not in "".join(ranks.journal)
    namespace: dict[str, Any] = {"print": lambda text: namespace.setdefault("printed", json.loads(text))}
    exec(compile(ranks.nodes[0].programs[0].decode(), "program", "exec"), namespace)  # noqa: S102 - our own text
    assert namespace["printed"] == {
        "base": "http://127.0.0.1:8000",
        "names": ["small"],
        "key": "h'u\"s\\h\u00e9",
        "canary_timeout": 5.0,
    }


def test_progress_is_shown_once_for_each_change(ranks: Set) -> None:
    ranks.nodes[0].looks = [runs("Starting to load model x"), runs("shards"), runs(READY)]
    ranks.nodes[1].looks = [runs("Starting to load model x")]
    ranks.nodes[2].looks = [runs("Starting to load model x")]
    ranks.bring_up()
    texts = [line[8:].strip() for line in ranks.shown]
    assert all(re.fullmatch(r"  +\d+ s  .*", line) for line in ranks.shown)
    assert len(texts) == len(set(texts))
    assert texts[-1] == "ready (rank 0), loading (ranks 1-2)"


def test_the_head_is_asked_now_and_then_when_its_log_never_says_ready(
    ranks: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bring_up, "PROBE_EVERY", 0.05)
    for node in ranks.nodes:
        node.looks = [runs("an engine that says nothing known")]
    ranks.nodes[0].probes = [BOOTING, Answer(rc=1, stderr="no python"), UNREACHED, OK]
    ranks.bring_up()


def test_a_container_that_does_not_start(ranks: Set) -> None:
    ranks.nodes[1].start = Answer(rc=1, stderr="Error response from daemon: no such device /dev/infiniband")
    assert ranks.told() == (
        "small did not come up: rank 1 on dgx2 could not be started.\n"
        "  Docker says: Error response from daemon: no such device /dev/infiniband"
    )
    # No later rank is started after it.
    assert ranks.starts == ["dgx1: start small-r0", "dgx2: start small-r1"]


def test_a_node_that_is_gone_when_its_rank_should_start(ranks: Set) -> None:
    ranks.nodes[2].start = UNREACHED
    assert ranks.told() == (
        "small did not come up: rank 2 on dgx3 could not be started.\n  Docker says: Connection timed out"
    )


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize(
    ("before", "last", "stage"),
    [
        ([], "Traceback", "starting"),
        ([runs("world_size=3 rank=1")], "lost", "rendezvous"),
        ([runs("Loading safetensors checkpoint shards: 45% Completed")], "lost", "loading 45 %"),
        ([runs("Available KV cache memory: 9 GiB")], "lost", "KV cache"),
        ([runs("Capturing CUDA graphs (decode, FULL): 40%")], "lost", "graphs 40 %"),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_a_rank_that_ends_at_any_stage(
    ranks: Set, rank: int, code: int, before: list[Answer], last: str, stage: str
) -> None:
    for node in ranks.nodes:
        node.looks = [runs("waiting")]
    ranks.nodes[rank].looks = [*before, ended(code, "first", last)]
    assert ranks.told() == (
        f"small did not come up: rank {rank} on dgx{rank + 1} is exited with exit code {code} after 0 s,"
        f" at the stage {stage}.\n  Last lines of rank {rank} on dgx{rank + 1}:\n    first\n    {last}"
    )


def test_killed_for_lack_of_memory(ranks: Set) -> None:
    ranks.nodes[2].looks = [ended(137, OOMKilled=True)]
    assert ranks.told() == (
        "small did not come up: rank 2 on dgx3 is exited with exit code 137 (killed for lack of memory) after 0 s,"
        " at the stage starting.\n  Last lines of rank 2 on dgx3:\n    (the log is empty)"
    )


def test_the_first_to_end_is_named_and_the_others_with_it(ranks: Set) -> None:
    """The head is seen first, but the worker ended before it: the head only followed."""
    ranks.nodes[0].looks = [runs(), ended(0, "lost a worker", at="2026-01-02T03:04:06Z")]
    ranks.nodes[1].looks = [runs(), runs(), runs(), runs(), ended(1, "boom", at="2026-01-02T03:04:05Z")]
    assert ranks.told() == (
        "small did not come up: rank 1 on dgx2 is exited with exit code 1 after 0 s, at the stage starting."
        "\n  Also ended: rank 0.\n  Last lines of rank 1 on dgx2:\n    boom"
    )


def test_a_cause_is_found_in_any_ranks_log(ranks: Set) -> None:
    ranks.nodes[0].looks = [ended(0, "gone", at="2026-01-02T03:04:05Z")]
    ranks.nodes[2].looks = [runs("OSError: Address already in use")]
    assert ranks.told() == (
        "small did not come up: rank 0 on dgx1 is exited with exit code 0 after 0 s, at the stage starting."
        "\n  Likely cause: a port of the engine is taken; set serve_port or serve_master_port to another one"
        "\n  Last lines of rank 0 on dgx1:\n    gone"
    )


def test_a_container_that_vanished(ranks: Set) -> None:
    ranks.nodes[0].looks = [runs()]
    ranks.nodes[1].looks = [runs(), Answer(rc=1, stderr="Error: No such object: small-r1")]
    assert ranks.told() == (
        "small did not come up: rank 1 on dgx2 could not be looked at (Error: No such object: small-r1) after 0 s,"
        " at the stage starting."
        "\n  Last lines of rank 1 on dgx2:\n    (the log is empty)"
    )


def test_a_node_that_stays_out_of_reach(ranks: Set, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bring_up, "UNREACHED_LIMIT", 0.1)
    ranks.nodes[0].looks = [runs()]
    ranks.nodes[1].looks = [runs(), UNREACHED]
    assert ranks.told() == (
        "small did not come up: dgx2 (rank 1) has been out of reach for 0 s."
        "\n  cure: a node that ran out of memory answers ping but not SSH: power-cycle it,"
        " and lower --gpu-memory-utilization"
    )


def test_a_node_whose_connection_hangs(ranks: Set, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSH to a node that swaps neither answers nor fails."""
    monkeypatch.setattr(_bring_up, "UNREACHED_LIMIT", 0.2)
    monkeypatch.setattr(_bring_up, "LEAVE_PATIENCE", 0.1)
    released, whole = threading.Event(), ranks.nodes[1].run

    def hang(words: list[str], stdin: bytes | None = None) -> Answer:
        if words[0] == "sh":
            released.wait(10)
        return whole(words, stdin)

    monkeypatch.setattr(ranks.nodes[1], "run", hang)
    try:
        assert ranks.told().startswith("small did not come up: dgx2 (rank 1) has been out of reach for 0 s.")
    finally:
        released.set()


def test_a_node_that_comes_back_in_time(ranks: Set) -> None:
    ranks.nodes[1].looks = [runs(), UNREACHED, UNREACHED, runs()]
    ranks.nodes[0].looks = [*[runs()] * 6, runs(READY)]
    ranks.bring_up()


def test_ready_only_when_every_rank_has_been_seen_running(ranks: Set) -> None:
    ranks.nodes[2].looks = [*[UNREACHED] * 5, runs()]
    ranks.bring_up()
    assert sum(line == "dgx3: look at small-r2" for line in ranks.journal) >= 6


def test_a_canary_that_fails(ranks: Set) -> None:
    answer = "the canary (a one-token completion) answered HTTP 500: EngineCore encountered an issue"
    ranks.nodes[0].probes = [{**OK, "canary": "failed", "error": answer}]
    ranks.nodes[0].looks = [runs("fatal error: Python.h: No such file or directory", READY)]
    assert ranks.told() == (
        f"small did not come up: every rank runs, but the head does not serve.\n  The head: {answer}"
        "\n  Likely cause: the image lacks a C++ compiler or the Python headers (Python.h) that compiling kernels"
        " needs; install g++ and python3-dev in the image, or set TORCHDYNAMO_DISABLE=1 in the recipe's [env]"
        f"\n  Last lines of rank 0 on dgx1:\n    fatal error: Python.h: No such file or directory\n    {READY}"
    )


def test_a_worker_that_dies_under_the_canary_is_named(ranks: Set) -> None:
    """The head answers HTTP 500 at once, before anybody has looked at the worker again."""
    ranks.nodes[0].probes = [{**OK, "canary": "failed", "error": "HTTP 500"}]
    ranks.nodes[2].looks = [*[runs()] * 6, ended(1, "killed")]
    assert ranks.told() == (
        "small did not come up: rank 2 on dgx3 is exited with exit code 1 after 0 s, at the stage starting."
        "\n  Last lines of rank 2 on dgx3:\n    killed"
    )


def test_another_model_answers(ranks: Set) -> None:
    error = "the engine serves qwen, not small"
    ranks.nodes[0].probes = [{**OK, "models": ["qwen"], "canary": "", "error": error}]
    assert ranks.told() == (
        f"small did not come up: every rank runs, but the head does not serve.\n  The head: {error}"
        f"\n  Last lines of rank 0 on dgx1:\n    {READY}"
    )


@pytest.mark.parametrize(
    ("probe", "line"),
    [
        (BOOTING, "\n  The head: /health did not answer: refused"),
        (UNREACHED, f"\n  The head: it could not be asked: {SILENT}"),
    ],
)
def test_time_is_up(ranks: Set, probe: Any, line: str) -> None:
    ranks.nodes[0].probes = [probe]
    assert ranks.told(timeout=0.5) == (
        f"small did not come up within 0 s: ready (all ranks).{line}\n  Last lines of rank 0 on dgx1:\n    {READY}"
        "\n  cure: give it longer with -e serve_timeout=..., if the log shows that it was still loading"
    )


@pytest.mark.parametrize("look", [runs(READY), ended(1)])
def test_watching_has_ended_with_the_run(ranks: Set, look: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that outlives the run dies with the process, perhaps with a lock in its hand that all tasks share."""
    whole = ranks.nodes[1].run

    def slow(words: list[str], stdin: bytes | None = None) -> Answer:
        time.sleep(0.3)
        return whole(words, stdin)

    monkeypatch.setattr(ranks.nodes[1], "run", slow)
    ranks.nodes[2].looks = [look]
    before = set(threading.enumerate())
    with contextlib.suppress(BringUpError):
        ranks.bring_up()
    assert set(threading.enumerate()) - before == set()
