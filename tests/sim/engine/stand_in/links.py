# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links between ranks: one JSON object a line over TCP."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any

Message = dict[str, Any]


class Link:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = b""

    def send(self, message: Message) -> bool:
        """False when the other end is gone."""
        try:
            self._socket.settimeout(5)
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, None when the other end is gone; TimeoutError when nothing came."""
        self._socket.settimeout(timeout)
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                raise
            except OSError:
                return None
            if not data:
                return None
            self._buffer += data
        line, _newline, self._buffer = self._buffer.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        """Let the other end see it."""
        with contextlib.suppress(OSError):
            self._socket.close()


def connect(address: tuple[str, int], deadline: float) -> Link:
    """Keep trying until someone listens there; TimeoutError when nobody did."""
    while True:
        try:
            return Link(socket.create_connection(address, timeout=2))
        except OSError:
            if time.monotonic() >= deadline:
                raise TimeoutError from None
            time.sleep(0.1)


def listen(address: tuple[str, int]) -> socket.socket:
    """OSError when the address is not this node's, or taken."""
    return socket.create_server(address, backlog=64)


def own_address() -> str:
    """VLLM_HOST_IP, or the address the default route leaves from, as vLLM has it."""
    given = os.environ.get("VLLM_HOST_IP", "")
    if given:
        return given
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("8.8.8.8", 80))
        return str(probe.getsockname()[0])
    return "0.0.0.0"  # noqa: S104 - vLLM's own last resort
