# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric that all ranks share, each rank's part of it, and every reason why there is none."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._fabric import choose_fabric

Nodes = dict[str, dict[str, Any]]
TALK = "the ranks of one model talk over the fabric"
OTHERS = "put one port of every node into the same subnet, or choose other nodes with -e nodes=..."


@pytest.fixture
def two(nodes: Nodes) -> Nodes:
    return {name: nodes[name] for name in ("dgx1", "dgx2")}


def link(node: dict[str, Any], number: int) -> dict[str, Any]:
    found: dict[str, Any] = node["fabric"]["links"][number]
    return found


def told(nodes: Nodes) -> list[str]:
    """Return the problems, and hold that there is a network for each node or for none."""
    networks, problems = choose_fabric(nodes)
    assert list(networks) in ([], list(nodes))
    return [f"{problem['node']}: {problem['what']} | {problem['why']} | {problem['cure']}" for problem in problems]


def test_every_node_speaks_over_both_twins_with_its_own_facts(nodes: Nodes) -> None:
    networks, problems = choose_fabric(nodes)
    assert problems == []
    assert list(networks) == list(nodes)
    assert networks["dgx2"] == {
        "address": "10.77.1.12",
        "interface": "enp1s0f0np0",
        "master_address": "10.77.1.11",
        "env": {
            "VLLM_HOST_IP": "10.77.1.12",
            "NCCL_SOCKET_IFNAME": "enp1s0f0np0",
            "GLOO_SOCKET_IFNAME": "enp1s0f0np0",
            "TP_SOCKET_IFNAME": "enp1s0f0np0",
            "UCX_NET_DEVICES": "enp1s0f0np0",
            "NCCL_IB_HCA": "rocep1s0f0,roceP2p1s0f0",
            "NCCL_IB_GID_INDEX": "5",
        },
    }
    # The index is each node's own: the nodes differ.
    assert [network["env"]["NCCL_IB_GID_INDEX"] for network in networks.values()] == list("35735735")
    assert {network["master_address"] for network in networks.values()} == {"10.77.1.11"}


def test_interface_names_may_differ_from_node_to_node(two: Nodes) -> None:
    link(two["dgx2"], 0).update(interface="enp9s0", hca="mlx5_0")
    networks, problems = choose_fabric(two)
    assert problems == []
    assert networks["dgx1"]["env"]["NCCL_SOCKET_IFNAME"] == "enp1s0f0np0"
    assert networks["dgx2"]["env"]["NCCL_SOCKET_IFNAME"] == "enp9s0"
    assert networks["dgx2"]["env"]["NCCL_IB_HCA"] == "mlx5_0,roceP2p1s0f0"


def test_a_link_that_leads_elsewhere_is_not_listed(two: Nodes) -> None:
    link(two["dgx1"], 0)["address"] = "192.168.9.1"
    networks, problems = choose_fabric(two)
    assert problems == []
    assert networks["dgx1"]["env"]["NCCL_IB_HCA"] == networks["dgx2"]["env"]["NCCL_IB_HCA"] == "roceP2p1s0f0"
    assert networks["dgx2"]["master_address"] == "10.77.2.11"
    assert networks["dgx2"]["address"] == "10.77.2.12"


@pytest.mark.parametrize("change", [{"active": False}, {"address": "", "prefix": 0, "gid_index": None}])
def test_a_link_that_is_down_or_bare_is_not_used(two: Nodes, change: dict[str, Any]) -> None:
    link(two["dgx2"], 0).update(change)
    networks, problems = choose_fabric(two)
    assert problems == []
    assert [network["env"]["NCCL_IB_HCA"] for network in networks.values()] == ["roceP2p1s0f0", "roceP2p1s0f0"]


def test_twins_with_different_indexes_leave_the_choice_to_nccl(two: Nodes) -> None:
    link(two["dgx1"], 1)["gid_index"] = 4
    networks, problems = choose_fabric(two)
    assert problems == []
    assert "NCCL_IB_GID_INDEX" not in networks["dgx1"]["env"]
    assert networks["dgx2"]["env"]["NCCL_IB_GID_INDEX"] == "5"


def test_no_gid_is_a_problem_and_never_an_empty_variable(two: Nodes) -> None:
    link(two["dgx2"], 1)["gid_index"] = None
    networks, _problems = choose_fabric(two)
    assert "NCCL_IB_GID_INDEX" not in networks["dgx2"]["env"]
    assert told(two) == [
        "dgx2: roceP2p1s0f0 has no RoCE v2 GID for 10.77.2.12"
        " | NCCL then fails with 'unhandled system error' or never moves a byte"
        " | set enP2p1s0f0np0 down and up again, and look at show_gids"
    ]


def test_mtu_1500(two: Nodes) -> None:
    link(two["dgx2"], 0)["mtu"] = 1500
    assert told(two) == [
        "dgx2: enp1s0f0np0 has MTU 1500, not 9000"
        " | a reboot or a firmware update resets it, and mixed sizes stall large transfers"
        " | run provision.yml (role fabric), which sets and keeps it"
    ]


def test_twins_in_one_subnet(two: Nodes) -> None:
    for node, address in (("dgx1", "10.77.1.111"), ("dgx2", "10.77.1.112")):
        link(two[node], 1)["address"] = address
    assert told(two) == [
        f"{node}: enp1s0f0np0 and enP2p1s0f0np0 are in one subnet, 10.77.1.0/24"
        " | the route between twins of one subnet is ambiguous, and half of the bandwidth is lost"
        " | give each twin a subnet of its own"
        for node in two
    ]


def test_one_machine_under_two_names(two: Nodes) -> None:
    two["dgx2"] = two["dgx1"]
    assert told(two) == [
        "dgx2: has the fabric address 10.77.1.11 of dgx1"
        " | two ranks on one machine, or on one address, cannot find each other"
        " | the inventory names one machine twice, or two machines share an address: correct it"
    ]


def test_a_node_apart_is_named(nodes: Nodes) -> None:
    for number, network in ((0, 8), (1, 9)):
        link(nodes["dgx5"], number)["address"] = f"10.{network}.0.15"
    assert told(nodes) == [
        "dgx5: shares no fabric network with all other nodes: "
        "it has 10.8.0.0/24 on enp1s0f0np0, 10.9.0.0/24 on enP2p1s0f0np0; "
        "dgx1 has 10.77.1.0/24 on enp1s0f0np0, 10.77.2.0/24 on enP2p1s0f0np0"
        f" | every rank must reach every other one over the fabric | {OTHERS}"
    ]


def test_each_shares_another_network_with_the_head(nodes: Nodes) -> None:
    three = {name: nodes[name] for name in ("dgx1", "dgx2", "dgx3")}
    three["dgx2"]["fabric"]["links"].pop(1)
    three["dgx3"]["fabric"]["links"].pop(0)
    assert [line.partition(":")[0] for line in told(three)] == ["dgx2", "dgx3"]


def test_the_same_numbers_with_another_prefix_are_another_network(two: Nodes) -> None:
    for number in (0, 1):
        link(two["dgx2"], number)["prefix"] = 25
    assert [line.partition(":")[0] for line in told(two)] == ["dgx2"]


@pytest.mark.parametrize(
    ("links", "wanted", "what", "cure"),
    [
        (
            [],
            [],
            "no RDMA device was found",
            "check the ConnectX-7 driver, or name plain interfaces in fabric_interfaces to serve over TCP",
        ),
        (
            [{"hca": "a", "interface": "eth1", "active": False, "address": "10.0.0.1"}],
            [],
            "no RDMA link is active with an IPv4 address (eth1 down)",
            "plug the cable, bring the link up and give it an address; ibdev2netdev and ip -br addr show the state",
        ),
        (
            [
                {"hca": "a", "interface": "", "active": True, "address": ""},
                {"hca": "b", "interface": "eth2", "active": False, "address": ""},
            ],
            [],
            "no RDMA link is active with an IPv4 address (a active, no IPv4 address, eth2 down, no IPv4 address)",
            "plug the cable, bring the link up and give it an address; ibdev2netdev and ip -br addr show the state",
        ),
        (
            [],
            ["eth7", "eth8"],
            "none of the interfaces eth7, eth8 is up with an IPv4 address",
            "correct fabric_interfaces of this node, or bring an interface up and give it an address",
        ),
    ],
)
def test_no_link(two: Nodes, links: list[dict[str, Any]], wanted: list[str], what: str, cure: str) -> None:
    two["dgx2"]["fabric"].update(links=links, wanted=wanted)
    assert told(two) == [f"dgx2: {what} | {TALK} | {cure}"]


def test_chosen_interfaces_in_their_order(two: Nodes) -> None:
    for node in two.values():
        node["fabric"]["wanted"] = ["enP2p1s0f0np0", "enp1s0f0np0"]
    networks, problems = choose_fabric(two)
    assert problems == []
    assert networks["dgx2"]["interface"] == "enP2p1s0f0np0"
    assert networks["dgx2"]["master_address"] == "10.77.2.11"
    assert networks["dgx2"]["env"]["NCCL_IB_HCA"] == "roceP2p1s0f0,rocep1s0f0"


def test_without_rdma_over_a_chosen_interface(two: Nodes) -> None:
    for node in two.values():
        node["fabric"].update(links=[], wanted=["enP7s7"])
    networks, problems = choose_fabric(two)
    # TCP does not need 9000 bytes a frame, and the management port of the fixture has 1500.
    assert problems == []
    assert networks["dgx2"] == {
        "address": "10.77.0.12",
        "interface": "enP7s7",
        "master_address": "10.77.0.11",
        "env": {
            "VLLM_HOST_IP": "10.77.0.12",
            "NCCL_SOCKET_IFNAME": "enP7s7",
            "GLOO_SOCKET_IFNAME": "enP7s7",
            "TP_SOCKET_IFNAME": "enP7s7",
            "UCX_NET_DEVICES": "enP7s7",
        },
    }


@pytest.mark.parametrize("change", [{"active": False}, {"address": "", "prefix": 0, "gid_index": None}])
def test_a_chosen_rdma_link_that_is_down_or_bare(two: Nodes, change: dict[str, Any]) -> None:
    two["dgx2"]["fabric"]["wanted"] = ["enp1s0f0np0"]
    link(two["dgx2"], 0).update(change)
    assert told(two) == [
        f"dgx2: none of the interfaces enp1s0f0np0 is up with an IPv4 address | {TALK}"
        " | correct fabric_interfaces of this node, or bring an interface up and give it an address"
    ]
