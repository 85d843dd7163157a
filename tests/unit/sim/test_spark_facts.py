# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a simulated Spark shows below /sim."""

from __future__ import annotations

from pathlib import Path

import pytest
from spark import meminfo, model_cache, sysfs
from spark.network import Port

FABRIC = ("enp1s0f0np0", "enP2p1s0f0np0")


def port(node: int, name: str = FABRIC[0]) -> Port:
    third = {"enP7s7": 0, FABRIC[0]: 1, FABRIC[1]: 2}[name]
    return Port(name, f"10.77.{third}.{10 + node}", f"02:42:0a:4d:{third:02x}:{10 + node:02x}", 9000 if third else 1500)


def index_of_ipv4(node: int, name: str) -> int:
    return next(
        index
        for index, entry in enumerate(sysfs.gid_table(port(node, name)))
        if entry and entry[1] == "RoCE v2" and entry[0].startswith("0000:0000:0000:0000:0000:ffff:")
    )


@pytest.mark.parametrize("node", range(1, 9))
def test_twins_share_the_gid_index(node: int) -> None:
    assert index_of_ipv4(node, FABRIC[0]) == index_of_ipv4(node, FABRIC[1])


def test_gid_index_differs_between_nodes() -> None:
    assert [index_of_ipv4(node, FABRIC[0]) for node in range(1, 9)] == [3, 5, 7, 3, 5, 7, 3, 5]


def test_gid_of_the_address() -> None:
    assert sysfs.gid_table(port(1))[:4] == [
        ("fe80:0000:0000:0000:0042:0aff:fe4d:010b", "IB/RoCE v1"),
        ("fe80:0000:0000:0000:0042:0aff:fe4d:010b", "RoCE v2"),
        ("0000:0000:0000:0000:0000:ffff:0a4d:010b", "IB/RoCE v1"),
        ("0000:0000:0000:0000:0000:ffff:0a4d:010b", "RoCE v2"),
    ]


def test_sysfs_tree(tmp_path: Path) -> None:
    sysfs.write(tmp_path, [port(1, "enP7s7"), port(1, FABRIC[0]), port(1, FABRIC[1])])
    net = tmp_path / "sys" / "class" / "net"
    assert (net / FABRIC[0] / "speed").read_text() == "200000\n"
    assert (net / FABRIC[1] / "mtu").read_text() == "9000\n"
    assert (net / "enP7s7" / "mtu").read_text() == "1500\n"
    rdma = tmp_path / "sys" / "class" / "infiniband"
    assert sorted(path.name for path in rdma.iterdir()) == ["roceP2p1s0f0", "rocep1s0f0"]
    assert (rdma / "rocep1s0f0" / "ports" / "1" / "state").read_text() == "4: ACTIVE\n"
    assert (rdma / "roceP2p1s0f0" / "device" / "net" / FABRIC[1]).is_dir()
    assert len(list((rdma / "rocep1s0f0" / "ports" / "1" / "gids").iterdir())) == 16
    assert len(list((rdma / "rocep1s0f0" / "ports" / "1" / "gid_attrs" / "types").iterdir())) == 4


def test_meminfo_is_a_sparks(tmp_path: Path) -> None:
    meminfo.write(tmp_path)
    lines = (tmp_path / "proc" / "meminfo").read_text().splitlines()
    assert lines[0] == "MemTotal:      127535104 kB"
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    assert round(kib["MemTotal"] / 2**20, 1) == 121.6
    assert round(kib["MemAvailable"] / 2**20) == 115


def test_model_cache_has_a_snapshot(tmp_path: Path) -> None:
    model_cache.add_model(tmp_path, "a/b")
    folder = tmp_path / "hub" / "models--a--b"
    snapshot = folder / "snapshots" / (folder / "refs" / "main").read_text()
    assert (snapshot / "config.json").is_symlink()
    assert '"a/b"' in (snapshot / "config.json").read_text()
