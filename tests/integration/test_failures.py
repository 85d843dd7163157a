# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All or nothing: whichever rank fails, however and whenever, no rank stays, and every log is saved."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from simulated import FLASH, Cluster, Run

# A rank that is not running fails the run within this many seconds.
LIMIT = 10.0


def serve(cluster: Cluster, runs: Path, *words: str, **environment: str) -> Run:
    """Serve the eight-node recipe, with the logs of a failure kept apart."""
    return cluster.play("serve.yml", "-e", f"recipe={FLASH}", "-e", f"serve_runs_dir={runs}", *words, **environment)


def moment(text: str) -> float:
    """A time of Docker's in seconds; Docker gives nanoseconds."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*Z$", r"\1+00:00", text)).timestamp()


def saved_states(runs: Path) -> dict[int, dict[str, Any]]:
    """The state of every rank, from what was saved; each rank has its log beside it."""
    states: dict[int, dict[str, Any]] = {}
    for path in runs.glob("*/*.inspect.json"):
        inspect = json.loads(path.read_text(encoding="utf-8"))[0]
        # Written when the failure was noticed, before anything was stopped.
        states[int(inspect["Config"]["Labels"]["dgxspark.vllm.rank"])] = inspect["State"] | {
            "Noticed": path.stat().st_mtime
        }
        assert path.with_name(path.name.replace(".inspect.json", ".log")).exists()
        assert path.stat().st_mode & 0o777 == 0o600
    return states


def assert_nothing_alive(cluster: Cluster) -> None:
    """No rank, running or not, is on any node."""
    assert cluster.containers() == {node: [] for node in cluster.nodes}


@pytest.mark.parametrize(
    ("rank", "stage", "code", "forks"),
    [
        (3, "start", 2, 16),
        (0, "rendezvous", 1, 16),
        (7, "loading", 137, 2),
        (5, "kv_cache", 0, 16),
        (1, "graphs", 1, 16),
    ],
)
def test_a_rank_that_dies(cluster: Cluster, tmp_path: Path, rank: int, stage: str, code: int, forks: int) -> None:
    """Any rank at any stage, exit code 0 included, and with fewer forks than ranks."""
    node = cluster.nodes[rank]
    cluster.fault(node, rank=rank, stage=stage, action="exit", code=code, message=f"planted at {stage}")
    run = serve(cluster, tmp_path, "-f", str(forks))
    assert run.rc != 0, run.text
    assert f"{FLASH} did not come up: rank {rank} on {node} is exited with exit code {code}" in run.message
    assert f"planted at {stage}" in run.message
    assert "All ranks were stopped and removed." in run.message
    assert_nothing_alive(cluster)
    states = saved_states(tmp_path)
    assert sorted(states) == list(range(8))
    assert states[rank]["ExitCode"] == code
    assert states[rank]["Noticed"] - moment(states[rank]["FinishedAt"]) < LIMIT


def test_a_head_that_dies_at_the_first_token(cluster: Cluster, tmp_path: Path) -> None:
    """Health and models were up; the canary finds the dead engine, whose exit code is 0."""
    cluster.fault("dgx1", rank=0, stage="serving", action="exit", message="planted at the first token")
    run = serve(cluster, tmp_path)
    assert run.rc != 0, run.text
    assert "planted at the first token" in run.message
    assert_nothing_alive(cluster)
    assert saved_states(tmp_path)[0]["ExitCode"] == 0


@pytest.mark.parametrize("secret", ["serve_api_key", "serve_hf_token"])
def test_a_secret_that_the_engine_prints_is_hidden(cluster: Cluster, tmp_path: Path, secret: str) -> None:
    """The engine itself betrays it: it stands in no output, however talkative, and in nothing that is saved."""
    value = 'swordfish "4711"'
    cluster.fault("dgx2", rank=1, stage="loading", action="exit", message=f"refused with {value}")
    run = serve(cluster, tmp_path, "-e", json.dumps({secret: value}), "-vvv", "--diff")
    assert run.rc != 0, run.text
    assert "refused with (hidden)" in run.text
    told = [run.text, *(path.read_text(encoding="utf-8") for path in tmp_path.glob("**/*") if path.is_file())]
    assert len(told) > 2 * len(cluster.nodes)
    assert [found for text in told for found in re.findall(r".{0,200}swordfish.{0,40}", text)] == []


def test_a_rank_that_hangs(cluster: Cluster, tmp_path: Path) -> None:
    """Time runs out; the message tells the stage of every rank."""
    cluster.fault("dgx5", rank=4, stage="loading", action="hang")
    run = serve(cluster, tmp_path, "-e", "serve_timeout=12")
    assert run.rc != 0, run.text
    assert f"{FLASH} did not come up within 12 s: " in run.message
    assert "rank 4" in run.message
    assert_nothing_alive(cluster)


def test_a_slow_rank_is_waited_for_in_view(cluster: Cluster) -> None:
    """Slow is not dead: the stages are shown while the others wait."""
    cluster.fault("dgx3", rank=2, stage="loading", action="slow", seconds=5)
    run = cluster.play("serve.yml", "-e", f"recipe={FLASH}")
    assert run.rc == 0, run.text
    assert re.search(r"^ +\d+ s  .*loading.*rank", run.text, re.MULTILINE)


def test_a_dead_worker_is_seen_by_status_and_healed_by_serve(cluster: Cluster) -> None:
    """Health stays 200 when a worker has died; status says broken and changes nothing; serve replaces the set."""
    assert cluster.play("serve.yml", "-e", f"recipe={FLASH}").rc == 0
    cluster.on("dgx6", "docker", "kill", f"{FLASH}-r5")
    before = cluster.containers()
    status = cluster.play("status.yml", "-e", f"recipe={FLASH}", "-e", "serve_look_timeout=3")
    assert status.rc == 0, status.text
    assert f"{FLASH} IS BROKEN" in status.text
    assert re.search(r"^5 +dgx6 +exited \(137\)", status.text, re.MULTILINE)
    assert "/health 200" in status.text
    assert "canary    FAILED" in status.text
    assert cluster.containers() == before

    healed = cluster.play("serve.yml", "-e", f"recipe={FLASH}", "-e", "serve_look_timeout=3")
    assert healed.rc == 0, healed.text
    assert "rank 5 on dgx6 is exited" in healed.text
    assert "the whole set is replaced" in healed.text


def test_stop_leaves_no_orphan_of_a_dead_head(cluster: Cluster) -> None:
    """The head is gone, its workers live on; stop takes them all."""
    assert cluster.play("serve.yml", "-e", f"recipe={FLASH}").rc == 0
    cluster.on("dgx1", "docker", "kill", f"{FLASH}-r0")
    assert any(cluster.on("dgx8", "docker", "ps", "--quiet"))
    stopped = cluster.play("stop.yml", "-e", f"recipe={FLASH}")
    assert stopped.rc == 0, stopped.text
    assert_nothing_alive(cluster)


def test_a_container_that_cannot_be_created(cluster: Cluster, tmp_path: Path) -> None:
    """One node refuses the container: those already created elsewhere go again."""
    cluster.on("dgx4", "mv", "/usr/bin/docker", "/usr/bin/docker.away")
    cluster.on(
        "dgx4",
        "sh",
        "-c",
        'printf \'#!/bin/sh\\n[ "$1" = create ] && echo planted >&2 && exit 125\\n'
        'exec /usr/bin/docker.away "$@"\\n\' > /usr/bin/docker && chmod 0755 /usr/bin/docker',
    )
    try:
        run = serve(cluster, tmp_path)
    finally:
        cluster.on("dgx4", "mv", "/usr/bin/docker.away", "/usr/bin/docker")
    assert run.rc != 0, run.text
    assert f"{FLASH} did not come up: dgx4: docker create failed: planted" in run.message
    assert_nothing_alive(cluster)


def test_a_container_that_cannot_be_started(cluster: Cluster, tmp_path: Path) -> None:
    """Docker's own words are told, and the ranks that had started go again."""
    cluster.on("dgx5", "mv", "/usr/bin/docker", "/usr/bin/docker.away")
    script = '#!/bin/sh\n[ "$1" = start ] && echo planted >&2 && exit 1\nexec /usr/bin/docker.away "$@"\n'
    cluster.on("dgx5", "sh", "-c", "cat > /usr/bin/docker && chmod 0755 /usr/bin/docker", stdin=script)
    try:
        run = serve(cluster, tmp_path)
    finally:
        cluster.on("dgx5", "mv", "/usr/bin/docker.away", "/usr/bin/docker")
    assert run.rc != 0, run.text
    assert f"{FLASH} did not come up: rank 4 on dgx5 could not be started.\n  Docker says: planted\n" in run.message
    assert_nothing_alive(cluster)
