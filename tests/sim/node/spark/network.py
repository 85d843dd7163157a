# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interface names of a Spark: Docker calls them eth0 and so on in its own order, the subnet tells which is which."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

# The third octet of a simulated Spark's address is the network it belongs to.
NAMES = {0: "enP7s7", 1: "enp1s0f0np0", 2: "enP2p1s0f0np0"}


@dataclass(frozen=True)
class Port:
    """One interface under its final name."""

    name: str
    address: str
    mac: str
    mtu: int

    @property
    def node(self) -> int:
        """Which node this is, 1..8: node i has the address .10+i in every network."""
        return int(self.address.rsplit(".", 1)[1]) - 10


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def _links() -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = json.loads(_ip("-j", "-4", "address", "show"))
    return links


def rename_ports() -> list[Port]:
    """Give every interface its name; a link must be down for it, which loses the default route."""
    defaults: list[dict[str, Any]] = json.loads(_ip("-j", "route", "show", "default") or "[]")
    macs = {link["ifname"]: link["address"] for link in json.loads(_ip("-j", "link", "show"))}
    ports: list[Port] = []
    for link in _links():
        old = link["ifname"]
        address = next((entry["local"] for entry in link["addr_info"] if entry["scope"] == "global"), "")
        if not address or old.startswith(("docker", "br-")):
            continue
        name = NAMES[int(address.split(".")[2])]
        if name != old:
            _ip("link", "set", old, "down")
            _ip("link", "set", old, "name", name)
            _ip("link", "set", name, "up")
            for route in defaults:
                if route["dev"] == old:
                    _ip("route", "replace", "default", "via", route["gateway"], "dev", name)
        ports.append(Port(name, address, macs[old], link["mtu"]))
    return ports
