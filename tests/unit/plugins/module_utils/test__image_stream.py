# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One read, several receivers: real processes stand for ssh, and their files are what each got."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_store import Layer, StoredImage
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_stream import (
    Feed,
    Target,
    feed_archive,
    feed_layers,
    finish,
    repeat,
    report,
    start,
)

LAYERS = [bytes([number]) * (2_000_000 + number) for number in range(3)]


@pytest.fixture
def image(tmp_path: Path) -> StoredImage:
    layers = []
    for number, text in enumerate(LAYERS):
        path = tmp_path / f"layer{number}"
        path.write_bytes(text)
        layers.append(Layer(f"sha256:{hashlib.sha256(text).hexdigest()}", "tar", len(text), path))
    return StoredImage(b"{}", tuple(layers), None)


def target(node: str, script: str, image: StoredImage, *numbers: int, oci: bool = False) -> Target:
    return Target(node, ["sh", "-c", script], frozenset(image.layers[number].digest for number in numbers), oci)


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {entry.name: extracted.read() for entry in tar if (extracted := tar.extractfile(entry))}


def run(image: StoredImage, *targets: Target, stall_limit: float = 30) -> list[Feed]:
    feeds = start(targets, stall_limit)
    feed_layers(image, feeds, "dgxspark-image-sync:run")
    finish(feeds)
    return feeds


def test_each_gets_the_layers_that_it_lacks(image: StoredImage, tmp_path: Path) -> None:
    all_of_it, top = tmp_path / "all", tmp_path / "top"
    feeds = run(
        image, target("dgx2", f"cat > {all_of_it}", image, 0, 1, 2), target("dgx3", f"cat > {top}", image, 2, oci=True)
    )
    blobs = ["blobs/" + layer.digest.replace(":", "/") for layer in image.layers]
    assert [members(all_of_it)[blob] for blob in blobs] == LAYERS
    found = members(top)
    assert found[blobs[2]] == LAYERS[2]
    assert blobs[0] not in found
    assert json.loads(found["manifest.json"])[0]["Layers"] == blobs
    assert "index.json" in found
    assert "index.json" not in members(all_of_it)
    told = report(feeds)
    assert (told["dgx2"]["state"], told["dgx2"]["layers_sent"], told["dgx2"]["layers_skipped"]) == ("loaded", 3, 0)
    assert (told["dgx3"]["state"], told["dgx3"]["layers_sent"], told["dgx3"]["layers_skipped"]) == ("loaded", 1, 2)
    assert told["dgx3"]["bytes"] == top.stat().st_size


def test_receiver_that_refuses_is_dropped_with_its_words(image: StoredImage, tmp_path: Path) -> None:
    good = tmp_path / "good"
    refusal = "head -c 1000 >/dev/null; echo 'write /x: no space left on device' >&2; exit 1"
    told = report(run(image, target("dgx2", refusal, image, 0, 1, 2), target("dgx3", f"cat > {good}", image, 0, 1, 2)))
    assert told["dgx2"]["state"] == "failed"
    assert told["dgx2"]["error"] == "write /x: no space left on device"
    assert told["dgx3"]["state"] == "loaded"
    assert "manifest.json" in members(good)


def test_receiver_that_dies_without_a_word(image: StoredImage) -> None:
    told = report(run(image, target("dgx2", "kill -9 $$", image, 0, 1, 2)))
    assert told["dgx2"]["error"] == "the connection broke off"


def test_receiver_that_fails_at_the_very_end(image: StoredImage) -> None:
    told = report(run(image, target("dgx2", "cat > /dev/null; exit 3", image, 0)))
    assert (told["dgx2"]["state"], told["dgx2"]["error"]) == ("failed", "the connection ended with code 3")


def test_receiver_that_stalls_is_given_up() -> None:
    # Enough to fill pipe and queue: what is not taken within the limit never will be.
    big = StoredImage(b"{}", (_endless(),), None)
    stuck = Target("dgx2", ["sleep", "600"], None)
    told = report(run(big, stuck, stall_limit=1))
    assert told["dgx2"]["error"] == "took no data for 1 s"


class _Zeros(Layer):
    def open(self) -> tuple[int, Iterator[bytes]]:
        return 40 << 20, iter([b"\0" * (1 << 20)] * 40)


def _endless() -> Layer:
    return _Zeros("sha256:" + "0" * 64, "tar", 40 << 20, Path("/dev/zero"))


def test_whole_archive_reaches_all(image: StoredImage, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    feeds = start([Target("dgx2", ["tee", str(one)], None), Target("dgx3", ["tee", str(two)], None)], 30)
    feed_archive(iter(LAYERS), feeds, 3)
    finish(feeds)
    assert one.read_bytes() == two.read_bytes() == b"".join(LAYERS)
    assert report(feeds)["dgx2"]["layers_sent"] == 3
    assert image.layers


def test_repeat_runs_once_more_at_the_end() -> None:
    seen: list[int] = []
    stop = repeat(3600, lambda: seen.append(1))
    assert seen == []
    stop()
    assert seen == [1]


def test_archive_is_a_tar_to_the_last_byte(image: StoredImage, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    run(image, target("dgx2", f"cat > {path}", image, 1))
    assert path.read_bytes()[-1024:] == b"\0" * 1024
    assert list(members(path))[-1] == "manifest.json"
