# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives as both image stores read them, checked with the standard library's own tar reader."""

from __future__ import annotations

import io
import json
import tarfile

from ansible_collections.dgxspark.vllm.plugins.module_utils._image_archive import (
    LAYER_TYPE,
    LayerBlob,
    blob_name,
    closing,
    digest_of,
    header,
    make_manifest,
    member,
    padding,
)

CONFIG = b'{"rootfs":{"type":"layers","diff_ids":[]}}'
LAYER = LayerBlob("sha256:" + "a" * 64, LAYER_TYPE, 3)
REFERENCE = "dgxspark-image-sync:run"


def files(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {entry.name: extracted.read() for entry in tar if (extracted := tar.extractfile(entry))}


def test_lists_name_layers_that_the_archive_leaves_out() -> None:
    found = files(closing(CONFIG, [LAYER.digest], REFERENCE, None))
    name = "blobs/sha256/" + digest_of(CONFIG)[7:]
    assert list(found) == [name, "manifest.json"]
    assert found[name] == CONFIG
    assert json.loads(found["manifest.json"]) == [
        {"Config": name, "RepoTags": [REFERENCE], "Layers": ["blobs/sha256/" + "a" * 64]}
    ]


def test_oci_half_names_the_manifest() -> None:
    manifest = make_manifest(CONFIG, [LAYER])
    found = files(closing(CONFIG, [LAYER.digest], REFERENCE, manifest))
    assert found[blob_name(digest_of(manifest))] == manifest
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [entry] = json.loads(found["index.json"])["manifests"]
    assert entry["digest"] == digest_of(manifest)
    assert entry["size"] == len(manifest)
    assert entry["annotations"] == {
        "io.containerd.image.name": "docker.io/library/dgxspark-image-sync:run",
        "org.opencontainers.image.ref.name": "run",
    }
    assert json.loads(manifest)["layers"] == [{"mediaType": LAYER_TYPE, "digest": LAYER.digest, "size": 3}]


def test_archive_cut_short_names_no_image() -> None:
    archive = (
        header(blob_name(LAYER.digest), 3) + b"abc" + padding(3) + closing(CONFIG, [LAYER.digest], REFERENCE, None)
    )
    cut = archive[: archive.index(b"manifest.json")]
    assert "manifest.json" not in files(cut)


def test_layer_beyond_8_gib_has_a_header() -> None:
    entry = tarfile.TarInfo.frombuf(header("blobs/sha256/x", 10 * 2**30), "utf-8", "strict")
    assert entry.size == 10 * 2**30


def test_members_fill_blocks() -> None:
    assert len(member("x", b"abc")) == 1024
    assert padding(512) == b""
