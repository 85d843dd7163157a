# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's memory, paths, ports and processes, as the kernel tells them. Private to the collection."""

from __future__ import annotations

import os
import pwd
import re
import shutil
from pathlib import Path
from typing import Any

KIB = 1024
TCP_LISTEN = "0A"


def read_memory(root: Path) -> dict[str, int]:
    """Return memory figures in bytes; the contiguous (CMA) ones are 0 where the kernel has none."""
    text = (root / "proc/meminfo").read_text(encoding="ascii")
    kib = {match[1]: int(match[2]) for match in re.finditer(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}
    names = {
        "total": "MemTotal",
        "free": "MemFree",
        "available": "MemAvailable",
        "swap_total": "SwapTotal",
        "swap_free": "SwapFree",
        "cma_total": "CmaTotal",
        "cma_free": "CmaFree",
    }
    return {key: kib.get(name, 0) * KIB for key, name in names.items()}


def login_user() -> dict[str, Any]:
    """Return the user who logged in, also when the module runs through sudo."""
    name = os.environ.get("SUDO_USER", "")
    entry = pwd.getpwnam(name) if name else pwd.getpwuid(os.getuid())
    return {"name": entry.pw_name, "uid": entry.pw_uid, "gid": entry.pw_gid, "home": entry.pw_dir}


def is_there(path: Path) -> bool:
    """Say whether something stands at a path. What this user may not see, or the kernel refuses, is not there."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def has_entries(folder: Path) -> bool:
    """Say whether a folder holds anything that this user may see."""
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def read_path(path: str, home: str) -> dict[str, Any]:
    """Return what stands at a path; for a missing one, the filesystem that it would be made on.

    A leading ``~`` is the login user's home. ``blocked`` is the nearest existing parent if that is no folder.
    """
    full = Path(home + path[1:]) if path == "~" or path.startswith("~/") else Path(path)
    standing = full
    while not is_there(standing) and standing != standing.parent:
        standing = standing.parent
    exists = standing == full
    status = standing.stat()
    return {
        "path": str(full),
        "exists": exists,
        "kind": _kind(standing) if exists else "",
        "blocked": "" if exists or standing.is_dir() else str(standing),
        "owner_uid": status.st_uid,
        "fstype": filesystem_type(standing, Path("/proc/self/mountinfo").read_text(encoding="utf-8")),
        "free": shutil.disk_usage(standing).free,
    }


def _kind(path: Path) -> str:
    return "directory" if path.is_dir() else "file" if path.is_file() else "other"


def filesystem_type(path: Path, mountinfo: str) -> str:
    """Return the type of the filesystem that holds ``path``, from the text of /proc/self/mountinfo."""
    resolved = str(path.resolve())
    best, kind = "", ""
    for line in mountinfo.splitlines():
        left, _separator, right = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), left.split()[4])
        inside = resolved == point or resolved.startswith(point.rstrip("/") + "/")
        # A later mount on the same point hides the earlier one.
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def listening_ports() -> dict[int, int]:
    """Return the TCP ports that something listens on, with the inode of one listening socket each."""
    found: dict[int, int] = {}
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if not table.exists():
            continue
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == TCP_LISTEN:
                found.setdefault(int(fields[1].rpartition(":")[2], 16), int(fields[9]))
    return found


def socket_owner(inode: int) -> dict[str, Any] | None:
    """Return the process that holds a socket, None where this user may not see it."""
    wanted = f"socket:[{inode}]"
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            held = any(str(descriptor.readlink()) == wanted for descriptor in (process / "fd").iterdir())
            if held:
                return {"pid": int(process.name), "name": (process / "comm").read_text(encoding="utf-8").strip()}
        except OSError:  # it ended meanwhile, or belongs to somebody else
            continue
    return None


def running_arguments(name: str) -> list[str] | None:
    """Return the arguments of a running program of that name, None when none runs."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if (process / "comm").read_text(encoding="utf-8").strip() == name:
                return (process / "cmdline").read_text(encoding="utf-8").rstrip("\0").split("\0")[1:]
        except OSError:  # it ended meanwhile
            continue
    return None
