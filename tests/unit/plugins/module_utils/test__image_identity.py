# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One image has one digest, however the engine that holds it spells its inspect output."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import (
    chain_ids,
    content_digest,
    layer_digests,
    short_digest,
)

LAYERS = ["sha256:" + "a" * 64, "sha256:" + "b" * 64]

OVERLAY2: dict[str, Any] = {
    "Id": "sha256:" + "1" * 64,
    "RepoTags": ["dsv41-flash:local"],
    "RepoDigests": [],
    "Created": "2026-12-01T15:32:08.856423804Z",
    "DockerVersion": "20.10.24+dfsg1",
    "Architecture": "arm64",
    "Variant": "v8",
    "Os": "linux",
    "Config": {
        "Hostname": "1234567890ab",
        "Image": "sha256:" + "9" * 64,
        "AttachStdin": False,
        "Env": ["PATH=/usr/bin", "LANG=C"],
        "Cmd": None,
        "Entrypoint": ["vllm", "serve"],
        "WorkingDir": "",
        "Volumes": None,
        "OnBuild": None,
        "Labels": {"b": "2", "a": "1"},
    },
    "GraphDriver": {"Name": "overlay2"},
    "RootFS": {"Type": "layers", "Layers": LAYERS},
}

CONTAINERD: dict[str, Any] = {
    "Id": "sha256:" + "2" * 64,
    "RepoTags": ["dsv41-flash:local"],
    "RepoDigests": ["dsv41-flash@sha256:" + "2" * 64],
    "Architecture": "arm64",
    "Os": "linux",
    "Config": {"Env": ["PATH=/usr/bin", "LANG=C"], "Entrypoint": ["vllm", "serve"], "Labels": {"a": "1", "b": "2"}},
    "GraphDriver": {"Name": "overlayfs"},
    "RootFS": {"Type": "layers", "Layers": LAYERS},
}


def changed(path: str, value: object) -> dict[str, Any]:
    inspect = copy.deepcopy(OVERLAY2)
    *parents, last = path.split(".")
    place = inspect
    for parent in parents:
        place = place[parent]
    place[last] = value
    return inspect


def test_both_image_stores_give_one_digest() -> None:
    assert content_digest(OVERLAY2) == content_digest(CONTAINERD)


def test_digest_is_stable_across_releases() -> None:
    # Containers carry this digest in a label: a change here replaces every running cluster.
    assert content_digest(OVERLAY2) == "sha256:bb8d7af73d5a7af9f45d40a654ca143f8ac5f5ecd1ab04b826c2f7642e87f99c"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("Id", "sha256:" + "3" * 64),
        ("RepoTags", ["other:local"]),
        ("Created", "2027-01-01T00:00:00Z"),
        ("Config.Hostname", "other"),
        ("Config.Image", ""),
        ("Config.Cmd", []),
        ("Config.Volumes", {}),
    ],
)
def test_what_is_no_content_changes_nothing(path: str, value: object) -> None:
    assert content_digest(changed(path, value)) == content_digest(OVERLAY2)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("Architecture", "amd64"),
        ("Os", "windows"),
        ("RootFS.Layers", LAYERS[:1]),
        ("RootFS.Layers", LAYERS[::-1]),
        ("Config.Env", ["LANG=C", "PATH=/usr/bin"]),
        ("Config.Cmd", ["--help"]),
        ("Config.Entrypoint", ["vllm"]),
        ("Config.User", "1000"),
        ("Config.WorkingDir", "/srv"),
        ("Config.Labels", {"a": "1"}),
        ("Config.StopSignal", "SIGINT"),
        ("Config.Healthcheck", {"Test": ["NONE"]}),
    ],
)
def test_content_changes_the_digest(path: str, value: object) -> None:
    assert content_digest(changed(path, value)) != content_digest(OVERLAY2)


def test_an_engine_that_tells_nothing_still_gives_a_digest() -> None:
    assert content_digest({}) == content_digest({"Config": None, "RootFS": None})


def test_layers_stand_lowest_first() -> None:
    assert layer_digests(OVERLAY2) == LAYERS
    assert layer_digests({"RootFS": {"Type": "layers"}}) == []


def test_short_digest_drops_the_algorithm() -> None:
    assert short_digest("sha256:0123456789abcdef") == "0123456789ab"
    assert short_digest("") == ""


def test_chain_ids_are_those_of_the_image_specification() -> None:
    first, second = chain_ids(LAYERS)
    assert first == LAYERS[0]
    assert second == "sha256:" + hashlib.sha256(f"{LAYERS[0]} {LAYERS[1]}".encode()).hexdigest()
    assert chain_ids([]) == []
