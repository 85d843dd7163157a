# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image sync between real Docker engines: who gets what from whom, and what a transfer that breaks leaves behind."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from image_nodes import IMAGE, MB, Nodes, assert_same_everywhere, command, receivers, results
from simulated import ROOT

RATE = re.compile(r"^(dgx\d) <- (dgx\d): .*", re.MULTILINE)


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
    assert remote == ["Look at the image"]
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
    nodes.cluster.on("dgx6", "docker", "create", "--name", "old-rank", IMAGE)
    run = nodes.sync()
    assert_same_everywhere(nodes, run)
    told = receivers(run)["dgx6"]
    old, new = told["replaced"][7:19], results(run)["dgx6"]["digest"][7:19]
    assert re.search(
        rf"dgx6: replaced {old} by {new}, 6\.1 MB in [\d.]+ s from dgx1, 3 layers sent, 0 were there", run.text
    )
    assert told["kept_as"] == f"{IMAGE}-was-{old}"
    assert nodes.cluster.on("dgx6", "docker", "image", "inspect", told["kept_as"])
    kept = nodes.sync("-e", "image_sync_keep=0")
    assert (kept.rc, kept.changed) == (0, 0), kept.text
    assert f"{told['kept_as']} stays for now: conflict: unable to remove repository reference" in kept.text
    nodes.cluster.on("dgx6", "docker", "rm", "old-rank")
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
    assert refused.message == (
        f"dgx9: is none of the nodes, expected {', '.join(nodes.names)}; correct image_sync_reference or leave it out"
    )


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


def test_nobody_holds_it_and_it_is_built(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text('FROM scratch\nCOPY Dockerfile /\nENTRYPOINT ["vllm", "serve"]\n')
    words = ("-e", f"image_sync_build_dir={tmp_path}")
    foretold = nodes.sync("--check", *words)
    assert f"dgx1 would get {IMAGE}, which no node holds, from a build of {tmp_path}" in foretold.text
    assert f"dgx8 would get {IMAGE}, which no node holds, from dgx1" in foretold.text
    assert set(nodes.layers()["dgx1"]) == set()
    run = nodes.sync(*words)
    assert_same_everywhere(nodes, run)
    assert results(run)["dgx1"]["result"]["action"] == "built"
    assert {node: told["source"] for node, told in receivers(run).items()} == dict.fromkeys(nodes.names[1:], "dgx1")
    assert nodes.cluster.on("dgx1", "sh", "-c", "ls -d /var/tmp/dgxspark* 2>/dev/null; true") == ""
    assert nodes.sync(*words).changed == 0


@pytest.mark.parametrize("packer", ["", "zstd"])
def test_nobody_holds_it_and_it_comes_from_an_archive(nodes: Nodes, packer: str) -> None:
    path = "/srv/sync-e2e.tar" + (".zst" if packer else "")
    pack = f"| {packer} -c" if packer else ""
    nodes.put("sync-one:e2e", ["dgx3"])
    nodes.cluster.on("dgx3", "bash", "-o", "pipefail", "-c", f"docker save {IMAGE} {pack} > {path}")
    layers = nodes.layers()["dgx3"]
    nodes.forget()
    try:
        run = nodes.sync("-e", f"image_sync_archive={path}", "-e", "image_sync_reference=dgx3")
    finally:
        nodes.cluster.on("dgx3", "rm", path)
    assert_same_everywhere(nodes, run)
    assert nodes.layers()["dgx1"] == layers
    assert results(run)["dgx3"]["result"]["action"] == "loaded"
    assert {told["source"] for told in receivers(run).values()} == {"dgx3", ""}


def test_all_that_was_tried_is_told(nodes: Nodes, tmp_path: Path) -> None:
    nodes.put("sync-other:e2e", ["dgx1"])
    nodes.cluster.on(
        "dgx1", "sh", "-c", f"docker tag {IMAGE} sync-else:local && docker save -o /srv/else.tar sync-else"
    )
    nodes.forget()
    before = nodes.all_images()
    ends = "; load it on one node or cure one of these"
    nothing = nodes.sync()
    assert nothing.message == (
        f"dgx1: no node holds {IMAGE}, and it could not be got: image_sync_archive names no archive to load; "
        f"image_sync_build_dir names no folder to build from; a :local tag is never pulled{ends}"
    )
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY nothing /\n")
    words = ("-e", "image_sync_archive=/srv/none.tar.zst", "-e", f"image_sync_build_dir={tmp_path}")
    failed = nodes.sync(*words)
    assert re.fullmatch(
        rf"dgx1: no node holds {IMAGE}, and it could not be got: a :local tag is never pulled; "
        r"loading /srv/none\.tar\.zst failed: .*/srv/none\.tar\.zst: No such file or directory; "
        rf"building {tmp_path} failed: .*nothing.*{ends}",
        failed.message,
    )
    assert nodes.all_images() == before
    nodes.cluster.on("dgx1", "cp", "/srv/else.tar", "/srv/else.tar.zst")
    unpacked = nodes.sync("-e", "image_sync_archive=/srv/else.tar.zst")
    assert "loading /srv/else.tar.zst failed: zstd: /*stdin*\\: unsupported format" in unpacked.message
    words = ("-e", "image_sync_archive=/srv/else.tar", "-e", f"image_sync_build_dir={tmp_path}/none")
    other = nodes.sync(*words)
    nodes.cluster.on("dgx1", "rm", "/srv/else.tar", "/srv/else.tar.zst")
    assert other.message == (
        f"dgx1: no node holds {IMAGE}, and it could not be got: a :local tag is never pulled; "
        f"loading /srv/else.tar failed: it holds no {IMAGE}; "
        f"building {tmp_path}/none failed: there is no {tmp_path}/none/Dockerfile on the controller{ends}"
    )


def test_image_of_a_registry_is_pulled_once(nodes: Nodes, tmp_path: Path) -> None:
    name = "127.0.0.1:5000/sync-pulled:1"
    refused = nodes.sync("-e", f"image_sync_image={name}")
    assert re.fullmatch(
        rf"dgx1: no node holds {name}, and it could not be got: .*; pulling from its registry failed: "
        r".*connection refused.*; load it on one node or cure one of these",
        refused.message,
    )
    with registry(nodes, "dgx1", tmp_path):
        # Only dgx1 reaches this registry: had another node asked it, there would be an error.
        run = nodes.sync("-e", f"image_sync_image={name}")
        digest = json.loads(nodes.cluster.on("dgx1", "docker", "image", "inspect", name))[0]["RepoDigests"][0]
    assert run.rc == 0, run.text
    assert results(run)["dgx1"]["result"]["action"] == "pulled"
    assert {told["source"] for told in receivers(run).values()} == {"dgx1"}
    assert len(receivers(run)) == 7
    assert all(nodes.cluster.on(node, "docker", "image", "inspect", name) for node in nodes.names)
    by_digest = nodes.sync("-e", f"image_sync_image={digest}")
    assert by_digest.message == (
        f"{digest}: {', '.join(nodes.names[1:])} must get it, and Docker ties a digest to a name only where it pulls, "
        f"expected a name with a tag; pull it on one node, there docker tag {digest} sync-pulled:local, "
        "and sync sync-pulled:local instead"
    )
    alone = nodes.sync("-e", f"image_sync_image={digest}", "--limit", "dgx1")
    assert (alone.rc, alone.changed) == (0, 0), alone.text


@contextlib.contextmanager
def registry(nodes: Nodes, node: str, folder: Path) -> Iterator[None]:
    """A registry on a node that has one image, asked by Docker as any other."""
    site = folder / "v2" / "sync-pulled"
    (site / "blobs").mkdir(parents=True)
    (site / "manifests").mkdir()
    archive = folder / "image.tar"
    command("docker", "save", "--output", str(archive), "sync-one:e2e")
    kinds = "application/vnd.docker.container.image.v1+json", "application/vnd.docker.image.rootfs.diff.tar.gzip"

    def blob(content: bytes, kind: str) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        (site / "blobs" / digest).write_bytes(content)
        return {"mediaType": kind, "size": len(content), "digest": digest}

    with tarfile.open(archive) as tar:

        def member(name: str) -> bytes:
            stream = tar.extractfile(name)
            assert stream
            return stream.read()

        listed = json.loads(member("manifest.json"))[0]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": blob(member(listed["Config"]), kinds[0]),
            "layers": [blob(gzip.compress(member(name)), kinds[1]) for name in listed["Layers"]],
        }
    text = json.dumps(manifest).encode()
    for name in ("1", f"sha256:{hashlib.sha256(text).hexdigest()}"):
        (site / "manifests" / name).write_bytes(text)
    (folder / "serve.py").write_text(REGISTRY)
    container = f"{nodes.cluster.name}-{node}"
    command("docker", "cp", str(folder), f"{container}:/srv/registry")
    try:
        nodes.cluster.on(node, "systemd-run", "--unit=sync-registry", "python3", "/srv/registry/serve.py")
        until = "for _ in $(seq 50); do : </dev/tcp/127.0.0.1/5000 && exit 0; sleep 0.1; done 2>/dev/null; exit 1"
        nodes.cluster.on(node, "bash", "-c", until)
        yield
    finally:
        nodes.cluster.on(node, "sh", "-c", "systemctl stop sync-registry; rm -r /srv/registry")


MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
REGISTRY = f"""
import http.server, os
os.chdir("/srv/registry")
os.makedirs("empty", exist_ok=True)

class Registry(http.server.SimpleHTTPRequestHandler):
    def translate_path(self, path):
        return "empty" if path == "/v2/" else super().translate_path(path)

    def guess_type(self, path):
        return "{MANIFEST_TYPE}" if "/manifests/" in str(path) else "application/octet-stream"

http.server.ThreadingHTTPServer(("127.0.0.1", 5000), Registry).serve_forever()
"""
