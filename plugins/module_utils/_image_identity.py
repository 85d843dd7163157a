# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to this collection: what an image is, told by its content alone.

Docker's image ID is no identity across nodes: the overlay2 store names an image by its config, the containerd store by
its manifest, and registry digests are lost by save and load. Layers, platform and config are the same everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

# Everything that changes what a container of the image does. Left out on purpose: Hostname, Image, the Attach flags and
# their like, which the legacy builder writes into an image's config and other builders and stores do not.
CONFIG_KEYS = (
    "ArgsEscaped",
    "Cmd",
    "Entrypoint",
    "Env",
    "ExposedPorts",
    "Healthcheck",
    "Labels",
    "OnBuild",
    "Shell",
    "StopSignal",
    "StopTimeout",
    "User",
    "Volumes",
    "WorkingDir",
)
SHORT_LENGTH = 12


def layer_digests(inspect: Mapping[str, Any]) -> list[str]:
    """Digests of the uncompressed layers, lowest first: equal on all image stores."""
    return [str(digest) for digest in (inspect.get("RootFS") or {}).get("Layers") or []]


def content_digest(inspect: Mapping[str, Any]) -> str:
    """``sha256:...`` of an image's content, from one entry of ``docker image inspect`` or the Engine API's JSON."""
    config = inspect.get("Config") or {}
    content = {
        "architecture": inspect.get("Architecture") or "",
        "os": inspect.get("Os") or "",
        "layers": layer_digests(inspect),
        # One store writes null, another an empty list, a third leaves the key out: all mean "not set".
        "config": {key: config[key] for key in CONFIG_KEYS if config.get(key)},
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def short_digest(digest: str) -> str:
    """The first characters of a digest, for messages."""
    return digest.rpartition(":")[2][:SHORT_LENGTH]


def chain_ids(layers: Sequence[str]) -> list[str]:
    """The chain ID of each layer: one digest for a layer and all that lie under it, as the engines compute it."""
    chain: list[str] = []
    for layer in layers:
        chain.append("sha256:" + hashlib.sha256(f"{chain[-1]} {layer}".encode()).hexdigest() if chain else layer)
    return chain


def previous_tag(image: str, digest: str) -> str:
    """The name under which an image is kept that another one replaced under its tag."""
    return f"{image}-was-{short_digest(digest)}"


def previous_tags(image: str, images: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the kept images that were replaced under a tag, newest first, from the engine's list of images."""
    found = [
        (int(entry.get("Created") or 0), str(tag))
        for entry in images
        for tag in entry.get("RepoTags") or []
        if str(tag).startswith(f"{image}-was-")
    ]
    return [tag for _made, tag in sorted(found, reverse=True)]
