# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the ranks find each other: rank 0 listens at the master address, the others come and say who they are."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field

from .journal import Journal
from .launch import Launch
from .links import Link, Message, connect, listen, own_address

DEFAULT_TIMEOUT = 600
_JOIN_SECONDS = 5


class RendezvousError(Exception):
    """The ranks did not come together; the text is the end of the log."""


@dataclass
class Meeting:
    """The head's side: a link to every other rank, and whether someone came who does not belong."""

    links: dict[int, Link] = field(default_factory=dict)
    stale: threading.Event = field(default_factory=threading.Event)
    strangers: list[Link] = field(default_factory=list)


def _differences(mine: Message, theirs: Message) -> str:
    names = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
    return "; ".join(f"{name}: {mine.get(name)!r} on rank 0, {theirs.get(name)!r} there" for name in names)


def _complaint(launch: Launch, joins: dict[int, Message]) -> str:
    """Flags that are not the same everywhere; known only when all ranks are there."""
    bad = {rank: join for rank, join in joins.items() if join["digest"] != launch.digest}
    return " | ".join(
        f"rank {rank} was started with other flags than rank 0: {_differences(launch.shared_flags, join['flags'])}"
        for rank, join in sorted(bad.items())
    )


def _early_complaint(launch: Launch, join: Message, seen: dict[int, Message]) -> str:
    """What no further rank can heal."""
    if join["nodes"] != launch.nodes:
        return f"rank {join['rank']} was started for {join['nodes']} nodes, rank 0 for {launch.nodes}"
    if join["rank"] in seen or join["rank"] == 0:
        return f"two processes say they are rank {join['rank']}"
    return ""


def _refuse(links: dict[int, Link], reason: str) -> None:
    for link in links.values():
        link.send({"refused": reason})
    raise RendezvousError(f"RuntimeError: ranks do not agree: {reason}")


def _watch_for_strangers(server: socket.socket, meeting: Meeting) -> None:
    """A rank that comes when the group is complete is let in and never answered: it hangs, and the group with it."""
    while True:
        connection, _peer = server.accept()
        link = Link(connection)
        meeting.strangers.append(link)
        try:
            if link.receive(_JOIN_SECONDS) is not None:
                meeting.stale.set()
        except TimeoutError:
            continue


def _gather(launch: Launch, server: socket.socket, meeting: Meeting) -> dict[int, Message]:
    limit = launch.timeout or DEFAULT_TIMEOUT
    deadline = time.monotonic() + limit
    joins: dict[int, Message] = {}
    while len(joins) < launch.nodes - 1:
        try:
            server.settimeout(max(deadline - time.monotonic(), 0.01))
            link = Link(server.accept()[0])
            join = link.receive(_JOIN_SECONDS)
        except TimeoutError:
            if time.monotonic() < deadline:
                continue
            raise RendezvousError(
                f"torch.distributed.DistStoreError: Timed out after {limit + 1} seconds waiting for clients. "
                f"{len(joins) + 1}/{launch.nodes} clients joined."
            ) from None
        if join is None:
            continue
        complaint = _early_complaint(launch, join, joins)
        if complaint:
            _refuse({**meeting.links, launch.nodes: link}, complaint)
        joins[join["rank"]] = join
        meeting.links[join["rank"]] = link
    return joins


def lead(launch: Launch) -> Meeting:
    """Rank 0: wait for the others, compare what they were told, tell them where the message queue is."""
    meeting = Meeting()
    try:
        server = listen(launch.master)
    except OSError as error:
        raise RendezvousError(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            f"port: {launch.master[1]}, useIpv6: false, code: -{error.errno}, name: {_name(error)}, "
            f"message: {(error.strerror or '').lower()}"
        ) from None
    joins = _gather(launch, server, meeting)
    complaint = _complaint(launch, joins)
    if complaint:
        _refuse(meeting.links, complaint)
    server.settimeout(None)
    threading.Thread(target=_watch_for_strangers, args=(server, meeting), daemon=True).start()
    return meeting


def _name(error: OSError) -> str:
    return {98: "EADDRINUSE", 99: "EADDRNOTAVAIL", 13: "EACCES"}.get(error.errno or 0, "UNKNOWN")


def open_queue() -> socket.socket:
    """vLLM's message queue listens on the rank's own address: a wrong VLLM_HOST_IP shows here."""
    address = own_address()
    try:
        return listen((address, 0))
    except OSError as error:
        raise RendezvousError(
            f"zmq.error.ZMQError: {error.strerror} (addr='tcp://{address}:0')\n"
            f"VLLM_HOST_IP={address} is not an address of this node."
        ) from None


def link_queues(meeting: Meeting, queue: socket.socket) -> dict[int, Link]:
    """Rank 0: call the ranks to the queue, and take their links."""
    host, port = queue.getsockname()[:2]
    for link in meeting.links.values():
        link.send({"queue": [host, port]})
    queues: dict[int, Link] = {}
    while len(queues) < len(meeting.links):
        link = Link(queue.accept()[0])
        hello = link.receive(_JOIN_SECONDS)
        if hello:
            queues[hello["rank"]] = link
    return queues


def join(launch: Launch, journal: Journal) -> Link:
    """The other ranks: find rank 0, say who this is, and wait to be called to the queue."""
    limit = launch.timeout or DEFAULT_TIMEOUT
    deadline = time.monotonic() + limit
    host, port = launch.master
    try:
        link = connect(launch.master, deadline)
        link.send({"rank": launch.rank, "nodes": launch.nodes, "digest": launch.digest, "flags": launch.shared_flags})
        answer = link.receive(max(deadline - time.monotonic(), 0.1))
    except TimeoutError:
        journal.fail("socket.cpp:1051", f"[c10d] The client socket has timed out after {limit * 1000}ms.")
        raise RendezvousError(
            f"torch.distributed.DistNetworkError: The client socket has timed out after {limit * 1000}ms while "
            f"trying to connect to ({host}, {port})."
        ) from None
    if answer is None:
        raise RendezvousError(
            "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the "
            "remote server shutdown or crash?"
        )
    if "refused" in answer:
        raise RendezvousError(f"RuntimeError: ranks do not agree: {answer['refused']}")
    queue = connect((answer["queue"][0], answer["queue"][1]), deadline)
    queue.send({"rank": launch.rank})
    # The first link stays open as long as this process lives, as the store's does.
    _kept.append(link)
    return queue


_kept: list[Link] = []
