# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages between rendezvous and ready, told by log lines of vLLM's shape."""

from __future__ import annotations

import time

from .faults import Faults
from .group import Group
from .journal import ENGINE, Journal
from .launch import Launch

_SHARDS = 11
_GRAPHS = 8
_PAUSE = 0.01
# Docker reads bars (stderr) and lines (stdout) by turns; what comes within this time may change places in its log.
_APART = 0.1
_KV_GIB = 9.5
_KV_TOKENS = 1_001_472


def _load(launch: Launch, journal: Journal, faults: Faults) -> None:
    journal.say("gpu_model_runner.py:5040", f"Starting to load model {launch.model}...")
    for done in range(_SHARDS + 1):
        # As with vLLM, rank 0 alone shows bars.
        if launch.rank == 0:
            rate = "?it/s" if done == 0 else f"{1 / _PAUSE:.2f}it/s"
            journal.progress(
                f"Loading safetensors checkpoint shards: {done * 100 / _SHARDS:3.0f}% Completed | {done}/{_SHARDS} "
                f"[00:00<{'?' if done == 0 else '00:00'}, {rate}]"
            )
        if done == _SHARDS // 2:
            faults.at("loading")
        time.sleep(_PAUSE)
    journal.say("default_loader.py:502", f"Loading weights took {_SHARDS * _PAUSE:.2f} seconds")
    journal.say("gpu_model_runner.py:5150", f"Model loading took 83.11 GiB memory and {_SHARDS * _PAUSE:.6f} seconds")


def _make_kv_cache(launch: Launch, journal: Journal, faults: Faults) -> None:
    journal.say("gpu_worker.py:760", f"Available KV cache memory: {_KV_GIB} GiB")
    faults.at("kv_cache")
    if launch.rank == 0:
        length = launch.max_model_len if launch.max_model_len > 0 else _KV_TOKENS
        journal.say(
            "kv_cache_utils.py:2327",
            f"GPU KV cache size: {_KV_TOKENS:,} tokens, Maximum concurrency for {length:,} tokens per request: "
            f"{_KV_TOKENS / length:.2f}x",
            ENGINE,
        )
    time.sleep(_APART)


def _capture_graphs(launch: Launch, journal: Journal, faults: Faults) -> None:
    for done in range(_GRAPHS + 1):
        if launch.rank == 0:
            blocks = "█" * (done * 10 // _GRAPHS)
            journal.progress(
                f"Capturing CUDA graphs (decode, FULL): {done * 100 // _GRAPHS:3d}%|{blocks:<10}| {done}/{_GRAPHS} "
                f"[00:00<00:00, {1 / _PAUSE:.2f}it/s]"
            )
        if done == _GRAPHS // 2:
            faults.at("graphs")
        time.sleep(_PAUSE)
    journal.say("gpu_model_runner.py:6582", "Graph capturing finished in 0 secs, took 0.62 GiB")


def boot(launch: Launch, journal: Journal, faults: Faults, group: Group) -> None:
    """Stage by stage, every rank through one before any starts the next."""
    started = time.monotonic()
    _load(launch, journal, faults)
    group.barrier("loading")
    _make_kv_cache(launch, journal, faults)
    group.barrier("kv_cache")
    _capture_graphs(launch, journal, faults)
    group.barrier("graphs")
    if launch.rank == 0:
        seconds = time.monotonic() - started
        journal.say("core.py:403", f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} s", ENGINE)
