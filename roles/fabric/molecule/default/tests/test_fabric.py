# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node with a fit fabric is like."""

from __future__ import annotations

import pytest
from testinfra.host import Host

UNIT = "dgxspark-fabric-mtu"
TWINS = ["enp1s0f0np0", "enP2p1s0f0np0"]


@pytest.mark.parametrize("name", TWINS)
def test_mtu_is_set(host: Host, name: str) -> None:
    assert host.file(f"/sys/class/net/{name}/mtu").content_string == "9000\n"


def test_management_is_left_alone(host: Host) -> None:
    assert "enP7s7" not in host.file(f"/etc/systemd/system/{UNIT}.service").content_string


def test_boot_brings_the_mtu_back(host: Host) -> None:
    assert host.service(UNIT).is_enabled
    with host.sudo():
        host.check_output(f"systemctl stop {UNIT} && ip link set dev {TWINS[0]} mtu 1500 && systemctl start {UNIT}")
    assert [host.file(f"/sys/class/net/{name}/mtu").content_string for name in TWINS] == ["9000\n", "9000\n"]


def test_stopping_gives_each_its_own_back(host: Host) -> None:
    unit = host.file(f"/etc/systemd/system/{UNIT}.service").content_string
    assert [line for line in unit.splitlines() if line.startswith("ExecStop=")] == [
        "ExecStop=/usr/sbin/ip link set dev enp1s0f0np0 mtu 9000",
        "ExecStop=/usr/sbin/ip link set dev enP2p1s0f0np0 mtu 1500",
    ]


def test_all_faults_are_told_at_once(host: Host) -> None:
    with host.sudo():
        refusal = host.file("/root/refusal.txt").content_string
    assert refusal == (
        "dgx1: enp9s0 of fabric_interfaces has no active RDMA link: check its name and cable; "
        "enp1s0f0np0 is slower than fabric_speed, 200000 Mb/s: check cable and switch port."
    )
