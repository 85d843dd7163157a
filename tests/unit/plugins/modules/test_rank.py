# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank's container made, kept, replaced and removed, with a program that stands for docker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.modules import rank
from ansible_collections.dgxspark.vllm.plugins.modules.rank import RankError, apply

ARGUMENTS = ["--name", "small-r0", "--env", "VLLM_API_KEY", "--env", "A=x y", "small:local", "--help"]
LINE = "docker create --name small-r0 --env VLLM_API_KEY --env 'A=x y' small:local --help"
OURS = {"dgxspark.vllm.recipe": "small"}


class Node:
    """A node with at most one container of the name; ``calls`` are docker's words and what it had of the secret."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.standing: dict[str, Any] | None = None

    def container(self, name: str) -> dict[str, Any] | None:
        assert name == "small-r0"
        return self.standing

    def stand(self, labels: dict[str, str] | None) -> None:
        self.standing = {"Id": "old", "Config": {"Labels": labels}}

    def docker(self, script: str) -> None:
        program = self.folder / "docker"
        record = 'import json, os, sys\njson.dump([sys.argv[1:], os.environ.get("VLLM_API_KEY")], open(calls, "a"))\n'
        text = (
            f'#!/usr/bin/env python3\ncalls = "{self.folder}/calls"\n{record}print(file=open(calls, "a"))\n{script}\n'
        )
        program.write_text(text, encoding="utf-8")
        program.chmod(0o700)

    @property
    def calls(self) -> list[Any]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    made.docker('print("new" if sys.argv[1] == "create" else "gone")')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    monkeypatch.setattr(rank, "Engine", lambda: made)
    return made


def run(check_mode: bool = False, **changes: Any) -> dict[str, Any]:
    params = {
        "name": "small-r0",
        "state": "present",
        "arguments": ARGUMENTS,
        "digest": "sha256:new",
        "replace": False,
        "secrets": {"VLLM_API_KEY": "hush"},
        **changes,
    }
    return apply(params, check_mode)


CREATE = [["create", *ARGUMENTS], "hush"]
REMOVE = [["rm", "--force", "small-r0"], None]
DIGEST = "dgxspark.vllm.digest"


@pytest.mark.parametrize(
    ("labels", "changes", "actions", "calls", "container"),
    [
        (None, {}, ["created"], [CREATE], "new"),
        (None, {"state": "absent"}, [], [], ""),
        ({DIGEST: "sha256:new"}, {}, [], [], "old"),
        ({DIGEST: "sha256:new"}, {"replace": True}, ["removed", "created"], [REMOVE, CREATE], "new"),
        ({DIGEST: "sha256:old"}, {}, ["removed", "created"], [REMOVE, CREATE], "new"),
        ({}, {}, ["removed", "created"], [REMOVE, CREATE], "new"),
        ({DIGEST: "sha256:new"}, {"state": "absent"}, ["removed"], [REMOVE], ""),
        ({}, {"state": "absent"}, ["removed"], [REMOVE], ""),
    ],
)
def test_states(
    node: Node, labels: dict[str, str] | None, changes: dict[str, Any], actions: list[str], calls: Any, container: str
) -> None:
    if labels is not None:
        node.stand({**OURS, **labels})
    predicted = run(check_mode=True, **changes)
    assert node.calls == []
    done = run(**changes)
    assert (done["actions"], done["changed"], done["container"]) == (actions, bool(actions), container)
    assert node.calls == calls
    # Check mode says what the run then does.
    kept = {"changed", "actions", "diff"}
    assert {key: predicted[key] for key in kept} == {key: done[key] for key in kept}


def test_the_diff_shows_digest_and_line_without_the_secret(node: Node) -> None:
    node.stand({**OURS, DIGEST: "sha256:old"})
    result = run()
    assert result["diff"] == {"before": "sha256:old\n", "after": f"sha256:new\n{LINE}\n"}
    assert "hush" not in repr(result)


@pytest.mark.parametrize("labels", [None, {}, {"maintainer": "somebody"}])
@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_strangers_container_is_left_alone(node: Node, labels: dict[str, str] | None, state: str) -> None:
    node.stand(labels)
    with pytest.raises(RankError) as caught:
        run(state=state)
    assert str(caught.value) == (
        "a container named small-r0 is there and was not made by dgxspark.vllm: remove or rename it"
    )
    assert node.calls == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('sys.exit("Error: invalid mount")', "docker create failed: Error: invalid mount"),
        ('print("only here"); sys.exit(125)', "docker create failed: only here"),
    ],
)
def test_docker_refuses(node: Node, script: str, message: str) -> None:
    node.docker(script)
    with pytest.raises(RankError) as caught:
        run()
    assert str(caught.value) == message


def test_a_secret_of_digits(node: Node) -> None:
    run(secrets={"VLLM_API_KEY": 12345})
    assert node.calls == [[["create", *ARGUMENTS], "12345"]]
