# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let plain pytest find the collection's plugins (ansible-test brings its own finder), and build what tests share."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

ROOT = Path(__file__).resolve().parents[2]

if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader([str(ROOT / ".collections")])

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._container import expand_home  # noqa: E402
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._deployment import Deployment, deploy  # noqa: E402
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._preflight import Options, inspect_nodes  # noqa: E402
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._ranks import assign_ranks  # noqa: E402
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._recipe import expand_recipe  # noqa: E402
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import (  # noqa: E402
    NodeFacts,
    NodeProblem,
    Rank,
    Recipe,
    Settings,
)

IMAGE_DIGEST = "sha256:" + "1" * 64
RUN = "20260101T000000Z"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden",
        action="store_true",
        help="write tests/unit/golden/*.json anew instead of comparing; read the diff before committing it",
    )


@functools.cache
def _expand(name: str) -> Recipe:
    text = (ROOT / "recipes" / name / "recipe.toml").read_text(encoding="utf-8")
    schema = json.loads((ROOT / "recipes" / "recipe.schema.json").read_text(encoding="utf-8"))
    found: Recipe = expand_recipe(text, f"recipes/{name}/recipe.toml", schema, {}, ())
    return found


def load_recipe(name: str, **changes: Any) -> Recipe:
    """Return one of the recipes in recipes/, with some of its facts changed."""
    loaded: dict[str, Any] = {**copy.deepcopy(_expand(name)), **changes}
    return cast(Recipe, loaded)


class Cluster:
    """A recipe on nodes that can serve it; a test breaks what it is about."""

    def __init__(self, recipe: Recipe, nodes: dict[str, NodeFacts], settings: Settings) -> None:
        self.recipe = recipe
        self.nodes = dict(list(nodes.items())[: recipe["required_nodes"]])
        self.settings = settings
        self.options = Options(build_dir="", archive="", replace=False, image_digest="", run=RUN)
        self.ranks: list[Rank] = assign_ranks(recipe, list(self.nodes))
        self.looks: dict[str, dict[str, Any]] = {name: {"node": facts} for name, facts in self.nodes.items()}
        for facts in self.nodes.values():
            self._prepare(facts)

    def _prepare(self, facts: NodeFacts) -> None:
        facts["image"] = {"id": "sha256:" + "2" * 64, "digest": IMAGE_DIGEST, "size": 1}
        facts["paths"] = [
            {
                "path": expand_home(mount["host"], facts["user"]["home"]),
                "exists": True,
                "kind": "directory",
                "blocked": "",
                "owner_uid": facts["user"]["uid"],
                "fstype": "ext4",
                "free": 1,
            }
            for mount in self.recipe["mounts"]
        ]
        model = self.recipe["model"]
        hub = f"{facts['model']['cache']}/hub/models--{model.replace('/', '--')}"
        facts["model"]["path"] = model if model.startswith("/") else hub

    def stand(self, run: str = "earlier", **changes: Any) -> None:
        """Let every rank's container stand on its node, made from what the recipe asks for, and the head answer."""
        for entry in self.deploy()["ranks"]:
            self.nodes[entry["node"]]["containers"] = [
                {
                    "name": entry["container"],
                    "recipe": self.recipe["id"],
                    "rank": entry["rank"],
                    "world_size": len(self.ranks),
                    "digest": entry["digest"],
                    "run": run,
                    "state": "running",
                    "running": True,
                    "exit_code": 0,
                    "started": "2026-01-02T03:04:05.678901234Z",
                    "error": "",
                    **changes,
                }
            ]
        self.nodes[self.ranks[0]["node"]]["endpoint"] = {
            "health": 200,
            "models": self.recipe["served_names"],
            "canary": "ok",
            "seconds": 0.1,
            "error": "",
        }

    def problems(self) -> list[NodeProblem]:
        """Return what preflight finds."""
        return inspect_nodes(self.recipe, self.ranks, self.looks, self.settings, self.options)["problems"]

    def deploy(self) -> Deployment:
        """Return what serve would do."""
        return deploy(self.recipe, self.ranks, self.looks, self.settings, self.options)


@pytest.fixture
def nodes() -> dict[str, NodeFacts]:
    """What node_info said of eight simulated Sparks, dgx1 to dgx8, on network 77."""
    text = (ROOT / "tests" / "unit" / "fixtures" / "nodes.json").read_text(encoding="utf-8")
    found: dict[str, NodeFacts] = json.loads(text)
    return found


@pytest.fixture
def settings() -> Settings:
    """The inventory's choices where nobody makes any, as roles/serve has them."""
    return Settings(
        host="0.0.0.0",  # noqa: S104 - the head serves the network
        port=8000,
        master_port=29501,
        privileged=False,
        gpus="all",
        engine_env={},
        fabric_env={},
        fabric_profile="",
        secrets={"VLLM_API_KEY": "", "HF_TOKEN": ""},
    )


@pytest.fixture
def recipe() -> Callable[..., Recipe]:
    """Load a shipped recipe by id, with some of its facts changed."""
    return load_recipe


@pytest.fixture
def cluster(nodes: dict[str, NodeFacts], settings: Settings) -> Callable[..., Cluster]:
    """Build a healthy cluster for a shipped recipe, with some of its facts changed."""

    def build(name: str = "dsv41-flash-8x", **changes: Any) -> Cluster:
        return Cluster(load_recipe(name, **changes), copy.deepcopy(nodes), copy.deepcopy(settings))

    return build
