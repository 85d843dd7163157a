# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node with limits for RDMA is like."""

from __future__ import annotations

from testinfra.host import Host

LIMIT, FILES = 4096 * 1024, 4096


def test_sessions_have_the_limits(host: Host) -> None:
    with host.sudo():
        assert host.check_output("su - spark -c 'ulimit -l; ulimit -n'").split() == ["4096", "4096"]
        assert host.check_output("su - spark -c 'ulimit -H -l; ulimit -H -n'").split() == ["4096", "4096"]


def test_running_docker_has_the_limits(host: Host) -> None:
    pid = host.check_output("systemctl show --value --property=MainPID docker")
    limits = host.file(f"/proc/{pid}/limits").content_string.splitlines()
    fields = {line[:26].strip(): line[26:].split()[:2] for line in limits}
    assert fields["Max locked memory"] == [str(LIMIT)] * 2
    assert fields["Max open files"] == [str(FILES)] * 2


def test_semaphores_outlive_the_session(host: Host) -> None:
    assert host.service("systemd-logind").is_running
    answer = host.check_output(
        "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager RemoveIPC"
    )
    assert answer == "b false"


def test_more_than_the_node_can_give_is_refused(host: Host) -> None:
    with host.sudo():
        refusal = host.file("/root/refusal.txt").content_string
    assert refusal.startswith("dgx1 cannot raise its limits (")
    assert refusal.endswith(
        "and every login would be refused if they were configured. Nothing was changed. "
        "A container needs CAP_SYS_RESOURCE for it, or smaller values in memlock_limit and memlock_nofile; "
        "memlock_nofile must not exceed fs.nr_open."
    )


def test_running_rank_puts_the_restart_off(host: Host) -> None:
    with host.sudo():
        running, marker, files = host.file("/root/pending.txt").content_string.splitlines()
    assert running == "running true"
    assert marker == "docker-restart-memlock"
    assert files.split()[3] != str(FILES)
