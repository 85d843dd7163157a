# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node with folders for compile caches is like."""

from __future__ import annotations

import pytest
from testinfra.host import Host

CACHE = "/home/spark/sm121-cache/jit-121f"


@pytest.mark.parametrize("path", [f"{CACHE}/flashinfer", f"{CACHE}/vllm", "/srv/cache", "/srv/cache/inductor"])
def test_folder_is_the_users(host: Host, path: str) -> None:
    folder = host.file(path)
    assert folder.is_directory
    assert (folder.user, folder.group, folder.mode) == ("spark", "spark", 0o755)


def test_what_was_there_stays(host: Host) -> None:
    assert host.file(f"{CACHE}/vllm/kernel").content_string == "compiled"


def test_network_filesystem_is_refused(host: Host) -> None:
    with host.sudo():
        refusal = host.file("/root/refusal.txt").content_string
    assert refusal == (
        "dgx1: /tmp/cache/flashinfer is on tmpfs, where nodes break each other's caches: "
        "choose a folder on a disk of the node."
    )
    assert not host.file("/tmp/cache").exists
