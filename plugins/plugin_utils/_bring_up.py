# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start ranks in order and watch all of them until the head really answers. Private to the collection.

Ansible-free: connections, clock and display are handed in.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._log_causes import cause_of
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._log_stages import READY, Stage, summarize
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._rank_state import (
    Observation,
    excerpt,
    observe_words,
    read_observation,
)

TICK = 0.2
START_PATIENCE = 30.0
# Looks are frequent at first and rarer as time goes on: a boot with weights takes 10 to 18 minutes.
LOOK_EVERY, LOOK_AT_LEAST_EVERY, SLOWER_PER_SECOND = 0.5, 2.0, 0.02
PROBE_EVERY = 10.0
HEARTBEAT = 30.0
# The first sign of a failure is seldom its cause: the head answers HTTP 500 before the dead worker has been looked at.
SETTLE = 2.0
# An SSH connection may stall for a while on a node that swaps; a rank is not dead for that.
UNREACHED_LIMIT = 90.0
# A thread that is in the middle of showing something when the process ends takes along the lock that every later task
# shows something under. One that hangs in a node that swaps shows nothing any more, and is left behind.
LEAVE_PATIENCE = 3.0


class Connection(Protocol):
    """What watching needs of a node's connection."""

    python: str

    def run(self, words: list[str], stdin: bytes | None = None) -> Any:
        """Run a command on the node."""


class BringUpError(Exception):
    """The set did not come up; ``str()`` says which rank on which node, how, and shows its last lines."""


@dataclass(frozen=True)
class Order:
    """What to bring up. Times are seconds."""

    recipe: str
    ranks: list[dict[str, Any]]
    base: str
    names: list[str]
    probe: str
    api_key: str
    timeout: float
    canary_timeout: float


@dataclass
class Progress:
    """What the watching threads know, under one lock."""

    observations: dict[int, Observation] = field(default_factory=dict)
    unreached_since: dict[int, float] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    refusal: str = ""
    started: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)


class BringUp:
    """One run from created containers to a canary that answers."""

    def __init__(
        self,
        order: Order,
        connections: Mapping[str, Connection],
        asking: Connection,
        show: Callable[[str], None],
    ) -> None:
        """``asking`` is a second connection to the head: a connection is for one thread at a time."""
        self._order = order
        self._connections = connections
        self._asking = asking
        self._show = show
        self._progress = Progress()
        self._watchers: list[threading.Thread] = []
        self._began = time.monotonic()

    def run(self) -> dict[str, float]:
        """Start, watch, and return the seconds each phase took.

        Raises:
            BringUpError: a rank did not start, ended or went out of reach, the head answered wrongly, or time is up.
        """
        starter = threading.Thread(target=self._start_in_order, daemon=True)
        asker = threading.Thread(target=self._ask_head, daemon=True)
        for thread in (starter, asker):
            thread.start()
        try:
            answer = self._wait()
        finally:
            self._progress.stop.set()
            # No rank may start any more once the set is being taken down; one that hangs in its start is left behind.
            starter.join(START_PATIENCE)
            deadline = time.monotonic() + LEAVE_PATIENCE
            for thread in (asker, *self._watchers):
                thread.join(max(0.0, deadline - time.monotonic()))
        started = self._progress.started
        return {
            "start": round(started, 1),
            "ready": round(self._elapsed() - started - answer["seconds"], 1),
            "canary": round(answer["seconds"], 1),
        }

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _start_in_order(self) -> None:
        """Start one rank after the other, each watched from then on: the first may fail before the last has started."""
        progress = self._progress
        for rank in self._order.ranks:
            if progress.stop.is_set():
                return
            with progress.lock:
                progress.unreached_since.setdefault(rank["rank"], time.monotonic())
            answer = self._connections[rank["node"]].run(["docker", "start", rank["container"]])
            with progress.lock:
                progress.unreached_since.pop(rank["rank"], None)
            if not answer.ok:
                with progress.lock:
                    progress.refusal = (
                        f"{self._order.recipe} did not come up: rank {rank['rank']} on {rank['node']} could not be"
                        f" started.\n  Docker says: {answer.stderr}"
                    )
                return
            self._watchers.append(threading.Thread(target=self._watch, args=(rank,), daemon=True))
            self._watchers[-1].start()
        progress.started = self._elapsed()

    def _watch(self, rank: dict[str, Any]) -> None:
        """Look at one rank again and again, until told to stop."""
        number, progress = rank["rank"], self._progress
        while not progress.stop.is_set():
            with progress.lock:
                known = progress.observations.get(number, Observation()).stage
                # From the question on: on a node that swaps the answer may never come, not even as an error.
                progress.unreached_since.setdefault(number, time.monotonic())
            answer = self._connections[rank["node"]].run(observe_words(rank["container"]))
            with progress.lock:
                if answer.reached:
                    progress.unreached_since.pop(number, None)
                    progress.observations[number] = self._read(answer, known)
            progress.stop.wait(min(LOOK_EVERY + SLOWER_PER_SECOND * self._elapsed(), LOOK_AT_LEAST_EVERY))

    @staticmethod
    def _read(answer: Any, known: Stage) -> Observation:
        """Return what an answer says. A rank whose answer says nothing readable does not count as alive."""
        if not answer.ok:
            return Observation(error=answer.stderr or answer.text.strip())
        try:
            return read_observation(answer.text, known)
        except (ValueError, KeyError) as error:
            return Observation(error=f"Docker's answer cannot be read: {error}")

    def _ask_head(self) -> None:
        """Ask the head once its log says that it is ready, and now and then in case the log does not say so."""
        order, progress = self._order, self._progress
        question = {
            "base": order.base,
            "names": order.names,
            "key": order.api_key,
            "canary_timeout": order.canary_timeout,
        }
        # The program travels on standard input, so that the key in it stands in no process list.
        program = f"{order.probe}\nprint(json.dumps(probe(**json.loads({json.dumps(question)!r}))))\n".encode()
        last = time.monotonic()
        while not progress.stop.is_set():
            with progress.lock:
                ready = progress.observations.get(0, Observation()).stage.step == READY
            if ready or time.monotonic() - last > PROBE_EVERY:
                last = time.monotonic()
                answer = self._asking.run([self._asking.python, "-"], program)
                with progress.lock:
                    progress.answer = self._answer_of(answer)
            progress.stop.wait(TICK)

    @staticmethod
    def _answer_of(answer: Any) -> dict[str, Any]:
        """Return what the probe found, or why it could not run, which only matters if time runs out."""
        if answer.ok:
            try:
                found: dict[str, Any] = json.loads(answer.text.strip().splitlines()[-1])
            except (ValueError, IndexError):
                return {"error": "its Python answered something unreadable"}
            return found
        return {"error": f"it could not be asked: {answer.stderr or 'no reason given'}"}

    def _wait(self) -> dict[str, Any]:
        """Wait for the canary, showing every change, and fail soon after anything says that it will not come."""
        shown, shown_at, wrong_since = "", 0.0, math.inf
        while True:
            with self._progress.lock:
                observations = dict(self._progress.observations)
                unreached = dict(self._progress.unreached_since)
                answer = dict(self._progress.answer)
            now = summarize([observations.get(rank["rank"], Observation()).stage for rank in self._order.ranks])
            if now != shown or self._elapsed() - shown_at > HEARTBEAT:
                shown, shown_at = now, self._elapsed()
                self._show(f"  {self._elapsed():4.0f} s  {now}")
            wrong = self._what_is_wrong(observations, unreached, answer)
            wrong_since = min(wrong_since, self._elapsed()) if wrong else math.inf
            if self._elapsed() - wrong_since > SETTLE:
                raise BringUpError(wrong)
            if not wrong and answer.get("canary") == "ok" and len(observations) == len(self._order.ranks):
                return answer
            if self._elapsed() > self._order.timeout:
                raise BringUpError(self._timeout_message(now, answer, observations))
            time.sleep(TICK)

    def _what_is_wrong(
        self, observations: dict[int, Observation], unreached: dict[int, float], answer: dict[str, Any]
    ) -> str:
        """Return why the set will not come up, empty while it may. Ranks go first: a dead one also spoils the head."""
        ended = [number for number, seen in observations.items() if not seen.running]
        if ended:
            # The rank that ended first is the likeliest cause; the others follow it down.
            return self._rank_message(
                min(ended, key=lambda number: (observations[number].finished, number)), observations
            )
        if self._progress.refusal:
            return self._progress.refusal
        for number, since in unreached.items():
            if time.monotonic() - since > UNREACHED_LIMIT:
                node = self._order.ranks[number]["node"]
                return (
                    f"{self._order.recipe} did not come up: {node} (rank {number}) has been out of reach"
                    f" for {UNREACHED_LIMIT:.0f} s.\n  cure: a node that ran out of memory answers ping but not SSH:"
                    " power-cycle it, and lower --gpu-memory-utilization"
                )
        if answer.get("canary") == "failed" or (answer.get("models") and answer.get("error")):
            return self._head_message(answer["error"], observations)
        return ""

    def _timeout_message(self, now: str, answer: dict[str, Any], observations: dict[int, Observation]) -> str:
        return (
            f"{self._order.recipe} did not come up within {self._order.timeout:.0f} s: {now}."
            + (f"\n  The head: {answer['error']}" if answer.get("error") else "")
            + self._log_block(0, observations)
            + "\n  cure: give it longer with -e serve_timeout=..., if the log shows that it was still loading"
        )

    def _rank_message(self, number: int, observations: dict[int, Observation]) -> str:
        rank, seen = self._order.ranks[number], observations[number]
        others = [other for other, entry in observations.items() if other != number and not entry.running]
        also = f"\n  Also ended: rank {', '.join(str(other) for other in sorted(others))}." if others else ""
        return (
            f"{self._order.recipe} did not come up: rank {number} on {rank['node']} {seen.ending}"
            f" after {self._elapsed():.0f} s, at the stage {seen.stage}."
            + also
            + self._cause(observations)
            + self._log_block(number, observations)
        )

    def _head_message(self, error: str, observations: dict[int, Observation]) -> str:
        return (
            f"{self._order.recipe} did not come up: every rank runs, but the head does not serve."
            f"\n  The head: {error}" + self._cause(observations) + self._log_block(0, observations)
        )

    def _cause(self, observations: dict[int, Observation]) -> str:
        cause = next(filter(None, (cause_of(observations[number].lines) for number in sorted(observations))), "")
        return f"\n  Likely cause: {cause}" if cause else ""

    def _log_block(self, number: int, observations: dict[int, Observation]) -> str:
        lines = observations[number].lines if number in observations else []
        node = self._order.ranks[number]["node"]
        return "\n".join([f"\n  Last lines of rank {number} on {node}:", *excerpt(lines)])
