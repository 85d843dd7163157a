# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, replace or remove one rank's container."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rank
short_description: Create, replace or remove the container of one rank
version_added: "0.1.0"
description:
  - Runs C(docker create) with the very arguments that the plan prints, so that what people read is what runs.
  - A container is told by the digest in its label. One with the same digest stays, one with another is replaced.
  - Never starts a container. Ranks start together, in order, by the action M(dgxspark.vllm.bring_up).
author:
  - The dgxspark.vllm contributors (@dgxspark)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the node.
    support: full
  diff_mode:
    description: Will return details on what has changed when in diff mode.
    support: full
    details: Shows the digest and the C(docker run) line, secrets by their names alone.
options:
  name:
    description: Name of the container.
    type: str
    required: true
  state:
    description: Whether the container should be there, created, or not at all.
    type: str
    choices: [absent, present]
    default: present
  arguments:
    description:
      - What follows C(docker create); the filter P(dgxspark.vllm.docker_argv#filter) makes it.
      - Needed for V(present).
    type: list
    elements: str
  digest:
    description: Digest that the container's label C(dgxspark.vllm.digest) must carry. Needed for V(present).
    type: str
  replace:
    description: Replace also a container that has the digest, for example one that has stopped.
    type: bool
    default: false
  secrets:
    description:
      - Values of the environment variables that O(arguments) name without a value.
      - They reach Docker through its environment, never as an argument.
    type: dict
    default: {}
seealso:
  - module: dgxspark.vllm.node_info
"""

EXAMPLES = r"""
- name: Create the container of rank 0
  dgxspark.vllm.rank:
    name: dsv41-flash-8x-r0
    arguments: [--name, dsv41-flash-8x-r0, --label, "dgxspark.vllm.digest=sha256:1f", dsv41-flash:local, --help]
    digest: sha256:1f

- name: Remove it
  dgxspark.vllm.rank:
    name: dsv41-flash-8x-r0
    state: absent
"""

RETURN = r"""
container:
  description: Id of the container, empty when there is none, or when check mode would make one.
  returned: success
  type: str
actions:
  description: What was done, or would be in check mode - C(removed), C(created).
  returned: success
  type: list
  elements: str
"""

import os
import shlex
import subprocess
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError, Engine

DIGEST_LABEL = "dgxspark.vllm.digest"
RECIPE_LABEL = "dgxspark.vllm.recipe"


class RankError(Exception):
    """The container cannot be brought into the wanted state."""


def run_docker(words: list[str], secrets: dict[str, str]) -> str:
    """Run docker and return what it prints."""
    answer = subprocess.run(
        ["docker", *words], env={**os.environ, **secrets}, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise RankError(f"docker {words[0]} failed: {answer.stderr.strip() or answer.stdout.strip()}")
    return answer.stdout.strip()


def find(name: str) -> dict[str, Any] | None:
    """Return the container of that name, refusing one that is not the collection's."""
    found = Engine().container(name)
    if found and RECIPE_LABEL not in (found["Config"]["Labels"] or {}):
        raise RankError(f"a container named {name} is there and was not made by dgxspark.vllm: remove or rename it")
    return found


def digest_of(container: dict[str, Any] | None) -> str:
    """Return the digest in a container's label, empty where there is none."""
    return str((container["Config"]["Labels"] or {}).get(DIGEST_LABEL, "")) if container else ""


def apply(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the container into the wanted state and return the module's result."""
    before = find(params["name"])
    wanted = params["digest"] if params["state"] == "present" else ""
    keep = bool(before and wanted and digest_of(before) == wanted and not params["replace"])
    actions = [] if keep else (["removed"] if before else []) + (["created"] if wanted else [])
    identity = before["Id"] if before and keep else ""
    if not check_mode:
        if "removed" in actions:
            run_docker(["rm", "--force", params["name"]], {})
        if "created" in actions:
            secrets = {key: str(value) for key, value in params["secrets"].items()}
            identity = run_docker(["create", *params["arguments"]], secrets)
    line = shlex.join(["docker", "create", *params["arguments"]]) if wanted and not keep else ""
    return {
        "changed": bool(actions),
        "actions": actions,
        "container": identity,
        "diff": {
            "before": f"{digest_of(before)}\n" if actions else "",
            "after": f"{wanted}\n{line}\n" if "created" in actions else "",
        },
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["absent", "present"], "default": "present"},
            "arguments": {"type": "list", "elements": "str"},
            "digest": {"type": "str"},
            "replace": {"type": "bool", "default": False},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
        },
        required_if=[("state", "present", ["arguments", "digest"])],
        supports_check_mode=True,
    )
    try:
        result = apply(module.params, module.check_mode)
    except (RankError, DockerError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
