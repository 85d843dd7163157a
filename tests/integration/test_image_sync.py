# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image sync between real Docker engines: who gets what from whom, and what a transfer that breaks leaves behind."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from simulated import ROOT, Cluster, Run, run_playbook

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
RATE = re.compile(r"^(dgx\d) <- (dgx\d): .*", re.MULTILINE)
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
        """Give nodes an image of this machine under the name that is synced."""
        archive = self.folder / "archive.tar"
        command("docker", "save", "--output", str(archive), tag)
        for node in nodes:
            with archive.open("rb") as stream:
                container = f"{self.cluster.name}-{node}"
                subprocess.run(
                    ["docker", "exec", "-i", container, "docker", "load", "--quiet"], stdin=stream, check=True
                )
            self.cluster.on(node, "docker", "tag", tag, IMAGE)

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


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Images on this machine: two that differ in the top layer, one with nothing in common, one that takes time."""
    folder = tmp_path_factory.mktemp("images")
    host = Nodes(Cluster("none", 0, 0), folder)
    host.make("sync-base:e2e", 4 * MB, 2 * MB)
    host.make("sync-one:e2e", 100_000, base="sync-base:e2e")
    host.make("sync-two:e2e", 100_000, base="sync-base:e2e")
    host.make("sync-other:e2e", 3 * MB)
    host.make("sync-big:e2e", *[60 * MB] * 5)
    yield folder
    command("docker", "rmi", "--force", *(f"sync-{name}:e2e" for name in ("one", "two", "other", "big", "base")))


@pytest.fixture
def nodes(fresh_cluster: Cluster, images: Path) -> Iterator[Nodes]:
    """Eight nodes without any image of these tests."""
    found = Nodes(fresh_cluster, images)
    found.forget()
    yield found
    found.forget()


def assert_same_everywhere(nodes: Nodes, run: Run) -> None:
    assert run.rc == 0, run.text
    layers = nodes.layers()
    assert layers[nodes.names[0]]
    assert {tuple(found) for found in layers.values()} == {tuple(layers[nodes.names[0]])}
    assert len({told["digest"] for told in results(run).values()}) == 1
    assert nodes.leftovers() == {}


def test_three_lack_it_and_five_share_the_work(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", ["dgx2", "dgx3", "dgx5", "dgx6", "dgx7"])
    before = nodes.all_images()
    foretold = nodes.sync("--check")
    assert nodes.all_images() == before
    run = nodes.sync()
    assert_same_everywhere(nodes, run)
    got = receivers(run)
    assert {node: told["source"] for node, told in got.items()} == {"dgx1": "dgx2", "dgx4": "dgx3", "dgx8": "dgx5"}
    assert all(6 * MB < told["bytes"] < 7 * MB for told in got.values())
    assert foretold.changes == run.changes
    assert {node for _task, node in run.changes} == {"dgx1", "dgx4", "dgx8"}


def test_equal_everywhere_is_one_look(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", nodes.names)
    run = nodes.sync()
    assert_same_everywhere(nodes, run)
    assert run.changed == 0
    assert receivers(run) == {}
    # Looks, and facts that need no connection: nothing else was done on a node.
    remote = [
        line for line in re.findall(r"^TASK \[(?:.* : )?(.*)\]", run.text, re.MULTILINE) if "Look at the image" in line
    ]
    assert remote == ["Look at the image on every node", "Look at the image"]
    assert "Send the image to" not in run.text


def test_one_holder_feeds_seven_and_shows_progress(nodes: Nodes) -> None:
    nodes.put("sync-big:e2e", ["dgx4"])
    run = nodes.sync()
    assert_same_everywhere(nodes, run)
    assert {told["source"] for told in receivers(run).values()} == {"dgx4"}
    assert {told["layers_sent"] for told in receivers(run).values()} == {5}
    shown = {match[1] for match in RATE.finditer(run.text)}
    assert shown == set(nodes.names) - {"dgx4"}
    assert re.search(r"dgx\d <- dgx4: loaded, 300\.\d MB in [\d.]+ s \([\d.]+ MB/s\)", run.text)


def test_other_content_is_replaced_and_kept(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", [node for node in nodes.names if node != "dgx6"])
    nodes.put("sync-other:e2e", ["dgx6"])
    run = nodes.sync()
    assert_same_everywhere(nodes, run)
    told = receivers(run)["dgx6"]
    old, new = told["replaced"][7:19], results(run)["dgx6"]["digest"][7:19]
    assert re.search(
        rf"dgx6: replaced {old} by {new}, 6\.1 MB in [\d.]+ s from dgx1, 3 layers sent, 0 were there", run.text
    )
    assert told["kept_as"] == f"{IMAGE}-was-{old}"
    assert nodes.cluster.on("dgx6", "docker", "image", "inspect", told["kept_as"])
    pruned = nodes.sync("-e", "image_sync_keep=0")
    assert pruned.changes == {("dgxspark.vllm.image_sync : Remove replaced images beyond those to keep", "dgx6")}
    assert "-was-" not in nodes.cluster.on("dgx6", "docker", "images")


def test_changed_top_layer_travels_alone(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", nodes.names)
    nodes.put("sync-two:e2e", ["dgx1"])
    run = nodes.sync()
    assert_same_everywhere(nodes, run)
    got = receivers(run)
    assert len(got) == 7
    for told in got.values():
        assert (told["layers_sent"], told["layers_skipped"]) == (1, 2)
        assert told["bytes"] < 120_000


def test_chosen_reference(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", ["dgx1", "dgx2"])
    nodes.put("sync-two:e2e", ["dgx5"])
    run = nodes.sync("-e", "image_sync_reference=dgx5")
    assert_same_everywhere(nodes, run)
    assert len(receivers(run)) == 7
    refused = nodes.sync("-e", "image_sync_reference=dgx9")
    assert refused.message.startswith(f"dgx9: does not hold {IMAGE}, dgx1, dgx2, dgx3")


def test_login_user_in_the_docker_group_sends_whole_images(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", nodes.names)
    nodes.put("sync-two:e2e", ["dgx1"])
    run = nodes.sync("-e", "image_sync_become=false")
    assert_same_everywhere(nodes, run)
    for told in receivers(run).values():
        assert told["why_whole"] == "only root can read single layers from Docker's store"
        assert told["bytes"] > 6 * MB


def test_login_user_outside_the_docker_group_loads_by_sudo(nodes: Nodes) -> None:
    nodes.cluster.on("dgx2", "gpasswd", "--delete", "spark", "docker")
    try:
        nodes.put("sync-one:e2e", ["dgx1"])
        assert_same_everywhere(nodes, nodes.sync())
    finally:
        nodes.cluster.on("dgx2", "gpasswd", "--add", "spark", "docker")


def test_disk_is_looked_at_before_anything_is_sent(nodes: Nodes) -> None:
    nodes.put("sync-one:e2e", [node for node in nodes.names if node not in ("dgx3", "dgx7")])
    before = nodes.all_images()
    run = nodes.sync("-e", "image_sync_reserve_gib=1000000")
    assert run.rc != 0
    lines = run.message.splitlines()
    assert [line.split(":")[0] for line in lines] == ["dgx3", "dgx7"]
    assert all(
        "free in /var/lib/docker, expected 1073.7 TB to load 6.1 MB of image; free space" in line for line in lines
    )
    assert nodes.all_images() == before


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


def test_key_of_a_run_can_load_and_nothing_else(nodes: Nodes) -> None:
    cluster = nodes.cluster
    cluster.on("dgx1", "sh", "-c", "rm -f /root/key*; ssh-keygen -q -t ed25519 -N '' -f /root/key")
    public = cluster.on("dgx1", "cat", "/root/key.pub").strip()
    arguments = {"state": "open", "run": "test", "public_key": public, "address": f"10.{cluster.network}.1.11"}
    adhoc = ["ansible", "-i", str(cluster.inventory), "dgx2", "-b", "-m", "dgxspark.vllm.image_receiver", "-a"]
    subprocess.run([*adhoc, json.dumps(arguments)], cwd=ROOT, check=True, capture_output=True)
    ssh = "ssh -i /root/key -o BatchMode=yes -o StrictHostKeyChecking=no -o LogLevel=ERROR"
    try:
        fabric = cluster.on("dgx1", "sh", "-c", f"{ssh} spark@10.{cluster.network}.1.12 id </dev/null 2>&1 || true")
        # Whatever was asked for, docker load ran, and found no image on an empty input.
        assert re.fullmatch(
            r"open /var/lib/docker/tmp/docker-import-\d+/repositories: no such file or directory\n", fabric
        )
        elsewhere = f"{ssh} spark@10.{cluster.network}.0.12 id </dev/null 2>&1 || true"
        assert "Permission denied" in cluster.on("dgx1", "sh", "-c", elsewhere)
    finally:
        cleaned = nodes.sync("-e", "image_sync_archive=/none")
    assert ("dgxspark.vllm.image_sync : Clean up after an interrupted run", "dgx2") in cleaned.changes
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


@pytest.fixture(scope="module")
def mixed(images: Path) -> Iterator[Nodes]:
    """Four nodes: dgx1 and dgx2 keep images by overlay2, dgx3 and dgx4 by containerd."""
    cluster = Cluster("e2e-stores", 79, 4)
    on_containerd = json.dumps({"sim_containerd_nodes": ["dgx3", "dgx4"]})
    cluster.sim("create.yml", "-e", on_containerd)
    yield Nodes(cluster, images)
    if not os.environ.get("KEEP_NODES"):
        cluster.sim("destroy.yml", "-e", on_containerd)


@pytest.mark.parametrize("source", ["dgx1", "dgx3"])
def test_stores_mix_and_only_the_top_layer_travels(mixed: Nodes, source: str) -> None:
    mixed.forget()
    mixed.put("sync-one:e2e", [source])
    run = mixed.sync()
    assert_same_everywhere(mixed, run)
    assert {told["layers_sent"] for told in receivers(run).values()} == {3}
    mixed.put("sync-two:e2e", [source])
    changed = mixed.sync("-e", f"image_sync_reference={source}")
    assert_same_everywhere(mixed, changed)
    for told in receivers(changed).values():
        assert (told["layers_sent"], told["layers_skipped"]) == (1, 2)
        assert told["bytes"] < 120_000
    again = mixed.sync()
    assert again.changed == 0


def test_one_platform_out_of_an_index_travels(mixed: Nodes) -> None:
    mixed.forget()
    archive = mixed.folder / "index.tar"
    archive.write_bytes(two_platforms())
    with archive.open("rb") as stream:
        words = ["docker", "exec", "-i", f"{mixed.cluster.name}-dgx3", "docker", "load", "--quiet"]
        subprocess.run(words, stdin=stream, check=True)
    run = mixed.sync()
    assert_same_everywhere(mixed, run)
    assert {told["layers_sent"] for told in receivers(run).values()} == {1}
    for node in mixed.names:
        script = f"docker image inspect --format '{{{{.Architecture}}}} {{{{.Config.Entrypoint}}}}' {IMAGE}"
        assert mixed.cluster.on(node, "sh", "-c", script).strip() == f"{HERE} [/{HERE}]"


HERE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def two_platforms() -> bytes:
    """An OCI archive whose one tag names an index of two platforms, both complete."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:

        def add(name: str, text: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))

        def blob(content: bytes | dict[str, Any], kind: str) -> dict[str, Any]:
            text = content if isinstance(content, bytes) else json.dumps(content).encode()
            digest = hashlib.sha256(text).hexdigest()
            add(f"blobs/sha256/{digest}", text)
            return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(text)}

        manifests = []
        for architecture in ("amd64", "arm64"):
            layer = blob(tar_of(architecture), "layer.v1.tar")
            rootfs = {"type": "layers", "diff_ids": [layer["digest"]]}
            place = {"architecture": architecture, "os": "linux"}
            config = {**place, "config": {"Entrypoint": [f"/{architecture}"]}, "rootfs": rootfs}
            manifest = {"schemaVersion": 2, "config": blob(config, "config.v1+json"), "layers": [layer]}
            manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
            manifests.append({**blob(manifest, "manifest.v1+json"), "platform": place})
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
        named = {
            **blob(index, "index.v1+json"),
            "annotations": {"io.containerd.image.name": f"docker.io/library/{IMAGE}"},
        }
        add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add("index.json", json.dumps({"schemaVersion": 2, "manifests": [named]}).encode())
    return buffer.getvalue()


def tar_of(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()
