# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of every scenario: the node is as before the role, and the role told the truth on the way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from testinfra.host import Host


def runs(playbook: str, *, check: bool) -> list[list[str]]:
    """Return the changed tasks of each run of a playbook since the nodes were created."""
    text = (Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "changes.jsonl").read_text(encoding="utf-8")
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    created = max(index for index, line in enumerate(lines) if line["playbook"] == "create")
    return [line["changed"] for line in lines[created:] if line["playbook"] == playbook and line["check"] == check]


def test_node_is_as_before(host: Host) -> None:
    with host.sudo():
        difference = host.run("diff --unified=0 /root/before.txt /root/after.txt")
        assert "package docker.io ii" in host.file("/root/before.txt").content_string
    assert difference.stdout == ""
    assert difference.rc == 0


def test_check_mode_predicted_the_run() -> None:
    """Nothing predicted that did not happen, and nothing happened unpredicted but what rests on an earlier change."""
    predicted, done = runs("converge", check=True)[0], runs("converge", check=False)[0]
    assert set(predicted) <= set(done)
    assert bool(predicted) == bool(done)


def test_second_run_changed_nothing() -> None:
    assert runs("converge", check=False)[1] == []


def test_second_way_back_changed_nothing() -> None:
    first, second = runs("back", check=False)
    assert second == []
    role = os.environ["MOLECULE_SCENARIO_NAME"]
    defaults = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"], "../../defaults/main.yml").read_text(encoding="utf-8")
    if f"{role}_state:" in defaults:
        assert first or not runs("converge", check=False)[0]
