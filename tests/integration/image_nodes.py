# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated Sparks as image sync sees them: images put on them, the role run over them, what it left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from simulated import Cluster, Run, run_playbook

IMAGE = "sync-e2e:local"
PLAY = """---
- name: Sync an image
  hosts: sparks
  gather_facts: false
  tasks:
    - name: Sync it
      ansible.builtin.include_role:
        name: dgxspark.vllm.image_sync
    - name: Tell
      ansible.builtin.debug:
        msg: "RESULT {{ inventory_hostname }} {{ told | to_json }}"
      vars:
        told: {digest: "{{ image_sync_digest }}", result: "{{ image_sync_result }}"}
"""
RESULT = re.compile(r'"msg": "RESULT (\S+) (.*)"')
MB = 1_000_000


@dataclass
class Nodes:
    """A cluster as image sync sees it: images put on nodes and taken away, and the role run over them."""

    cluster: Cluster
    folder: Path

    @property
    def names(self) -> list[str]:
        return self.cluster.nodes

    def make(self, tag: str, *sizes: int, base: str = "scratch") -> None:
        """Build an image on this machine, one layer of random bytes for each size."""
        build = self.folder / tag.replace(":", "-")
        build.mkdir()
        lines = [f"FROM {base}"]
        for number, size in enumerate(sizes):
            (build / f"{build.name}-{number}").write_bytes(os.urandom(size))
            lines.append(f"COPY {build.name}-{number} /")
        (build / "Dockerfile").write_text("\n".join([*lines, 'ENTRYPOINT ["vllm", "serve"]', ""]))
        command("docker", "build", "--quiet", "--tag", tag, str(build))

    def put(self, tag: str, nodes: Sequence[str]) -> None:
        """Give nodes an image of this machine under the name that is synced, and no other name."""
        archive = self.folder / "archive.tar"
        command("docker", "save", "--output", str(archive), tag)
        for node in nodes:
            with archive.open("rb") as stream:
                container = f"{self.cluster.name}-{node}"
                subprocess.run(
                    ["docker", "exec", "-i", container, "docker", "load", "--quiet"], stdin=stream, check=True
                )
            self.cluster.on(node, "sh", "-c", f"docker tag {tag} {IMAGE} && docker rmi {tag}")

    def forget(self) -> None:
        """Leave no image of these tests on any node."""
        script = (
            "docker images --format '{{.Repository}}:{{.Tag}}' 'sync-*' | xargs --no-run-if-empty docker rmi --force"
        )
        for node in self.names:
            self.cluster.on(node, "sh", "-c", f"{script}; docker image prune --force")

    def words(self, *more: str) -> list[str]:
        play = self.folder / "play.yml"
        play.write_text(PLAY)
        return [str(play), "-i", str(self.cluster.inventory), "-e", f"image_sync_image={IMAGE}", *more]

    def sync(self, *more: str) -> Run:
        """Run the role over the nodes."""
        return run_playbook(*self.words(*more))

    def layers(self) -> dict[str, list[str]]:
        """The image's layers on each node, nothing where there is no such image."""
        script = f"docker image inspect --format '{{{{json .RootFS.Layers}}}}' {IMAGE} 2>/dev/null || true"
        return {node: json.loads(self.cluster.on(node, "sh", "-c", script).strip() or "[]") for node in self.names}

    def all_images(self) -> dict[str, str]:
        """Every image of every node, by name and ID."""
        script = ("docker", "images", "--all", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}")
        return {node: "\n".join(sorted(self.cluster.on(node, *script).splitlines())) for node in self.names}

    def leftovers(self) -> dict[str, str]:
        """Keys, senders, run folders and unfinished images of transfers, by node."""
        script = (
            "grep -h dgxspark-image-sync /home/spark/.ssh/authorized_keys; ls -d /run/dgxspark-image-sync 2>/dev/null;"
            " docker images --format '{{.Repository}}' | grep dgxspark; pgrep -a dgxspark-image; true"
        )
        found = {node: self.cluster.on(node, "sh", "-c", script) for node in self.names}
        return {node: text for node, text in found.items() if text}


def command(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def results(run: Run) -> dict[str, dict[str, Any]]:
    """What the role told of each node."""
    found = {match[1]: json.loads(json.loads(f'"{match[2]}"')) for match in RESULT.finditer(run.text)}
    assert found, run.text
    return found


def receivers(run: Run) -> dict[str, dict[str, Any]]:
    return {node: told["result"] for node, told in results(run).items() if told["result"]["action"] == "loaded"}


def assert_same_everywhere(nodes: Nodes, run: Run) -> None:
    assert run.rc == 0, run.text
    layers = nodes.layers()
    assert layers[nodes.names[0]]
    assert {tuple(found) for found in layers.values()} == {tuple(layers[nodes.names[0]])}
    assert len({told["digest"] for told in results(run).values()}) == 1
    assert nodes.leftovers() == {}


def wait_for(nodes: Nodes, node: str) -> None:
    """Wait until a node's engine and SSH server answer again."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        script = [
            "docker",
            "exec",
            f"{nodes.cluster.name}-{node}",
            "sh",
            "-c",
            "docker info && systemctl is-active ssh",
        ]
        if subprocess.run(script, check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.5)
    pytest.fail(f"{node} does not come back")
