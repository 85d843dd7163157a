# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in engine is held against the real one: one table, both served on two nodes by the same playbook."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._log_stages import NAMES, clean_lines, stage_of
from engine_contract import (
    COMPLETIONS,
    EXCHANGES,
    HELLO,
    KEY,
    REFUSALS,
    STREAMS,
    Exchange,
    Refusal,
    difference,
    events,
)
from simulated import ROOT, Cluster


@dataclass(frozen=True)
class Engine:
    """One of the two, serving on two nodes."""

    name: str
    cluster: Cluster
    recipe: str
    image: str
    # What a request gets after a worker has died. The stand-in plays ranks on GPUs, where nothing tells the head; on
    # CPU the ranks are connected by TCP, and the head's engine dies of the broken connection at the next request.
    orphaned: int | None

    @property
    def container(self) -> str:
        return self.recipe.rsplit("/", 1)[-1]

    def ask(self, exchange: Exchange, seconds: float = 60) -> tuple[int, str, str]:
        """Status, content type and body of an answer."""
        connection = http.client.HTTPConnection(f"10.{self.cluster.network}.0.11", 8000, timeout=seconds)
        headers = {"Authorization": f"Bearer {exchange.key}"} if exchange.key else {}
        body = exchange.body if isinstance(exchange.body, bytes) else json.dumps(exchange.body).encode()
        if exchange.body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(exchange.verb, exchange.path, body if exchange.body is not None else None, headers)
            answer = connection.getresponse()
            kind = (answer.getheader("Content-Type") or "").partition(";")[0]
            return answer.status, kind, answer.read().decode()
        finally:
            connection.close()

    def logs(self, rank: int) -> list[str]:
        # Both streams in one, or they arrive one after the other.
        script = f"docker logs {self.container}-r{rank} 2>&1"
        return clean_lines(self.cluster.on(f"dgx{rank + 1}", "sh", "-c", script))

    def state(self, rank: int) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.inspect(f"dgx{rank + 1}", f"{self.container}-r{rank}")["State"]
        return found


@pytest.fixture(scope="module", params=["stand-in", "real"])
def engine(request: pytest.FixtureRequest, two_sparks: Cluster) -> Iterator[Engine]:
    two_sparks.stop_all()
    if request.param == "real":
        found = Engine("real", two_sparks, "tiny-cpu-2x", "dgxspark-tiny-cpu:local", 500)
    else:
        recipe = str(ROOT / "tests/real/recipes/stand-in-2x")
        found = Engine("stand-in", two_sparks, recipe, "dsv41-flash:local", None)
        two_sparks.sim("images.yml", "-e", json.dumps({"sim_images_on": ["dgx1"]}))
    run = two_sparks.play("serve.yml", "-e", f"recipe={found.recipe}", "-e", f"serve_api_key={KEY}")
    assert run.rc == 0, run.text
    assert KEY not in run.text
    if request.param == "real":
        two_sparks.sim("keep_build.yml")
    yield found
    two_sparks.stop_all()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=str)
def test_exchange(engine: Engine, exchange: Exchange) -> None:
    status, kind, text = engine.ask(exchange)
    assert (status, kind) == (exchange.status, exchange.kind), text
    assert difference(json.loads(text) if kind == "application/json" else text, exchange.answer) == ""


@pytest.mark.parametrize(("exchange", "first", "last"), STREAMS, ids=["completion", "chat"])
def test_stream(engine: Engine, exchange: Exchange, first: Any, last: Any) -> None:
    status, kind, text = engine.ask(exchange)
    assert (status, kind) == (exchange.status, exchange.kind), text
    told = events(text)
    assert len(told) >= 2
    assert difference(told[0], first) == ""
    assert difference(told[-2], last) == ""
    assert told[-1] == "[DONE]"


def test_stages(engine: Engine) -> None:
    """Every stage up to ready can be read from the head's log, in order, and the workers' up to the cache."""
    for rank, wanted in (
        (0, ["starting", "rendezvous", "loading", "KV cache", "ready"]),
        (1, ["rendezvous", "KV cache"]),
    ):
        stage, seen = stage_of([]), ["starting"]
        for line in engine.logs(rank):
            stage = stage_of([line], stage)
            if NAMES[stage.step] != seen[-1]:
                seen.append(NAMES[stage.step])
        assert [name for name in seen if name in wanted] == wanted, seen
        assert seen == sorted(seen, key=NAMES.index)


def test_secret_is_not_in_the_log(engine: Engine) -> None:
    assert not any(KEY in line for rank in (0, 1) for line in engine.logs(rank))


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refusal(engine: Engine, refusal: Refusal) -> None:
    """On the second node, where no other engine has the ports."""
    words = [
        "docker",
        "exec",
        f"{engine.cluster.name}-dgx2",
        "docker",
        "run",
        "--rm",
        "--env",
        "VLLM_CPU_KVCACHE_SPACE=1",
    ]
    done = subprocess.run(
        [*words, engine.image, *refusal.words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == refusal.code, done.stdout
    assert re.search(refusal.said, done.stdout, re.MULTILINE), done.stdout


# Changes the engine: the last of its tests.
def test_worker_that_dies(engine: Engine) -> None:
    """The head goes on saying that it is healthy; a completion gets no answer; the head ends as if all were well."""
    engine.cluster.on("dgx2", "docker", "kill", f"{engine.container}-r1")
    assert engine.state(1)["ExitCode"] == 137
    assert engine.ask(Exchange("/health", 200))[0] == 200
    canary = Exchange(COMPLETIONS, 200, body=HELLO)
    if engine.orphaned is None:
        with pytest.raises(TimeoutError):
            engine.ask(canary, seconds=3)
        return
    assert engine.ask(canary)[0] == engine.orphaned
    until = time.monotonic() + 30
    while engine.state(0)["Running"] and time.monotonic() < until:
        time.sleep(0.5)
    assert (engine.state(0)["Running"], engine.state(0)["ExitCode"]) == (False, 0)
