# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image sync between nodes that keep images by overlay2 and nodes that keep them by containerd."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from image_nodes import IMAGE, Nodes, assert_same_everywhere, receivers
from simulated import Cluster

HERE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@pytest.fixture(scope="module")
def mixed(images: Path) -> Iterator[Nodes]:
    """Four nodes: dgx1 and dgx2 keep images by overlay2, dgx3 and dgx4 by containerd."""
    cluster = Cluster("e2e-stores", 79, 4)
    on_containerd = json.dumps({"sim_containerd_nodes": ["dgx3", "dgx4"]})
    cluster.sim("create.yml", "-e", on_containerd)
    yield Nodes(cluster, images)
    if not os.environ.get("KEEP_NODES"):
        cluster.sim("destroy.yml", "-e", on_containerd)


@pytest.mark.parametrize("source", ["dgx1", "dgx3"])
def test_stores_mix_and_only_the_top_layer_travels(mixed: Nodes, source: str) -> None:
    mixed.forget()
    mixed.put("sync-one:e2e", [source])
    run = mixed.sync()
    assert_same_everywhere(mixed, run)
    assert {told["layers_sent"] for told in receivers(run).values()} == {3}
    mixed.put("sync-two:e2e", [source])
    changed = mixed.sync("-e", f"image_sync_reference={source}")
    assert_same_everywhere(mixed, changed)
    for told in receivers(changed).values():
        assert (told["layers_sent"], told["layers_skipped"]) == (1, 2)
        assert told["bytes"] < 120_000
    again = mixed.sync()
    assert again.changed == 0


def test_one_platform_out_of_an_index_travels(mixed: Nodes) -> None:
    mixed.forget()
    archive = mixed.folder / "index.tar"
    archive.write_bytes(two_platforms())
    with archive.open("rb") as stream:
        words = ["docker", "exec", "-i", f"{mixed.cluster.name}-dgx3", "docker", "load", "--quiet"]
        subprocess.run(words, stdin=stream, check=True)
    run = mixed.sync()
    assert_same_everywhere(mixed, run)
    assert {told["layers_sent"] for told in receivers(run).values()} == {1}
    for node in mixed.names:
        script = f"docker image inspect --format '{{{{.Architecture}}}} {{{{.Config.Entrypoint}}}}' {IMAGE}"
        assert mixed.cluster.on(node, "sh", "-c", script).strip() == f"{HERE} [/{HERE}]"


def two_platforms() -> bytes:
    """An OCI archive whose one tag names an index of two platforms, both complete."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:

        def add(name: str, text: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))

        def blob(content: bytes | dict[str, Any], kind: str) -> dict[str, Any]:
            text = content if isinstance(content, bytes) else json.dumps(content).encode()
            digest = hashlib.sha256(text).hexdigest()
            add(f"blobs/sha256/{digest}", text)
            return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(text)}

        manifests = []
        for architecture in ("amd64", "arm64"):
            layer = blob(tar_of(architecture), "layer.v1.tar")
            rootfs = {"type": "layers", "diff_ids": [layer["digest"]]}
            place = {"architecture": architecture, "os": "linux"}
            config = {**place, "config": {"Entrypoint": [f"/{architecture}"]}, "rootfs": rootfs}
            manifest = {"schemaVersion": 2, "config": blob(config, "config.v1+json"), "layers": [layer]}
            manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
            manifests.append({**blob(manifest, "manifest.v1+json"), "platform": place})
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
        named = {
            **blob(index, "index.v1+json"),
            "annotations": {"io.containerd.image.name": f"docker.io/library/{IMAGE}"},
        }
        add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add("index.json", json.dumps({"schemaVersion": 2, "manifests": [named]}).encode())
    return buffer.getvalue()


def tar_of(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()
