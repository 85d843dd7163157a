# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine's log says of how far it is. Private to the collection.

The patterns are those of vLLM 0.32; tests hold them against recorded logs of the real engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

STARTING, RENDEZVOUS, LOADING, KV_CACHE, GRAPHS, READY = range(6)
NAMES = ("starting", "rendezvous", "loading", "KV cache", "graphs", "ready")
COLOR = re.compile(r"\x1b\[[0-9;]*m")
# The farthest line that matches tells the stage. The engine begins by listing its flags and its configuration, so that
# the names of flags (master_addr, kv_cache_dtype) must not match.
PATTERNS = (
    (RENDEZVOUS, re.compile(r"world_size=\d+ rank=\d+|DP group leader|head node address")),
    (LOADING, re.compile(r"Starting to load model|Loading safetensors checkpoint shards:\s*(?P<percent>\d+)%")),
    (KV_CACHE, re.compile(r"Loading weights took|Model loading took|[CG]PU KV cache size|Available KV cache memory")),
    (GRAPHS, re.compile(r"Capturing CUDA graphs?.*?(?P<percent>\d+)%|Graph capturing finished|torch\.compile takes")),
    (READY, re.compile(r"Application startup complete")),
)


@dataclass(frozen=True, order=True)
class Stage:
    """How far an engine is; ``percent`` is -1 where the log gives none."""

    step: int = STARTING
    percent: int = -1

    def __str__(self) -> str:
        return NAMES[self.step] + (f" {self.percent} %" if self.percent >= 0 else "")


def clean_lines(text: str) -> list[str]:
    """Return a log's lines without color and without empty ones; of a bar that redraws itself only its last state."""
    states = (line.rstrip("\r").rsplit("\r", 1)[-1].rstrip() for line in COLOR.sub("", text).split("\n"))
    return [state for state in states if state]


def stage_of(lines: list[str], known: Stage | None = None) -> Stage:
    """Return the stage that the lines tell, never less than the one known before."""
    stage = known or Stage()
    for line in lines:
        for step, pattern in PATTERNS:
            match = pattern.search(line)
            if match:
                percent = match.groupdict().get("percent")
                stage = max(stage, Stage(step, int(percent) if percent else -1))
    return stage


def summarize(stages: list[Stage]) -> str:
    """Return the stages of all ranks in one line, equal ones together: ``loading 45 % (ranks 0-2), ready (rank 3)``."""
    groups: dict[str, list[int]] = {}
    for rank, stage in enumerate(stages):
        groups.setdefault(str(stage), []).append(rank)
    if len(groups) == 1:
        return f"{next(iter(groups))} (all ranks)" if len(stages) > 1 else next(iter(groups))
    return ", ".join(f"{name} (rank{'s' if len(ranks) > 1 else ''} {_ranges(ranks)})" for name, ranks in groups.items())


def _ranges(ranks: list[int]) -> str:
    """Return ascending numbers with runs shortened: ``0-2, 5``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
