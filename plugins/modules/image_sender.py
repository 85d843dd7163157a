# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sending end of an image transfer: one read of the image for all receivers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_sender
short_description: Send an image from this node to others
version_added: "0.1.0"
description:
  - Streams an image out of this node's Docker engine into C(docker load) on other nodes, over SSH, without staging it
    anywhere. The image is read once for all receivers, and each gets only the layers that it lacks.
  - The sending itself runs apart from the module. The action plugin of the same name waits for it and shows how far
    it is.
author:
  - The dgxspark.vllm contributors (@dgxspark)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: none
    details: There is nothing to foretell without sending. The role leaves the module out in check mode.
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: none
options:
  state:
    description:
      - V(prepared) makes the key of the run and tells the address that each receiver will see.
      - V(sent) sends, and returns when every receiver has the image or has failed.
      - V(started) and V(watched) are the parts of V(sent) that the action plugin uses. Both return when the sender has
        ended, or after O(wait).
      - V(absent) ends a sender of the run and removes its key.
    type: str
    choices: [prepared, sent, started, watched, absent]
    required: true
  run:
    description: Name of the run.
    type: str
    required: true
  image:
    description: Name and tag, or ID, of the image.
    type: str
    default: ""
  wait:
    description: Seconds to wait for the end of the sender, with O(state=started) and O(state=watched).
    type: float
    default: 2
  stall_limit:
    description: Seconds after which a receiver that takes no data is given up.
    type: int
    default: 120
  targets:
    description: The receivers.
    type: list
    elements: dict
    default: []
    suboptions:
      node:
        description: Name for results and messages.
        type: str
        required: true
      address:
        description: Address of the receiver, best on the fabric.
        type: str
        required: true
      port:
        description: Port of its SSH server.
        type: int
        default: 22
      user:
        description: User to log in as.
        type: str
        default: ""
      host_keys:
        description: The receiver's public host keys. No other key is accepted.
        type: list
        elements: str
        default: []
      blobs:
        description: Digests of the layers to send. Left out, the whole image is sent as C(docker save) gives it.
        type: list
        elements: str
      size:
        description: Bytes that this will be, about. For the progress shown.
        type: int
        default: 0
      oci:
        description: Whether the receiver's engine needs the OCI form, as the containerd store does.
        type: bool
        default: false
"""

EXAMPLES = r"""
- name: Make the key of the run
  dgxspark.vllm.image_sender:
    state: prepared
    run: 20261201-1f3a
    targets: [{node: dgx2, address: 192.168.100.12}]
  become: true
  register: key
"""

RETURN = r"""
public_key:
  description: Public half of the key.
  returned: with O(state=prepared)
  type: str
addresses:
  description: This node's address as each receiver sees it.
  returned: with O(state=prepared)
  type: dict
cleaned:
  description: Whether the key is removed already.
  returned: with O(state=sent)
  type: bool
receivers:
  description: For each receiver C(state), C(bytes), C(layers_sent), C(layers_skipped), C(seconds) and C(error).
  returned: with O(state=sent)
  type: dict
"""

import contextlib
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_access import (
    MARK,
    PROCESS_NAME,
    make_key,
    remove_run,
    run_dirs,
    runs_dir,
    ssh_argv,
)
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_engine import ImageEngine
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import layer_digests
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_store import StoreError, open_image
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_stream import (
    Feed,
    Target,
    feed_archive,
    feed_layers,
    finish,
    repeat,
    report,
    start,
)

REPORT_EVERY = 0.5
# Nobody waits any more: the controller was interrupted.
ABANDONED_AFTER = 300.0


def own_address(target: dict[str, Any]) -> str:
    """The address that a receiver sees, as the kernel routes; nothing is sent to find out."""
    family, kind, protocol, _name, place = socket.getaddrinfo(
        target["address"], target["port"], type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(place)
        return str(probe.getsockname()[0])


def prepare(params: dict[str, Any]) -> dict[str, Any]:
    """The key of the run, and where it will be used from."""
    addresses = {target["node"]: own_address(target) for target in params["targets"]}
    return {"changed": True, "public_key": make_key(params["run"]), "addresses": addresses}


def begin(params: dict[str, Any]) -> dict[str, Any]:
    """Leave a process behind that sends, and see how far it comes."""
    folder = runs_dir() / params["run"]
    lines = [f"{_known_name(target)} {key}\n" for target in params["targets"] for key in target["host_keys"]]
    (folder / "known_hosts").write_text("".join(lines))
    _beat(folder)
    if os.fork() == 0:
        _detach(folder, params)
    return watch(params) | {"changed": True}


def watch(params: dict[str, Any]) -> dict[str, Any]:
    """How far the sender is; returns at once when it has ended, else after a while."""
    folder = runs_dir() / params["run"]
    until = time.monotonic() + params["wait"]
    while True:
        _beat(folder)
        state: dict[str, Any] = {"ended": False, "receivers": {}, "error": ""}
        with contextlib.suppress(OSError, ValueError):
            state = json.loads((folder / "progress").read_text())
        if not state["ended"] and not _runs(folder):
            state |= {"ended": True, "error": "the sender was ended from outside"}
        if state["ended"] and not state["error"]:
            remove_run(folder)
        if state["ended"] or time.monotonic() > until:
            return {"changed": False, **state, "cleaned": not folder.exists()}
        time.sleep(0.1)


def end(params: dict[str, Any]) -> dict[str, Any]:
    """End the sender, remove its key and the name it gave to the image."""
    folders = run_dirs(params["run"])
    for folder in folders:
        remove_run(folder)
    ImageEngine().remove(f"{MARK}:{params['run']}")
    return {"changed": bool(folders)}


def _known_name(target: dict[str, Any]) -> str:
    return str(target["address"]) if target["port"] == 22 else f"[{target['address']}]:{target['port']}"


def _beat(folder: Path) -> None:
    (folder / "watched").touch()


def _runs(folder: Path) -> bool:
    try:
        pid = int((folder / "pid").read_text())
    except (OSError, ValueError):
        return time.time() - (folder / "watched").stat().st_mtime < 5 and not (folder / "progress").exists()
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == PROCESS_NAME
    except OSError:
        return False


def _detach(folder: Path, params: dict[str, Any]) -> NoReturn:
    """Become a process of its own that outlives the module and the SSH session."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    code = 1
    try:
        Path("/proc/self/comm").write_text(PROCESS_NAME)
        (folder / "pid").write_text(str(os.getpid()))
        send(folder, params)
        code = 0
    except BaseException:
        lines = traceback.format_exception(*sys.exc_info())
        _write(folder, {"ended": True, "receivers": {}, "error": lines[-1].strip()})
    finally:
        os._exit(code)


def send(folder: Path, params: dict[str, Any]) -> None:
    """Send to all targets, and note how far it is."""
    engine = ImageEngine()
    inspect = engine.image(params["image"])
    if inspect is None:
        raise DockerError(f"the image {params['image']} is gone")
    targets = [
        Target(
            target["node"],
            ssh_argv(folder, target["user"], target["address"], target["port"]),
            None if target["blobs"] is None else frozenset(target["blobs"]),
            target["oci"],
        )
        for target in params["targets"]
    ]
    feeds = start(targets, params["stall_limit"])
    stop = repeat(REPORT_EVERY, lambda: _note(folder, feeds))
    try:
        _feed(engine, inspect, feeds, params)
        finish(feeds)
    except (DockerError, StoreError, OSError) as error:
        for feed in feeds:
            feed.fail(f"the sender could not read the image: {error}")
        finish(feeds)
    finally:
        stop()
    _write(folder, {"ended": True, "receivers": report(feeds), "error": ""})


def _feed(engine: ImageEngine, inspect: dict[str, Any], feeds: list[Feed], params: dict[str, Any]) -> None:
    staged = f"{MARK}:{params['run']}"
    picky = [feed for feed in feeds if feed.target.wanted is not None]
    if picky:
        feed_layers(open_image(engine.info(), inspect), picky, staged)
    whole = [feed for feed in feeds if feed.target.wanted is None]
    if whole:
        engine.tag(params["image"], staged)
        try:
            feed_archive(engine.save(staged), whole, len(layer_digests(inspect)))
        finally:
            engine.remove(staged)


def _note(folder: Path, feeds: list[Feed]) -> None:
    if time.time() - (folder / "watched").stat().st_mtime > ABANDONED_AFTER:
        for feed in feeds:
            feed.fail("nobody waits for this transfer any more")
    _write(folder, {"ended": False, "receivers": report(feeds), "error": ""})


def _write(folder: Path, state: dict[str, Any]) -> None:
    temporary = folder / "progress.new"
    temporary.write_text(json.dumps(state))
    temporary.replace(folder / "progress")


def main() -> None:
    """Entry of the module."""
    target = {
        "node": {"type": "str", "required": True},
        "address": {"type": "str", "required": True},
        "port": {"type": "int", "default": 22},
        "user": {"type": "str", "default": ""},
        "host_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "blobs": {"type": "list", "elements": "str"},
        "oci": {"type": "bool", "default": False},
        "size": {"type": "int", "default": 0},
    }
    states = {"prepared": prepare, "started": begin, "watched": watch, "absent": end}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": [*states, "sent"], "required": True},
            "run": {"type": "str", "required": True},
            "image": {"type": "str", "default": ""},
            "stall_limit": {"type": "int", "default": 120},
            "wait": {"type": "float", "default": 2},
            "targets": {"type": "list", "elements": "dict", "options": target, "default": []},
        },
    )
    if module.params["state"] not in states:
        module.fail_json(msg="state=sent is carried out by the action plugin of this module")
    try:
        module.exit_json(**states[module.params["state"]](module.params))
    except (DockerError, OSError) as error:
        module.fail_json(msg=f"image {module.params['image']}: {error}")


if __name__ == "__main__":
    main()
