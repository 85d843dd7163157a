# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to this collection: the key of one image transfer, on the node that sends and on the nodes that receive."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

MARK = "dgxspark-image-sync"
PROCESS_NAME = MARK[:15]  # Linux keeps no more
# A key that nobody could remove, because its node went away, is no key any more after this long.
LIFETIME = 6 * 3600


def login_user(named: str) -> pwd.struct_passwd:
    """The user whom Ansible logs in as, also where this module runs as another user by become."""
    name = named or os.environ.get("SUDO_USER") or os.environ.get("DOAS_USER")
    return pwd.getpwnam(name) if name else pwd.getpwuid(os.getuid())


def may_use(user: pwd.struct_passwd, socket: str) -> bool:
    """Whether the user can talk to the engine without becoming root."""
    owner = Path(socket).stat()
    return user.pw_uid in (0, owner.st_uid) or owner.st_gid in os.getgrouplist(user.pw_name, user.pw_gid)


def load_command(user: pwd.struct_passwd, socket: str) -> str:
    """The one command that the key of a transfer may run for this user."""
    docker = shutil.which("docker", path="/usr/local/bin:/usr/bin:/bin:/snap/bin") or "docker"
    return f"{docker} load -q" if may_use(user, socket) else f"sudo -n {docker} load -q"


def key_line(public_key: str, run: str, address: str, command: str) -> str:
    """The line of authorized_keys: no shell, no forwarding, one command, from one address, for some hours."""
    expiry = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + LIFETIME))
    options = f'restrict,from="{address}",expiry-time="{expiry}",command="{command}"'
    return f"{options} {' '.join(public_key.split()[:2])} {MARK} {run}"


def authorize(user: pwd.struct_passwd, line: str) -> None:
    with _as_user(user):
        path = _keys_path(user)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        _replace(path, text + ("" if not text or text.endswith("\n") else "\n") + line + "\n")


def revoke(user: pwd.struct_passwd, run: str) -> bool:
    """Remove the keys of a run, or of all runs when ``run`` is empty; True when there were any."""
    with _as_user(user):
        path = _keys_path(user)
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        kept = [line for line in lines if not _is_ours(line, run)]
        if kept == lines:
            return False
        _replace(path, "".join(kept))
        return True


def has_keys(user: pwd.struct_passwd) -> bool:
    with _as_user(user):
        path = _keys_path(user)
        return path.exists() and any(_is_ours(line, "") for line in path.read_text().splitlines())


def host_keys() -> list[str]:
    """This node's public host keys, without their comments."""
    keys = []
    for path in sorted(Path("/etc/ssh").glob("ssh_host_*_key.pub")):
        with contextlib.suppress(OSError):
            keys.append(" ".join(path.read_text().split()[:2]))
    return keys


def runs_dir() -> Path:
    """Where a sending node keeps key and progress of its transfers: in memory, for this user only."""
    if os.geteuid() == 0:
        return Path("/run") / MARK
    return Path(tempfile.gettempdir()) / f"{MARK}-{os.geteuid()}"


def run_dirs(run: str = "") -> list[Path]:
    root = runs_dir()
    return sorted(path for path in root.iterdir() if run in ("", path.name)) if root.is_dir() else []


def make_key(run: str) -> str:
    """Make the key of a run, return its public half."""
    root = runs_dir()
    root.mkdir(mode=0o700, exist_ok=True)
    owner = root.lstat()
    if owner.st_uid != os.geteuid() or owner.st_mode & 0o077 or root.is_symlink():
        raise PermissionError(f"{root} belongs to somebody else or is open to others")
    folder = root / run
    folder.mkdir(mode=0o700, exist_ok=True)
    key = folder / "key"
    if not key.exists():
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{MARK} {run}", "-f", str(key)]
        subprocess.run(argv, check=True, capture_output=True)
    return (folder / "key.pub").read_text().strip()


def remove_run(folder: Path) -> None:
    """End a run's sender, if it still runs, and remove its key."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / "pid").read_text())
        if Path(f"/proc/{pid}/comm").read_text().strip() == PROCESS_NAME:
            os.killpg(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def ssh_argv(folder: Path, user: str, address: str, port: int) -> Sequence[str]:
    """The way to a receiver: only with this run's key, only to the host key that the controller read from the node."""
    options = (
        "BatchMode=yes",
        "ConnectTimeout=15",
        "GlobalKnownHostsFile=/dev/null",
        "IdentitiesOnly=yes",
        "LogLevel=ERROR",
        "PreferredAuthentications=publickey",
        "ServerAliveCountMax=3",
        "ServerAliveInterval=10",
        "StrictHostKeyChecking=yes",
        f"UserKnownHostsFile={folder / 'known_hosts'}",
    )
    words = ["ssh", "-F", "/dev/null", "-T", "-i", str(folder / "key"), "-p", str(port), "-l", user]
    # By far the cheapest cipher on processors with AES instructions, GB10's included; the others only if it is refused.
    words += ["-c", "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr"]
    return [*words, *(word for option in options for word in ("-o", option)), address, "docker load"]


def _keys_path(user: pwd.struct_passwd) -> Path:
    return Path(user.pw_dir) / ".ssh" / "authorized_keys"


def _is_ours(line: str, run: str) -> bool:
    words = line.split()
    return len(words) > 2 and words[-2] == MARK and run in ("", words[-1])


def _replace(path: Path, text: str) -> None:
    """Write beside and rename, so that a broken write never locks anybody out."""
    handle, name = tempfile.mkstemp(prefix=".authorized_keys.", dir=path.parent)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
    temporary = Path(name)
    temporary.chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o600)
    temporary.replace(path)


@contextlib.contextmanager
def _as_user(user: pwd.struct_passwd) -> Iterator[None]:
    """Root touches the user's files as the user: a link in the home leads nowhere that the user could not go."""
    if os.geteuid() != 0 or user.pw_uid == 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups(os.getgrouplist(user.pw_name, user.pw_gid))
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
