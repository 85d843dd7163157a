# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How ranks come together, serve, and fail as vLLM's do."""

from __future__ import annotations

import re
import signal
import time
import urllib.error
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Ranks


def test_log_tells_the_stages_in_order(serving: Ranks) -> None:
    patterns = [
        r"\(APIServer pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[api_utils.py:327\] vLLM server version 0.32.0",
        r"\(Worker_TP0 pid=\d+\) INFO .* world_size=3 rank=0 .*=tcp://127.0.0.1:\d+ backend=nccl",
        r"rank 0 in world size 3 is assigned as DP rank 0, PP rank 0",
        r"Starting to load model m/x\.\.\.",
        r"Loading safetensors checkpoint shards:  45% Completed \| 5/11 \[",
        r"Model loading took ",
        r"Available KV cache memory: 9.5 GiB",
        r"GPU KV cache size: 1,001,472 tokens, Maximum concurrency for 4,096 tokens per request: 244.50x",
        r"Capturing CUDA graphs \(decode, FULL\):  50%\|",
        r"Graph capturing finished",
        r"Starting vLLM server on http://127.0.0.1:",
        r"Application startup complete\.",
    ]
    at = 0
    for pattern in patterns:
        match = re.compile(pattern).search(serving.log(0), at)
        assert match, f"{pattern} is not where it should be in\n{serving.log(0)}"
        at = match.end()


def test_worker_log_has_no_bars(serving: Ranks) -> None:
    assert "headless multiproc executor, with head node address 127.0.0.1:" in serving.log(1)
    assert "Loading safetensors" not in serving.log(1)
    assert "Graph capturing finished" in serving.log(1)


def test_order_of_starting_does_not_matter_and_signals_end_all(ranks: Ranks) -> None:
    for rank in (2, 1, 0):
        ranks.start(rank, 3)
    ranks.ready()
    assert ranks.complete().code == 200
    started = time.monotonic()
    for process in ranks.processes.values():
        process.send_signal(signal.SIGTERM)
    assert [ranks.code(rank) for rank in range(3)] == [0, 0, 0]
    assert time.monotonic() - started < 4


def test_other_flags_on_one_rank_end_all(ranks: Ranks) -> None:
    ranks.start(0, 3, "--max-num-seqs", "8")
    ranks.start(1, 3, "--max-num-seqs", "8")
    ranks.start(2, 3, "--max-num-seqs", "4")
    assert [ranks.code(rank) for rank in range(3)] == [1, 1, 1]
    message = (
        "RuntimeError: ranks do not agree: rank 2 was started with other flags than rank 0: "
        "--max-num-seqs: 8 on rank 0, 4 there"
    )
    assert all(message in ranks.log(rank) for rank in range(3))


def test_json_flags_are_compared_by_value(ranks: Ranks) -> None:
    ranks.start(0, 2, "--compilation-config", '{"a":1,"b":2}')
    ranks.start(1, 2, "--compilation-config", '{"b": 2, "a": 1}')
    ranks.ready()


def test_other_world_size_ends_all(ranks: Ranks) -> None:
    ranks.start(0, 3)
    ranks.start(1, 2)
    assert [ranks.code(0), ranks.code(1)] == [1, 1]
    message = "RuntimeError: ranks do not agree: rank 1 was started for 2 nodes, rank 0 for 3"
    assert message in ranks.log(0)
    assert message in ranks.log(1)


def test_a_missing_rank_times_out(ranks: Ranks) -> None:
    ranks.start(0, 3, "--distributed-timeout-seconds", "1")
    ranks.start(1, 3, "--distributed-timeout-seconds", "1")
    assert ranks.code(0) == 1
    assert ranks.code(1) == 1
    assert "Timed out after 2 seconds waiting for clients. 2/3 clients joined." in ranks.log(0)


def test_a_new_worker_joins_a_stale_rendezvous_and_hangs_both(ranks: Ranks) -> None:
    ranks.start_all(2)
    ranks.ready()
    assert ranks.complete().code == 200
    ranks.start(1, 2, name=9)
    ranks.wait_for("world_size=2 rank=1", 9)
    time.sleep(0.3)
    with pytest.raises(TimeoutError):
        ranks.complete(seconds=0.7)
    assert ranks.http("/health").code == 200
    assert ranks.running(9)
    assert "is assigned as" not in ranks.log(9)


def test_a_second_head_finds_the_port_taken(ranks: Ranks) -> None:
    ranks.start_all(2)
    ranks.ready()
    ranks.start(0, 2, "--port", str(ranks.http_port + 1), name=9)
    assert ranks.code(9) == 1
    assert f"port: {ranks.master_port}, useIpv6: false, code: -98, name: EADDRINUSE" in ranks.log(9)


def test_health_stays_when_a_worker_dies_and_the_head_follows_late_with_code_0(ranks: Ranks) -> None:
    ranks.start_all(3, "--distributed-timeout-seconds", "2")
    ranks.ready()
    ranks.processes[1].kill()
    ranks.processes[1].wait()
    assert ranks.http("/health").code == 200
    with pytest.raises(TimeoutError):
        ranks.complete(seconds=0.5)
    assert ranks.http("/health").code == 200
    assert ranks.code(0) == 0
    assert "RPC call to execute_model timed out after 2 s." in ranks.log(0)
    assert ranks.running(2)


def test_a_head_that_dies_of_an_engine_error_exits_0_and_workers_live_on(ranks: Ranks) -> None:
    ranks.script({"rank": 0, "stage": "serving", "action": "exit", "message": "no compiler"})
    ranks.start_all(2)
    ranks.ready()
    assert ranks.http("/health").code == 200
    answer = ranks.complete()
    assert (answer.code, answer.json["error"]["message"]) == (
        500,
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    )
    assert ranks.code(0) == 0
    assert "RuntimeError: no compiler" in ranks.log(0)
    assert ranks.running(1)
    with pytest.raises(urllib.error.URLError):
        ranks.http("/health")


@pytest.mark.parametrize("stage", ["start", "rendezvous", "loading", "kv_cache", "graphs", "ready"])
def test_a_worker_dies_while_booting(ranks: Ranks, stage: str) -> None:
    ranks.script({"rank": 1, "stage": stage, "action": "exit", "code": 3, "message": f"gone at {stage}"})
    ranks.start_all(2)
    assert ranks.code(1) == 3
    assert f"(Worker_TP1 pid={ranks.processes[1].pid}) RuntimeError: gone at {stage}" in ranks.log(1)
    assert ranks.running(0)


def test_a_head_dies_while_loading(ranks: Ranks) -> None:
    ranks.script({"rank": 0, "stage": "loading", "action": "oom"})
    ranks.start_all(2)
    assert ranks.code(0) == 1
    assert "torch.OutOfMemoryError: CUDA out of memory." in ranks.log(0)
    assert "RuntimeError: Engine core initialization failed. See root cause above." in ranks.log(0)
    assert "45% Completed" in ranks.log(0)
    assert "55% Completed" not in ranks.log(0)


def test_a_rank_hangs_while_loading(ranks: Ranks) -> None:
    ranks.script({"stage": "loading", "action": "hang"})
    ranks.start_all(2)
    ranks.wait_for("45% Completed")
    time.sleep(0.3)
    assert "55% Completed" not in ranks.log(0)
    assert ranks.running(0)
    ranks.processes[0].terminate()
    assert ranks.code(0) == 0


def test_a_slow_stage_takes_its_time(ranks: Ranks) -> None:
    ranks.script({"rank": 0, "stage": "graphs", "action": "slow", "seconds": 0.6})
    ranks.start_all(1)
    ranks.wait_for(" 50%|")
    started = time.monotonic()
    ranks.ready()
    assert time.monotonic() - started > 0.4


@pytest.mark.parametrize(
    ("fault", "rank", "code"),
    [
        ({"rank": 1, "stage": "ready", "action": "exit", "code": 137}, 1, 137),
        ({"rank": 0, "stage": "ready", "action": "exit"}, 0, 0),
    ],
)
def test_a_fault_is_put_in_while_all_idle(ranks: Ranks, fault: dict[str, Any], rank: int, code: int) -> None:
    ranks.start_all(2)
    ranks.ready()
    ranks.script(fault)
    assert ranks.code(rank) == code
    assert ranks.running(1 - rank)


def test_a_script_that_cannot_be_followed_is_said(ranks: Ranks) -> None:
    ranks.script({"stage": "lunch", "action": "exit"})
    ranks.start_all(1)
    assert ranks.code(0) == 70
    assert "stages are start, rendezvous, loading, kv_cache, graphs, ready, serving;" in ranks.log(0)


def test_host_ip_must_be_an_address_of_the_node(ranks: Ranks) -> None:
    words = ["m/x", "--nnodes", "2", "--tensor-parallel-size", "2", "--node-rank", "1", "--headless"]
    words += ["--master-addr", "127.0.0.1", "--master-port", str(ranks.master_port)]
    ranks.run(1, words, VLLM_HOST_IP="192.0.2.99")
    assert ranks.code(1) == 1
    assert "VLLM_HOST_IP=192.0.2.99 is not an address of this node." in ranks.log(1)


def test_offline_wants_the_model_in_the_cache(ranks: Ranks) -> None:
    ranks.start(0, 1, HF_HUB_OFFLINE="1")
    assert ranks.code(0) == 1
    assert f"m/x is not in {ranks.folder}." in ranks.log(0)
    snapshot = ranks.folder / "hub" / "models--m--x" / "snapshots" / "0"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}", encoding="utf-8")
    ranks.start(0, 1, HF_HUB_OFFLINE="1")
    ranks.ready()
