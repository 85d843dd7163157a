# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/proc/meminfo of an idle Spark: 121.6 GiB in all, about 115 GiB available, no CMA trouble."""

from __future__ import annotations

from pathlib import Path

KIB = {
    "MemTotal": 127535104,
    "MemFree": 118489088,
    "MemAvailable": 120586240,
    "Buffers": 262144,
    "Cached": 2359296,
    "SwapCached": 0,
    "Active": 4194304,
    "Inactive": 5242880,
    "Mlocked": 0,
    "SwapTotal": 16777212,
    "SwapFree": 16777212,
    "Dirty": 128,
    "AnonPages": 2097152,
    "Mapped": 524288,
    "Shmem": 419430,
    "Slab": 1048576,
    "CommitLimit": 80544764,
    "Committed_AS": 6291456,
    "CmaTotal": 131072,
    "CmaFree": 98304,
}


def write(root: Path) -> None:
    """One line a value, aligned as the kernel aligns them."""
    path = root / "proc" / "meminfo"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name + ':':<15}{value:>9} kB" for name, value in KIB.items()]
    lines += ["HugePages_Total:       0", "HugePages_Free:        0"]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
