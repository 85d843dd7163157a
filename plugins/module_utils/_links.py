# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's network interfaces and RDMA links, read from sysfs and the kernel's addresses. Private to the collection."""

from __future__ import annotations

import json
import re
import subprocess
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

ACTIVE = "ACTIVE"
ROCE_V2 = "RoCE v2"
# What a node gives itself while it waits for a real address.
LINK_LOCAL = "169.254."
UNUSED_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def read_text(path: Path) -> str:
    """Return a sysfs file's text without its line end, empty where it cannot be read.

    The kernel answers some attributes with an error while a link is down, so that is no fault.
    """
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def kernel_addresses() -> dict[str, list[dict[str, Any]]]:
    """Return the IPv4 addresses of every interface: name -> ``[{address, prefix}]``."""
    answer = subprocess.run(["ip", "-json", "-4", "address", "show"], capture_output=True, text=True, check=True)
    return {
        entry["ifname"]: [
            {"address": info["local"], "prefix": info["prefixlen"]}
            for info in entry.get("addr_info", [])
            if info.get("family") == "inet"
        ]
        for entry in json.loads(answer.stdout or "[]")
        if "ifname" in entry
    }


def read_interfaces(root: Path, addresses: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return every interface but the loopback, by name."""
    found = []
    base = root / "sys/class/net"
    for folder in sorted(base.iterdir()) if base.is_dir() else []:
        if folder.name == "lo":
            continue
        found.append(
            {
                "name": folder.name,
                "up": read_text(folder / "operstate") == "up",
                "mtu": _number(read_text(folder / "mtu")),
                "speed_mbps": _number(read_text(folder / "speed")),
                "addresses": addresses.get(folder.name, []),
            }
        )
    return found


def read_links(root: Path, interfaces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one link for each port of each RDMA device, by device name, port 0 before its twin.

    Its address is the first IPv4 address of its interface, and its GID index the RoCE v2 entry of that address.
    """
    by_name = {interface["name"]: interface for interface in interfaces}
    found = []
    base = root / "sys/class/infiniband"
    for device in sorted(base.iterdir(), key=lambda entry: entry.name.lower()) if base.is_dir() else []:
        ports = device / "ports"
        found += [_read_link(device, port, by_name) for port in sorted(ports.iterdir() if ports.is_dir() else [])]
    return found


def _read_link(device: Path, port: Path, interfaces: dict[str, dict[str, Any]]) -> dict[str, Any]:
    gids = _read_gids(port)
    interface = _interface_name(device, gids, interfaces)
    own = interfaces.get(interface, {"mtu": 0, "speed_mbps": 0, "addresses": []})
    lasting = [entry for entry in own["addresses"] if not entry["address"].startswith(LINK_LOCAL)]
    first = (lasting or own["addresses"] or [{"address": "", "prefix": 0}])[0]
    matching = [gid["index"] for gid in gids if gid["type"] == ROCE_V2 and gid["address"] == first["address"] != ""]
    return {
        "hca": device.name,
        "port": _number(port.name),
        "interface": interface,
        "active": read_text(port / "state").endswith(ACTIVE),
        "mtu": own["mtu"],
        "speed_mbps": own["speed_mbps"],
        "address": first["address"],
        "prefix": first["prefix"],
        "gid_index": matching[0] if matching else None,
    }


def _read_gids(port: Path) -> list[dict[str, Any]]:
    """Return the port's used GID table entries, in order."""
    found = []
    base = port / "gids"
    for path in sorted(base.iterdir(), key=lambda entry: _number(entry.name)) if base.is_dir() else []:
        gid = read_text(path)
        if gid and gid != UNUSED_GID:
            mapped = IPv6Address(gid).ipv4_mapped
            found.append(
                {
                    "index": _number(path.name),
                    "type": read_text(port / "gid_attrs/types" / path.name),
                    "interface": read_text(port / "gid_attrs/ndevs" / path.name),
                    "address": str(mapped) if mapped else "",
                }
            )
    return found


def _interface_name(device: Path, gids: list[dict[str, Any]], interfaces: dict[str, dict[str, Any]]) -> str:
    """Return the interface that an RDMA device belongs to: by its device folder, else by its GIDs."""
    folder = device / "device/net"
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    names += [gid["interface"] for gid in gids if gid["interface"]]
    known = [name for name in names if name in interfaces]
    return (known or names or [""])[0]


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d+", text) else 0
