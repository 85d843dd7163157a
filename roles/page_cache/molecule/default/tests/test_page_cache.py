# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is like whose page cache was dropped."""

from __future__ import annotations

from testinfra.host import Host


def test_kernel_was_told(host: Host) -> None:
    assert host.file("/sim/proc/sys/vm/drop_caches").content_string == "3\n"
    assert "MemFree: 119799808 kB" in host.file("/sim/proc/meminfo").content_string


def test_read_only_file_is_told(host: Host) -> None:
    with host.sudo():
        refusal = host.file("/root/read-only.txt").content_string
    assert refusal == (
        'dgx1 does not take "3" at /proc/sys/vm/drop_caches '
        "(/bin/sh: 1: cannot create /proc/sys/vm/drop_caches: Read-only file system). "
        "Its page cache holds 7.6 GiB. In a container drop it on the host; page_cache_drop_path names another file."
    )


def test_drop_without_effect_is_told(host: Host) -> None:
    with host.sudo():
        refusal = host.file("/root/in-vain.txt").content_string
    assert refusal == (
        'dgx1 still holds 7.6 GiB of 7.6 GiB of page cache, after "3" was written to /sim/proc/sys/vm/drop_caches, '
        "and has 107.0 GiB free of the 112 wanted. Look for what reads files there now."
    )
