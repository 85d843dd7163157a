# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to this collection: what became of an image transfer, out of what both ends told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.module_utils._image_identity import short_digest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._image_progress import size_text

NOTHING: dict[str, Any] = {
    "action": "none",
    "source": "",
    "bytes": 0,
    "layers_sent": 0,
    "layers_skipped": 0,
    "seconds": 0,
    "replaced": "",
    "kept_as": "",
    "why_whole": "",
}
CURE = "cure that and run again: the nodes that have the image by now get nothing twice"

Told = Mapping[str, Mapping[str, Any]]


def outcome(plan: Mapping[str, Any], prepared: Told, opened: Told, sent: Told, closed: Told) -> dict[str, Any]:
    """For each receiver its result, and a problem for each that still lacks the image."""
    results: dict[str, Any] = {}
    problems = []
    texts: dict[str, str] = {}
    for node, route in plan["receivers"].items():
        source = route["source"]
        report = (sent.get(source, {}).get("receivers") or {}).get(node, {})
        ended = closed.get(node, {})
        arrived = not ended.get("problem") and ended.get("digest") == plan["digest"]
        results[node] = NOTHING | {
            "action": "loaded" if arrived else "none",
            "source": source,
            "why_whole": route["why_whole"],
            **{key: report.get(key, 0) for key in ("bytes", "layers_sent", "layers_skipped", "seconds")},
            **{key: ended.get(key, "") for key in ("replaced", "kept_as")},
        }
        if arrived:
            texts[node] = _text(node, results[node], plan["digest"])
        else:
            causes = (
                _refused(source, prepared),
                _refused(node, opened),
                report.get("error") and f"sending from {source} failed: {report['error']}",
                _refused(source, sent),
                sent.get(source, {}).get("error") and f"{source}: {sent[source]['error']}",
                ended.get("problem"),
                _refused(node, closed),
            )
            found = next((cause for cause in causes if cause), f"nothing came from {source}")
            problems.append(str(Problem(node, f"the image is not there: {found}", cure=CURE)))
    return {"results": results, "texts": texts, "problems": problems}


def _text(node: str, result: Mapping[str, Any], digest: str) -> str:
    old = result["replaced"]
    what = f"replaced {short_digest(old)} by" if old else "loaded"
    whole = f" (the whole image: {result['why_whole']})" if result["why_whole"] else ""
    return (
        f"{node}: {what} {short_digest(digest)}, {size_text(result['bytes'])} in {result['seconds']} s from "
        f"{result['source']}, {result['layers_sent']} layers sent, {result['layers_skipped']} were there{whole}"
    )


def _refused(node: str, told: Told) -> str:
    result = told.get(node, {})
    if result.get("unreachable"):
        return f"{node} cannot be reached: {result.get('msg', '')}".rstrip(": ")
    return f"{node}: {result.get('msg', 'failed')}" if result.get("failed") else ""
