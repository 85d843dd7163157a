# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes that a log tells, with their cure: lines from recorded failures, and silence where nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._log_causes import CAUSES, cause_of
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._log_stages import clean_lines
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._rank_state import TAIL

LOGS = Path(__file__).parents[4] / "tests" / "real" / "logs"
COMPILER = (
    "the image lacks a C++ compiler or the Python headers (Python.h) that compiling kernels needs; "
    "install g++ and python3-dev in the image, or set TORCHDYNAMO_DISABLE=1 in the recipe's [env]"
)


def recorded(name: str) -> list[str]:
    return clean_lines((LOGS / f"{name}.log").read_text(encoding="utf-8"))


def test_python_headers_are_missing() -> None:
    # Only the end of a log is looked at while it runs, and the cause stands in it.
    assert cause_of(recorded("no-python-headers-rank0")[-TAIL:]) == COMPILER


@pytest.mark.parametrize("name", ["single-ready", "tp2-rank0-served", "tp2-rank1-served", "no-python-headers-rank1"])
def test_nothing_is_said_of_a_healthy_log(name: str) -> None:
    assert cause_of(recorded(name)) == ""


@pytest.mark.parametrize(
    ("line", "beginning"),
    [
        (
            "RuntimeError: Failed to find C compiler. Please specify via CC.",
            "the image lacks a C++",
        ),
        (
            "InvalidCxxCompiler: No working C++ compiler found in torch._inductor",
            "the image lacks a C++",
        ),
        ("vllm: error: unrecognized arguments: --dcp-comm-backend ag_rs", "the engine does not know a flag"),
        (
            "ValueError: Free memory on device cuda:0 (98.1/121.6 GiB) on startup is less than desired GPU memory",
            "another process or the page cache holds memory",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "memory ran out"),
        (
            "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate",
            "memory could not be pinned for RDMA",
        ),
        ("ncclUnhandledCudaError: unhandled system error, NCCL version 2.27", "NCCL lost the fabric"),
        ("ValueError: No available memory for the cache blocks.", "no room is left for the KV cache"),
        (
            "torch.distributed.DistStoreError: Timed out after 601 seconds, 7/8 clients joined.",
            "not all",
        ),
        ("OSError: [Errno 98] Address already in use", "a port of the engine is taken"),
        ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files", "the model's files are"),
    ],
)
def test_lines(line: str, beginning: str) -> None:
    cause = cause_of(["something before", line, "something after"])
    assert cause.startswith(beginning)


@pytest.mark.parametrize("cause", [cause for _pattern, cause in CAUSES])
def test_causes_fit_into_a_message(cause: str) -> None:
    assert "\n" not in cause
    assert not cause.endswith(".")


def test_no_lines() -> None:
    assert cause_of([]) == ""
