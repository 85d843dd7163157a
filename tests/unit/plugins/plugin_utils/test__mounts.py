# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounts: what gives the node away, what collides, what becomes of the rest."""

# Messages stand whole, so that they can be searched for.
# ruff: noqa: E501, S108

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._mounts import danger, expand_mounts, normal_path

CURE = "if the recipe may have it, name it in the inventory's recipe_allowed_mounts"


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("~", "~"),
        ("~/", "~"),
        ("~/a//b/./c/", "~/a/b/c"),
        ("~/a/../b", "~/b"),
        ("~/..", "~/.."),
        ("~/a/../../b", "~/../b"),
        ("/", "/"),
        ("//etc", "/etc"),
        ("///etc//x/", "/etc/x"),
        ("/data/../etc", "/etc"),
        ("/../..", "/"),
    ],
)
def test_normal_path(path: str, normal: str) -> None:
    assert normal_path(path) == normal


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "is the whole file system"),
        ("/etc", "is /etc"),
        ("/etc/shadow", "lies in /etc"),
        ("/root", "is /root"),
        ("/root/.cache", "lies in /root"),
        ("/home", "is a whole home folder"),
        ("/home/spark", "is a whole home folder"),
        ("/home/spark/.ssh/id_ed25519", "lies in /home/spark/.ssh"),
        ("/proc/1/root", "lies in /proc"),
        ("/sys", "is /sys"),
        ("/dev/sda", "lies in /dev"),
        ("/boot", "is /boot"),
        ("/var/run/docker.sock", "lies in /var/run"),
        ("/run/docker.sock", "lies in /run"),
        ("/var/lib/docker", "is /var/lib/docker"),
        ("/var/lib", "holds /var/lib/docker"),
        ("/var", "holds /var/run"),
        ("~", "is a whole home folder"),
        ("~/.ssh", "is ~/.ssh"),
        ("~/.ssh/id_ed25519", "lies in ~/.ssh"),
        ("~/.docker/config.json", "lies in ~/.docker"),
        ("~/..", "leaves the home folder"),
        ("~/../other", "leaves the home folder"),
        ("/home/spark/models", ""),
        ("/etcetera", ""),
        ("/data", ""),
        ("/mnt/nas/models", ""),
        ("~/.sshfs", ""),
        ("~/cache", ""),
    ],
)
def test_danger(path: str, reason: str) -> None:
    assert danger(path) == reason


def expand(tables: list[dict[str, Any]], allowed: tuple[str, ...] = ()) -> tuple[list[Any], list[str]]:
    mounts, problems = expand_mounts(dict(enumerate(tables)), allowed, {"/dev/shm": "the shared memory"}, "r")
    return mounts, [str(problem) for problem in problems]


def test_defaults_of_home_and_absolute_hosts_differ() -> None:
    mounts, problems = expand([{"host": "~/a/", "container": "/a"}, {"host": "/b", "container": "/b/"}])
    assert problems == []
    assert mounts == [
        {"host": "~/a", "container": "/a", "read_only": False, "create": True},
        {"host": "/b", "container": "/b", "read_only": False, "create": False},
    ]


def test_what_a_recipe_says_wins() -> None:
    mounts, _problems = expand([{"host": "~/a", "container": "/a", "create": False, "read_only": True}])
    assert mounts == [{"host": "~/a", "container": "/a", "read_only": True, "create": False}]


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        (
            [{"host": "/etc", "container": "/a"}],
            f'r: extra_mounts[1].host: "/etc", which is /etc, expected a path that gives nothing of the node away; {CURE}',
        ),
        (
            [{"host": "~/../x", "container": "/a"}],
            f'r: extra_mounts[1].host: "~/../x", which leaves the home folder, expected a path that gives nothing of the node away; {CURE}',
        ),
        (
            [{"host": "~/a", "container": "/a"}, {"host": "~/b", "container": "/x/../a"}],
            'r: extra_mounts[2].container: "/a", where extra_mounts[1] is mounted, expected a path of its own',
        ),
        (
            [{"host": "~/a", "container": "/dev/shm/"}],
            'r: extra_mounts[1].container: "/dev/shm", where the shared memory is mounted, expected a path of its own',
        ),
        (
            [{"host": "~/a", "container": "/"}],
            'r: extra_mounts[1].container: "/", expected a path that Docker can mount on',
        ),
        (
            [{"host": "~/a", "container": "/proc/x"}],
            'r: extra_mounts[1].container: "/proc/x", expected a path that Docker can mount on',
        ),
    ],
)
def test_refused(tables: list[dict[str, Any]], line: str) -> None:
    assert expand(tables)[1] == [line]


@pytest.mark.parametrize("name", ["/etc/ssl", "/etc//ssl/"])
def test_the_inventory_allows_by_name(name: str) -> None:
    assert expand([{"host": "/etc/ssl", "container": "/a"}], (name,))[1] == []


def test_the_inventory_allows_no_more_than_it_names() -> None:
    assert len(expand([{"host": "/etc/ssl/private", "container": "/a"}], ("/etc/ssl",))[1]) == 1
