# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to this collection: the archive that ``docker load`` reads, with the receiver's own layers left out.

One layout serves both stores, as newer ``docker save`` writes it: blobs by digest, an OCI index for the containerd
store and a ``manifest.json`` for the others. Both lists come last, so that an archive cut short is never an image.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass

BLOCK = 512
END = b"\0" * (2 * BLOCK)
LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class LayerBlob:
    """What the lists of an archive say of one layer."""

    digest: str
    media_type: str
    size: int


def digest_of(text: bytes) -> str:
    return "sha256:" + hashlib.sha256(text).hexdigest()


def blob_name(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/", 1)


def header(name: str, size: int) -> bytes:
    """The tar header of a plain file; GNU's form, since a layer may be larger than 8 GiB."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = 0o644
    return entry.tobuf(tarfile.GNU_FORMAT)


def padding(size: int) -> bytes:
    return b"\0" * (-size % BLOCK)


def member(name: str, content: bytes) -> bytes:
    return header(name, len(content)) + content + padding(len(content))


def make_manifest(config: bytes, layers: Sequence[LayerBlob]) -> bytes:
    """An OCI manifest for an image whose store keeps none."""
    return _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(config), "size": len(config)},
            "layers": [{"mediaType": layer.media_type, "digest": layer.digest, "size": layer.size} for layer in layers],
        }
    )


def closing(config: bytes, layers: Sequence[str], reference: str, manifest: bytes | None) -> bytes:
    """Everything after the layers: the config and the lists that name the image.

    The OCI half is left out where only other stores receive: it needs every layer's exact size, also of those that
    stay at home.
    """
    oci = b"" if manifest is None else _oci_closing(manifest, reference)
    legacy = {
        "Config": blob_name(digest_of(config)),
        "RepoTags": [reference],
        "Layers": [blob_name(digest) for digest in layers],
    }
    return member(blob_name(digest_of(config)), config) + oci + member("manifest.json", _json([legacy])) + END


def _oci_closing(manifest: bytes, reference: str) -> bytes:
    entry = {
        "mediaType": json.loads(manifest).get("mediaType", MANIFEST_TYPE),
        "digest": digest_of(manifest),
        "size": len(manifest),
        "annotations": {
            "io.containerd.image.name": f"docker.io/library/{reference}",
            "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
        },
    }
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}
    return (
        member(blob_name(digest_of(manifest)), manifest)
        + member("oci-layout", LAYOUT)
        + member("index.json", _json(index))
    )


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("ascii")
