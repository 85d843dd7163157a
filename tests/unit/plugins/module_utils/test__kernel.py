# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's memory, paths, ports and processes: from samples where machines differ, else from this one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._kernel import (
    filesystem_type,
    listening_ports,
    login_user,
    read_memory,
    read_path,
    running_arguments,
    socket_owner,
)

MOUNTINFO = r"""21 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
22 21 0:20 / /proc rw - proc proc rw
30 21 0:40 / /nas rw,relatime shared:9 master:1 - nfs4 10.0.0.1:/models rw,vers=4.2
31 30 259:3 /sub /nas/local rw - xfs /dev/sdb1 rw
32 21 0:41 / /mnt/my\040disk rw - ext4 /dev/sdc1 rw
33 21 0:42 / /over rw - tmpfs tmpfs rw
34 21 0:43 / /over rw - fuse.sshfs host:/x rw
35 21 0:44 / /back\134slash rw - btrfs /dev/sdd rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/spark/x", "ext4"),
        ("/nas", "nfs4"),
        ("/nas/hub/models", "nfs4"),
        ("/nas-of-another-name", "ext4"),
        ("/nas/local/x", "xfs"),
        ("/nas/locality", "nfs4"),
        ("/mnt/my disk/x", "ext4"),
        ("/over/x", "fuse.sshfs"),
        ("/back\\slash/x", "btrfs"),
    ],
)
def test_filesystem(path: str, kind: str) -> None:
    assert filesystem_type(Path(path), MOUNTINFO) == kind


def test_filesystem_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "cache").symlink_to("/nas/hub")
    assert filesystem_type(tmp_path / "cache", MOUNTINFO) == "nfs4"


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        (
            "MemTotal:       127535104 kB\nMemFree:        1 kB\nMemAvailable:   2 kB\nSwapTotal:  3 kB\n"
            "SwapFree: 4 kB\nActive(anon):   9 kB\nCmaTotal:         131072 kB\nCmaFree:   5 kB\nHugePages_Total: 0\n",
            [127535104, 1, 2, 3, 4, 131072, 5],
        ),
        ("MemTotal: 8 kB\nMemFree: 7 kB\nMemAvailable: 7 kB\n", [8, 7, 7, 0, 0, 0, 0]),
    ],
)
def test_memory(tmp_path: Path, text: str, figures: list[int]) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(text, encoding="ascii")
    keys = ["total", "free", "available", "swap_total", "swap_free", "cma_total", "cma_free"]
    assert read_memory(tmp_path) == {key: kib * 1024 for key, kib in zip(keys, figures, strict=True)}


def test_paths(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    found = {
        name: read_path(path, str(tmp_path))
        for name, path in {
            "folder": "~/folder",
            "home": "~",
            "file": str(tmp_path / "file"),
            "pipe": "~/pipe",
            "missing": "~/folder/new/deep",
            "below a file": "~/file/new",
            "dangling": "~/dangling",
        }.items()
    }
    assert {name: (entry["exists"], entry["kind"], entry["blocked"]) for name, entry in found.items()} == {
        "folder": (True, "directory", ""),
        "home": (True, "directory", ""),
        "file": (True, "file", ""),
        "pipe": (True, "other", ""),
        "missing": (False, "", ""),
        "below a file": (False, "", str(tmp_path / "file")),
        "dangling": (False, "", ""),
    }
    assert found["missing"]["path"] == str(tmp_path / "folder/new/deep")
    assert found["missing"]["owner_uid"] == os.getuid()
    assert found["missing"]["free"] > 0
    assert found["missing"]["fstype"] == found["folder"]["fstype"] != ""


@pytest.mark.parametrize("path", ["/" + "x" * 300, "/proc/1/fd/none" + "/y" * 3000, "/no\0such"])
def test_a_path_that_the_kernel_refuses_is_not_there(path: str) -> None:
    assert read_path(path, "/root")["exists"] is False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not look")
def test_a_path_that_the_login_user_may_not_see_is_not_there(tmp_path: Path) -> None:
    hidden = tmp_path / "closed"
    (hidden / "inside").mkdir(parents=True)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    hidden.chmod(0o700)
    os.seteuid(65534)
    try:
        found = read_path(str(hidden / "inside" / "deeper"), "/")
    finally:
        os.seteuid(0)
    assert (found["exists"], found["blocked"], found["owner_uid"]) == (False, "", 0)


def test_the_login_user_also_under_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert login_user()["uid"] == os.getuid()
    monkeypatch.setenv("SUDO_USER", "nobody")
    assert (login_user()["name"], login_user()["uid"]) == ("nobody", 65534)


def test_a_listening_port_and_its_owner() -> None:
    with socket.socket() as server, socket.socket(socket.AF_INET6) as other:
        for listener, address in ((server, "127.0.0.1"), (other, "::1")):
            listener.bind((address, 0))
        closed = server.getsockname()[1]
        assert closed not in listening_ports()
        server.listen()
        other.listen()
        ports = listening_ports()
        assert {server.getsockname()[1], other.getsockname()[1]} <= set(ports)
        name = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
        assert socket_owner(ports[closed]) == {"pid": os.getpid(), "name": name}
    assert socket_owner(0) is None


def test_arguments_of_a_running_program(tmp_path: Path) -> None:
    program = tmp_path / "spark-early"
    program.symlink_to(sys.executable)
    assert running_arguments("spark-early") is None
    with subprocess.Popen([program, "-c", "import time; time.sleep(60)", "", "-m 2"]) as process:
        try:
            comm = Path(f"/proc/{process.pid}/comm")
            end = time.monotonic() + 10
            while comm.read_text(encoding="utf-8").strip() != "spark-early" and time.monotonic() < end:
                time.sleep(0.01)
            assert running_arguments("spark-early") == ["-c", "import time; time.sleep(60)", "", "-m 2"]
        finally:
            process.kill()


def test_a_program_without_arguments(tmp_path: Path) -> None:
    program = tmp_path / "spark-alone"
    program.symlink_to("/bin/cat")
    with subprocess.Popen([program], stdin=subprocess.PIPE) as process:
        end = time.monotonic() + 10
        while running_arguments("spark-alone") is None and time.monotonic() < end:
            time.sleep(0.01)
        assert running_arguments("spark-alone") == []
        process.kill()
