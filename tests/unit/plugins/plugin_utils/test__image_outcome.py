# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of a transfer: the nearest cause first, for every node that still lacks the image."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._image_outcome import outcome

OURS, OTHER = "sha256:" + "9c41" * 16, "sha256:" + "3f2a" * 16
PLAN = {"digest": OURS, "receivers": {"dgx6": {"source": "dgx1", "why_whole": ""}}}
CURE = "; cure that and run again: the nodes that have the image by now get nothing twice"
REPORT = {"state": "loaded", "bytes": 1_200_000, "layers_sent": 1, "layers_skipped": 7, "seconds": 3.2, "error": ""}
CLOSED = {"digest": OURS, "replaced": OTHER, "kept_as": "x:local-was-3f2a3f2a3f2a", "problem": ""}


def told(sent: dict[str, Any], closed: dict[str, Any], **early: dict[str, Any]) -> dict[str, Any]:
    return outcome(PLAN, early.get("prepared", {}), early.get("opened", {}), sent, closed)


def test_loaded() -> None:
    found = told({"dgx1": {"receivers": {"dgx6": REPORT}}}, {"dgx6": CLOSED})
    assert found["problems"] == []
    assert found["results"]["dgx6"] == {
        "action": "loaded",
        "source": "dgx1",
        "bytes": 1_200_000,
        "layers_sent": 1,
        "layers_skipped": 7,
        "seconds": 3.2,
        "replaced": OTHER,
        "kept_as": "x:local-was-3f2a3f2a3f2a",
        "why_whole": "",
    }
    assert found["texts"] == {
        "dgx6": "dgx6: replaced 3f2a3f2a3f2a by 9c419c419c41, 1.2 MB in 3.2 s from dgx1, 1 layers sent, 7 were there"
    }


BROKEN = {"digest": OTHER, "problem": "the image did not arrive whole"}


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (
            {"sent": {"dgx1": {"receivers": {"dgx6": REPORT | {"error": "write /x: no space left on device"}}}}},
            "sending from dgx1 failed: write /x: no space left on device",
        ),
        (
            {"sent": {"dgx1": {"receivers": {}, "error": "the sender was ended from outside"}}},
            "dgx1: the sender was ended from outside",
        ),
        ({"sent": {"dgx1": {"unreachable": True, "msg": "No route"}}}, "dgx1 cannot be reached: No route"),
        ({"prepared": {"dgx1": {"failed": True, "msg": "no ssh-keygen"}}}, "dgx1: no ssh-keygen"),
        ({"opened": {"dgx6": {"failed": True, "msg": "no home"}}}, "dgx6: no home"),
        ({"closed": {"dgx6": {"unreachable": True, "msg": ""}}}, "dgx6 cannot be reached"),
        ({"closed": {"dgx6": {"digest": "", "problem": "the image holds a"}}}, "the image holds a"),
        ({"closed": {}}, "nothing came from dgx1"),
    ],
)
def test_cause(given: dict[str, dict[str, Any]], cause: str) -> None:
    closed = given.pop("closed", {"dgx6": BROKEN})
    found = told(given.pop("sent", {}), closed, **given)
    assert found["problems"] == [f"dgx6: the image is not there: {cause}{CURE}"]
    assert found["results"]["dgx6"]["action"] == "none"
    assert found["texts"] == {}
