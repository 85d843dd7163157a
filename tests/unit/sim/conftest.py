# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks of the stand-in engine as real processes on loopback addresses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SIM = Path(__file__).resolve().parents[2] / "sim"
sys.path[:0] = [str(SIM / "engine"), str(SIM / "node")]


class Answer(NamedTuple):
    """What HTTP said."""

    code: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def environment(folder: Path, **more: str) -> dict[str, str]:
    """No Spark's settings, no key of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "HF_"))}
    return {**kept, "HF_HOME": str(folder), "PYTHONPATH": str(SIM / "engine"), **more}


@dataclass
class Ranks:
    """One serving run: rank r at 127.0.0.(r+1), all with one script of failures."""

    folder: Path
    master_port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def script(self, *faults: dict[str, Any]) -> None:
        """Written aside and moved, so that no rank reads half of it."""
        path = self.folder / "stand-in.json"
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(faults), encoding="utf-8")
        aside.rename(path)

    def start(self, rank: int, nodes: int, *flags: str, name: int | None = None, **env: Any) -> None:
        """`name` keeps two processes of one rank apart."""
        words = ["--tensor-parallel-size", str(nodes), "--distributed-executor-backend", "mp"]
        if nodes > 1:
            words += ["--nnodes", str(nodes), "--node-rank", str(rank), "--master-addr", "127.0.0.1"]
            words += ["--master-port", str(self.master_port)]
        words += ["--headless"] if rank else ["--host", "127.0.0.1", "--port", str(self.http_port)]
        self.run(name if name is not None else rank, ["m/x", *words, *flags], VLLM_HOST_IP=f"127.0.0.{rank + 1}", **env)

    def run(self, name: int, words: list[str], **env: str) -> None:
        with self.log_file(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "stand_in", "serve", *words],
                env={**environment(self.folder), **env},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start_all(self, nodes: int, *flags: str, **env: Any) -> None:
        for rank in range(nodes):
            self.start(rank, nodes, *flags, **env)

    def log_file(self, name: int) -> Path:
        return self.folder / f"{name}.log"

    def log(self, name: int) -> str:
        return self.log_file(name).read_text(encoding="utf-8")

    def code(self, name: int, seconds: float = 30) -> int:
        """The exit code; fails when the process still runs."""
        return self.processes[name].wait(seconds)

    def running(self, name: int) -> bool:
        return self.processes[name].poll() is None

    def http(self, path: str, body: object = None, key: str = "", seconds: float = 30) -> Answer:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}{path}", data)
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode())

    def complete(self, seconds: float = 30) -> Answer:
        """The canary."""
        return self.http("/v1/completions", {"prompt": "hi", "max_tokens": 1}, seconds=seconds)

    def wait_for(self, text: str, name: int = 0, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.log(name):
            assert time.monotonic() < deadline, f"{text!r} did not come:\n{self.log(name)}"
            time.sleep(0.02)

    def ready(self) -> None:
        self.wait_for("Application startup complete.")

    def kill(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    group = Ranks(tmp_path)
    yield group
    group.kill()


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """Three healthy ranks that tests only ask."""
    group = Ranks(tmp_path_factory.mktemp("serving"))
    group.start_all(3, "--served-model-name", "spark", "other", "--max-model-len", "4K")
    group.ready()
    yield group
    group.kill()
