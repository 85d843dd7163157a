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
from collections.abc import Mapping
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
