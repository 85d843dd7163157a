# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure bring-up against a hand-written floor, on the same eight simulated Sparks in one run.

Prints JSON: seconds of every run, and the median of each as a ratio to the floor's. Ratios compare machines and
versions; the seconds of one machine mean little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/integration"))

from simulated import FLASH, Cluster  # noqa: E402 - found through the line above

NAME, NETWORK, NODES = "bench", 79, 8
LINE = "docker run "


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def serve(cluster: Cluster, playbook: str) -> None:
    """Run one playbook and insist on its success."""
    run = cluster.play(playbook, "-e", f"recipe={FLASH}")
    if run.rc:
        sys.exit(run.text)


def floor_lines(cluster: Cluster) -> list[str]:
    """Return what the floor runs on each node: the plan's own lines, so that both start the same containers."""
    plan = cluster.play("plan.yml", "-e", f"recipe={FLASH}")
    lines = [line for line in plan.text.splitlines() if line.startswith(LINE)]
    if len(lines) != NODES:
        sys.exit(plan.text)
    return lines


def ssh_words(cluster: Cluster, node: int) -> list[str]:
    """Return the ssh command for a node, with a shared connection as Ansible has it."""
    folder = cluster.inventory.parent
    options = ["BatchMode=yes", f"UserKnownHostsFile={folder}/known_hosts", "ControlMaster=auto", "ControlPersist=60s"]
    options += [f"ControlPath={folder}/floor-%C"]
    return [
        *("ssh", "-i", str(folder / "id_ed25519")),
        *(word for option in options for word in ("-o", option)),
        f"spark@10.{NETWORK}.0.{10 + node}",
    ]


def floor(cluster: Cluster, lines: list[str]) -> None:
    """Start every container at once over SSH, and poll the head until it is healthy."""
    running = [
        subprocess.Popen([*ssh_words(cluster, node), line], stdout=subprocess.DEVNULL)
        for node, line in enumerate(lines, start=1)
    ]
    if any(process.wait() for process in running):
        sys.exit("the floor's docker run failed")
    while True:
        try:
            with urllib.request.urlopen(f"http://10.{NETWORK}.0.11:8000/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)


def measure(rounds: int) -> dict[str, object]:
    """Return every round's seconds and the ratios of their medians to the floor."""
    cluster = Cluster(NAME, NETWORK, NODES)
    cluster.sim("create.yml")
    cluster.sim("images.yml")
    cluster.stop_all()
    serve(cluster, "serve.yml")  # makes the cache folders and opens the connections
    cluster.stop_all()
    lines = floor_lines(cluster)
    seconds: dict[str, list[float]] = {"first": [], "unchanged": [], "status": [], "floor": []}
    for _round in range(rounds):
        seconds["floor"].append(timed(lambda: floor(cluster, lines)))
        cluster.stop_all()
        seconds["first"].append(timed(lambda: serve(cluster, "serve.yml")))
        seconds["unchanged"].append(timed(lambda: serve(cluster, "serve.yml")))
        seconds["status"].append(timed(lambda: serve(cluster, "status.yml")))
        cluster.stop_all()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "seconds": {name: [round(value, 2) for value in values] for name, values in seconds.items()},
        "ratio_to_floor": {name: round(value / medians["floor"], 2) for name, value in medians.items()},
        "load_before": os.getloadavg()[0],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="leave the nodes for another run")
    arguments = parser.parse_args()
    try:
        sys.stdout.write(json.dumps(measure(arguments.rounds), indent=2) + "\n")
    finally:
        if not arguments.keep:
            Cluster(NAME, NETWORK, NODES).sim("destroy.yml")


if __name__ == "__main__":
    main()
