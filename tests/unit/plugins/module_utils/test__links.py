# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's links, read from a sysfs tree as a Spark has it, and from trees that are odd."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._links import (
    kernel_addresses,
    read_interfaces,
    read_links,
    read_text,
)

Addresses = dict[str, list[dict[str, Any]]]
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:0000:0000:0000:4abd:c9ff:fe12:3456"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a4d:010b"
ADDRESSES: Addresses = {
    "lo": [{"address": "127.0.0.1", "prefix": 8}],
    "enp1s0f0np0": [{"address": "10.77.1.11", "prefix": 24}],
    "enP2p1s0f0np0": [{"address": "10.77.2.11", "prefix": 24}],
}


class Tree:
    """A root folder under which sysfs grows."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, text: str) -> None:
        file = self.root / "sys/class" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")

    def interface(self, name: str, **attributes: str) -> None:
        for key, value in {"operstate": "up", "mtu": "9000", "speed": "200000", **attributes}.items():
            self.put(f"net/{name}/{key}", value)

    def device(self, hca: str, interface: str, gids: list[tuple[str, str]], state: str = "4: ACTIVE") -> None:
        self.put(f"infiniband/{hca}/ports/1/state", state)
        for index, (kind, gid) in enumerate(gids):
            self.put(f"infiniband/{hca}/ports/1/gids/{index}", gid)
            self.put(f"infiniband/{hca}/ports/1/gid_attrs/types/{index}", kind)
            self.put(f"infiniband/{hca}/ports/1/gid_attrs/ndevs/{index}", interface)
        if interface:
            self.put(f"infiniband/{hca}/device/net/{interface}/mtu", "9000")

    def links(self, addresses: Addresses | None = None) -> list[dict[str, Any]]:
        known = ADDRESSES if addresses is None else addresses
        return read_links(self.root, read_interfaces(self.root, known))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


SPARK = [("IB/RoCE v1", LINK_LOCAL), ("RoCE v2", LINK_LOCAL), ("IB/RoCE v1", MAPPED), ("RoCE v2", MAPPED)]
WHOLE = {
    "hca": "rocep1s0f0",
    "port": 1,
    "interface": "enp1s0f0np0",
    "active": True,
    "mtu": 9000,
    "speed_mbps": 200000,
    "address": "10.77.1.11",
    "prefix": 24,
    "gid_index": 3,
}


def test_a_spark(tree: Tree) -> None:
    tree.interface("enp1s0f0np0")
    tree.interface("enP2p1s0f0np0", mtu="1500")
    tree.interface("lo", operstate="unknown")
    # The twin's name sorts before port 0's in ASCII: port 0 must come first.
    tree.device("roceP2p1s0f0", "enP2p1s0f0np0", [*SPARK, ("RoCE v2", MAPPED.replace("010b", "020b"))])
    tree.device("rocep1s0f0", "enp1s0f0np0", SPARK)
    twin = {"hca": "roceP2p1s0f0", "interface": "enP2p1s0f0np0", "mtu": 1500, "address": "10.77.2.11", "gid_index": 4}
    assert tree.links() == [WHOLE, {**WHOLE, **twin}]


@pytest.mark.parametrize(
    ("gids", "index"),
    [
        ([], None),
        ([("IB/RoCE v1", MAPPED)], None),
        ([("RoCE v2", LINK_LOCAL)], None),
        ([("RoCE v2", ZERO), ("RoCE v2", MAPPED)], 1),
        # Another address of the same interface is not the one that ranks are told of.
        ([("RoCE v2", MAPPED.replace("010b", "020b")), ("RoCE v2", MAPPED)], 1),
        # Read as numbers: 10 comes after 9.
        ([("IB/RoCE v1", LINK_LOCAL)] * 9 + [("RoCE v2", MAPPED), ("RoCE v2", MAPPED)], 9),
    ],
)
def test_the_gid_of_the_address(tree: Tree, gids: list[tuple[str, str]], index: int | None) -> None:
    tree.interface("enp1s0f0np0")
    tree.device("rocep1s0f0", "enp1s0f0np0", gids)
    assert tree.links() == [{**WHOLE, "gid_index": index}]


@pytest.mark.parametrize(
    ("state", "active"), [("4: ACTIVE", True), ("1: DOWN", False), ("2: INIT", False), ("5: ACTIVE_DEFER", False)]
)
def test_the_state_of_a_link(tree: Tree, state: str, active: bool) -> None:
    tree.interface("enp1s0f0np0")
    tree.device("rocep1s0f0", "enp1s0f0np0", SPARK, state)
    assert tree.links() == [{**WHOLE, "active": active}]


def test_a_link_that_is_down_has_no_speed(tree: Tree) -> None:
    tree.interface("enp1s0f0np0", operstate="down", speed="-1")
    tree.device("rocep1s0f0", "enp1s0f0np0", [], "1: DOWN")
    (link,) = tree.links({})
    changed = {"active": False, "speed_mbps": -1, "address": "", "prefix": 0, "gid_index": None}
    assert link == {**WHOLE, **changed}


def test_the_interface_is_found_by_its_gids_where_the_device_folder_is_missing(tree: Tree) -> None:
    tree.interface("enp1s0f0np0")
    tree.device("rocep1s0f0", "", [("IB/RoCE v1", LINK_LOCAL)])
    tree.put("infiniband/rocep1s0f0/ports/1/gid_attrs/ndevs/0", "enp1s0f0np0")
    (link,) = tree.links()
    assert (link["interface"], link["address"]) == ("enp1s0f0np0", "10.77.1.11")


def test_a_device_without_an_interface(tree: Tree) -> None:
    tree.put("infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
    (link,) = tree.links()
    assert link == {
        "hca": "mlx5_0",
        "port": 1,
        "interface": "",
        "active": True,
        "mtu": 0,
        "speed_mbps": 0,
        "address": "",
        "prefix": 0,
        "gid_index": None,
    }


def test_every_port_is_a_link(tree: Tree) -> None:
    tree.put("infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
    tree.put("infiniband/mlx5_0/ports/2/state", "1: DOWN")
    assert [(link["port"], link["active"]) for link in tree.links()] == [(1, True), (2, False)]


def test_a_device_without_ports(tree: Tree) -> None:
    tree.put("infiniband/mlx5_0/node_guid", "x")
    assert tree.links() == []


def test_no_sysfs(tree: Tree) -> None:
    assert read_interfaces(tree.root, {}) == []
    assert tree.links() == []


def test_interfaces(tree: Tree) -> None:
    tree.interface("lo")
    tree.interface("enP7s7", mtu="1500", speed="10000")
    tree.put("net/bond0/operstate", "down")
    assert read_interfaces(tree.root, {"enP7s7": [{"address": "10.77.0.11", "prefix": 24}]}) == [
        {"name": "bond0", "up": False, "mtu": 0, "speed_mbps": 0, "addresses": []},
        {
            "name": "enP7s7",
            "up": True,
            "mtu": 1500,
            "speed_mbps": 10000,
            "addresses": [{"address": "10.77.0.11", "prefix": 24}],
        },
    ]


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert read_text(tmp_path / "missing") == ""
    assert read_text(tmp_path) == ""


def test_addresses_as_ip_prints_them(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = [
        {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
        {},
        {"ifname": "down0"},
        {
            "ifname": "eth0",
            "addr_info": [
                {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
                {"family": "inet", "local": "10.0.0.5", "prefixlen": 24},
                {"family": "inet", "local": "10.0.0.6", "prefixlen": 32},
            ],
        },
    ]

    def run(words: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        assert words == ["ip", "-json", "-4", "address", "show"]
        return subprocess.CompletedProcess(words, 0, json.dumps(printed), "")

    monkeypatch.setattr(subprocess, "run", run)
    assert kernel_addresses() == {
        "lo": [{"address": "127.0.0.1", "prefix": 8}],
        "down0": [],
        "eth0": [{"address": "10.0.0.5", "prefix": 24}, {"address": "10.0.0.6", "prefix": 32}],
    }
