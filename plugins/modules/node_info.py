# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a node: everything that serving needs to know of it, in one round trip."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
short_description: Look at a DGX Spark node in one round trip
version_added: "0.1.0"
description:
  - Gathers what the serve playbook needs to know of a node - memory, disk, Docker engine, one image, the collection's
    containers, ports, fabric, model files, folders, limits - and, on the head, whether the engine really answers.
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
  root:
    description:
      - Folder that stands for C(/) when C(/proc/meminfo), C(/sys/class/net) and C(/sys/class/infiniband) are read.
      - A simulated Spark shows those of a real one below such a folder.
    type: path
    default: /
  image:
    description: Image to look for, by the name that containers use.
    type: str
    default: ""
  container:
    description: Name of the container that this node's rank has or would have.
    type: str
    default: ""
  model:
    description: Hugging Face id or absolute path of the model to look for.
    type: str
    default: ""
  model_cache_dir:
    description:
      - The node's Hugging Face cache.
      - A leading C(~) is the home of the user who logged in, also under become. So it is for O(paths).
    type: str
    default: ~/.cache/huggingface
  paths:
    description: Files and folders to look at.
    type: list
    elements: str
    default: []
  interfaces:
    description: Interfaces that the inventory chooses as the fabric. They are returned as C(fabric.wanted).
    type: list
    elements: str
    default: []
  ports:
    description: TCP ports that must be free for the rank.
    type: list
    elements: int
    default: []
  endpoint:
    description: The engine to ask. Only asked when the container named by O(container) runs.
    type: dict
    suboptions:
      base:
        description: URL of the engine as seen from this node.
        type: str
        required: true
      names:
        description: Names that the model must be served under.
        type: list
        elements: str
        required: true
      api_key:
        description: Key for the requests.
        type: str
        default: ""
      canary_timeout:
        description: Seconds that a one-token completion may take. V(0) leaves it out.
        type: float
        default: 30
seealso:
  - module: dgxspark.vllm.rank
"""

EXAMPLES = r"""
- name: Look at the node
  dgxspark.vllm.node_info:
    image: dsv41-flash:local
    model: deepseek-ai/DeepSeek-V4.1-Flash
    ports: [8000]
  register: look

- name: Show the fabric
  ansible.builtin.debug:
    msg: "{{ look.node.fabric.links }}"
"""

RETURN = r"""
node:
  description: The facts.
  returned: always
  type: dict
  contains:
    architecture:
      description: Machine name, for example C(aarch64).
      type: str
      sample: aarch64
    user:
      description: The user who logged in - C(name), C(uid), C(gid), C(home).
      type: dict
    memory:
      description: Bytes - C(total), C(free), C(available), C(swap_total), C(swap_free), C(cma_total), C(cma_free).
      type: dict
    memlock:
      description: Hard limit of locked memory of the login session in bytes, -1 for unlimited.
      type: int
    earlyoom:
      description: Arguments of a running earlyoom, null when none runs.
      type: list
      elements: str
    docker:
      description:
        - C(error) (empty when the engine answers), C(version), C(driver) (the image store), C(root) (its data folder)
          and C(free) (bytes free there).
      type: dict
    image:
      description: C(id), C(digest) (of the content), C(size) in bytes; null when the node does not hold it.
      type: dict
    containers:
      description:
        - The collection's containers on the node - C(name), C(recipe), C(rank), C(world_size), C(digest), C(run),
          C(state), C(running), C(exit_code), C(started), C(error).
      type: list
      elements: dict
    foreign:
      description: State of a container that has the name of this rank's but is not the collection's, else empty.
      type: str
    ports:
      description: Those of O(ports) that something listens on - C(port), C(pid), C(process), null where unknown.
      type: list
      elements: dict
    fabric:
      description:
        - C(interfaces) - each with C(name), C(up), C(mtu), C(speed_mbps), C(addresses).
        - C(links) - one for each RDMA port, with C(hca), C(port), C(interface), C(active), C(mtu), C(speed_mbps),
          C(address), C(prefix), C(gid_index) (the RoCE v2 entry of that address, null when there is none).
        - C(wanted) - O(interfaces).
        - C(infiniband_device) - whether C(/dev/infiniband) is there.
      type: dict
    model:
      description:
        - The C(path) of the model and whether it C(exists); the C(cache) it belongs to and whether that is there
          (C(cache_exists)). Null without O(model).
      type: dict
    paths:
      description:
        - For each of O(paths), in order - C(path), C(exists), C(kind), C(blocked), C(owner_uid), C(fstype), C(free).
      type: list
      elements: dict
    endpoint:
      description:
        - C(health) (HTTP status), C(models), C(canary) (V(ok), V(failed), empty), C(seconds), C(error).
        - Null when not asked.
      type: dict
"""

import platform
import resource
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError, Engine
from ansible_collections.dgxspark.vllm.plugins.module_utils._endpoint import probe
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import content_digest
from ansible_collections.dgxspark.vllm.plugins.module_utils._kernel import (
    has_entries,
    is_there,
    listening_ports,
    login_user,
    read_memory,
    read_path,
    running_arguments,
    socket_owner,
)
from ansible_collections.dgxspark.vllm.plugins.module_utils._links import (
    kernel_addresses,
    read_interfaces,
    read_links,
)

LABEL = "dgxspark.vllm."


def look_at_docker(image: str, container: str) -> dict[str, Any]:
    """Return the engine, the image and the collection's containers."""
    found: dict[str, Any] = {
        "docker": {"error": "", "version": "", "driver": "", "root": "", "free": 0},
        "image": None,
        "containers": [],
        "foreign": "",
    }
    engine = Engine()
    try:
        info = engine.get("/info")
        inspect = engine.image(image) if image else None
        ours = engine.containers(LABEL + "recipe")
        named = engine.container(container) if container else None
    except DockerError as error:
        found["docker"]["error"] = str(error)
        return found
    root = info["DockerRootDir"]
    found["docker"].update(version=info["ServerVersion"], driver=info["Driver"], root=root, free=free_below(root))
    if inspect:
        found["image"] = {"id": inspect["Id"], "digest": content_digest(inspect), "size": inspect["Size"]}
    found["containers"] = sorted((describe_container(entry) for entry in ours), key=lambda entry: str(entry["name"]))
    if named and LABEL + "recipe" not in (named["Config"]["Labels"] or {}):
        found["foreign"] = named["State"]["Status"]
    return found


def free_below(root: str) -> int:
    """Return the bytes free on the filesystem that holds a folder, which this user may be unable to enter."""
    return int(read_path(root, "/")["free"])


def describe_container(inspect: dict[str, Any]) -> dict[str, Any]:
    """Return what matters of one of the collection's containers."""
    labels, state = inspect["Config"]["Labels"], inspect["State"]
    return {
        "name": inspect["Name"].lstrip("/"),
        "recipe": labels[LABEL + "recipe"],
        "rank": int(labels.get(LABEL + "rank", -1)),
        "world_size": int(labels.get(LABEL + "world_size", 0)),
        "digest": labels.get(LABEL + "digest", ""),
        "run": labels.get(LABEL + "run", ""),
        "state": state["Status"],
        "running": bool(state["Running"]),
        "exit_code": state["ExitCode"],
        "started": state["StartedAt"],
        "error": state.get("Error", ""),
    }


def look_for_model(model: str, cache: str, home: str) -> dict[str, Any]:
    """Return where the model should be on this node, and whether it is there."""
    folder = read_path(cache, home)
    found = {"cache": folder["path"], "cache_exists": folder["kind"] == "directory"}
    if model.startswith("/"):
        return {"path": model, "exists": is_there(Path(model)), **found}
    path = Path(str(folder["path"])) / "hub" / ("models--" + model.replace("/", "--"))
    return {"path": str(path), "exists": has_entries(path / "snapshots"), **found}


def look_at_ports(ports: list[int]) -> list[dict[str, Any]]:
    """Return the ports among ``ports`` that are taken, with their owner where this user may see it."""
    taken = listening_ports()
    found = []
    for port in ports:
        if port in taken:
            owner = socket_owner(taken[port]) or {"pid": None, "name": None}
            found.append({"port": port, "pid": owner["pid"], "process": owner["name"]})
    return found


def look(params: dict[str, Any]) -> dict[str, Any]:
    """Return all facts of this node."""
    root, user = Path(params["root"]), login_user()
    interfaces = read_interfaces(root, kernel_addresses())
    memlock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    docker = look_at_docker(params["image"], params["container"])
    serving = any(entry["running"] and entry["name"] == params["container"] for entry in docker["containers"])
    endpoint = params["endpoint"] if serving else None
    return {
        "architecture": platform.machine(),
        "user": user,
        "memory": read_memory(root),
        "memlock": -1 if memlock == resource.RLIM_INFINITY else memlock,
        "earlyoom": running_arguments("earlyoom"),
        **docker,
        "ports": look_at_ports(params["ports"]),
        "fabric": {
            "interfaces": interfaces,
            "links": read_links(root, interfaces),
            "wanted": params["interfaces"],
            "infiniband_device": Path("/dev/infiniband").is_dir(),
        },
        "model": look_for_model(params["model"], params["model_cache_dir"], user["home"]) if params["model"] else None,
        "paths": [read_path(path, user["home"]) for path in params["paths"]],
        "endpoint": probe(endpoint["base"], endpoint["names"], endpoint["api_key"], endpoint["canary_timeout"])
        if endpoint
        else None,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "image": {"type": "str", "default": ""},
            "container": {"type": "str", "default": ""},
            "model": {"type": "str", "default": ""},
            "model_cache_dir": {"type": "str", "default": "~/.cache/huggingface"},
            "paths": {"type": "list", "elements": "str", "default": []},
            "interfaces": {"type": "list", "elements": "str", "default": []},
            "ports": {"type": "list", "elements": "int", "default": []},
            "endpoint": {
                "type": "dict",
                "options": {
                    "base": {"type": "str", "required": True},
                    "names": {"type": "list", "elements": "str", "required": True},
                    "api_key": {"type": "str", "default": "", "no_log": True},
                    "canary_timeout": {"type": "float", "default": 30},
                },
            },
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, node=look(module.params))


if __name__ == "__main__":
    main()
