# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known causes of failure, told by lines of the engine's log. Private to the collection.

Each is a line that has been seen where it happened, with what helped.
"""

from __future__ import annotations

import re

CAUSES = (
    (
        r"Python\.h: No such file|Failed to find C compiler|InvalidCxxCompiler|No such file.*g\+\+",
        (
            "the image lacks a C++ compiler or the Python headers (Python.h) that compiling kernels needs; "
            "install g++ and python3-dev in the image, or set TORCHDYNAMO_DISABLE=1 in the recipe's [env]"
        ),
    ),
    (
        r"unrecognized arguments",
        (
            "the engine does not know a flag; the recipe may be for another version of it, "
            "or the image's entrypoint adds flags of its own: then set entrypoint in the recipe"
        ),
    ),
    (
        r"Free memory on device .* is less than desired",
        (
            "another process or the page cache holds memory that the engine wants; "
            "stop it, run provision.yml, or lower --gpu-memory-utilization"
        ),
    ),
    (
        r"out of memory|OutOfMemoryError|Cannot allocate memory \(12\).*ibv_reg_mr",
        ("memory ran out; lower --gpu-memory-utilization, --max-model-len or --max-num-seqs"),
    ),
    (
        r"ibv_reg_mr.*(ENOMEM|failed)|Call to ibv_reg_mr",
        (
            "memory could not be pinned for RDMA; run provision.yml (role memlock), "
            "and compare CmaFree with CmaTotal in /proc/meminfo"
        ),
    ),
    (
        r"unhandled system error|ncclSystemError",
        ("NCCL lost the fabric: provision.yml --check --tags fabric shows GID indexes, MTU and state of the links"),
    ),
    (
        r"No available memory for the cache blocks|larger than the available KV cache memory",
        ("no room is left for the KV cache; raise --gpu-memory-utilization or lower --max-model-len"),
    ),
    (
        r"DistStoreError|Timed out.*clients joined|rendezvous.*timeout",
        ("not all ranks met within the time limit; look at the log of the rank that is missing"),
    ),
    (r"Address already in use", "a port of the engine is taken; set serve_port or serve_master_port to another one"),
    (
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|is not a local folder and is not a valid model",
        ("the model's files are incomplete on this node"),
    ),
)


def cause_of(lines: list[str]) -> str:
    """Return the known cause that a log's lines tell, with its cure; empty when none is known."""
    text = "\n".join(lines)
    return next((cause for pattern, cause in CAUSES if re.search(pattern, text, re.IGNORECASE)), "")
