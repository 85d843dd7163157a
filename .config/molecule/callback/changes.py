# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes down which tasks changed something, or would have, for back/test_back.py to compare a scenario's runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: changes
type: aggregate
short_description: Write down which tasks changed something
description: One JSON line a playbook run, in changes.jsonl of molecule's ephemeral directory.
"""


class CallbackModule(CallbackBase):
    """One JSON line a run: playbook, whether it was check mode, and the changed tasks of each host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "changes"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        """Start with nothing changed."""
        super().__init__()
        self.playbook = ""
        self.changed: list[str] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Keep the playbook's name."""
        self.playbook = Path(playbook._file_name).stem

    def v2_runner_on_ok(self, result: Any) -> None:
        """Keep a changed task."""
        if result._result.get("changed"):
            self.changed.append(f"{result._host.get_name()}: {result._task.get_name()}")

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002 -- the signature is Ansible's
        """Write the line."""
        folder = os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY")
        if folder:
            line = {"playbook": self.playbook, "check": context.CLIARGS["check"], "changed": self.changed}
            with (Path(folder) / "changes.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
