# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask an engine whether it really serves: health, models, canary. Private to the collection.

The file stands alone, on the standard library: the module node_info imports it, and bring_up runs its text on the
head through the node's own Python.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any

QUICK = 5.0
EXCERPT = 500
# One token proves that all ranks compute together; health and the model list answer before that is so.
CANARY = {"prompt": "Hello", "max_tokens": 1, "temperature": 0}


def ask(base: str, path: str, key: str, timeout: float, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the answer to one request: ``status`` (0 for none), ``text`` and ``error``."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data=data)  # noqa: S310 - base is http:// of our own making
    request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Authorization", "Bearer " + key)
    # A proxy in the environment must not stand between a node and itself.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as response:
            return {"status": response.status, "text": response.read().decode("utf-8", "replace"), "error": ""}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "text": _body(error), "error": ""}
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return {"status": 0, "text": "", "error": " ".join(str(reason).split()) or type(error).__name__}


def probe(base: str, names: list[str], key: str = "", canary_timeout: float = 30.0) -> dict[str, Any]:
    """Ask an engine in three steps, stopping at the first that fails.

    Args:
        base: URL of the engine, for example ``http://127.0.0.1:8000``.
        names: names the model must be served under.
        key: API key, empty for none.
        canary_timeout: seconds that one token may take; 0 leaves the canary out.

    Returns:
        ``health``, ``models`` (the served names), ``canary`` ("ok", "" when not reached), ``seconds`` of the canary
        and ``error``, which says what failed and how, empty when all is well.
    """
    found: dict[str, Any] = {"health": 0, "models": [], "canary": "", "seconds": 0.0, "error": ""}
    health = ask(base, "/health", key, QUICK)
    found["health"] = health["status"]
    if health["status"] != 200:
        return {**found, "error": _failure("/health", health)}
    listed = ask(base, "/v1/models", key, QUICK)
    if listed["status"] != 200:
        return {**found, "error": _failure("/v1/models", listed)}
    try:
        found["models"] = [str(entry["id"]) for entry in json.loads(listed["text"])["data"]]
    except (ValueError, KeyError, TypeError):
        return {**found, "error": "/v1/models answered something else than a list of models: " + _excerpt(listed)}
    missing = [name for name in names if name not in found["models"]]
    if missing:
        served = ", ".join(found["models"]) or "nothing"
        return {**found, "error": f"the engine serves {served}, not {', '.join(missing)}"}
    if not canary_timeout:
        return found
    began = time.monotonic()
    answer = ask(base, "/v1/completions", key, canary_timeout, {"model": names[0], **CANARY})
    found["seconds"] = round(time.monotonic() - began, 2)
    found["canary"] = "ok" if answer["status"] == 200 and '"choices"' in answer["text"] else "failed"
    if found["canary"] != "ok":
        found["error"] = _failure("the canary (a one-token completion)", answer)
    return found


def _body(error: urllib.error.HTTPError) -> str:
    """Return what an engine says with a failure, empty when it breaks off: the status tells enough."""
    try:
        return error.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""


def _failure(what: str, answer: dict[str, Any]) -> str:
    if answer["status"]:
        return f"{what} answered HTTP {answer['status']}: {_excerpt(answer)}"
    return f"{what} did not answer: {answer['error']}"


def _excerpt(answer: dict[str, Any]) -> str:
    text = " ".join(answer["text"].split())
    return text[:EXCERPT] or "(nothing)"
