# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated Sparks for whole runs: real SSH, systemd, Docker engines and containers; only GPU and model are played."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig
from image_nodes import MB, Nodes, command
from simulated import NAME, NETWORK, NODES, ROOT, Cluster

if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader([str(ROOT / ".collections")])

# With KEEP_NODES=1 the nodes stay after the tests, and those of an earlier run that still run are taken as they are.
KEEP = bool(os.environ.get("KEEP_NODES"))


@pytest.fixture(scope="session")
def fresh_cluster() -> Iterator[Cluster]:
    """Eight simulated Sparks; five of them have the stand-in engine's images, as in the recipe's own story."""
    cluster = Cluster(NAME, NETWORK, NODES)
    if not (KEEP and cluster.stands()):
        cluster.sim("destroy.yml")
        cluster.sim("create.yml")
        cluster.sim("images.yml", "-e", json.dumps({"sim_images_on": cluster.nodes[:5]}))
    yield cluster
    if not KEEP:
        cluster.sim("destroy.yml")


@pytest.fixture
def cluster(fresh_cluster: Cluster) -> Iterator[Cluster]:
    """The simulated Sparks with no rank on them and no fault scripted."""
    fresh_cluster.no_faults()
    fresh_cluster.stop_all()
    return fresh_cluster


@pytest.fixture(scope="session")
def two_sparks() -> Iterator[Cluster]:
    """Two simulated Sparks for the real engine; the first can build its image, or has what was built before."""
    cluster = Cluster(f"{NAME}-real", NETWORK - 2, 2)
    if not (KEEP and cluster.stands()):
        cluster.sim("destroy.yml")
        cluster.sim("create.yml")
    cluster.sim("prepare_build.yml")
    yield cluster
    if not KEEP:
        cluster.sim("destroy.yml")


@pytest.fixture(scope="session")
def golden() -> dict[str, list[dict[str, Any]]]:
    """The golden containers of both recipes, with this cluster's addresses."""
    return {
        path.stem: [
            entry["container"]
            for entry in json.loads(path.read_text(encoding="utf-8").replace("10.77.", f"10.{NETWORK}."))
        ]
        for path in (ROOT / "tests/unit/golden").glob("*.json")
    }


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Images on this machine: two that differ in the top layer, one with nothing in common, one that takes time."""
    folder = tmp_path_factory.mktemp("images")
    host = Nodes(Cluster("none", 0, 0), folder)
    host.make("sync-base:e2e", 4 * MB, 2 * MB)
    host.make("sync-one:e2e", 100_000, base="sync-base:e2e")
    host.make("sync-two:e2e", 100_000, base="sync-base:e2e")
    host.make("sync-other:e2e", 3 * MB)
    host.make("sync-big:e2e", *[60 * MB] * 5)
    yield folder
    command("docker", "rmi", "--force", *(f"sync-{name}:e2e" for name in ("one", "two", "other", "big", "base")))


@pytest.fixture
def nodes(fresh_cluster: Cluster, images: Path) -> Iterator[Nodes]:
    """Eight nodes without any image of these tests."""
    found = Nodes(fresh_cluster, images)
    found.forget()
    yield found
    found.forget()
