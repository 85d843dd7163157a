# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rank's container of both shipped recipes, held against golden files.

A change that is meant: ``pytest tests/unit/test_golden.py --regenerate-golden``, then read the diff as a reviewer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["dsv41-flash-8x", "dsv4-vision-aiden-4x"])
def test_containers(cluster: Callable[..., Any], name: str, request: pytest.FixtureRequest) -> None:
    made = cluster(name)
    made.options["run"] = ""
    deployed = made.deploy()
    assert deployed["problems"] == []
    # The digest is the container's own and the image's, which is not the recipe's matter.
    for entry in deployed["ranks"]:
        entry["spec"]["labels"].pop("dgxspark.vllm.digest")
    found = [{"rank": entry["rank"], "node": entry["node"], "container": entry["spec"]} for entry in deployed["ranks"]]
    text = json.dumps(found, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    file = GOLDEN / f"{name}.json"
    if request.config.getoption("--regenerate-golden"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert json.loads(file.read_text(encoding="utf-8")) == found
    assert file.read_text(encoding="utf-8") == text
