# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a Spark's /sys that tell of its fabric, written below a root."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from .network import Port

HCA_OF = {"enp1s0f0np0": "rocep1s0f0", "enP2p1s0f0np0": "roceP2p1s0f0"}
TABLE_LENGTH = 16
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="ascii")


def _link_local(mac: str) -> str:
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    words = [octets[0] << 8 | octets[1], octets[2] << 8 | 0xFF, 0xFE00 | octets[3], octets[4] << 8 | octets[5]]
    return "fe80:0000:0000:0000:" + ":".join(f"{word:04x}" for word in words)


def _mapped(address: str) -> str:
    return ipaddress.IPv6Address(f"::ffff:{address}").exploded


def gid_table(port: Port) -> list[tuple[str, str] | None]:
    """GIDs with their types, as the kernel fills them: each address as RoCE v1 and v2.

    The IPv4 entry stands elsewhere from node to node: behind nothing, behind another IPv6 address, or behind a hole
    that an address left when it went away.
    """
    between: list[list[tuple[str, str] | None]] = [
        [None, None, None, None],
        [],
        [(f"fd00:0000:0000:0000:0000:0000:0000:{port.node:04x}", kind) for kind in ("IB/RoCE v1", "RoCE v2")],
    ]
    table: list[tuple[str, str] | None] = [(_link_local(port.mac), kind) for kind in ("IB/RoCE v1", "RoCE v2")]
    table += between[port.node % len(between)]
    table += [(_mapped(port.address), kind) for kind in ("IB/RoCE v1", "RoCE v2")]
    return table + [None] * (TABLE_LENGTH - len(table))


def _write_hca(folder: Path, port: Port) -> None:
    rdma = folder / "ports" / "1"
    _text(rdma / "state", "4: ACTIVE")
    _text(rdma / "phys_state", "5: LinkUp")
    _text(rdma / "rate", "200 Gb/sec (4X HDR)")
    _text(rdma / "link_layer", "Ethernet")
    for index, entry in enumerate(gid_table(port)):
        _text(rdma / "gids" / str(index), entry[0] if entry else EMPTY)
        # The kernel answers EINVAL when type or device of an empty entry is read: here there is nothing to read.
        if entry:
            _text(rdma / "gid_attrs" / "types" / str(index), entry[1])
            _text(rdma / "gid_attrs" / "ndevs" / str(index), port.name)
    (folder / "device" / "net" / port.name).mkdir(parents=True, exist_ok=True)


def write(root: Path, ports: list[Port]) -> None:
    """All interfaces, and the RDMA devices of those on the fabric."""
    for port in ports:
        net = root / "sys" / "class" / "net" / port.name
        hca = HCA_OF.get(port.name)
        _text(net / "address", port.mac)
        _text(net / "mtu", str(port.mtu))
        _text(net / "operstate", "up")
        _text(net / "speed", "200000" if hca else "10000")
        if hca:
            _write_hca(root / "sys" / "class" / "infiniband" / hca, port)
            (net / "device" / "infiniband" / hca).mkdir(parents=True, exist_ok=True)
    _text(root / "sys" / "class" / "dmi" / "id" / "product_name", "NVIDIA_DGX_Spark")
