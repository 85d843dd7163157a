# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transfers of images that break half-way: the old tag stays, node and cause are named, the next run succeeds."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from image_nodes import MB, Nodes, assert_same_everywhere, command, wait_for
from simulated import ROOT, Run


def with_small_disk(nodes: Nodes, node: str, script: str) -> None:
    nodes.cluster.on(node, "sh", "-c", f"{script} && systemctl start docker")


def in_mid_transfer(nodes: Nodes, struck: str, strike: Callable[[subprocess.Popen[str]], object]) -> Run:
    """Run the role with dgx1 as its source, and strike when a receiver has got something but not all."""
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}
    words = ["ansible-playbook", *nodes.words()]
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 180
    script = "cat /run/dgxspark-image-sync/*/progress 2>/dev/null || echo {}"
    while time.monotonic() < until:
        told = json.loads(nodes.cluster.on("dgx1", "sh", "-c", script).strip() or "{}")
        if told.get("receivers", {}).get(struck, {"bytes": 0})["bytes"] > 20 * MB:
            break
        time.sleep(0.05)
    else:
        process.kill()
        pytest.fail("nothing was ever sent")
    strike(process)
    text, _errors = process.communicate(timeout=300)
    return Run(process.returncode, text)


def test_full_disk_is_named_and_the_others_are_served(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", nodes.names)
    nodes.put("sync-big:e2e", ["dgx1"])
    with_small_disk(
        nodes, "dgx7", "systemctl stop docker.socket docker && mount -t tmpfs -o size=64m none /var/lib/docker"
    )
    try:
        nodes.put("sync-one:e2e", ["dgx7"])
        before = nodes.layers()["dgx7"]
        run = nodes.sync("-e", "image_sync_reserve_gib=-1000")
        assert run.rc != 0
        assert re.match(
            r"dgx7: the image is not there: sending from dgx1 failed: .*no space left on device.*; cure that",
            run.message,
        )
        assert nodes.layers()["dgx7"] == before
        assert nodes.layers()["dgx6"] == nodes.layers()["dgx1"]
        assert nodes.leftovers() == {}
    finally:
        with_small_disk(nodes, "dgx7", "systemctl stop docker.socket docker && umount /var/lib/docker")
    assert_same_everywhere(nodes, nodes.sync())


def test_sender_killed_in_mid_transfer(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", ["dgx2", "dgx3"])
    nodes.put("sync-big:e2e", ["dgx1"])
    before = nodes.layers()
    script = "kill -KILL $(cat /run/dgxspark-image-sync/*/pid)"
    run = in_mid_transfer(nodes, "dgx6", lambda _: nodes.cluster.on("dgx1", "sh", "-c", script))
    assert run.rc != 0
    assert run.message.splitlines()[0] == (
        "dgx2: the image is not there: dgx1: the sender was ended from outside; "
        "cure that and run again: the nodes that have the image by now get nothing twice"
    )
    assert nodes.layers() == before
    assert nodes.leftovers() == {}
    assert_same_everywhere(nodes, nodes.sync())


def test_receiving_engine_killed_in_mid_transfer(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", ["dgx6"])
    nodes.put("sync-big:e2e", ["dgx1"])
    before = nodes.layers()["dgx6"]
    script = "systemctl kill --signal=KILL docker"
    run = in_mid_transfer(nodes, "dgx6", lambda _: nodes.cluster.on("dgx6", "sh", "-c", script))
    assert run.rc != 0
    assert re.match(r"dgx6: the image is not there: sending from dgx1 failed: .*; cure that and run again", run.message)
    wait_for(nodes, "dgx6")
    assert nodes.layers()["dgx6"] == before
    assert_same_everywhere(nodes, nodes.sync())


def test_receiving_node_killed_in_mid_transfer(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", ["dgx6"])
    nodes.put("sync-big:e2e", ["dgx1"])
    before = nodes.layers()["dgx6"]
    container = f"{nodes.cluster.name}-dgx6"
    try:
        run = in_mid_transfer(nodes, "dgx6", lambda _: command("docker", "kill", container))
    finally:
        command("docker", "start", container)
        wait_for(nodes, "dgx6")
    assert run.rc != 0
    assert re.search(r"dgx6: the image is not there: sending from dgx1 failed: ", run.message)
    assert nodes.layers()["dgx6"] == before
    # Its key could not be removed from a node that was away: the next run does it.
    assert set(nodes.leftovers()) <= {"dgx6"}
    assert nodes.layers()["dgx7"] == nodes.layers()["dgx1"]
    assert_same_everywhere(nodes, nodes.sync())


def test_controller_interrupted_in_mid_transfer(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", ["dgx6"])
    nodes.put("sync-big:e2e", ["dgx1"])
    before = nodes.layers()["dgx6"]

    def strike(process: subprocess.Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGKILL)

    in_mid_transfer(nodes, "dgx6", strike)
    assert nodes.layers()["dgx6"] == before
    assert set(nodes.leftovers()) == set(nodes.names)
    assert_same_everywhere(nodes, nodes.sync())
