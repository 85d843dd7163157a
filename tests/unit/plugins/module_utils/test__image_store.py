# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single layers out of stores laid out in a folder as Docker lays them out: the very bytes of the layer's digest."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import chain_ids
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_store import (
    StoreError,
    known_blobs,
    open_image,
)

CONTENT = {"etc/": b"", "etc/small": b"hello\n", "etc/empty": b"", "big": os.urandom(3_000_001), "opt/.wh.gone": b""}


def sha(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def layer_tar(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in content.items():
            entry = tarfile.TarInfo(name.rstrip("/"))
            entry.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    return buffer.getvalue()


def tar_split(archive: bytes) -> bytes:
    """The kept headers of a tar, as Docker's tar-split writes them: raw pieces, and files by name and size."""
    lines, place = [], 0
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for entry in tar:
            raw = archive[place : entry.offset_data]
            lines.append({"type": 2, "payload": base64.b64encode(raw).decode()})
            lines.append({"type": 1, "name": entry.name, "size": entry.size, "payload": "crc"})
            place = entry.offset_data + entry.size
    lines.append({"type": 2, "payload": base64.b64encode(archive[place:]).decode()})
    return gzip.compress("\n".join(json.dumps(line) for line in lines).encode())


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def overlay2(root: Path) -> tuple[dict[str, Any], dict[str, Any], list[bytes]]:
    archives = [layer_tar(CONTENT), layer_tar({"etc/small": b"changed\n"})]
    diff_ids = [f"sha256:{sha(archive)}" for archive in archives]
    for number, (archive, chain) in enumerate(zip(archives, chain_ids(diff_ids), strict=True)):
        entry = root / "image/overlay2/layerdb/sha256" / chain[7:]
        entry.mkdir(parents=True)
        (entry / "cache-id").write_text(f"cache{number}")
        (entry / "size").write_text("42")
        (entry / "tar-split.json.gz").write_bytes(tar_split(archive))
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(root / f"overlay2/cache{number}/diff", filter="data")
    config = b'{"config":{}}'
    place = root / "image/overlay2/imagedb/content/sha256" / sha(config)
    place.parent.mkdir(parents=True)
    place.write_bytes(config)
    info = {"Driver": "overlay2", "DockerRootDir": str(root)}
    return info, {"Id": f"sha256:{sha(config)}", "RootFS": {"Layers": diff_ids}}, archives


@pytest.mark.usefixtures("as_root")
def test_overlay2_layers_are_byte_for_byte(tmp_path: Path) -> None:
    info, inspect, archives = overlay2(tmp_path)
    image = open_image(info, inspect)
    assert image.manifest is None
    assert image.config == b'{"config":{}}'
    for layer, archive in zip(image.layers, archives, strict=True):
        size, chunks = layer.open()
        assert b"".join(chunks) == archive
        assert size == layer.exact_size() == len(archive)
        assert layer.digest == f"sha256:{sha(archive)}"


@pytest.mark.usefixtures("as_root")
def test_file_that_shrank_is_noticed(tmp_path: Path) -> None:
    info, inspect, _digests = overlay2(tmp_path)
    (tmp_path / "overlay2/cache0/diff/big").write_bytes(b"short")
    with pytest.raises(StoreError, match=r"^big in the layer is 2999996 bytes shorter than Docker noted$"):
        b"".join(open_image(info, inspect).layers[0].open()[1])


@pytest.mark.usefixtures("as_root")
def test_link_that_a_layer_planted_is_not_followed(tmp_path: Path) -> None:
    info, inspect, _digests = overlay2(tmp_path)
    big = tmp_path / "overlay2/cache0/diff/big"
    big.unlink()
    big.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        b"".join(open_image(info, inspect).layers[0].open()[1])


@pytest.mark.usefixtures("as_root")
def test_layer_without_kept_headers(tmp_path: Path) -> None:
    info, inspect, _digests = overlay2(tmp_path)
    for path in tmp_path.glob("image/overlay2/layerdb/sha256/*/tar-split.json.gz"):
        path.unlink()
    with pytest.raises(StoreError, match=r"^Docker keeps no tar headers of layer sha256:[0-9a-f]{64}$"):
        open_image(info, inspect)


def test_only_root_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(StoreError, match=r"^only root can read single layers from Docker's store$"):
        open_image({"Driver": "overlay2", "DockerRootDir": "/var/lib/docker"}, {})


@pytest.mark.usefixtures("as_root")
def test_other_drivers_say_so() -> None:
    with pytest.raises(StoreError, match=r"^single layers cannot be read from Docker's btrfs store$"):
        open_image({"Driver": "btrfs", "DockerRootDir": "/var/lib/docker"}, {})


def containerd(root: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, bytes]]:
    """A store that holds one platform of an index of two, and no attestation's blobs."""
    blobs = root / "containerd/daemon/io.containerd.content.v1.content/blobs/sha256"
    blobs.mkdir(parents=True)
    kept: dict[str, bytes] = {}

    def keep(document: object) -> str:
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        (blobs / sha(text)).write_bytes(text)
        kept[f"sha256:{sha(text)}"] = text
        return f"sha256:{sha(text)}"

    layer = keep(gzip.compress(b"layer", mtime=0))
    config = keep({"rootfs": {"diff_ids": ["sha256:" + "d" * 64]}})
    manifest = keep(
        {"config": {"digest": config}, "layers": [{"digest": layer, "mediaType": "tar+gzip", "size": len(kept[layer])}]}
    )
    foreign = keep({"config": {"digest": "sha256:" + "0" * 64}, "layers": []})
    entries = [{"digest": "sha256:" + "1" * 64}, {"digest": foreign}, {"digest": manifest}]
    index = keep({"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries})
    info = {
        "Driver": "overlayfs",
        "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
        "DockerRootDir": str(root),
    }
    return info, {"Id": index, "RootFS": {"Layers": ["sha256:" + "d" * 64]}}, kept


@pytest.mark.usefixtures("as_root")
def test_one_platform_out_of_an_index(tmp_path: Path) -> None:
    info, inspect, kept = containerd(tmp_path)
    image = open_image(info, inspect)
    [layer] = image.layers
    size, chunks = layer.open()
    assert b"".join(chunks) == kept[layer.digest]
    assert size == len(kept[layer.digest])
    assert image.manifest in kept.values()
    assert known_blobs(info) == sorted(kept)


@pytest.mark.usefixtures("as_root")
def test_blob_that_is_gone(tmp_path: Path) -> None:
    info, inspect, _digests = containerd(tmp_path)
    [layer] = open_image(info, inspect).layers
    layer.path.unlink()
    with pytest.raises(StoreError, match=r"^containerd no longer keeps the blob of layer sha256:[0-9a-f]{64}$"):
        open_image(info, inspect)


@pytest.mark.usefixtures("as_root")
def test_id_that_is_no_digest(tmp_path: Path) -> None:
    info, _inspect, _digests = containerd(tmp_path)
    with pytest.raises(StoreError, match=r"^not a sha256 digest: '../../etc/passwd'$"):
        open_image(info, {"Id": "../../etc/passwd"})
