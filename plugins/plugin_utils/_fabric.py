# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fabric the ranks share, and what each rank must be told of it. Private to the collection.

The fabric is the network that every chosen node reaches over an active RDMA link. Interface names and
GID indexes belong to one node: they differ between nodes and move across reboots.
"""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Network, NodeFacts, NodeProblem

Link = dict[str, Any]
FULL_MTU = 9000


def link_network(link: Link) -> IPv4Network:
    """Return the subnet that a link with an address belongs to."""
    return IPv4Interface(f"{link['address']}/{link['prefix']}").network


def usable_links(facts: NodeFacts) -> list[Link]:
    """Return a node's fabric links that can carry traffic: RDMA links, or the interfaces that the inventory names."""
    interfaces = facts["fabric"]["wanted"]
    if interfaces:
        rdma = {link["interface"]: link for link in facts["fabric"]["links"]}
        links = [rdma.get(name) or _plain_link(facts, name) for name in interfaces]
    else:
        links = facts["fabric"]["links"]
    return [link for link in links if link["active"] and link["address"]]


def _plain_link(facts: NodeFacts, name: str) -> Link:
    """Return an interface without RDMA in the shape of a link; its address is empty when it has none."""
    for interface in facts["fabric"]["interfaces"]:
        if interface["name"] == name and interface["addresses"]:
            first = interface["addresses"][0]
            return {
                "hca": "",
                "interface": name,
                "active": interface["up"],
                "address": first["address"],
                "prefix": first["prefix"],
                "mtu": interface["mtu"],
                "speed_mbps": 0,
                "gid_index": None,
            }
    return {"hca": "", "interface": name, "active": False, "address": ""}


def choose_fabric(nodes: dict[str, NodeFacts]) -> tuple[dict[str, Network], list[NodeProblem]]:
    """Choose the fabric that all nodes share, and work out each node's part of it.

    Args:
        nodes: facts of the chosen nodes, in rank order; the first is the head.

    Returns:
        Each node's network, empty when there is none, and the problems found.
    """
    links = {node: usable_links(facts) for node, facts in nodes.items()}
    bare = [_no_link_problem(node, nodes[node]) for node in nodes if not links[node]]
    if bare:
        return {}, bare
    head, *workers = links
    shared = [
        link_network(link)
        for link in links[head]
        if all(any(link_network(other) == link_network(link) for other in links[node]) for node in workers)
    ]
    shared = list(dict.fromkeys(shared))
    if not shared:
        return {}, [_no_shared_problem(node, links) for node in _odd_nodes(links)]
    master = next(link for link in links[head] if link_network(link) == shared[0])["address"]
    networks, problems = {}, []
    for node, found in links.items():
        own = [link for network in shared for link in found if link_network(link) == network]
        problems += _link_problems(node, own, shared)
        networks[node] = Network(
            address=own[0]["address"], interface=own[0]["interface"], master_address=master, env=_fabric_env(own)
        )
    return networks, problems + _twice_problems(networks)


def _twice_problems(networks: dict[str, Network]) -> list[NodeProblem]:
    """Return a problem for every node that has the fabric address of an earlier one."""
    first: dict[str, str] = {}
    return [
        NodeProblem(
            node=node,
            what=f"has the fabric address {network['address']} of {first[network['address']]}",
            why="two ranks on one machine, or on one address, cannot find each other",
            cure="the inventory names one machine twice, or two machines share an address: correct it",
        )
        for node, network in networks.items()
        if first.setdefault(network["address"], node) != node
    ]


def _fabric_env(links: list[Link]) -> dict[str, str]:
    """Return the fabric environment of one rank; the first link carries the sockets, all of them the RDMA."""
    interface = links[0]["interface"]
    env = {
        "VLLM_HOST_IP": links[0]["address"],
        "NCCL_SOCKET_IFNAME": interface,
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,
        "UCX_NET_DEVICES": interface,
    }
    hcas = [link["hca"] for link in links if link["hca"]]
    if hcas:
        env["NCCL_IB_HCA"] = ",".join(hcas)
    indexes = {link["gid_index"] for link in links if link["hca"]}
    # One variable serves all HCAs: where they disagree NCCL must look the index up itself.
    if len(indexes) == 1 and None not in indexes:
        env["NCCL_IB_GID_INDEX"] = str(indexes.pop())
    return env


def _no_link_problem(node: str, facts: NodeFacts) -> NodeProblem:
    interfaces = facts["fabric"]["wanted"]
    if interfaces:
        what = f"none of the interfaces {', '.join(interfaces)} is up with an IPv4 address"
        cure = "correct fabric_interfaces of this node, or bring an interface up and give it an address"
    elif facts["fabric"]["links"]:
        seen = ", ".join(
            f"{link['interface'] or link['hca']} {'active' if link['active'] else 'down'}"
            f"{'' if link['address'] else ', no IPv4 address'}"
            for link in facts["fabric"]["links"]
        )
        what = f"no RDMA link is active with an IPv4 address ({seen})"
        cure = "plug the cable, bring the link up and give it an address; ibdev2netdev and ip -br addr show the state"
    else:
        what = "no RDMA device was found"
        cure = "check the ConnectX-7 driver, or name plain interfaces in fabric_interfaces to serve over TCP"
    return NodeProblem(node=node, what=what, why="the ranks of one model talk over the fabric", cure=cure)


def _odd_nodes(links: dict[str, list[Link]]) -> list[str]:
    """Return the nodes that share no network with the head, or all workers if each shares another one."""
    head, *workers = links
    own = {link_network(link) for link in links[head]}
    apart = [node for node in workers if not own & {link_network(link) for link in links[node]}]
    return apart or workers


def _no_shared_problem(node: str, links: dict[str, list[Link]]) -> NodeProblem:
    def subnets(name: str) -> str:
        return ", ".join(f"{link_network(link)} on {link['interface']}" for link in links[name])

    head = next(iter(links))
    return NodeProblem(
        node=node,
        what=f"shares no fabric network with all other nodes: it has {subnets(node)}; {head} has {subnets(head)}",
        why="every rank must reach every other one over the fabric",
        cure="put one port of every node into the same subnet, or choose other nodes with -e nodes=...",
    )


def _link_problems(node: str, links: list[Link], shared: list[IPv4Network]) -> list[NodeProblem]:
    problems = []
    for link in links:
        if link["hca"] and link["gid_index"] is None:
            problems.append(
                NodeProblem(
                    node=node,
                    what=f"{link['hca']} has no RoCE v2 GID for {link['address']}",
                    why="NCCL then fails with 'unhandled system error' or never moves a byte",
                    cure=f"set {link['interface']} down and up again, and look at show_gids",
                )
            )
        if link["hca"] and link["mtu"] < FULL_MTU:
            problems.append(
                NodeProblem(
                    node=node,
                    what=f"{link['interface']} has MTU {link['mtu']}, not {FULL_MTU}",
                    why="a reboot or a firmware update resets it, and mixed sizes stall large transfers",
                    cure="run provision.yml (role fabric), which sets and keeps it",
                )
            )
    for network in shared:
        twins = [link["interface"] for link in links if link_network(link) == network]
        if len(twins) > 1:
            problems.append(
                NodeProblem(
                    node=node,
                    what=f"{' and '.join(twins)} are in one subnet, {network}",
                    why="the route between twins of one subnet is ambiguous, and half of the bandwidth is lost",
                    cure="give each twin a subnet of its own",
                )
            )
    return problems
