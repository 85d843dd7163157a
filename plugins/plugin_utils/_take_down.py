# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Save what ranks leave behind, and take them down, the head first. Private to the collection.

Ansible-free: connections are handed in. What fails on one node never keeps the others from being served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._rank_state import redact, redacted_inspect

# The engine's logs may be as large as Docker keeps them; this many lines hold any start and its end.
LOG_LINES = 100_000
# A container whose rank label is gone goes with the workers.
UNNUMBERED = -1
FIELDS = 4
FILE_MODE = 0o600
FOLDER_MODE = 0o700

Rank = Mapping[str, Any]
OnAll = Callable[[Mapping[str, Any], Callable[[str], Any]], dict[str, Any]]


class Connection(Protocol):
    """What taking down needs of a node's connection."""

    def run(self, words: list[str], stdin: bytes | None = None) -> Any:
        """Run a command on the node."""


LIST = [
    *("docker", "ps", "--all", "--filter", "label=dgxspark.vllm.recipe", "--format"),
    "\t".join(
        ["{{.Names}}", *('{{.Label "dgxspark.vllm.%s"}}' % name for name in ("recipe", "rank", "run"))]  # noqa: UP031
    ),
]


class TakeDown:
    """The collection's containers on some nodes, and the way to them."""

    def __init__(self, connections: Mapping[str, Connection], on_all: OnAll) -> None:
        self._connections = connections
        self._on_all = on_all
        self.errors: list[str] = []

    def find(self, recipes: list[str], runs: list[str]) -> list[Rank]:
        """Return the containers of some recipes, or of some runs; all of them when both lists are empty.

        They come by recipe, rank and node. A node that cannot be asked is an error, and the others still count.
        """
        answers = self._on_all(self._connections, lambda node: self._connections[node].run(LIST))
        found: list[Rank] = []
        for node, answer in answers.items():
            if not answer.ok:
                reason = " ".join(answer.stderr.split()) or f"exit code {answer.rc}"
                self.errors.append(f"{node} could not be asked for its containers: {reason}")
                continue
            for line in answer.text.splitlines():
                # Whatever else the program prints is no container.
                if line.count("\t") != FIELDS - 1:
                    continue
                container, recipe, rank, run = line.strip("\r").split("\t")
                if not (recipes or runs) or recipe in recipes or run in runs:
                    number = int(rank) if rank.isdigit() else UNNUMBERED
                    found.append({"recipe": recipe, "rank": number, "node": node, "container": container})
        return sorted(found, key=lambda rank: (rank["recipe"], rank["rank"], rank["node"]))

    def save_states(self, ranks: list[Rank], folder: Path, secrets: list[str]) -> list[str]:
        """Write every rank's redacted description into ``folder`` and return the files' paths."""
        saved = []
        for rank, inspect in zip(ranks, self._each(ranks, ["docker", "container", "inspect"]), strict=True):
            path = folder / f"{rank['container']}-{rank['node']}.inspect.json"
            if inspect.ok:
                saved += self._write(path, redacted_inspect(inspect.text, secrets))
            else:
                self._failed(rank, "could not be described", inspect)
        return saved

    def save_logs(self, ranks: list[Rank], folder: Path, secrets: list[str], lines: int = LOG_LINES) -> list[str]:
        """Write every rank's log into ``folder`` and return the files' paths."""
        saved = []
        words = ["sh", "-c", 'docker logs --tail "$0" "$1" 2>&1', str(lines)]
        for rank, log in zip(ranks, self._each(ranks, words), strict=True):
            path = folder / f"{rank['container']}-{rank['node']}.log"
            if log.ok:
                saved += self._write(path, redact(log.text, secrets))
            else:
                self._failed(rank, "could not give its log", log)
        return saved

    def stop(self, ranks: list[Rank]) -> None:
        """Stop the head, so that no request is taken any more, then all workers at once."""
        for group in ([rank for rank in ranks if rank["rank"] == 0], [rank for rank in ranks if rank["rank"] != 0]):
            for rank, answer in zip(group, self._each(group, ["docker", "stop"]), strict=True):
                if not answer.ok:
                    self._failed(rank, "could not be stopped", answer)

    def remove(self, ranks: list[Rank]) -> None:
        """Remove the containers, running or not."""
        for rank, answer in zip(ranks, self._each(ranks, ["docker", "rm", "--force"]), strict=True):
            if not answer.ok and "no such" not in answer.stderr.lower():
                self._failed(rank, "could not be removed", answer)

    def _each(self, ranks: list[Rank], words: list[str]) -> list[Any]:
        """Run a command on every rank's node at once, its container's name last; several may stand on one node."""
        by_container = {rank["container"] + "@" + rank["node"]: rank for rank in ranks}

        def work(key: str) -> Any:
            rank = by_container[key]
            return self._connections[rank["node"]].run([*words, rank["container"]])

        return list(self._on_all(by_container, work).values())

    def _failed(self, rank: Rank, what: str, answer: Any) -> None:
        reason = " ".join(answer.stderr.split()) or f"exit code {answer.rc}"
        self.errors.append(f"rank {rank['rank']} on {rank['node']} ({rank['container']}) {what}: {reason}")

    def _write(self, path: Path, text: str) -> list[str]:
        """Write a file that only its owner can read; a disk that refuses it must not keep ranks alive."""
        try:
            path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            path.touch(mode=FILE_MODE)
            path.chmod(FILE_MODE)  # it may have stood there before
            path.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            self.errors.append(f"{path} could not be written: {error.strerror or error}")
            return []
        return [str(path)]
