# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The receiving end: a tag moves only to the content that was expected, and what was interrupted goes."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_engine import ImageInUseError
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import content_digest, short_digest
from ansible_collections.dgxspark.vllm.plugins.modules import image_receiver
from ansible_collections.dgxspark.vllm.plugins.modules.image_receiver import clean_up, open_door, prune, take_over

IMAGE, STAGED = "vllm:local", "dgxspark-image-sync:run1"


def inspect(name: str) -> dict[str, Any]:
    return {"Architecture": "arm64", "Os": "linux", "RootFS": {"Layers": [name]}, "Config": {}}


OLD, NEW, OTHER = (content_digest(inspect(name)) for name in ("old", "new", "other"))
KEPT = f"{IMAGE}-was-{short_digest(OLD)}"


class Engine:
    """An engine that keeps tags; one layer stands for an image."""

    def __init__(self, tags: dict[str, str], in_use: tuple[str, ...] = ()) -> None:
        self.tags, self.in_use = dict(tags), in_use

    def image(self, name: str) -> dict[str, Any] | None:
        return inspect(self.tags[name]) if name in self.tags else None

    def images(self) -> list[dict[str, Any]]:
        # The later a tag was given, the younger is its image; an image without any tag has none in the list.
        return [{"RepoTags": [tag], "Created": number} for number, tag in enumerate(self.tags)] + [{"RepoTags": None}]

    def tag(self, name: str, target: str) -> None:
        self.tags[target] = self.tags[name]

    def remove(self, name: str) -> None:
        if name in self.in_use:
            raise ImageInUseError("container 3f2a is using its referenced image")
        del self.tags[name]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The login user's home: also where no engine is asked, keys are looked for there only."""
    here = pwd.getpwuid(os.getuid())
    user = pwd.struct_passwd((here.pw_name, "x", here.pw_uid, here.pw_gid, "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(image_receiver, "login_user", lambda _named: user)
    monkeypatch.setattr(image_receiver, "run_dirs", list)
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> Engine:
    monkeypatch.setattr(image_receiver, "ImageEngine", lambda: engine)
    return engine


def keys(home: Path) -> str:
    path = home / ".ssh" / "authorized_keys"
    return path.read_text() if path.exists() else ""


PARAMS = {"user": "", "run": "run1", "image": IMAGE, "digest": NEW}
FAILED = {"changed": False, "replaced": "", "kept_as": ""}


@pytest.mark.parametrize(
    ("before", "told", "after"),
    [
        (
            {STAGED: "new"},
            {"changed": True, "digest": NEW, "replaced": "", "kept_as": "", "problem": ""},
            {IMAGE: "new"},
        ),
        (
            {IMAGE: "old", STAGED: "new"},
            {"changed": True, "digest": NEW, "replaced": OLD, "kept_as": KEPT, "problem": ""},
            {IMAGE: "new", KEPT: "old"},
        ),
        (
            {IMAGE: "old"},
            {**FAILED, "digest": OLD, "problem": "the image did not arrive whole"},
            {IMAGE: "old"},
        ),
        ({}, {**FAILED, "digest": "", "problem": "the image did not arrive whole"}, {}),
        (
            {IMAGE: "old", STAGED: "other"},
            {
                **FAILED,
                "digest": OLD,
                "problem": f"the image holds {short_digest(OTHER)} instead of {short_digest(NEW)}",
            },
            {IMAGE: "old"},
        ),
        (
            {IMAGE: "new"},
            {"changed": False, "digest": NEW, "replaced": "", "kept_as": "", "problem": ""},
            {IMAGE: "new"},
        ),
    ],
    ids=["new", "replaced", "broken off", "nothing came", "another came", "had it"],
)
def test_taking_over(
    home: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, str], told: dict[str, Any], after: dict[str, str]
) -> None:
    engine = use(monkeypatch, Engine({**before, "dgxspark-image-sync:earlier": "other"}))
    result = take_over(PARAMS, dry=False)
    assert result.pop("diff") == {"before": f"{IMAGE} {_digest(before)}\n", "after": f"{IMAGE} {told['digest']}\n"}
    assert result == told
    assert engine.tags == after
    assert keys(home) == ""


def _digest(tags: dict[str, str]) -> str:
    return content_digest(inspect(tags[IMAGE])) if IMAGE in tags else ""


def test_check_mode_foretells_and_changes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {IMAGE: "old", "dgxspark-image-sync:earlier": "other"}
    engine = use(monkeypatch, Engine(before))
    result = take_over(PARAMS, dry=True)
    assert (result["changed"], result["replaced"], result["kept_as"], result["problem"]) == (True, OLD, KEPT, "")
    open_door({**PARAMS, "public_key": "ssh-ed25519 AAAA", "address": "10.0.0.1"}, dry=True)
    assert clean_up(PARAMS, dry=True) == {"changed": True}
    assert engine.tags == before
    assert keys(home) == ""


def test_door_opens_for_one_run_and_closes_with_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = use(monkeypatch, Engine({}))
    monkeypatch.setattr(image_receiver, "load_command", lambda _user, _socket: "docker load -q")
    for run in ("run1", "run2"):
        open_door({"user": "", "run": run, "public_key": f"ssh-ed25519 {run}", "address": "10.0.0.1"}, dry=False)
    take_over({**PARAMS, "run": "run1"}, dry=False)
    assert [line.split()[-1] for line in keys(home).splitlines()] == ["run2"]
    assert clean_up({"user": ""}, dry=False) == {"changed": True}
    assert keys(home) == ""
    assert clean_up({"user": ""}, dry=False) == {"changed": False}
    assert engine.tags == {}


def test_clean_up_removes_unfinished_images(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = use(monkeypatch, Engine({IMAGE: "old", STAGED: "new", "dgxspark-image-sync:run2": "new"}))
    folder = home / "run" / "run2"
    folder.mkdir(parents=True)
    monkeypatch.setattr(image_receiver, "run_dirs", lambda: [folder] if folder.exists() else [])
    assert clean_up({"user": ""}, dry=False) == {"changed": True}
    assert engine.tags == {IMAGE: "old"}
    assert not folder.parent.exists()


THREE = {IMAGE: "new", f"{IMAGE}-was-1": "1", f"{IMAGE}-was-2": "2", f"{IMAGE}-was-3": "3", "vllm:locals-was-1": "x"}


@pytest.mark.parametrize(
    ("keep", "gone"),
    [(-1, []), (3, []), (2, ["1"]), (1, ["2", "1"]), (0, ["3", "2", "1"])],
)
def test_pruning_keeps_the_newest(monkeypatch: pytest.MonkeyPatch, keep: int, gone: list[str]) -> None:
    engine = use(monkeypatch, Engine(THREE))
    expected = {"changed": bool(gone), "removed": [f"{IMAGE}-was-{name}" for name in gone], "in_use": []}
    params = {"image": IMAGE, "keep": keep}
    assert prune(params, dry=True) == expected
    assert engine.tags == THREE
    assert prune(params, dry=False) == expected
    assert set(engine.tags) == set(THREE) - set(expected["removed"])


def test_image_that_a_container_uses_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = use(monkeypatch, Engine(THREE, in_use=(f"{IMAGE}-was-3",)))
    assert prune({"image": IMAGE, "keep": 0}, dry=False) == {
        "changed": True,
        "removed": [f"{IMAGE}-was-2", f"{IMAGE}-was-1"],
        "in_use": [f"{IMAGE}-was-3 stays for now: container 3f2a is using its referenced image"],
    }
    assert f"{IMAGE}-was-3" in engine.tags
