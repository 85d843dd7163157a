# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to this collection: which node sends which layers of an image to which node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import short_digest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._image_progress import size_text

# docker load unpacks the archive beside the image that it makes of it.
SPACE_FACTOR = 2


@dataclass(frozen=True)
class Node:
    """What one node's M(dgxspark.vllm.image_info) told, with the name and address that the inventory gives it."""

    name: str
    address: str
    facts: Mapping[str, Any]
    port: int = 22

    @property
    def digest(self) -> str:
        return str(self.facts["digest"])

    @property
    def oci(self) -> bool:
        return bool(self.facts["store"] == "containerd")


@dataclass(frozen=True)
class Parcel:
    """What one source would send to one receiver. ``blobs`` is None where the whole image must go."""

    blobs: tuple[str, ...] | None
    skipped: int
    size: int
    why_whole: str


def choose_reference(nodes: Sequence[Node], wanted: str) -> Node | None:
    """The node whose image counts: the chosen one, else the lowest rank that holds the tag."""
    if wanted:
        return next((node for node in nodes if node.name == wanted and node.digest), None)
    return next((node for node in nodes if node.digest), None)


def parcel(source: Node, receiver: Node) -> Parcel:
    """The layers that the receiver lacks, as this source has them."""
    layers = source.facts["layers"]
    if source.facts["whole"]:
        return Parcel(None, 0, int(source.facts["size"]), str(source.facts["whole"]))
    known = set(receiver.facts["known"])
    # A containerd store knows blobs, by the bytes that travel; the others know layers by all that lies under them.
    key = "blob" if receiver.oci else "chain"
    missing = [layer for layer in layers if layer[key] not in known]
    blobs = {str(layer["blob"]): int(layer["size"]) for layer in missing}
    return Parcel(tuple(blobs), len(layers) - len(missing), sum(blobs.values()), "")


def routes(holders: Sequence[Node], receivers: Sequence[Node]) -> dict[str, tuple[str, Parcel]]:
    """For each receiver its source and parcel: the largest parcels first, each from the source with least to send."""
    load = dict.fromkeys((holder.name for holder in holders), 0)
    choices = {receiver.name: [(holder, parcel(holder, receiver)) for holder in holders] for receiver in receivers}
    heaviest = sorted(receivers, key=lambda node: -min(offer.size for _node, offer in choices[node.name]))
    chosen: dict[str, tuple[str, Parcel]] = {}
    for receiver in heaviest:
        offers = choices[receiver.name]
        holder, offer = min(offers, key=lambda choice: (load[choice[0].name] + choice[1].size, choice[1].size))
        # A parcel of no bytes is work too: without a minimum all of them would come from one source.
        load[holder.name] += max(offer.size, 1)
        chosen[receiver.name] = (holder.name, offer)
    return chosen


def space_problems(receivers: Sequence[Node], chosen: Mapping[str, tuple[str, Parcel]], reserve: int) -> list[Problem]:
    """Receivers whose disk is too small for what they would get."""
    problems = []
    for node in receivers:
        size = chosen[node.name][1].size
        needed, free = SPACE_FACTOR * size + reserve, int(node.facts["free"])
        if free < needed:
            problems.append(
                Problem(
                    node.name,
                    f"{size_text(free)} free in {node.facts['docker_root']}",
                    f"{size_text(needed)} to load {size_text(size)} of image",
                    "free space there (docker image prune, docker builder prune) or lower image_sync_reserve_gib",
                )
            )
    return problems


def name_problems(nodes: Sequence[Node], image: str, reference: str, source: Node | None) -> list[Problem]:
    """What the names of the image and of the reference rule out, whatever the disks are like."""
    if reference and reference not in [node.name for node in nodes]:
        names = ", ".join(node.name for node in nodes)
        return [Problem(reference, "is none of the nodes", names, "correct image_sync_reference or leave it out")]
    holders = [node.name for node in nodes if node.digest]
    if source is None and reference and holders:
        verb = "does" if len(holders) == 1 else "do"
        found = f"does not hold {image}, {', '.join(holders)} {verb}"
        return [Problem(reference, found, cure="leave image_sync_reference out")]
    lacking = [node.name for node in nodes if source is None or node.digest != source.digest]
    if "@" in image and lacking:
        tag = f"{image.partition('@')[0].rpartition('/')[2].partition(':')[0]}:local"
        found = f"{', '.join(lacking)} must get it, and Docker ties a digest to a name only where it pulls"
        cure = f"pull it on one node, there docker tag {image} {tag}, and sync {tag} instead"
        return [Problem(image, found, "a name with a tag", cure)]
    return []


def plan(nodes: Sequence[Node], image: str, reference: str, reserve: int) -> dict[str, Any]:
    """The whole sync as data: who holds the image, who receives what from whom, and what stands in the way."""
    source = choose_reference(nodes, reference)
    result: dict[str, Any] = {
        "digest": source.digest if source else "",
        "reference": source.name if source else reference or nodes[0].name,
        "held": any(node.digest for node in nodes),
        "holders": [],
        "receivers": {},
        "sources": {},
        "problems": [],
    }
    result["problems"] = [str(problem) for problem in name_problems(nodes, image, reference, source)]
    if source is None or result["problems"]:
        return result
    holders = [node for node in nodes if node.digest == source.digest]
    receivers = [node for node in nodes if node.digest != source.digest]
    chosen = routes(holders, receivers)
    result["holders"] = [node.name for node in holders]
    result["receivers"] = {node.name: _receiver(node, chosen[node.name], source.digest) for node in receivers}
    for node in receivers:
        result["sources"].setdefault(chosen[node.name][0], []).append(_target(node, chosen[node.name][1]))
    result["problems"] = [str(problem) for problem in space_problems(receivers, chosen, reserve)]
    return result


def _receiver(node: Node, route: tuple[str, Parcel], digest: str) -> dict[str, Any]:
    source, offer = route
    what = f"replace {short_digest(node.digest)} by" if node.digest else "load"
    whole = f", the whole image: {offer.why_whole}" if offer.why_whole else f", {offer.skipped} layers are there"
    return {
        "foretold": f"{node.name}: would {what} {short_digest(digest)}, {size_text(offer.size)} from {source}{whole}",
        "source": source,
        "bytes": offer.size,
        "layers_skipped": offer.skipped,
        "why_whole": offer.why_whole,
        "replaces": node.digest,
    }


def _target(node: Node, offer: Parcel) -> dict[str, Any]:
    target = {
        "node": node.name,
        "address": node.address,
        "port": node.port,
        "user": node.facts["user"],
        "host_keys": node.facts["host_keys"],
        "oci": node.oci,
        "size": offer.size,
    }
    return target if offer.blobs is None else {**target, "blobs": list(offer.blobs)}
