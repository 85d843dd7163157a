# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far an engine is, told by its log: single lines, and the recorded logs of the real engine from end to end."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._log_stages import (
    GRAPHS,
    KV_CACHE,
    LOADING,
    READY,
    RENDEZVOUS,
    STARTING,
    Stage,
    clean_lines,
    stage_of,
    summarize,
)

LOGS = Path(__file__).parents[4] / "tests" / "real" / "logs"


def recorded(name: str) -> list[str]:
    return clean_lines((LOGS / f"{name}.log").read_text(encoding="utf-8"))


def stages(lines: list[str]) -> list[str]:
    """Return every stage that a log goes through, as somebody who watches it sees them."""
    seen: list[str] = []
    stage = Stage()
    for line in lines:
        stage = stage_of([line], stage)
        if not seen or seen[-1] != str(stage):
            seen.append(str(stage))
    return seen


HEAD = ["starting", "rendezvous", "loading", "loading 0 %", "loading 100 %", "KV cache", "ready"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("single-ready", HEAD),
        ("tp2-rank0-served", HEAD),
        ("no-python-headers-rank0", HEAD),
        # A headless worker prints no progress bar and never says that it is ready.
        ("tp2-rank1-served", ["starting", "rendezvous", "loading", "KV cache"]),
        ("no-python-headers-rank1", ["starting", "rendezvous", "loading", "KV cache"]),
    ],
)
def test_recorded_logs(name: str, expected: list[str]) -> None:
    assert stages(recorded(name)) == expected


def test_the_head_starts_until_it_really_meets_the_others() -> None:
    """The dump of flags at its beginning names master_addr long before the rendezvous."""
    lines = recorded("tp2-rank0-served")
    dump = next(place for place, line in enumerate(lines) if "non-default args" in line)
    meeting = next(place for place, line in enumerate(lines) if "DP group leader" in line)
    assert dump < meeting
    assert stage_of(lines[:meeting]) == Stage(STARTING)
    assert stage_of(lines[: meeting + 1]) == Stage(RENDEZVOUS)


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("", Stage(STARTING)),
        ("non-default args: {'kv_cache_dtype': 'fp8', 'master_addr': '10.77.1.11', 'nnodes': 4}", Stage(STARTING)),
        ("Initializing a V1 LLM engine (v0.32.0) with config: model='x', kv_cache_dtype=fp8", Stage(STARTING)),
        ("Using fp8 data type to store kv cache. It reduces the GPU memory footprint", Stage(STARTING)),
        ("world_size=8 rank=3 local_rank=0 distributed_init_method=tcp://10.77.1.11:29501", Stage(RENDEZVOUS)),
        ("headless multiproc executor, with head node address 10.77.1.11:29501 for torch", Stage(RENDEZVOUS)),
        ("(Worker_TP3 pid=1) INFO Starting to load model deepseek...", Stage(LOADING)),
        ("Loading safetensors checkpoint shards:  45% Completed | 21/46", Stage(LOADING, 45)),
        ("Loading safetensors checkpoint shards: 100% Completed | 46/46", Stage(LOADING, 100)),
        ("Loading weights took 431.12 seconds", Stage(KV_CACHE)),
        ("GPU KV cache size: 1,004,544 tokens", Stage(KV_CACHE)),
        ("CPU KV cache size: 4,194,304 tokens", Stage(KV_CACHE)),
        ("Available KV cache memory: 9.51 GiB", Stage(KV_CACHE)),
        ("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  40%|####      | 6/15", Stage(GRAPHS, 40)),
        ("Capturing CUDA graphs (decode, FULL): 100%|##########| 15/15", Stage(GRAPHS, 100)),
        ("Graph capturing finished in 31 secs, took 1.22 GiB", Stage(GRAPHS)),
        ("torch.compile takes 61.3 s in total", Stage(GRAPHS)),
        ("INFO:     Application startup complete.", Stage(READY)),
        ("INFO:     Application shutdown complete.", Stage(STARTING)),
    ],
)
def test_lines(line: str, stage: Stage) -> None:
    assert stage_of([line]) == stage


def test_stages_only_advance() -> None:
    known = Stage(LOADING, 45)
    assert stage_of([], known) == known
    assert stage_of(["Loading safetensors checkpoint shards:   5% Completed"], known) == known
    assert stage_of(["Starting to load model x"], known) == known
    assert stage_of(["Loading safetensors checkpoint shards:  50% Completed"], known) == Stage(LOADING, 50)
    assert stage_of(["world_size=8 rank=3"], Stage(READY)) == Stage(READY)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n \n", []),
        ("a\n\nb\n", ["a", "b"]),
        ("\x1b[32mgreen\x1b[0m\n", ["green"]),
        ("shards:  0%\rshards: 50%\rshards: 100%\nnext\n", ["shards: 100%", "next"]),
        ("windows\r\nends\r\n", ["windows", "ends"]),
        ("    indented\n", ["    indented"]),
    ],
)
def test_clean_lines(text: str, lines: list[str]) -> None:
    assert clean_lines(text) == lines


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([Stage(READY)], "ready"),
        ([Stage(LOADING, 45)] * 8, "loading 45 % (all ranks)"),
        ([Stage(READY), Stage(KV_CACHE)], "ready (rank 0), KV cache (rank 1)"),
        (
            [*[Stage(LOADING, 45)] * 3, Stage(GRAPHS), Stage(LOADING, 45), Stage(STARTING), Stage(STARTING)],
            "loading 45 % (ranks 0-2, 4), graphs (rank 3), starting (ranks 5-6)",
        ),
    ],
)
def test_all_ranks_in_one_line(found: list[Stage], text: str) -> None:
    assert summarize(found) == text
