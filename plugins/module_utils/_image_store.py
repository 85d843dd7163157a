# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to this collection: single layers of an image, read straight from the engine's own store on this node.

``docker save`` reads, and on the overlay2 store also copies, a whole image before the first byte is out: for a changed
top layer of 1 MB that is all of the time. Root can read just the layers that are wanted: on overlay2 the layer's files
with the tar headers that the engine kept of them (tar-split), on the containerd store the blobs as they are. What
comes out is the very byte stream that the layer's digest was made of, and the receiving engine checks that.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.module_utils._image_archive import LAYER_TYPE
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_engine import CHUNK, image_store
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import chain_ids, layer_digests

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)

# Name, size and raw bytes of a tar-split entry: either a file's content to insert, or (no name) bytes as they are.
Entry = tuple[Any, int, bytes]


class StoreError(Exception):
    """The store cannot be read layer by layer; the text says why."""


@dataclass(frozen=True)
class Layer:
    """One layer as it travels: ``digest`` names the bytes of the blob, which may be compressed."""

    digest: str
    media_type: str
    size: int
    path: Path
    files: Path | None = None

    def open(self) -> tuple[int, Iterator[bytes]]:
        """The blob's exact size and its bytes: the file itself, or the layer's files between their kept tar headers."""
        if self.files is None:
            return self.size, _whole_file(self.path)
        entries = list(_entries(self.path))
        return sum(size for _name, size, _rest in entries), _tar_split(entries, self.files)

    def exact_size(self) -> int:
        """The blob's size without its bytes: Docker itself notes only the size of the files in a layer."""
        return self.size if self.files is None else sum(size for _name, size, _rest in _entries(self.path))


@dataclass(frozen=True)
class StoredImage:
    """An image that can be read layer by layer. ``manifest`` is None where the store keeps none (overlay2)."""

    config: bytes
    layers: tuple[Layer, ...]
    manifest: bytes | None


def open_image(info: Mapping[str, Any], inspect: Mapping[str, Any]) -> StoredImage:
    """The image of an inspect output in the engine's store; StoreError when it must be had from ``docker save``."""
    if os.geteuid() != 0:
        raise StoreError("only root can read single layers from Docker's store")
    store = image_store(dict(info))
    try:
        if store == "overlay2":
            return _open_overlay2(Path(str(info["DockerRootDir"])), inspect)
        if store == "containerd":
            return _open_containerd(content_root(info), inspect)
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"Docker's {store} store could not be read: {error}") from error
    raise StoreError(f"single layers cannot be read from Docker's {store} store")


def content_root(info: Mapping[str, Any]) -> Path:
    """Where the containerd that this engine uses keeps its blobs."""
    engine_root = Path(str(info["DockerRootDir"])) / "containerd" / "daemon"
    for root in (engine_root, Path("/var/lib/containerd")):
        blobs = root / "io.containerd.content.v1.content" / "blobs" / "sha256"
        if blobs.is_dir():
            return blobs
    raise StoreError(f"no containerd content store in {engine_root} or /var/lib/containerd")


def _open_overlay2(root: Path, inspect: Mapping[str, Any]) -> StoredImage:
    config = (root / "image/overlay2/imagedb/content/sha256" / _hex(inspect["Id"])).read_bytes()
    layers = []
    diff_ids = layer_digests(inspect)
    for digest, chain in zip(diff_ids, chain_ids(diff_ids), strict=True):
        entry = root / "image/overlay2/layerdb/sha256" / _hex(chain)
        files = root / "overlay2" / (entry / "cache-id").read_text().strip() / "diff"
        split = entry / "tar-split.json.gz"
        if not (files.is_dir() and split.is_file()):
            raise StoreError(f"Docker keeps no tar headers of layer {digest}")
        layers.append(Layer(digest, LAYER_TYPE, int((entry / "size").read_text()), split, files))
    return StoredImage(config, tuple(layers), None)


def _open_containerd(blobs: Path, inspect: Mapping[str, Any]) -> StoredImage:
    target = str((inspect.get("Descriptor") or {}).get("digest") or inspect["Id"])
    text = _manifest(blobs, target, inspect)
    manifest = json.loads(text)
    layers = []
    for layer in manifest["layers"]:
        path = blobs / _hex(layer["digest"])
        if not path.is_file():
            raise StoreError(f"containerd no longer keeps the blob of layer {layer['digest']}")
        layers.append(Layer(layer["digest"], layer["mediaType"], int(layer["size"]), path))
    config = (blobs / _hex(manifest["config"]["digest"])).read_bytes()
    return StoredImage(config, tuple(layers), text)


def _manifest(blobs: Path, digest: str, inspect: Mapping[str, Any]) -> bytes:
    """The manifest of the platform that the engine shows, also when the tag names an index of several."""
    text = (blobs / _hex(digest)).read_bytes()
    document = json.loads(text)
    if document.get("mediaType") not in INDEX_TYPES and "manifests" not in document:
        return text
    for entry in document["manifests"]:
        path = blobs / _hex(entry["digest"])
        # An index names all platforms, and attestations beside them; the node has the blobs of its own only.
        if path.is_file() and _is_shown(blobs, json.loads(path.read_bytes()), inspect):
            return path.read_bytes()
    raise StoreError("none of the image's platforms is complete in containerd's store")


def _is_shown(blobs: Path, manifest: Mapping[str, Any], inspect: Mapping[str, Any]) -> bool:
    config = blobs / _hex(str((manifest.get("config") or {}).get("digest") or ""))
    if not config.is_file():
        return False
    layers = (json.loads(config.read_bytes()).get("rootfs") or {}).get("diff_ids") or []
    return bool(layers) and layers == layer_digests(inspect)


def _whole_file(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def _entries(split: Path) -> Iterator[Entry]:
    """The entries of a kept tar, in the order of the stream."""
    with gzip.open(split, "rb") as stream:
        for line in stream:
            entry = json.loads(line)
            if entry["type"] == 2:
                raw = base64.b64decode(entry["payload"] or "")
                yield "", len(raw), raw
            elif size := int(entry.get("size") or 0):
                raw_name = entry.get("name_raw")
                yield base64.b64decode(raw_name) if raw_name else entry["name"], size, b""


def _tar_split(entries: Sequence[Entry], files: Path) -> Iterator[bytes]:
    """The layer's tar, small pieces gathered into chunks."""
    pending = bytearray()
    for name, size, raw in entries:
        if not name:
            pending += raw
        elif size < CHUNK:
            pending += b"".join(_content(files, name, size))
        else:
            yield bytes(pending)
            pending.clear()
            yield from _content(files, name, size)
        if len(pending) >= CHUNK:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)


def _content(files: Path, name: str | bytes, size: int) -> Iterator[bytes]:
    left = size
    # The engine cleans names like this too: an image is data from strangers, and nothing outside the layer is read.
    inside = os.path.normpath(b"/" + os.fsencode(name)).lstrip(b"/")
    # By descriptor, since a name in a layer need not be text; and never through a link that the layer planted.
    handle = os.open(os.path.join(os.fsencode(files), inside), os.O_RDONLY | os.O_NOFOLLOW)  # noqa: PTH118
    with os.fdopen(handle, "rb", buffering=0) as stream:
        while left:
            chunk = stream.read(min(CHUNK, left))
            if not chunk:
                raise StoreError(f"{os.fsdecode(inside)} in the layer is {left} bytes shorter than Docker noted")
            left -= len(chunk)
            yield chunk


def _hex(digest: str) -> str:
    algorithm, _colon, value = digest.partition(":")
    if algorithm != "sha256" or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise StoreError(f"not a sha256 digest: {digest!r}")
    return value


def known_blobs(info: Mapping[str, Any]) -> Sequence[str]:
    """Digests of the blobs that a containerd store has, for root to see; empty where that cannot be told."""
    try:
        return sorted(f"sha256:{path.name}" for path in content_root(info).iterdir())
    except (OSError, StoreError):
        return []
