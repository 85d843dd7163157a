# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks once they are together: barriers while they boot, steps while they serve, hanging when one is gone."""

from __future__ import annotations

import threading
import time
from typing import NoReturn, Protocol

from .faults import EngineDeadError, Faults
from .journal import ENGINE, Journal
from .launch import Launch
from .links import Link
from .rendezvous import DEFAULT_TIMEOUT, Meeting

# NCCL takes the head down about six minutes after a rank stopped answering.
STEP_TIMEOUT = 360


class BootTimeoutError(Exception):
    """A rank did not come through a stage in time."""


class Group(Protocol):
    """What booting and serving need of the other ranks."""

    def barrier(self, stage: str) -> None:
        """Wait until every rank is through the stage."""

    def step(self) -> None:
        """One forward pass of all ranks."""


def live_on() -> NoReturn:
    """A rank that lost its head keeps its memory and waits; only a signal ends it."""
    while True:
        time.sleep(3600)


class Alone:
    """One node: nobody to wait for."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def barrier(self, stage: str) -> None:
        """Nobody to wait for."""

    def step(self) -> None:
        """Only the script can get in the way."""
        self._faults.at("ready")
        self._faults.at("serving")


class Head:
    """Rank 0. It does not watch the others: one that died is noticed only by an answer that never comes."""

    def __init__(
        self, launch: Launch, journal: Journal, faults: Faults, meeting: Meeting, queues: dict[int, Link]
    ) -> None:
        self._launch = launch
        self._journal = journal
        self._faults = faults
        self._meeting = meeting
        self._queues = queues
        self._turn = threading.Lock()

    def _hear(self, word: str, deadline: float) -> None:
        """The word from every rank; TimeoutError when one keeps silent, dead or not."""
        for link in self._queues.values():
            message = link.receive(max(deadline - time.monotonic(), 0.01))
            if message is None or word not in message or self._meeting.stale.is_set():
                time.sleep(max(deadline - time.monotonic(), 0))
                raise TimeoutError

    def _tell(self, word: str) -> None:
        for link in self._queues.values():
            link.send({word: True})

    def barrier(self, stage: str) -> None:
        """Hang as a collective does when a rank is missing."""
        limit = self._launch.timeout or DEFAULT_TIMEOUT
        try:
            self._hear(f"done {stage}", time.monotonic() + limit)
        except TimeoutError:
            raise BootTimeoutError(
                f"torch.distributed.DistBackendError: [Rank 0] Watchdog caught collective operation timeout: ran for "
                f"{limit * 1000} milliseconds before timing out."
            ) from None
        self._tell(f"go {stage}")

    def step(self) -> None:
        """All ranks or none: hangs when one is gone or a stranger joined, and dies of it in the end."""
        limit = self._launch.timeout or STEP_TIMEOUT
        deadline = time.monotonic() + limit
        with self._turn:
            self._faults.at("ready")
            self._faults.at("serving")
            try:
                self._tell("step")
                self._hear("stepped", deadline)
            except TimeoutError:
                self._journal.fail("core.py:1512", "EngineCore encountered a fatal error.", ENGINE)
                self._journal.traceback(f"TimeoutError: RPC call to execute_model timed out after {limit} s.", ENGINE)
                raise EngineDeadError(0) from None


class Worker:
    """A rank without HTTP: does what rank 0 says, and outlives it."""

    def __init__(self, faults: Faults, queue: Link) -> None:
        self._faults = faults
        self._queue = queue

    def barrier(self, stage: str) -> None:
        """Report and wait."""
        self._queue.send({f"done {stage}": True})
        if self._queue.receive() is None:
            live_on()

    def step(self) -> None:
        """One pass, when rank 0 asks for it."""
        if self._queue.receive() is None:
            live_on()
        self._faults.at("ready")
        self._faults.at("serving")
        self._queue.send({"stepped": True})
