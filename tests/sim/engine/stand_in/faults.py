# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures scripted from outside by stand-in.json in the model cache, read anew at every stage and completion."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .journal import ENGINE, Journal

STAGES = ("start", "rendezvous", "loading", "kv_cache", "graphs", "ready", "serving")
ACTIONS = ("exit", "hang", "slow", "oom")
_BAD_SCRIPT = 70


class EngineDeadError(Exception):
    """The head's engine failed while it served: requests get HTTP 500, then the process ends with this code."""

    def __init__(self, code: int) -> None:
        super().__init__("EngineCore encountered an issue. See stack trace (above) for the root cause.")
        self.code = code


@dataclass(frozen=True)
class Fault:
    """One entry of the script."""

    stage: str
    action: str
    rank: int | None
    code: int | None
    seconds: float
    message: str


def cache_folder() -> Path:
    """Where the model cache is mounted in the container."""
    return Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")


def _fault(entry: Any) -> Fault:
    if not isinstance(entry, dict):
        raise TypeError(f"an entry must be an object, found {entry!r}")
    unknown = set(entry) - {"rank", "stage", "action", "code", "seconds", "message"}
    if unknown or entry.get("stage") not in STAGES or entry.get("action") not in ACTIONS:
        raise ValueError(f"stages are {', '.join(STAGES)}; actions are {', '.join(ACTIONS)}; found {entry}")
    return Fault(
        stage=entry["stage"],
        action=entry["action"],
        rank=entry.get("rank"),
        code=entry.get("code"),
        seconds=float(entry.get("seconds", 1)),
        message=str(entry.get("message", f"scripted failure while {entry['stage']}")),
    )


class Faults:
    """The script as one rank sees it."""

    def __init__(self, path: Path, rank: int, journal: Journal) -> None:
        self.path = path
        self.rank = rank
        self.journal = journal

    def _read(self) -> list[Fault]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        try:
            script = json.loads(text)
            return [_fault(entry) for entry in (script if isinstance(script, list) else [script])]
        except (ValueError, TypeError) as error:
            self.journal.fail("stand-in.json:1", f"cannot be followed: {error}")
            os._exit(_BAD_SCRIPT)

    def find(self, stage: str) -> Fault | None:
        """The first entry for this rank and stage; one without a rank is for all."""
        for fault in self._read():
            if fault.stage == stage and fault.rank in (None, self.rank):
                return fault
        return None

    def at(self, stage: str) -> None:
        """Do what the script says for this stage; comes back unless it says exit or hang."""
        fault = self.find(stage)
        if fault:
            self._perform(fault)

    def _perform(self, fault: Fault) -> None:
        if fault.action == "slow":
            time.sleep(fault.seconds)
        elif fault.action == "hang":
            while True:
                time.sleep(3600)
        else:
            self._die(fault)

    def _die(self, fault: Fault) -> None:
        serving = fault.stage in ("ready", "serving")
        if fault.action == "oom":
            text = (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            )
            text += "121.63 GiB of which 1.04 GiB is free."
        else:
            text = f"RuntimeError: {fault.message}"
        if self.rank == 0:
            what = "EngineCore encountered a fatal error." if serving else "EngineCore failed to start."
            self.journal.fail("core.py:1512", what, ENGINE)
        self.journal.traceback(text, ENGINE if self.rank == 0 else None)
        if self.rank == 0 and serving:
            raise EngineDeadError(fault.code if fault.code is not None else 0)
        if self.rank == 0:
            self.journal.traceback(
                "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
                "APIServer",
            )
        os._exit(fault.code if fault.code is not None else 1)
