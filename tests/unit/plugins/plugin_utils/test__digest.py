# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The digest changes with all that makes a container, and with nothing else."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._digest import spec_digest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Container

IMAGE = "sha256:" + "1" * 64
SECRETS = {"VLLM_API_KEY": "hush", "HF_TOKEN": ""}


@pytest.fixture
def container(cluster: Callable[..., Any]) -> dict[str, Any]:
    """The head's container; a plain dictionary, so that tests may spoil it."""
    made: dict[str, Any] = copy.deepcopy(cluster().deploy()["ranks"][0]["spec"])
    return made


def digest(container: Any, image: str = IMAGE, secrets: dict[str, str] | None = None) -> str:
    return spec_digest(container, image, SECRETS if secrets is None else secrets)


def test_it_is_stable_and_looks_like_one(container: dict[str, Any]) -> None:
    found = digest(container)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", found)
    # Neither the order of keys nor a copy counts.
    assert digest(dict(reversed(copy.deepcopy(container).items()))) == found


@pytest.mark.parametrize("key", sorted(Container.__annotations__.keys() - {"labels"}))
def test_every_setting_counts(container: dict[str, Any], key: str) -> None:
    found = digest(container)
    container[key] = "something else"
    assert digest(container) != found


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("command", lambda made: made["command"].append("--x")),
        ("command order", lambda made: made["command"].reverse()),
        ("env value", lambda made: made["env"].update(MAX_JOBS="3")),
        ("env removed", lambda made: made["env"].pop("MAX_JOBS")),
        ("mount", lambda made: made["mounts"][0].update(read_only=True)),
        ("mount order", lambda made: made["mounts"].reverse()),
        ("limit", lambda made: made["ulimits"].update(nofile=1024)),
    ],
)
def test_every_part_counts(container: dict[str, Any], part: str, change: Callable[[Any], Any]) -> None:
    found = digest(container)
    change(container)
    assert digest(container) != found, part


def test_the_image_counts_by_its_content(container: dict[str, Any]) -> None:
    assert digest(container, image="sha256:" + "2" * 64) != digest(container)


def test_secrets_count_by_their_values(container: dict[str, Any]) -> None:
    found = digest(container)
    assert digest(container, secrets={**SECRETS, "VLLM_API_KEY": "other"}) != found
    assert digest(container, secrets={**SECRETS, "HF_TOKEN": "hush"}) != found
    # An empty one is none.
    assert digest(container, secrets={"VLLM_API_KEY": "hush"}) == found
    # A value is no other variable's.
    assert digest(container, secrets={"HF_TOKEN": "hush"}) != found


def test_a_secret_that_yaml_reads_as_a_number(container: dict[str, Any]) -> None:
    number: Any = {"VLLM_API_KEY": 12345}
    assert digest(container, secrets=number) == digest(container, secrets={"VLLM_API_KEY": "12345"})


def test_labels_do_not_count(container: dict[str, Any]) -> None:
    found = digest(container)
    container["labels"] = {"dgxspark.vllm.run": "another"}
    assert digest(container) == found


def test_words_do_not_run_into_each_other(container: dict[str, Any]) -> None:
    container["command"] = ["a b"]
    found = digest(container)
    container["command"] = ["a", "b"]
    assert digest(container) != found
