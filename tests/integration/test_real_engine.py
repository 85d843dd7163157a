# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM on CPU, served by the collection on two simulated Sparks.

Loading takes the real engine a minute, so that these tests follow each other: each takes over what the one before it
left on the nodes.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from engine_contract import events
from simulated import ROOT, Cluster

TINY = "tiny-cpu-2x"
RECIPES = ROOT / "tests/real/recipes"
KEY = "swordfish-4711"
CHANGED = ["-e", '{"serve_set": {"max-model-len": 128}}', "-e", f"serve_api_key={KEY}"]


def ask(cluster: Cluster, path: str, key: str = "", **body: Any) -> str:
    """Ask the head as a client on the network would."""
    request = urllib.request.Request(
        f"http://10.{cluster.network}.0.11:8000{path}", json.dumps(body).encode() if body else None
    )
    request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def complete(cluster: Cluster, key: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        ask(cluster, "/v1/completions", key, model="tiny-llama", prompt="Hello", max_tokens=8)
    )
    return answer


def test_serves_a_completion_whole_and_streamed(two_sparks: Cluster) -> None:
    """From whatever is on the nodes to a completion that both ranks have computed; the second run changes nothing."""
    two_sparks.stop_all()
    served = two_sparks.play("serve.yml", "-e", f"recipe={TINY}")
    assert served.rc == 0, served.text
    two_sparks.sim("keep_build.yml")
    assert f"{TINY} serves tiny-llama at http://10.{two_sparks.network}.0.11:8000" in served.text
    assert complete(two_sparks)["usage"]["completion_tokens"] == 8
    streamed = events(ask(two_sparks, "/v1/completions", model="tiny-llama", prompt="Hello", max_tokens=8, stream=True))
    assert len(streamed) > 2
    assert streamed[-1] == "[DONE]"
    again = two_sparks.play("serve.yml", "-e", f"recipe={TINY}")
    assert (again.rc, again.changed) == (0, 0), again.text
    assert f"{TINY} serves tiny-llama at http://10.{two_sparks.network}.0.11:8000 (nothing to do)" in again.text


def test_changed_flag_replaces_the_set_and_an_api_key_is_required(two_sparks: Cluster) -> None:
    before = two_sparks.containers()
    changed = two_sparks.play("serve.yml", "-e", f"recipe={TINY}", *CHANGED)
    assert changed.rc == 0, changed.text
    assert "the whole set is replaced" in changed.text
    assert KEY not in changed.text
    after = two_sparks.containers()
    assert all(len(after[node]) == 1 and after[node] != before[node] for node in two_sparks.nodes)
    for path, body in (("/v1/models", {}), ("/v1/completions", {"prompt": "Hello"})):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(two_sparks, path, **body)
    assert json.loads(ask(two_sparks, "/v1/models", KEY))["data"][0]["max_model_len"] == 128
    assert complete(two_sparks, KEY)["choices"][0]["text"]


def test_killed_worker_is_found_by_the_canary_and_healed_by_serve(two_sparks: Cluster) -> None:
    two_sparks.on("dgx2", "docker", "kill", f"{TINY}-r1")
    assert ask(two_sparks, "/health") == ""
    status = two_sparks.play("status.yml", "-e", f"recipe={TINY}", *CHANGED)
    assert status.rc == 0, status.text
    assert status.changed == 0
    assert f"{TINY} IS BROKEN" in status.text
    assert re.search(r"^1 +dgx2 +exited \(137\)", status.text, re.MULTILINE)
    assert "/health 200" in status.text
    assert "canary    FAILED" in status.text
    healed = two_sparks.play("serve.yml", "-e", f"recipe={TINY}", *CHANGED)
    assert healed.rc == 0, healed.text
    assert "rank 1 on dgx2 is exited" in healed.text
    assert complete(two_sparks, KEY)["choices"][0]["text"]


def test_killed_head_leaves_no_orphan_after_stop(two_sparks: Cluster) -> None:
    two_sparks.on("dgx1", "docker", "kill", f"{TINY}-r0")
    assert two_sparks.on("dgx2", "docker", "ps", "--quiet")
    stopped = two_sparks.play("stop.yml", "-e", f"recipe={TINY}")
    assert stopped.rc == 0, stopped.text
    assert two_sparks.containers() == {"dgx1": [], "dgx2": []}
    processes = two_sparks.on("dgx2", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "vllm" not in processes.lower()


def test_pipeline_parallel(two_sparks: Cluster) -> None:
    served = two_sparks.play("serve.yml", "-e", f"recipe={RECIPES}/tiny-cpu-pp-2x")
    assert served.rc == 0, served.text
    command = two_sparks.inspect("dgx2", "tiny-cpu-pp-2x-r1")["Config"]["Cmd"]
    assert command[command.index("--pipeline-parallel-size") + 1] == "2"
    assert complete(two_sparks)["usage"]["completion_tokens"] == 8


def test_missing_compiler_fails_the_run_with_its_cause(two_sparks: Cluster, tmp_path: Path) -> None:
    """The engine is healthy until it is asked: without the canary this run would have passed."""
    two_sparks.stop_all()
    recipe = RECIPES / "tiny-cpu-no-compiler-2x"
    run = two_sparks.play("serve.yml", "-e", f"recipe={recipe}", "-e", f"serve_runs_dir={tmp_path}")
    assert run.rc != 0, run.text
    assert "rank 0 on dgx1" in run.message
    assert "Python.h" in run.message
    assert two_sparks.containers() == {"dgx1": [], "dgx2": []}
    logs = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*/*.log")}
    assert sorted(logs) == ["tiny-cpu-no-compiler-2x-r0-dgx1.log", "tiny-cpu-no-compiler-2x-r1-dgx2.log"]
    assert "Application startup complete" in logs["tiny-cpu-no-compiler-2x-r0-dgx1.log"]


def test_one_node(two_sparks: Cluster) -> None:
    """No flag of ranks, and nothing on the other node."""
    served = two_sparks.play("serve.yml", "-e", "recipe=tiny-cpu-1x")
    assert served.rc == 0, served.text
    command = two_sparks.inspect("dgx1", "tiny-cpu-1x-r0")["Config"]["Cmd"]
    assert not {"--nnodes", "--node-rank", "--master-addr", "--headless"} & set(command)
    assert two_sparks.containers()["dgx2"] == []
    assert complete(two_sparks)["usage"]["completion_tokens"] == 8
