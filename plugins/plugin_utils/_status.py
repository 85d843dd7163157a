# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is served now, compared with what the recipe asks for. Private to the collection."""

from __future__ import annotations

from typing import Any, TypedDict

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._deployment import Deployment
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Rank

SERVING, BROKEN, STOPPED = "serving", "broken", "stopped"
UNKNOWN = "unknown"


class RankStatus(TypedDict):
    """One rank's line. ``match`` is ``yes``, ``no`` or ``unknown`` (its specification cannot be worked out now)."""

    rank: int
    node: str
    state: str
    since: str
    match: str


class Status(TypedDict):
    """The whole set. ``verdict`` is ``serving``, ``broken`` (a part is there, or it does not answer) or ``stopped``."""

    verdict: str
    ranks: list[RankStatus]
    endpoint: dict[str, Any] | None
    notes: list[str]


def cluster_status(ranks: list[Rank], looks: dict[str, dict[str, Any]], deployment: Deployment) -> Status:
    """Return the state of every rank, of the endpoint and of the set.

    Args:
        ranks: the ranks, in order.
        looks: for each node what the module node_info returned, its error included.
        deployment: what serve would do.
    """
    matches = {entry["rank"]: entry["matches"] for entry in deployment["ranks"]}
    lines = [_rank_status(rank, looks[rank["node"]], matches.get(rank["rank"])) for rank in ranks]
    head = looks[ranks[0]["node"]].get("node") or {}
    endpoint = head.get("endpoint")
    running = [line["state"] == "running" for line in lines]
    answers = endpoint is not None and not endpoint["error"]
    if all(running) and answers:
        verdict = SERVING
    elif all(line["state"] == "absent" for line in lines):
        verdict = STOPPED
    else:
        verdict = BROKEN
    notes = [f"{rank['node']}: {problem}" for rank in ranks if (problem := _unseen(looks[rank["node"]]))]
    if endpoint and endpoint["error"]:
        notes.append(f"the head: {endpoint['error']}")
    return Status(verdict=verdict, ranks=lines, endpoint=endpoint, notes=notes)


def _rank_status(rank: Rank, look: dict[str, Any], matches: bool | None) -> RankStatus:
    facts = look.get("node")
    line = RankStatus(rank=rank["rank"], node=rank["node"], state=UNKNOWN, since="", match=UNKNOWN)
    if facts and not facts["docker"]["error"]:
        current = next((entry for entry in facts["containers"] if entry["name"] == rank["container"]), None)
        line["state"] = current["state"] if current else "absent"
        line["since"] = current["started"][:19] + "Z" if current and current["running"] else ""
        if current and not current["running"]:
            line["state"] += f" ({current['exit_code']})"
        line["match"] = UNKNOWN if matches is None else "yes" if current and matches else "no" if current else ""
    return line


def _unseen(look: dict[str, Any]) -> str:
    """Return why a node's state is unknown, empty when it is known."""
    if look.get("node"):
        return str(look["node"]["docker"]["error"])
    return " ".join(str(look.get("msg", "no answer")).split())
