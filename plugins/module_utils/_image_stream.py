# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to this collection: one image read once and fed to several ``ssh ... docker load`` at the same time.

Every receiver gets its own archive out of the same read: the layers that it lacks. Nothing touches the disk. A
receiver that fails or stalls is dropped with its reason, and the others go on.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.module_utils._image_archive import (
    LayerBlob,
    blob_name,
    closing,
    header,
    make_manifest,
    padding,
)
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_store import StoredImage

QUEUED_CHUNKS = 16
PIPE_SIZE = 1 << 20
KEPT_LINES = 5


@dataclass
class Target:
    """A receiver: how to reach it, and which layers it wants (None: the whole image as ``docker save`` gives it)."""

    node: str
    argv: Sequence[str]
    wanted: frozenset[str] | None
    oci: bool = False


@dataclass
class Feed:
    """One receiver's stream: a bounded queue, and a thread that writes it to ssh."""

    target: Target
    stall_limit: float
    sent: int = 0
    layers_sent: int = 0
    layers_skipped: int = 0
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    state: str = "sending"
    error: str = ""

    def __post_init__(self) -> None:
        self._chunks: queue.Queue[bytes | None] = queue.Queue(QUEUED_CHUNKS)
        self._process = subprocess.Popen(
            list(self.target.argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pipesize=PIPE_SIZE,
        )
        self._complaints: list[str] = []
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._reader.start()
        self._writer.start()

    @property
    def alive(self) -> bool:
        return not self.error

    def put(self, chunk: bytes) -> None:
        """Hand over a chunk; waits while the receiver is slower than the reader, but not for ever."""
        moved, since = self.sent, time.monotonic()
        while self.alive:
            with contextlib.suppress(queue.Full):
                self._chunks.put(chunk, timeout=1)
                return
            if self.sent != moved:
                moved, since = self.sent, time.monotonic()
            elif time.monotonic() - since > self.stall_limit:
                self.fail(f"took no data for {self.stall_limit:.0f} s")

    def end(self) -> None:
        """The archive is complete: let the writer close it."""
        while self.alive:
            with contextlib.suppress(queue.Full):
                self._chunks.put(None, timeout=1)
                return

    def fail(self, reason: str) -> None:
        """Give this receiver up. What it got so far lacks the lists at the end, so it is no image there."""
        self.error = self.error or reason
        self._process.kill()
        with contextlib.suppress(queue.Full):
            self._chunks.put_nowait(None)

    def join(self) -> None:
        """Wait until the receiving engine has taken the image in, or has said why not."""
        self._writer.join()

    def report(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "bytes": self.sent,
            "layers_sent": self.layers_sent,
            "layers_skipped": self.layers_skipped,
            "seconds": self.seconds or round(time.monotonic() - self.started, 2),
            "error": self.error,
        }

    def _write(self) -> None:
        pipe = self._process.stdin
        try:
            while pipe and (chunk := self._chunks.get()) is not None:
                pipe.write(chunk)
                self.sent += len(chunk)
            self.state = "loading"
        except OSError:
            self.error = self.error or "the connection broke off"
        finally:
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
            self._conclude()

    def _conclude(self) -> None:
        code = self._process.wait()
        self._reader.join(timeout=5)
        self.seconds = round(time.monotonic() - self.started, 2)
        # What the other end said comes before what this end only noticed.
        said = " ".join(self._complaints) if code != 0 else ""
        if code != 0:
            self.error = said or self.error or f"the connection ended with code {code}"
        self.state = "failed" if self.error else "loaded"

    def _listen(self) -> None:
        for line in self._process.stderr or ():
            text = line.decode("utf-8", "replace").strip()
            if text:
                self._complaints = [*self._complaints, text][-KEPT_LINES:]


def start(targets: Sequence[Target], stall_limit: float) -> list[Feed]:
    return [Feed(target, stall_limit) for target in targets]


def feed_layers(image: StoredImage, feeds: Sequence[Feed], reference: str) -> None:
    """Send each receiver the layers it wants, every layer read once."""
    sizes: dict[str, int] = {}
    for layer in image.layers:
        takers = [feed for feed in feeds if feed.alive and _wants(feed, layer.digest)]
        for feed in feeds:
            feed.layers_skipped += not _wants(feed, layer.digest)
            feed.layers_sent += _wants(feed, layer.digest)
        if not takers or layer.digest in sizes:
            continue
        size, chunks = layer.open()
        sizes[layer.digest] = size
        _share(takers, header(blob_name(layer.digest), size))
        _share_all(takers, chunks)
        _share(takers, padding(size))
    _close(image, feeds, reference, sizes)


def feed_archive(archive: Iterator[bytes], feeds: Sequence[Feed], layers: int) -> None:
    """Send each receiver the whole image as the engine saves it."""
    _share_all(feeds, archive)
    for feed in feeds:
        feed.layers_sent = layers
        feed.end()


def finish(feeds: Sequence[Feed]) -> None:
    for feed in feeds:
        feed.join()


def report(feeds: Sequence[Feed]) -> Mapping[str, Any]:
    return {feed.target.node: feed.report() for feed in feeds}


def repeat(every: float, action: Callable[[], None]) -> Callable[[], None]:
    """Run ``action`` in the background until the returned function is called; it runs once more then."""
    ended = threading.Event()

    def loop() -> None:
        while not ended.wait(every):
            action()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()

    def stop() -> None:
        ended.set()
        thread.join()
        action()

    return stop


def _wants(feed: Feed, digest: str) -> bool:
    return feed.target.wanted is None or digest in feed.target.wanted


def _share(feeds: Sequence[Feed], chunk: bytes) -> None:
    if chunk:
        for feed in feeds:
            feed.put(chunk)


def _share_all(feeds: Sequence[Feed], chunks: Iterator[bytes]) -> None:
    for chunk in chunks:
        _share(feeds, chunk)
        if not any(feed.alive for feed in feeds):
            return


def _close(image: StoredImage, feeds: Sequence[Feed], reference: str, sizes: Mapping[str, int]) -> None:
    manifest = image.manifest
    if manifest is None and any(feed.target.oci for feed in feeds):
        blobs = [
            LayerBlob(layer.digest, layer.media_type, sizes.get(layer.digest) or layer.exact_size())
            for layer in image.layers
        ]
        manifest = make_manifest(image.config, blobs)
    digests = [layer.digest for layer in image.layers]
    for feed in feeds:
        feed.put(closing(image.config, digests, reference, manifest if feed.target.oci else None))
        feed.end()
