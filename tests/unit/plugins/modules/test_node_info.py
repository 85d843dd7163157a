# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a node: what it returns, what it asks of Docker, and that its documentation names every fact."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError
from ansible_collections.dgxspark.vllm.plugins.modules import node_info
from ansible_collections.dgxspark.vllm.plugins.modules.node_info import describe_container, look, look_for_model

LABELS = {
    "dgxspark.vllm.recipe": "small",
    "dgxspark.vllm.rank": "1",
    "dgxspark.vllm.world_size": "2",
    "dgxspark.vllm.digest": "sha256:1",
    "dgxspark.vllm.run": "r",
}


def inspect(name: str, labels: dict[str, str] | None, **state: Any) -> dict[str, Any]:
    whole = {"Status": "running", "Running": True, "ExitCode": 0, "StartedAt": "2026-01-02T03:04:05Z", **state}
    return {"Name": f"/{name}", "Config": {"Labels": labels}, "State": whole}


class Docker:
    """What the engine of a node says."""

    ours: list[dict[str, Any]]
    named: dict[str, Any] | None

    def __init__(self) -> None:
        self.ours, self.named, self.error = [], None, ""

    def get(self, resource: str) -> dict[str, Any]:
        assert resource == "/info"
        if self.error:
            raise DockerError(self.error)
        return {"DockerRootDir": "/", "ServerVersion": "20.10", "Driver": "overlay2"}

    def image(self, name: str) -> dict[str, Any] | None:
        layers = {"Layers": ["sha256:a"]}
        known = {"Id": "sha256:i", "Size": 5, "Architecture": "arm64", "Os": "linux", "RootFS": layers, "Config": {}}
        return known if name == "small:local" else None

    def containers(self, label: str) -> list[dict[str, Any]]:
        assert label == "dgxspark.vllm.recipe"
        return self.ours

    def container(self, _name: str) -> dict[str, Any] | None:
        return self.named


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Docker:
    made = Docker()
    monkeypatch.setattr(node_info, "Engine", lambda: made)
    monkeypatch.setattr(node_info, "kernel_addresses", lambda: {"eth0": [{"address": "10.0.0.5", "prefix": 24}]})
    monkeypatch.setattr(node_info, "running_arguments", lambda name: [name, "-m", "2"])
    return made


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8 kB\n", encoding="ascii")
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    return {
        "root": str(tmp_path),
        "image": "small:local",
        "container": "small-r1",
        "model": "acme/small",
        "model_cache_dir": str(tmp_path / "cache"),
        "paths": [str(tmp_path), "~/x"],
        "interfaces": ["eth0"],
        "ports": [],
        "endpoint": None,
    }


def test_every_fact_is_documented(docker: Docker, params: dict[str, Any]) -> None:
    documented = yaml.safe_load(node_info.RETURN)["node"]["contains"]
    facts = look(params)
    assert list(documented) == list(facts)
    assert docker.error == ""


def test_a_look(docker: Docker, params: dict[str, Any]) -> None:
    docker.ours = [inspect("small-r1", LABELS), inspect("other-r0", {**LABELS, "dgxspark.vllm.recipe": "other"})]
    docker.named = docker.ours[0]
    facts = look(params)
    assert facts["memory"]["total"] == 8192
    assert facts["earlyoom"] == ["earlyoom", "-m", "2"]
    assert (facts["image"]["id"], facts["image"]["size"]) == ("sha256:i", 5)
    assert facts["image"]["digest"].startswith("sha256:")
    assert [entry["name"] for entry in facts["containers"]] == ["other-r0", "small-r1"]
    assert facts["foreign"] == ""
    assert facts["fabric"]["wanted"] == ["eth0"]
    assert facts["fabric"]["interfaces"][0]["addresses"] == [{"address": "10.0.0.5", "prefix": 24}]
    assert [path["path"] for path in facts["paths"]] == [params["root"], f"{facts['user']['home']}/x"]
    assert facts["user"]["uid"] == os.getuid()


def test_a_silent_engine(docker: Docker, params: dict[str, Any]) -> None:
    docker.error = "there is no Docker engine at /var/run/docker.sock"
    facts = look(params)
    assert facts["docker"] == {"error": docker.error, "version": "", "driver": "", "root": "", "free": 0}
    assert (facts["image"], facts["containers"], facts["foreign"]) == (None, [], "")


def test_a_strangers_container(docker: Docker, params: dict[str, Any]) -> None:
    docker.named = inspect("small-r1", None, Status="exited", Running=False)
    assert look(params)["foreign"] == "exited"


@pytest.mark.parametrize(("running", "asked"), [(True, True), (False, False)])
def test_the_engine_is_asked_only_where_it_runs(
    docker: Docker, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch, running: bool, asked: bool
) -> None:
    monkeypatch.setattr(node_info, "probe", lambda *question: {"asked": question})
    docker.ours = [inspect("small-r1", LABELS, Running=running)]
    params["endpoint"] = {"base": "http://x", "names": ["small"], "api_key": "hush", "canary_timeout": 3.0}
    expected = {"asked": ("http://x", ["small"], "hush", 3.0)} if asked else None
    assert look(params)["endpoint"] == expected


def test_a_container_with_all_its_labels() -> None:
    found = describe_container(inspect("small-r1", LABELS, Error="", OOMKilled=False))
    assert found == {
        "name": "small-r1",
        "recipe": "small",
        "rank": 1,
        "world_size": 2,
        "digest": "sha256:1",
        "run": "r",
        "state": "running",
        "running": True,
        "exit_code": 0,
        "started": "2026-01-02T03:04:05Z",
        "error": "",
    }


def test_a_container_with_the_recipes_label_alone() -> None:
    found = describe_container(inspect("x", {"dgxspark.vllm.recipe": "small"}, Running=False))
    assert (found["rank"], found["world_size"], found["digest"], found["run"]) == (-1, 0, "", "")


def test_models(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    home = str(tmp_path)

    def found(model: str) -> tuple[str, bool, bool]:
        facts = look_for_model(model, "~/cache", home)
        return facts["path"], facts["exists"], facts["cache_exists"]

    folder = str(cache / "hub/models--acme--small")
    assert found("acme/small") == (folder, False, False)
    snapshots = Path(folder) / "snapshots"
    snapshots.mkdir(parents=True)
    # An empty folder is what a download that broke off leaves.
    assert found("acme/small") == (folder, False, True)
    (snapshots / "1f").mkdir()
    assert found("acme/small") == (folder, True, True)
    assert found(str(cache)) == (str(cache), True, True)
    assert found("/no/such/model") == ("/no/such/model", False, True)
