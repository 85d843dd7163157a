# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The receiving end of an image transfer: let one key in, then take over what came."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_receiver
short_description: Let another node load an image here, then take it over
version_added: "0.1.0"
description:
  - Lets the key of one run load images on this node, from one address, and nothing else; and takes that back.
  - An image arrives under a name of its own. It gets its real tag when its content is what was expected, and until
    then the image that had the tag keeps it.
author:
  - The dgxspark.vllm contributors (@dgxspark)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: full
options:
  state:
    description:
      - V(open) lets the key in.
      - V(closed) removes the key and takes the image over, or removes what came of it.
      - V(pruned) removes images that were replaced under the tag, the oldest first.
    type: str
    choices: [open, closed, pruned]
    required: true
  run:
    description: Name of the run. Empty with O(state=closed) means every run, to clean up after interrupted ones.
    type: str
    default: ""
  user:
    description: User that other nodes log in as. By default the user that Ansible logged in as.
    type: str
    default: ""
  public_key:
    description: Public half of the sender's key, with O(state=open).
    type: str
    default: ""
  address:
    description: Address that the sender comes from, with O(state=open).
    type: str
    default: ""
  image:
    description: Name and tag that the image gets, with O(state=closed).
    type: str
    default: ""
  digest:
    description: Digest of the content that the image must have.
    type: str
    default: ""
  keep:
    description:
      - How many replaced images stay, with O(state=pruned). V(-1) for all.
      - One that a container is made of stays in any case, with a warning.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Let the sender in
  dgxspark.vllm.image_receiver:
    state: open
    run: 20261201-1f3a
    public_key: "{{ key.public_key }}"
    address: 192.168.100.11

- name: Take the image over
  dgxspark.vllm.image_receiver:
    state: closed
    run: 20261201-1f3a
    image: dsv41-flash:local
    digest: "{{ digest }}"
"""

RETURN = r"""
digest:
  description: Digest of the content that the tag has now, empty when there is no such image.
  returned: with O(image)
  type: str
replaced:
  description: Digest of the content that the tag had before, when it was another one.
  returned: with O(image)
  type: str
kept_as:
  description: Name under which the replaced image is kept.
  returned: with O(image)
  type: str
problem:
  description: Why the image was not taken over, empty when it was.
  returned: with O(image)
  type: str
removed:
  description: Names of the images that were removed.
  returned: with O(state=pruned)
  type: list
  elements: str
in_use:
  description: Images that had to stay, each with the container that uses it.
  returned: with O(state=pruned)
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError, socket_path
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_access import (
    MARK,
    authorize,
    has_keys,
    key_line,
    load_command,
    login_user,
    remove_run,
    revoke,
    run_dirs,
)
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_engine import ImageEngine, ImageInUseError
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import (
    content_digest,
    previous_tag,
    previous_tags,
    short_digest,
)


def open_door(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    """Let the sender's key in."""
    if not dry:
        user = login_user(params["user"])
        command = load_command(user, socket_path())
        authorize(user, key_line(params["public_key"], params["run"], params["address"], command))
    return {"changed": True}


def clean_up(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    """Remove what interrupted runs left."""
    engine = ImageEngine()
    user = login_user(params["user"])
    tags = _staged(engine)
    folders = run_dirs()
    found = bool(tags or folders or has_keys(user))
    if not dry:
        revoke(user, "")
        for folder in folders:
            remove_run(folder)
        for tag in tags:
            engine.remove(tag)
    return {"changed": found}


def take_over(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    """Close the door, then give the image its tag if it is what was expected."""
    if not dry:
        # First of all, and whatever state the engine is in.
        revoke(login_user(params["user"]), params["run"])
    engine = ImageEngine()
    image, wanted, staged = params["image"], params["digest"], f"{MARK}:{params['run']}"
    before = _digest(engine, image)
    result = {"changed": before != wanted, "digest": wanted, "replaced": "", "kept_as": "", "problem": ""}
    if before and before != wanted:
        result["replaced"] = before
        result["kept_as"] = previous_tag(image, before)
    if not dry:
        came = _digest(engine, staged)
        if came == wanted and wanted:
            _retag(engine, image, staged, str(result["kept_as"]))
        elif before != wanted:
            text = f"holds {short_digest(came)} instead of {short_digest(wanted)}" if came else "did not arrive whole"
            result |= {
                "changed": False,
                "digest": before,
                "replaced": "",
                "kept_as": "",
                "problem": f"the image {text}",
            }
        # Of earlier runs too: an engine goes on with a load whose controller is long gone.
        for tag in _staged(engine):
            engine.remove(tag)
    result["diff"] = {"before": f"{image} {before}\n", "after": f"{image} {result['digest']}\n"}
    return result


def prune(params: dict[str, Any], dry: bool) -> dict[str, Any]:
    """Remove replaced images beyond those to keep. One that a container still uses stays until a later run."""
    engine = ImageEngine()
    names = previous_tags(params["image"], engine.images())[params["keep"] :] if params["keep"] >= 0 else []
    removed, in_use = [], []
    for name in names:
        try:
            if not dry:
                engine.remove(name)
            removed.append(name)
        except ImageInUseError as error:
            in_use.append(f"{name} stays for now: {error}")
    return {"changed": bool(removed), "removed": removed, "in_use": in_use}


def _retag(engine: ImageEngine, image: str, staged: str, kept_as: str) -> None:
    if kept_as:
        engine.tag(image, kept_as)
    engine.tag(staged, image)


def _staged(engine: ImageEngine) -> list[str]:
    return [tag for entry in engine.images() for tag in entry.get("RepoTags") or [] if tag.startswith(f"{MARK}:")]


def _digest(engine: ImageEngine, name: str) -> str:
    inspect = engine.image(name)
    return content_digest(inspect) if inspect else ""


def main() -> None:
    """Entry of the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["open", "closed", "pruned"], "required": True},
            "run": {"type": "str", "default": ""},
            "keep": {"type": "int", "default": 0},
            "user": {"type": "str", "default": ""},
            "public_key": {"type": "str", "default": "", "no_log": False},
            "address": {"type": "str", "default": ""},
            "image": {"type": "str", "default": ""},
            "digest": {"type": "str", "default": ""},
        },
        required_if=[("state", "open", ("run", "public_key", "address")), ("state", "pruned", ("image",))],
        supports_check_mode=True,
    )
    params = module.params
    actions = {"open": open_door, "closed": take_over if params["run"] else clean_up, "pruned": prune}
    try:
        result = actions[params["state"]](params, module.check_mode)
        for text in result.get("in_use", ()):
            module.warn(text)
        module.exit_json(**result)
    except (DockerError, OSError, KeyError) as error:
        module.fail_json(msg=f"image {params['image'] or 'transfer'}: {error}")


if __name__ == "__main__":
    main()
