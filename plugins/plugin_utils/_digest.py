# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The digest that tells whether a container still is what its recipe and node ask for. Private to the collection."""

from __future__ import annotations

import hashlib
import json

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Container


def spec_digest(container: Container, image_digest: str, secrets: dict[str, str]) -> str:
    """Return the digest of all that makes a container: image content, argv, environment, mounts, limits, secrets.

    Args:
        container: the container; its labels do not count, since the digest becomes one.
        image_digest: the image's content digest, the same on every store.
        secrets: values by environment name; only their hashes enter.
    """
    spec = {key: value for key, value in container.items() if key != "labels"}
    # YAML reads a key of digits as a number.
    hashed = {name: _sha256(str(value)) for name, value in sorted(secrets.items()) if value}
    text = json.dumps([spec, image_digest, hashed], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{_sha256(text)}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
