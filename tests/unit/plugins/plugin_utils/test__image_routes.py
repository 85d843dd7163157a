# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who sends which layers to whom: every case of holders, receivers and stores as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._image_routes import Node, choose_reference, parcel, plan

IMAGE = "dsv41-flash:local"
MB = 1_000_000
OURS, OTHER = "sha256:" + "9c41" * 16, "sha256:" + "3f2a" * 16
LAYERS = [
    {"chain": "chain-1", "blob": "blob-1", "size": 600 * MB},
    {"chain": "chain-2", "blob": "blob-2", "size": 300 * MB},
    {"chain": "chain-3", "blob": "blob-3", "size": 1 * MB},
]


def node(number: int, digest: str = "", **facts: Any) -> Node:
    name = f"dgx{number}"
    told: dict[str, Any] = {
        "digest": digest,
        "size": 900 * MB if digest else 0,
        "layers": LAYERS if digest else [],
        "whole": "",
        "store": "overlay2",
        "known": [],
        "docker_root": "/var/lib/docker",
        "free": 100_000 * MB,
        "user": "spark",
        "host_keys": [f"ssh-ed25519 {name}"],
    }
    return Node(name, f"192.168.100.{10 + number}", told | facts)


def sources(nodes: Sequence[Node]) -> dict[str, str]:
    receivers = plan(nodes, IMAGE, "", 0)["receivers"]
    return {name: route["source"] for name, route in receivers.items()}


def test_equal_everywhere_needs_nothing() -> None:
    found = plan([node(1, OURS), node(2, OURS)], IMAGE, "", 0)
    assert found == {
        "digest": OURS,
        "reference": "dgx1",
        "held": True,
        "holders": ["dgx1", "dgx2"],
        "receivers": {},
        "sources": {},
        "problems": [],
    }


def test_three_that_lack_it_get_it_from_three_of_five_holders() -> None:
    nodes = [node(1), node(2, OURS), node(3, OURS), node(4), node(5, OURS), node(6, OURS), node(7, OURS), node(8)]
    assert sources(nodes) == {"dgx1": "dgx2", "dgx4": "dgx3", "dgx8": "dgx5"}


def test_one_holder_feeds_all() -> None:
    nodes = [node(1, OURS), *(node(number) for number in range(2, 9))]
    assert set(sources(nodes).values()) == {"dgx1"}
    assert [target["node"] for target in plan(nodes, IMAGE, "", 0)["sources"]["dgx1"]] == [
        f"dgx{number}" for number in range(2, 9)
    ]


def test_two_holders_share_seven_receivers() -> None:
    nodes = [node(1, OURS), node(2, OURS), *(node(number) for number in range(3, 9))]
    fed = list(sources(nodes).values())
    assert fed.count("dgx1") == fed.count("dgx2") == 3


def test_small_parcels_go_where_no_large_one_does() -> None:
    nodes = [node(1, OURS), node(2, OURS), node(3, known=["chain-1", "chain-2"]), node(4)]
    assert sources(nodes) == {"dgx3": "dgx2", "dgx4": "dgx1"}


def test_other_content_is_replaced_with_the_layers_that_differ() -> None:
    found = plan([node(1, OURS), node(2, OTHER, known=["chain-1", "chain-2", "chain-x"])], IMAGE, "", 0)
    assert found["receivers"]["dgx2"] == {
        "foretold": "dgx2: would replace 3f2a3f2a3f2a by 9c419c419c41, 1.0 MB from dgx1, 2 layers are there",
        "source": "dgx1",
        "bytes": 1 * MB,
        "layers_skipped": 2,
        "why_whole": "",
        "replaces": OTHER,
    }
    assert found["sources"]["dgx1"] == [
        {
            "node": "dgx2",
            "address": "192.168.100.12",
            "port": 22,
            "user": "spark",
            "host_keys": ["ssh-ed25519 dgx2"],
            "oci": False,
            "size": 1 * MB,
            "blobs": ["blob-3"],
        }
    ]


def test_containerd_store_is_asked_for_blobs_not_chains() -> None:
    receiver = node(2, store="containerd", known=["blob-1", "chain-2"])
    assert parcel(node(1, OURS), receiver).blobs == ("blob-2", "blob-3")


def test_containerd_receiver_is_fed_by_the_store_whose_blobs_it_has() -> None:
    packed = [{**layer, "blob": f"packed-{layer['blob']}"} for layer in LAYERS]
    nodes = [
        node(1, OURS),
        node(2, OURS, store="containerd", layers=packed),
        node(3, store="containerd", known=["packed-blob-1", "packed-blob-2"]),
    ]
    assert sources(nodes) == {"dgx3": "dgx2"}


def test_whole_image_where_layers_cannot_be_read_and_the_reason_is_kept() -> None:
    why = "only root can read single layers from Docker's store"
    found = plan([node(1, OURS, whole=why), node(2, known=["chain-1"])], IMAGE, "", 0)
    assert found["receivers"]["dgx2"]["why_whole"] == why
    assert found["receivers"]["dgx2"]["bytes"] == 900 * MB
    assert "blobs" not in found["sources"]["dgx1"][0]


def test_layer_that_stands_twice_travels_once() -> None:
    twice = [LAYERS[0], {**LAYERS[0], "chain": "chain-9"}]
    assert parcel(node(1, OURS, layers=twice), node(2)).blobs == ("blob-1",)
    assert parcel(node(1, OURS, layers=twice), node(2)).size == 600 * MB


@pytest.mark.parametrize(
    ("wanted", "chosen"), [("", "dgx2"), ("dgx3", "dgx3"), ("dgx1", None), ("dgx9", None)], ids=str
)
def test_reference(wanted: str, chosen: str | None) -> None:
    found = choose_reference([node(1), node(2, OURS), node(3, OTHER)], wanted)
    assert (found and found.name) == chosen


def test_chosen_reference_without_the_image_is_refused() -> None:
    found = plan([node(1), node(2, OURS), node(3, OURS)], IMAGE, "dgx1", 0)
    assert found["problems"] == ["dgx1: does not hold dsv41-flash:local, dgx2, dgx3 do; leave image_sync_reference out"]


@pytest.mark.parametrize("held", [OURS, ""])
def test_reference_that_is_no_node_is_refused(held: str) -> None:
    assert plan([node(1, held), node(2)], IMAGE, "dgx9", 0)["problems"] == [
        "dgx9: is none of the nodes, expected dgx1, dgx2; correct image_sync_reference or leave it out"
    ]


def test_image_named_by_digest_cannot_be_sent() -> None:
    image = f"registry:5000/team/vllm:v1@{OTHER}"
    refusal = (
        f"{image}: dgx2, dgx3 must get it, and Docker ties a digest to a name only where it pulls, expected a name "
        f"with a tag; pull it on one node, there docker tag {image} vllm:local, and sync vllm:local instead"
    )
    refused = plan([node(1, OURS), node(2), node(3)], image, "", 0)
    assert (refused["problems"], refused["receivers"]) == ([refusal], {})
    assert plan([node(1), node(2)], image, "", 0)["problems"] == [refusal.replace("dgx2, dgx3", "dgx1, dgx2")]


def test_image_named_by_digest_that_all_nodes_hold_is_fine() -> None:
    found = plan([node(1, OURS), node(2, OURS)], f"vllm@{OTHER}", "", 0)
    assert (found["problems"], found["holders"]) == ([], ["dgx1", "dgx2"])


def test_nobody_holds_it() -> None:
    found = plan([node(1), node(2)], IMAGE, "", 0)
    assert (found["held"], found["reference"], found["receivers"], found["problems"]) == (False, "dgx1", {}, [])
    assert plan([node(1), node(2)], IMAGE, "dgx2", 0)["reference"] == "dgx2"


def test_every_disk_that_is_too_small_is_told() -> None:
    nodes = [node(1, OURS), node(2, free=500 * MB), node(3, free=1_000 * MB), node(4)]
    assert plan(nodes, IMAGE, "", 1_000 * MB)["problems"] == [
        "dgx2: 500.0 MB free in /var/lib/docker, expected 2.8 GB to load 901.0 MB of image; "
        "free space there (docker image prune, docker builder prune) or lower image_sync_reserve_gib",
        "dgx3: 1.0 GB free in /var/lib/docker, expected 2.8 GB to load 901.0 MB of image; "
        "free space there (docker image prune, docker builder prune) or lower image_sync_reserve_gib",
    ]
