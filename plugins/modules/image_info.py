# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one node knows of an image, and what it could receive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_info
short_description: Look at one image on a node, and at what the node could receive
version_added: "0.1.0"
description:
  - Returns in one round trip what P(dgxspark.vllm.image_routes#filter) needs to decide who sends which layers to whom.
  - Changes nothing.
author:
  - The dgxspark.vllm contributors (@dgxspark)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what it would return without it.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
    details: The module changes nothing.
options:
  image:
    description: Name and tag of the image.
    type: str
    required: true
  user:
    description:
      - User that other nodes log in as to load an image here.
      - By default the user that Ansible logged in as.
    type: str
    default: ""
notes:
  - As root it also tells which layers can be read one by one, and which blobs a containerd store has. As another user,
    who must then be allowed to use the Docker socket, images of this node are sent whole.
"""

EXAMPLES = r"""
- name: Look at the image on every node
  dgxspark.vllm.image_info:
    image: dsv41-flash:local
  become: true
  register: looked
"""

RETURN = r"""
node:
  description: What the node knows.
  returned: success
  type: dict
  contains:
    digest:
      description: Digest of the image's content, empty when the node has no such image.
      type: str
    id:
      description: The engine's own ID of the image.
      type: str
    size:
      description: Size of the image in bytes.
      type: int
    layers:
      description: The image's layers, lowest first, each with its C(chain), C(blob) and C(size).
      type: list
      elements: dict
    whole:
      description: Why the image's layers cannot be read one by one, empty when they can.
      type: str
    store:
      description: C(containerd), or the name of the storage driver.
      type: str
    engine:
      description: Version of the engine.
      type: str
    known:
      description: Chain IDs of all layers of all images on the node; with a containerd store the digests of its blobs.
      type: list
      elements: str
    docker_root:
      description: The engine's data folder.
      type: str
    free:
      description: Free bytes where the engine keeps its images.
      type: int
    user:
      description: User that other nodes log in as.
      type: str
    host_keys:
      description: Public SSH host keys.
      type: list
      elements: str
    leftovers:
      description: Whether an interrupted run left a key, a sender or an unfinished image.
      type: bool
    previous:
      description: Tags of replaced images of the same name, newest first.
      type: list
      elements: str
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_access import (
    MARK,
    has_keys,
    host_keys,
    login_user,
    run_dirs,
)
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_engine import ImageEngine, image_store
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import (
    chain_ids,
    content_digest,
    layer_digests,
    previous_tags,
)
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_store import (
    StoreError,
    content_root,
    known_blobs,
    open_image,
)

# As Docker reads a reference: registry and path in small letters, tag, digest.
IMAGE_NAME = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?[a-z0-9]+(?:(?:[.]|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[.]|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


def free_bytes(info: Mapping[str, Any], store: str) -> int:
    """Free bytes for images: of the fuller disk where engine and containerd have one each."""
    places = [Path(str(info["DockerRootDir"]))]
    if store == "containerd":
        try:
            places.append(content_root(info))
        except StoreError:
            places = places[:1]
    free = []
    for place in places:
        status = os.statvfs(place)
        free.append(status.f_bavail * status.f_frsize)
    return min(free)


def known_layers(engine: ImageEngine, info: Mapping[str, Any], store: str, images: list[dict[str, Any]]) -> list[str]:
    """What need not be sent to this node."""
    if store == "containerd":
        return list(known_blobs(info))
    known: set[str] = set()
    for entry in images:
        inspect = engine.image(str(entry["Id"]))
        known.update(chain_ids(layer_digests(inspect or {})))
    return sorted(known)


def stored_layers(info: Mapping[str, Any], inspect: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The image's layers as a sender would read them, and why it could not."""
    diff_ids = layer_digests(inspect)
    chains = chain_ids(diff_ids)
    try:
        stored = open_image(info, inspect)
    except StoreError as error:
        return [{"chain": chain, "blob": "", "size": 0} for chain in chains], str(error)
    return [
        {"chain": chain, "blob": layer.digest, "size": layer.size}
        for chain, layer in zip(chains, stored.layers, strict=True)
    ], ""


def look(image: str, user: str) -> dict[str, Any]:
    """Everything in one look.

    Raises:
        ValueError: what is given is no name of an image.
    """
    if not IMAGE_NAME.fullmatch(image):
        raise ValueError("that is no name of an image; expected name and tag, such as dsv41-flash:local")
    engine = ImageEngine()
    info = engine.info()
    store = image_store(info)
    images = engine.images()
    inspect = engine.image(image)
    login = login_user(user)
    layers, whole = stored_layers(info, inspect) if inspect else ([], "")
    tags = [tag for entry in images for tag in entry.get("RepoTags") or []]
    return {
        "digest": content_digest(inspect) if inspect else "",
        "id": str(inspect["Id"]) if inspect else "",
        "size": int(inspect.get("Size") or 0) if inspect else 0,
        "layers": layers,
        "whole": whole,
        "store": store,
        "engine": str(info.get("ServerVersion") or ""),
        "known": known_layers(engine, info, store, images),
        "docker_root": str(info["DockerRootDir"]),
        "free": free_bytes(info, store),
        "user": login.pw_name,
        "host_keys": host_keys(),
        "leftovers": has_keys(login) or bool(run_dirs()) or any(tag.startswith(f"{MARK}:") for tag in tags),
        "previous": previous_tags(image, images),
    }


def main() -> None:
    """Entry of the module."""
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "user": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, node=look(module.params["image"], module.params["user"]))
    except (DockerError, OSError, KeyError, ValueError) as error:
        module.fail_json(msg=f"image {module.params['image']}: {error}")


if __name__ == "__main__":
    main()
