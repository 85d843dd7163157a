# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one rank was told to be, checked as vLLM checks it and as ranks of one node each must be."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from . import flag_kinds
from .command_line import CommandLine, Value


class LaunchError(Exception):
    """A command line that parses and makes no sense: vLLM ends with a traceback and exit code 1."""


@dataclass(frozen=True)
class Launch:
    """One rank of one serving run."""

    model: str
    flags: dict[str, Value]

    def number(self, name: str, default: int) -> int:
        """A whole number, as the parser left it."""
        value = self.flags.get(name, default)
        return value if isinstance(value, int) else default

    def text(self, name: str, default: str = "") -> str:
        """One word."""
        value = self.flags.get(name, default)
        return value if isinstance(value, str) else default

    def words(self, name: str) -> list[str]:
        """Several words; none if the flag is not there."""
        value = self.flags.get(name, [])
        return value if isinstance(value, list) else []

    @property
    def nodes(self) -> int:
        """Number of ranks."""
        return self.number("--nnodes", 1)

    @property
    def rank(self) -> int:
        """This one."""
        return self.number("--node-rank", 0)

    @property
    def tensor_parallel(self) -> int:
        """Ranks that share a layer."""
        return self.number("--tensor-parallel-size", 1)

    @property
    def world_size(self) -> int:
        """GPUs the flags ask for."""
        sizes = ("--pipeline-parallel-size", "--data-parallel-size", "--prefill-context-parallel-size")
        total = self.tensor_parallel
        for size in sizes:
            total *= self.number(size, 1)
        return total

    @property
    def headless(self) -> bool:
        """No HTTP here."""
        return self.flags.get("--headless") is True

    @property
    def master(self) -> tuple[str, int]:
        """Where the ranks meet."""
        return self.text("--master-addr", "127.0.0.1"), self.number("--master-port", 29501)

    @property
    def served_names(self) -> list[str]:
        """Names a request may use."""
        return self.words("--served-model-name") or [self.model]

    @property
    def max_model_len(self) -> int:
        """Longest sequence."""
        return self.number("--max-model-len", 32768)

    @property
    def timeout(self) -> int | None:
        """Seconds that ranks wait for each other, if the flags say so."""
        value = self.number("--distributed-timeout-seconds", 0)
        return value or None

    @property
    def shared_flags(self) -> dict[str, Value]:
        """All that every rank must have been given alike."""
        own = flag_kinds.RANKS_OWN
        return {"model": self.model, **{name: value for name, value in self.flags.items() if name not in own}}

    @property
    def digest(self) -> str:
        """Of the shared flags, whatever their order."""
        return hashlib.sha256(json.dumps(self.shared_flags, sort_keys=True).encode()).hexdigest()

    @property
    def process_name(self) -> str:
        """vLLM's name for the worker process of this rank."""
        tensor = self.tensor_parallel
        parts = ["Worker"]
        if self.number("--pipeline-parallel-size", 1) > 1:
            parts.append(f"PP{self.rank // tensor}")
        if tensor > 1:
            parts.append(f"TP{self.rank % tensor}")
        return "_".join(parts)


def _check_sizes(launch: Launch) -> None:
    if launch.world_size % launch.nodes:
        raise LaunchError(
            f"Invalid data-parallel launch options: `--nnodes {launch.nodes}` must evenly divide the total world size "
            f"({launch.world_size}). Adjust `--nnodes`, `--data-parallel-size`, `--pipeline-parallel-size`, "
            "`--tensor-parallel-size`, or `--prefill-context-parallel-size`."
        )
    if launch.world_size > launch.nodes:
        raise LaunchError(
            f"World size ({launch.world_size // launch.nodes}) is larger than the number of available GPUs (1) in this "
            "node. If this is intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n"
            "- multiprocessing, set '--nnodes' appropriately."
        )
    if launch.tensor_parallel % launch.number("--decode-context-parallel-size", 1):
        raise LaunchError(
            f"tp_size={launch.tensor_parallel} must be divisible by"
            f"dcp_size={launch.number('--decode-context-parallel-size', 1)}."
        )


def _check_rank(launch: Launch) -> None:
    if not 0 <= launch.rank < launch.nodes:
        raise LaunchError(
            f"Invalid data-parallel launch options: `--node-rank` must be between 0 and {launch.nodes - 1}; got "
            f"`--node-rank {launch.rank}`. Set it to this node's zero-based index."
        )
    if launch.headless != (launch.rank > 0):
        wanted = "must be headless" if launch.rank else "serves HTTP and must not be headless"
        raise LaunchError(f"--node-rank {launch.rank} {wanted}.")
    if launch.nodes > 1 and not ("--master-addr" in launch.flags and "--master-port" in launch.flags):
        raise LaunchError(f"--nnodes {launch.nodes} needs --master-addr and --master-port.")
    backend = launch.text("--distributed-executor-backend", "mp")
    if launch.nodes > 1 and backend not in ("mp", "uni", "external_launcher"):
        raise LaunchError(
            "nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher."
        )


def check(line: CommandLine) -> Launch:
    """Raises LaunchError with vLLM's own words where it has some."""
    launch = Launch(line.model or "Qwen/Qwen3-0.6B", line.flags)
    _check_rank(launch)
    _check_sizes(launch)
    memory = launch.flags.get("--gpu-memory-utilization", 0.9)
    if isinstance(memory, float) and not 0 < memory <= 1:
        raise LaunchError(f"GPU memory utilization must be less than 1.0. Got {memory}.")
    return launch
