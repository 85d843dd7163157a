# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node with earlyoom is like."""

from __future__ import annotations

from testinfra.host import Host

PREFER = "^(vllm|VLLM|ray|python3)"
AVOID = "^(sshd|systemd|dockerd|containerd|dbus-daemon|NetworkManager)"
CAP_KILL, CAP_IPC_LOCK = 5, 14


def test_runs_with_the_limits(host: Host) -> None:
    service = host.service("earlyoom")
    assert service.is_running
    assert service.is_enabled
    arguments = host.file(f"/proc/{main_pid(host)}/cmdline").content_string.rstrip("\0").split("\0")[1:]
    assert arguments == ["-r", "60", "-M", "1048576", "-s", "100", "--prefer", PREFER, "--avoid", AVOID]


def test_understood_the_limits(host: Host) -> None:
    with host.sudo():
        journal = host.check_output("journalctl --unit earlyoom --output cat")
    assert "SIGTERM when mem <=" in journal
    assert f"Preferring to kill process names that match regex '{PREFER}'" in journal
    assert f"Will avoid killing process names that match regex '{AVOID}'" in journal


def test_may_kill_and_stay_in_memory(host: Host) -> None:
    status = host.file(f"/proc/{main_pid(host)}/status").content_string
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    assert effective == 1 << CAP_KILL | 1 << CAP_IPC_LOCK


def main_pid(host: Host) -> str:
    return str(host.check_output("systemctl show --value --property MainPID earlyoom.service"))
