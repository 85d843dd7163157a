# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a rank's container from outside, and what the answers mean. Private to the collection."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._log_stages import Stage, clean_lines, stage_of

TAIL = 200
# One round trip a look: the state on the first line, the end of the log below it.
OBSERVE = 'docker inspect --format "{{json .State}}" "$0" && docker logs --tail "$1" "$0" 2>&1'
EXCERPT_LINES = 12
# A number of tokens is no token.
SECRET_NAME = re.compile(r"KEY|TOKEN(?!S|IZ)|SECRET|PASSWORD", re.IGNORECASE)
HIDDEN = "(hidden)"


@dataclass(frozen=True)
class Observation:
    """A rank's container at one moment. ``error`` says why there is no state."""

    running: bool = False
    status: str = "unknown"
    exit_code: int = 0
    finished: str = ""
    oom_killed: bool = False
    error: str = ""
    stage: Stage = field(default_factory=Stage)
    lines: list[str] = field(default_factory=list)

    @property
    def ending(self) -> str:
        """How the container ended, for people."""
        if self.error:
            return f"could not be looked at ({self.error})"
        killed = " (killed for lack of memory)" if self.oom_killed else ""
        return f"is {self.status} with exit code {self.exit_code}{killed}"


def observe_words(container: str, tail: int = TAIL) -> list[str]:
    """Return the command that looks at a container."""
    return ["sh", "-c", OBSERVE, container, str(tail)]


def read_observation(text: str, known: Stage | None = None) -> Observation:
    """Return what the answer to ``observe_words`` says; stages only ever advance over ``known``."""
    first, _newline, log = text.partition("\n")
    state: dict[str, Any] = json.loads(first)
    lines = clean_lines(log)
    return Observation(
        running=bool(state["Running"]),
        status=state["Status"],
        exit_code=int(state["ExitCode"]),
        finished=state["FinishedAt"],
        oom_killed=bool(state.get("OOMKilled")),
        stage=stage_of(lines, known),
        lines=lines,
    )


def excerpt(lines: list[str], count: int = EXCERPT_LINES) -> list[str]:
    """Return the last lines of a log that say something, indented as a block under a message."""
    return [f"    {line}" for line in lines[-count:]] or ["    (the log is empty)"]


def redact(text: str, secrets: list[str]) -> str:
    """Return a text with every secret hidden, wherever it stands."""
    for secret in sorted((value for value in secrets if value), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def redacted_inspect(text: str, secrets: list[str]) -> str:
    """Return ``docker inspect`` JSON with the values of secret-looking variables hidden."""
    document = json.loads(text)
    for entry in document:
        entry["Config"]["Env"] = [_hide(variable) for variable in entry["Config"].get("Env") or []]
    return json.dumps(_redact_all(document, secrets), indent=2) + "\n"


def _redact_all(value: Any, secrets: list[str]) -> Any:
    """Hide secrets in every string of a document: as JSON text a secret with a quote or an accent looks different."""
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, list):
        return [_redact_all(entry, secrets) for entry in value]
    if isinstance(value, dict):
        return {redact(key, secrets): _redact_all(entry, secrets) for key, entry in value.items()}
    return value


def _hide(variable: str) -> str:
    name, separator, _value = variable.partition("=")
    return f"{name}{separator}{HIDDEN}" if SECRET_NAME.search(name) else variable
