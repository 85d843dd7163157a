# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sending end: what it notes for whoever watches it, also when the image, the receiver or the watcher is gone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_store import StoreError
from ansible_collections.dgxspark.vllm.plugins.modules import image_sender
from ansible_collections.dgxspark.vllm.plugins.modules.image_sender import begin, end, own_address, prepare, send, watch

ARCHIVE = os.urandom(100_000)
INSPECT = {"Id": "sha256:" + "1" * 64, "RootFS": {"Layers": ["sha256:a", "sha256:b"]}}


class Engine:
    """An engine with one image, and a note of the tags that it was given."""

    def __init__(self) -> None:
        self.held = True
        self.changes: list[str] = []
        self.trouble: Exception | None = None

    def info(self) -> dict[str, Any]:
        return {"Driver": "btrfs"}

    def image(self, _name: str) -> dict[str, Any] | None:
        return INSPECT if self.held else None

    def tag(self, name: str, target: str) -> None:
        self.changes.append(f"tag {name} {target}")

    def remove(self, name: str) -> None:
        self.changes.append(f"remove {name}")

    def save(self, _name: str) -> Iterator[bytes]:
        yield ARCHIVE[:50_000]
        if self.trouble is not None:
            raise self.trouble
        yield ARCHIVE[50_000:]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(image_sender, "ImageEngine", lambda: made)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the run; a receiver is a shell that writes what it gets into a file of its name."""
    made = tmp_path / "runs" / "run1"
    made.mkdir(parents=True)
    (made / "watched").touch()
    monkeypatch.setattr(image_sender, "runs_dir", lambda: made.parent)
    monkeypatch.setattr(image_sender, "run_dirs", lambda _run="": [made] if made.exists() else [])

    def way(_folder: Path, _user: str, address: str, _port: int) -> Sequence[str]:
        return ["sh", "-c", "echo refused >&2; exit 1" if address == "refuses" else f"cat > {tmp_path}/{address}"]

    monkeypatch.setattr(image_sender, "ssh_argv", way)
    return made


def params(*addresses: str, **more: Any) -> dict[str, Any]:
    target = {"port": 22, "user": "spark", "host_keys": ["ssh-ed25519 AAAA"], "oci": False, "size": 0, "blobs": None}
    targets = [{"node": address, "address": address, **target} for address in addresses]
    return {"run": "run1", "image": "sha256:1", "stall_limit": 5, "wait": 0.5, "targets": targets, **more}


def noted(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "progress").read_text())
    return found


def test_whole_image_reaches_all_and_its_name_is_taken_back(engine: Engine, folder: Path, tmp_path: Path) -> None:
    send(folder, params("dgx2", "dgx3"))
    assert (tmp_path / "dgx2").read_bytes() == (tmp_path / "dgx3").read_bytes() == ARCHIVE
    told = noted(folder)
    assert (told["ended"], told["error"]) == (True, "")
    for receiver in told["receivers"].values():
        assert (receiver["state"], receiver["bytes"], receiver["layers_sent"]) == ("loaded", len(ARCHIVE), 2)
    assert engine.changes == ["tag sha256:1 dgxspark-image-sync:run1", "remove dgxspark-image-sync:run1"]


def test_receiver_that_refuses_does_not_hold_up_the_other(engine: Engine, folder: Path, tmp_path: Path) -> None:
    send(folder, params("refuses", "dgx3"))
    told = noted(folder)["receivers"]
    assert (told["refuses"]["state"], told["refuses"]["error"]) == ("failed", "refused")
    assert told["dgx3"]["state"] == "loaded"
    assert (tmp_path / "dgx3").read_bytes() == ARCHIVE
    assert engine.changes[-1] == "remove dgxspark-image-sync:run1"


def test_image_that_is_gone(engine: Engine, folder: Path) -> None:
    engine.held = False
    with pytest.raises(DockerError, match=r"^the image sha256:1 is gone$"):
        send(folder, params("dgx2"))
    assert not (folder / "progress").exists()


@pytest.mark.parametrize("trouble", [DockerError("layer is damaged"), OSError("layer is damaged")])
def test_image_that_cannot_be_read_to_its_end(engine: Engine, folder: Path, trouble: Exception) -> None:
    engine.trouble = trouble
    send(folder, params("dgx2"))
    told = noted(folder)["receivers"]["dgx2"]
    assert told["state"] == "failed"
    assert "the sender could not read the image: layer is damaged" in told["error"]
    assert engine.changes[-1] == "remove dgxspark-image-sync:run1"


def test_layers_that_cannot_be_read(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_info: Any, _inspect: Any) -> None:
        raise StoreError("Docker keeps no tar headers of layer sha256:a")

    monkeypatch.setattr(image_sender, "open_image", refuse)
    words = params("dgx2")
    words["targets"][0]["blobs"] = ["sha256:a"]
    send(folder, words)
    assert "could not read the image: Docker keeps no tar headers" in noted(folder)["receivers"]["dgx2"]["error"]
    assert engine.changes == []


def test_nobody_waits_any_more(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long_ago = time.time() - image_sender.ABANDONED_AFTER - 10
    os.utime(folder / "watched", (long_ago, long_ago))
    monkeypatch.setattr(image_sender, "REPORT_EVERY", 0.05)

    def slow(_name: str) -> Iterator[bytes]:
        for _tick in range(100):
            yield b"x"
            time.sleep(0.02)

    monkeypatch.setattr(engine, "save", slow)
    send(folder, params("dgx2"))
    assert noted(folder)["receivers"]["dgx2"]["error"] == "nobody waits for this transfer any more"


@pytest.mark.usefixtures("engine")
def test_a_sender_is_started_watched_and_cleaned_up(folder: Path, tmp_path: Path) -> None:
    state = begin(params("dgx2", wait=20))
    assert (state["ended"], state["changed"]) == (True, True)
    assert (state["error"], state["cleaned"], state["receivers"]["dgx2"]["state"]) == ("", True, "loaded")
    assert (tmp_path / "dgx2").read_bytes() == ARCHIVE
    assert not folder.exists()


def test_a_sender_that_fails_tells_why(engine: Engine, folder: Path) -> None:
    engine.held = False
    state = begin(params("dgx2", wait=20))
    assert state["ended"]
    assert state["error"].endswith("DockerError: the image sha256:1 is gone")
    # What it leaves is for the end of the run to remove.
    assert folder.exists()
    assert end({"run": "run1"}) == {"changed": True}
    assert not folder.exists()
    assert end({"run": "run1"}) == {"changed": False}


def test_a_look_at_a_long_transfer_comes_back(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = folder.parent / "release"

    def slow(_name: str) -> Iterator[bytes]:
        yield ARCHIVE
        while not release.exists():
            time.sleep(0.02)

    monkeypatch.setattr(engine, "save", slow)
    monkeypatch.setattr(image_sender, "REPORT_EVERY", 0.05)
    state = begin(params("dgx2", wait=1))
    assert not state["ended"]
    assert state["receivers"]["dgx2"]["bytes"] == len(ARCHIVE)
    release.touch()
    assert watch({"run": "run1", "wait": 20})["ended"]


def test_a_sender_that_was_killed(folder: Path) -> None:
    (folder / "progress").write_text('{"ended": false, "receivers": {}, "error": ""}')
    (folder / "pid").write_text(str(2**22 + 1))
    state = watch({"run": "run1", "wait": 20})
    assert (state["ended"], state["error"], state["cleaned"]) == (True, "the sender was ended from outside", False)


def test_hosts_are_known_by_address_and_port(engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_sender.os, "fork", lambda: 1)
    words = params("10.0.0.2", "10.0.0.3")
    words["targets"][1]["port"] = 2222
    begin(words | {"wait": 0})
    assert (folder / "known_hosts").read_text() == ("10.0.0.2 ssh-ed25519 AAAA\n[10.0.0.3]:2222 ssh-ed25519 AAAA\n")
    assert engine.changes == []


def test_address_that_a_receiver_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_address({"address": "127.0.0.1", "port": 22}) == "127.0.0.1"
    monkeypatch.setattr(image_sender, "make_key", lambda run: f"ssh-ed25519 {run}")
    assert prepare(params("127.0.0.1")) == {
        "changed": True,
        "public_key": "ssh-ed25519 run1",
        "addresses": {"127.0.0.1": "127.0.0.1"},
    }
