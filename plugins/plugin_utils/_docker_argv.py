# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container as Docker's command line. Private to the collection."""

from __future__ import annotations

import shlex

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import BindMount, Container


def create_arguments(container: Container) -> list[str]:
    """Return the words that follow ``docker create`` or ``docker run --detach``.

    Secrets are named without their values: Docker takes those from its own environment.
    """
    return [
        *_identity_options(container),
        *_limit_options(container),
        *_content_options(container),
        container["image"],
        *container["command"],
    ]


def run_line(container: Container) -> str:
    """Return the ``docker run`` line that would start the container, quoted for a POSIX shell."""
    return shlex.join(["docker", "run", "--detach", *create_arguments(container)])


def _identity_options(container: Container) -> list[str]:
    words = ["--name", container["name"], "--pull", "never", "--network", container["network"]]
    words += ["--ipc", container["ipc"]]
    if container["shm_size"] is not None:
        words += ["--shm-size", str(container["shm_size"])]
    if container["gpus"]:
        words += ["--gpus", container["gpus"]]
    for device in container["devices"]:
        words += ["--device", device]
    if container["privileged"]:
        words += ["--privileged"]
    for capability in container["cap_add"]:
        words += ["--cap-add", capability]
    return words


def _limit_options(container: Container) -> list[str]:
    words = []
    for name, limit in container["ulimits"].items():
        words += ["--ulimit", f"{name}={limit}:{limit}"]
    words += ["--init"] if container["init"] else []
    words += ["--stop-signal", container["stop_signal"], "--stop-timeout", str(container["stop_timeout"])]
    words += ["--restart", container["restart"], "--oom-score-adj", str(container["oom_score_adj"])]
    words += ["--log-driver", container["log_driver"]]
    for name, value in container["log_options"].items():
        words += ["--log-opt", f"{name}={value}"]
    return words


def _content_options(container: Container) -> list[str]:
    words = []
    for mount in container["mounts"]:
        words += ["--mount", mount_option(mount)]
    for name, value in container["env"].items():
        words += ["--env", f"{name}={value}"]
    for name in container["secret_env"]:
        words += ["--env", name]
    for name, value in container["labels"].items():
        words += ["--label", f"{name}={value}"]
    if container["entrypoint"] is not None:
        words += ["--entrypoint", container["entrypoint"]]
    return words


def mount_option(mount: BindMount) -> str:
    """Return the value of ``--mount``, which Docker reads as one line of CSV."""
    fields = ["type=bind", f"source={mount['source']}", f"target={mount['target']}"]
    if mount["read_only"]:
        fields.append("readonly")
    return ",".join(_csv_field(field) for field in fields)


def _csv_field(field: str) -> str:
    if any(character in field for character in ',"\n\r'):
        return '"' + field.replace('"', '""') + '"'
    return field
