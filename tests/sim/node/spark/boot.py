# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a simulated Spark does once at every boot, before sshd and Docker start."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from . import meminfo, network, sysfs

ROOT = Path("/sim")
HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key")
DEVICES = {"uverbs0": (231, 192), "uverbs1": (231, 193), "rdma_cm": (10, 58)}


def authorize(environment: bytes, home: Path) -> None:
    """Let the key of this run log in; it comes in the container's environment."""
    for entry in environment.split(b"\0"):
        name, _equals, value = entry.partition(b"=")
        if name == b"SIM_AUTHORIZED_KEY":
            folder = home / ".ssh"
            folder.mkdir(mode=0o700, exist_ok=True)
            keys = folder / "authorized_keys"
            keys.write_bytes(value + b"\n")
            keys.chmod(0o600)
            owner = home.stat()
            for path in (folder, keys):
                os.chown(path, owner.st_uid, owner.st_gid)


def make_devices(folder: Path) -> None:
    """/dev is new at every start of the container."""
    folder.mkdir(exist_ok=True)
    for name, (major, minor) in DEVICES.items():
        path = folder / name
        if not path.exists():
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            path.chmod(0o666)


def main() -> None:
    """Interfaces first: everything else tells of them."""
    if not HOST_KEY.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(HOST_KEY)], check=True)
    authorize(Path("/proc/1/environ").read_bytes(), Path("/home/spark"))
    make_devices(Path("/dev/infiniband"))
    ports = network.rename_ports()
    sysfs.write(ROOT, ports)
    meminfo.write(ROOT)


if __name__ == "__main__":
    main()
