# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user of the collection at a set of simulated Sparks: runs playbooks, looks at nodes, scripts failures."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SIM = ROOT / "tests/sim"
# Another name and network let two checkouts be tested side by side.
NAME, NETWORK, NODES = os.environ.get("SIM_NAME", "e2e"), int(os.environ.get("SIM_NETWORK", "78")), 8
FLASH = "dsv41-flash-8x"
RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)
CHANGED = re.compile(r"^changed: \[(\S+?)[\] ]")
TASK = re.compile(r"^TASK \[(.*)\] \*+$")


@dataclass(frozen=True)
class Run:
    """One ansible-playbook, as its user sees it."""

    rc: int
    text: str

    @property
    def changed(self) -> int:
        """How many tasks changed something, over all hosts."""
        return sum(int(match[2]) for match in RECAP.finditer(self.text))

    @property
    def changes(self) -> set[tuple[str, str]]:
        """Task and host of every change."""
        found, task = set(), ""
        for line in self.text.splitlines():
            if match := TASK.match(line):
                task = match[1]
            elif match := CHANGED.match(line):
                found.add((task, match[1]))
        return found

    @property
    def message(self) -> str:
        """What the last fatal line says, as one text with line ends."""
        fatal = [line for line in self.text.splitlines() if line.startswith("fatal: [")]
        return str(json.loads(fatal[-1].partition("=> ")[2])["msg"]) if fatal else ""


def run_playbook(*words: str, cwd: Path = ROOT, **environment: str) -> Run:
    """Run ansible-playbook and return what it printed."""
    env = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0", **environment}
    done = subprocess.run(
        ["ansible-playbook", *words],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Run(done.returncode, done.stdout)


class Cluster:
    """Simulated Sparks of one name."""

    def __init__(self, name: str, network: int, nodes: int) -> None:
        self.name, self.network, self.size = name, network, nodes
        self.inventory = ROOT / ".sim" / name / "inventory.yml"
        self._words = ["-e", f"sim_name={name}", "-e", f"sim_network={network}", "-e", f"sim_nodes={nodes}"]

    def stands(self) -> bool:
        """Whether an earlier run left these nodes, running."""
        listed = ["docker", "ps", "--format", "{{.Names}}"]
        running = subprocess.run(listed, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        return self.inventory.exists() and {f"{self.name}-{node}" for node in self.nodes} <= set(running)

    def sim(self, playbook: str, *words: str) -> None:
        """Run one of the simulation's own playbooks."""
        run = run_playbook(str(SIM / playbook), *self._words, *words)
        assert run.rc == 0, run.text

    def play(self, playbook: str, *words: str, cwd: Path = ROOT, **environment: str) -> Run:
        """Run one of the collection's playbooks on the nodes."""
        target = str(ROOT / "playbooks" / playbook) if playbook.endswith(".yml") else playbook
        return run_playbook(target, "-i", str(self.inventory), *words, cwd=cwd, **environment)

    def on(self, node: str, *words: str, stdin: str | None = None) -> str:
        """Run a command on a node, as root."""
        done = subprocess.run(
            ["docker", "exec", "-i", f"{self.name}-{node}", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def nodes(self) -> list[str]:
        """The nodes' names, in rank order."""
        return [f"dgx{number}" for number in range(1, self.size + 1)]

    def containers(self) -> dict[str, list[str]]:
        """Every container of every node, running or not."""
        return {node: self.on(node, "docker", "ps", "--all", "--quiet", "--no-trunc").split() for node in self.nodes}

    def inspect(self, node: str, container: str) -> dict[str, Any]:
        """What the node's engine says of a container."""
        found: dict[str, Any] = json.loads(self.on(node, "docker", "container", "inspect", container))[0]
        return found

    def state(self) -> dict[str, str]:
        """Everything that a refused run must leave as it was: containers, images, files of the login user."""
        script = (
            "docker ps --all --quiet --no-trunc; docker images --all --no-trunc --format '{{.ID}} {{.Tag}}' | sort;"
            " find /home/spark -not -path '*/.ansible*' | sort; ls /tmp"
        )
        return {node: self.on(node, "sh", "-c", script) for node in self.nodes}

    def fault(self, node: str, **script: Any) -> None:
        """Script a failure of the stand-in engine on a node."""
        path = "/home/spark/.cache/huggingface/stand-in.json"
        self.on(node, "sh", "-c", f"cat > {path}", stdin=json.dumps(script))

    def no_faults(self) -> None:
        """Let every engine be well."""
        for node in self.nodes:
            self.on(node, "rm", "-f", "/home/spark/.cache/huggingface/stand-in.json")

    def stop_all(self) -> None:
        """Leave no rank on any node, whatever the collection thinks of it."""
        for node in self.nodes:
            self.on(node, "sh", "-c", "docker ps --all --quiet | xargs --no-run-if-empty docker rm --force")
