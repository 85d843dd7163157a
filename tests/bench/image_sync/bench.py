# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image sync against what people do by hand, all in one run on the same simulated Sparks.

    python tests/bench/image_sync/bench.py [--megabytes 1000] [--receivers 1 3 7] [--rounds 1] [--keep] [--json FILE]

Measured, each from an empty receiver, in seconds of wall time:
  ours      the role from command to end: ansible-playbook's start, looks, transfer, verification, cleanup
  floor     docker save | tee into parallel ssh docker load, written by hand
  parallel  docker save | ssh docker load for all receivers at once
  serial    docker save | ssh docker load, one receiver after the other
  top_layer the role where receivers lack a 1 MB top layer only
The ways by hand run on the sending node with a key that may do everything, and verify nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
NAME, NETWORK = "bench-sync", 61
IMAGE = "bench-sync:local"
LAYERS = 8
SSH = "ssh -i /root/bench-key -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR"
PLAY = f"""---
- name: Sync the image
  hosts: sparks
  gather_facts: false
  roles:
    - role: dgxspark.vllm.image_sync
      image_sync_image: {IMAGE}
  post_tasks:
    - name: Tell
      ansible.builtin.debug:
        msg: "RESULT {{{{ image_sync_result | to_json }}}}"
"""


def command(*words: str, stdin: Any = None) -> str:
    done = subprocess.run(words, cwd=ROOT, stdin=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def on(node: int, script: str) -> str:
    return command("docker", "exec", f"{NAME}-dgx{node}", "bash", "-o", "pipefail", "-c", script)


def sim(playbook: str, nodes: int) -> None:
    words = ("-e", f"sim_name={NAME}", "-e", f"sim_network={NETWORK}", "-e", f"sim_nodes={nodes}")
    command("ansible-playbook", f"tests/sim/{playbook}", *words)


def build(folder: Path, tag: str, base: str, layers: int, megabytes: float) -> None:
    """An image of layers that do not compress, four fifths in one large file, one fifth in files of 50 kB."""
    folder.mkdir()
    lines = [f"FROM {base}"]
    size = int(megabytes * 1_000_000 / layers)
    for number in range(layers):
        part = folder / f"layer{number}"
        part.mkdir()
        (part / "large").write_bytes(os.urandom(size * 4 // 5))
        for small in range(size // 5 // 50_000):
            (part / f"small{small}").write_bytes(os.urandom(50_000))
        lines.append(f"COPY layer{number} /{folder.name}/layer{number}")
    (folder / "Dockerfile").write_text("\n".join([*lines, 'ENTRYPOINT ["vllm", "serve"]', ""]))
    command("docker", "build", "--quiet", "--tag", tag, str(folder))


def put(tag: str, nodes: Sequence[int], folder: Path) -> None:
    archive = folder / "archive.tar"
    command("docker", "save", "--output", str(archive), tag)
    for node in nodes:
        with archive.open("rb") as stream:
            command("docker", "exec", "-i", f"{NAME}-dgx{node}", "docker", "load", "--quiet", stdin=stream)
        on(node, f"docker tag {tag} {IMAGE}")
    archive.unlink()


def forget(nodes: Sequence[int]) -> None:
    for node in nodes:
        on(node, "docker images --all --quiet | sort -u | xargs --no-run-if-empty docker rmi --force >/dev/null")


def by_hand(kind: str, receivers: Sequence[int]) -> None:
    loads = [f"{SSH} spark@10.{NETWORK}.1.{10 + node} docker load --quiet" for node in receivers]
    scripts = {
        "serial": " && ".join(f"docker save {IMAGE} | {load}" for load in loads),
        "parallel": " ".join(f"(docker save {IMAGE} | {load}) &" for load in loads) + " wait",
        "floor": f"docker save {IMAGE} | tee "
        + " ".join(f">({load} >/dev/null)" for load in loads[1:])
        + f" | {loads[0]}; wait; for pid in $(pgrep -x ssh); do tail --pid=$pid -f /dev/null; done",
    }
    on(1, scripts[kind])


def ours(receivers: Sequence[int], play: Path) -> list[dict[str, Any]]:
    hosts = ",".join(f"dgx{node}" for node in (1, *receivers))
    addresses = json.dumps({"image_sync_addresses": {f"dgx{n}": f"10.{NETWORK}.1.{10 + n}" for n in (1, *receivers)}})
    inventory = ROOT / ".sim" / NAME / "inventory.yml"
    text = command("ansible-playbook", str(play), "-i", str(inventory), "--limit", hosts, "-e", addresses)
    told = [json.loads(json.loads(f'"{found}"')) for found in re.findall(r'"msg": "RESULT (.*)"', text)]
    return [result for result in told if result["action"] == "loaded"]


def have(receivers: Sequence[int]) -> None:
    """Whatever was measured, the image must be there, or the time means nothing."""
    wanted = on(1, f"docker image inspect --format '{{{{.RootFS.Layers}}}}' {IMAGE}")
    for node in receivers:
        assert on(node, f"docker image inspect --format '{{{{.RootFS.Layers}}}}' {IMAGE}") == wanted


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    os.sync()
    began = time.monotonic()
    result = action()
    return round(time.monotonic() - began, 2), result


def measure(receivers: Sequence[int], play: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in ("ours", "floor", "parallel", "serial"):
        forget(receivers)
        action = (lambda: ours(receivers, play)) if kind == "ours" else (lambda kind=kind: by_hand(kind, receivers))
        found[kind], told = timed(action)
        if kind == "ours":
            found["ours_transfer"] = max(result["seconds"] for result in told)
            found["bytes"] = sum(result["bytes"] for result in told)
        have(receivers)
        print(f"{len(receivers)} receivers, {kind}: {found[kind]} s", file=sys.stderr, flush=True)  # noqa: T201
    return found


def top_layer(receivers: Sequence[int], play: Path, folder: Path, number: int) -> dict[str, Any]:
    build(folder / f"top{number}", "bench-sync:top", "bench-sync:base", 1, 1)
    put("bench-sync:top", [1], folder)
    seconds, told = timed(lambda: ours(receivers, play))
    have(receivers)
    return {
        "seconds": seconds,
        "transfer": max(result["seconds"] for result in told),
        "bytes": sum(result["bytes"] for result in told),
    }


def ratios(full: dict[str, Any], top: dict[str, Any]) -> dict[str, float]:
    return {
        "ours_to_floor": round(full["ours"] / full["floor"], 3),
        "serial_to_ours": round(full["serial"] / full["ours"], 3),
        "parallel_to_ours": round(full["parallel"] / full["ours"], 3),
        "top_layer_bytes": round(top["bytes"] / full["bytes"], 5),
        "top_layer_time": round(top["seconds"] / full["ours"], 3),
        "top_layer_transfer_time": round(top["transfer"] / full["ours_transfer"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--receivers", type=int, nargs="+", default=[1, 3, 7])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the nodes running")
    parser.add_argument("--json", type=Path, help="file for the result, beside standard output")
    options = parser.parse_args()
    sim("create.yml", max(options.receivers) + 1)
    with tempfile.TemporaryDirectory(prefix="bench-sync-") as name:
        folder = Path(name)
        play = folder / "play.yml"
        play.write_text(PLAY)
        result = run(options, folder, play)
    if not options.keep:
        sim("destroy.yml", max(options.receivers) + 1)
    text = json.dumps(result, indent=2)
    print(text)  # noqa: T201
    if options.json:
        options.json.write_text(text + "\n")


def run(options: argparse.Namespace, folder: Path, play: Path) -> dict[str, Any]:
    build(folder / "base", "bench-sync:base", "scratch", LAYERS, options.megabytes)
    on(1, "rm -f /root/bench-key*; ssh-keygen -q -t ed25519 -N '' -f /root/bench-key")
    public = on(1, "cat /root/bench-key.pub").strip()
    for node in range(2, max(options.receivers) + 2):
        on(node, f"echo '{public}' >> /home/spark/.ssh/authorized_keys")
    result: dict[str, Any] = {"megabytes": options.megabytes, "layers": LAYERS, "cores": os.cpu_count(), "rounds": []}
    for number in range(options.rounds):
        measured: dict[str, Any] = {}
        for count in options.receivers:
            receivers = range(2, count + 2)
            forget([1])
            put("bench-sync:base", [1], folder)
            full = measure(receivers, play)
            top = top_layer(receivers, play, folder, 10 * number + count)
            measured[str(count)] = {"seconds": full, "top_layer": top, "ratios": ratios(full, top)}
        result["rounds"].append({"load": os.getloadavg()[0], "receivers": measured})
    command("docker", "rmi", "--force", "bench-sync:top", "bench-sync:base")
    return result


if __name__ == "__main__":
    main()
