# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recipe may mount from a node. Private to the collection.

A recipe is data from strangers. Paths are compared by their text after ``.``, ``..`` and doubled slashes are resolved;
what a symbolic link on a node leads to is not known here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._schema import describe
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Mount

CREDENTIALS = (".ssh", ".gnupg", ".docker", ".kube", ".aws", ".netrc")
# Whoever can write (or only read) in one of these owns the node; /run holds the sockets of Docker and containerd.
SYSTEM = (
    "/etc",
    "/root",
    "/proc",
    "/sys",
    "/dev",
    "/boot",
    "/run",
    "/var/run",
    "/var/lib/docker",
    "/var/lib/containerd",
)
CURE = "if the recipe may have it, name it in the inventory's recipe_allowed_mounts"


def normal_path(path: str) -> str:
    """Return a path on the node without ``.``, ``..`` and doubled slashes; ``~/..`` stays visible."""
    if path.startswith("~"):
        rest = posixpath.normpath("./" + path[2:])
        return "~" if rest == "." else f"~/{rest}"
    return posixpath.normpath("/" + path.lstrip("/"))


def danger(path: str) -> str:
    """Return why a normal path must not be given to a recipe, or an empty string."""
    if path == "~/.." or path.startswith("~/../"):
        return "leaves the home folder"
    if path == "/":
        return "is the whole file system"
    parts = path.split("/")
    homes = ["~"] if parts[0] == "~" else ["/home", "/".join(parts[:3])] if parts[1] == "home" else []
    if path in homes:
        return "is a whole home folder"
    for tree in [*SYSTEM, *(f"{home}/{name}" for home in homes for name in CREDENTIALS)]:
        if _within(path, tree):
            return f"is {tree}" if path == tree else f"lies in {tree}"
        if tree.startswith(f"{path}/"):
            return f"holds {tree}"
    return ""


def refusal(place: str, path: str, allowed: Iterable[str]) -> list[Problem]:
    """Return the problem of a host path that is dangerous and not allowed by name."""
    normal = normal_path(path)
    reason = danger(normal)
    if not reason or normal in {normal_path(item) for item in allowed}:
        return []
    return [Problem(place, f"{describe(path)}, which {reason}", "a path that gives nothing of the node away", CURE)]


def expand_mounts(
    tables: Mapping[int, Mapping[str, Any]], allowed: Collection[str], taken: Mapping[str, str], file: str
) -> tuple[list[Mount], list[Problem]]:
    """Return the mounts of ``tables`` (by position) and what is wrong with them.

    ``taken`` maps container paths that are not free to their owners.
    """
    mounts: list[Mount] = []
    problems: list[Problem] = []
    owners = dict(taken)
    for position, table in tables.items():
        here = f"extra_mounts[{position + 1}]"
        mount = _mount(table)
        problems += refusal(f"{file}: {here}.host", table["host"], allowed)
        problems += _container_problem(f"{file}: {here}.container", mount["container"], owners)
        owners.setdefault(mount["container"], here)
        mounts.append(mount)
    return mounts, problems


def _mount(table: Mapping[str, Any]) -> Mount:
    host = normal_path(table["host"])
    return {
        "host": host,
        "container": normal_path(table["container"]),
        "read_only": table.get("read_only", False),
        "create": table.get("create", host.startswith("~")),
    }


def _container_problem(place: str, path: str, owners: Mapping[str, str]) -> list[Problem]:
    if path in owners:
        return [Problem(place, f"{describe(path)}, where {owners[path]} is mounted", "a path of its own")]
    if path == "/" or _within(path, "/proc") or _within(path, "/sys"):
        return [Problem(place, describe(path), "a path that Docker can mount on")]
    return []


def _within(path: str, tree: str) -> bool:
    return path == tree or path.startswith(tree + "/")
