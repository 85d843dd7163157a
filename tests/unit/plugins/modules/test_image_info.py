# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's look at an image, with an engine that answers from data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import chain_ids, content_digest
from ansible_collections.dgxspark.vllm.plugins.modules import image_info
from ansible_collections.dgxspark.vllm.plugins.modules.image_info import look

IMAGE = "vllm:local"
INSPECT = {
    "Id": "sha256:" + "1" * 64,
    "Size": 900,
    "Architecture": "arm64",
    "Os": "linux",
    "RootFS": {"Layers": ["sha256:a", "sha256:b"]},
    "Config": {},
}


class Engine:
    def __init__(self, root: Path, held: bool, driver: str = "btrfs") -> None:
        self.root, self.held, self.driver = root, held, driver

    def info(self) -> dict[str, Any]:
        return {"Driver": self.driver, "DockerRootDir": str(self.root), "ServerVersion": "26.1.5"}

    def images(self) -> list[dict[str, Any]]:
        listed = [{"Id": "sha256:base", "RepoTags": None}]
        tags = [IMAGE, f"{IMAGE}-was-3f2a"]
        return [*listed, {"Id": INSPECT["Id"], "RepoTags": tags, "Created": 1}] if self.held else listed

    def image(self, name: str) -> dict[str, Any] | None:
        if name == "sha256:base":
            return {"RootFS": {"Layers": ["sha256:a"]}}
        return INSPECT if self.held else None


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(image_info, "host_keys", lambda: ["ssh-ed25519 AAAA"])
    monkeypatch.setattr(image_info, "has_keys", lambda _user: False)
    monkeypatch.setattr(image_info, "run_dirs", list)
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setattr(image_info, "ImageEngine", lambda: engine)


def test_node_that_holds_it(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Engine(node, held=True))
    told = look(IMAGE, "root")
    assert (told["digest"], told["id"], told["size"]) == (content_digest(INSPECT), INSPECT["Id"], 900)
    assert [layer["chain"] for layer in told["layers"]] == chain_ids(["sha256:a", "sha256:b"])
    assert told["whole"] in (
        "single layers cannot be read from Docker's btrfs store",
        "only root can read single layers from Docker's store",
    )
    assert told["known"] == sorted(chain_ids(["sha256:a", "sha256:b"]))
    assert (told["previous"], told["leftovers"], told["user"]) == ([f"{IMAGE}-was-3f2a"], False, "root")


def test_node_that_lacks_it(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Engine(node, held=False))
    told = look(IMAGE, "root")
    assert (told["digest"], told["id"], told["size"], told["layers"], told["whole"]) == ("", "", 0, [], "")
    assert told["known"] == ["sha256:a"]
    status = os.statvfs(node)
    assert 0 < told["free"] <= status.f_blocks * status.f_frsize


def test_what_an_interrupted_run_left_is_seen(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(node, held=False)
    use(monkeypatch, engine)
    assert not look(IMAGE, "root")["leftovers"]
    monkeypatch.setattr(engine, "images", lambda: [{"Id": "sha256:base", "RepoTags": ["dgxspark-image-sync:run1"]}])
    assert look(IMAGE, "root")["leftovers"]


@pytest.mark.parametrize(
    "name",
    [
        "vllm:local",
        "vllm",
        "registry:5000/team/vllm-openai:v0.32.0",
        "127.0.0.1:5000/vllm:1",
        f"ghcr.io/a/b@sha256:{'0a' * 32}",
        "nvcr.io/nvidia/vllm:25.09-py3",
        "a__b/c.d:x",
    ],
)
def test_names_that_docker_takes(node: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    use(monkeypatch, Engine(node, held=False))
    assert look(name, "root")["digest"] == ""


@pytest.mark.parametrize(
    "name",
    ["", ":latest", "Vllm:local", "vllm:", "vllm local", "vllm:a/b", "vllm:-x", "vllm@sha256:12", "../x", "a//b"],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match=r"^that is no name of an image; expected name and tag, such as"):
        look(name, "")
