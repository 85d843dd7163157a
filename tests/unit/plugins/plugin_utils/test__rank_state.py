# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container looked at from outside, and what is hidden before anything is shown or saved."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._log_stages import LOADING, READY, Stage
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._rank_state import (
    Observation,
    excerpt,
    observe_words,
    read_observation,
    redact,
    redacted_inspect,
)

STATE = {
    "Status": "exited",
    "Running": False,
    "OOMKilled": False,
    "ExitCode": 3,
    "FinishedAt": "2026-01-02T03:04:05.6Z",
}


def answer(log: str = "", **state: Any) -> str:
    return json.dumps({**STATE, **state}) + "\n" + log


def test_a_running_container() -> None:
    text = answer("Loading safetensors checkpoint shards: 45%\n\nlast\n", Status="running", Running=True, ExitCode=0)
    assert read_observation(text) == Observation(
        running=True,
        status="running",
        finished="2026-01-02T03:04:05.6Z",
        stage=Stage(LOADING, 45),
        lines=["Loading safetensors checkpoint shards: 45%", "last"],
    )


def test_the_stage_known_before_stays() -> None:
    assert read_observation(answer("starting over"), Stage(READY)).stage == Stage(READY)


def test_a_log_that_is_empty_or_holds_braces() -> None:
    assert read_observation(answer()).lines == []
    assert read_observation(answer('{"a": 1}\n')).lines == ['{"a": 1}']


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        ({}, "is exited with exit code 3"),
        ({"ExitCode": 0}, "is exited with exit code 0"),
        ({"ExitCode": 137, "OOMKilled": True}, "is exited with exit code 137 (killed for lack of memory)"),
        ({"Status": "created", "ExitCode": 127}, "is created with exit code 127"),
    ],
)
def test_endings(state: dict[str, Any], ending: str) -> None:
    assert read_observation(answer(**state)).ending == ending


def test_a_container_that_could_not_be_looked_at() -> None:
    assert Observation(error="Error: No such object: x").ending == "could not be looked at (Error: No such object: x)"


def test_the_command_runs_as_it_stands(tmp_path: Path) -> None:
    """A program that stands for docker gets the container's name whole, whatever is in it."""
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\nfor word; do printf "<%s>" "$word"; done\necho\n', encoding="utf-8")
    program.chmod(0o700)
    found = subprocess.run(
        observe_words("a b;$(x)", 7),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == [
        "<inspect><--format><{{json .State}}><a b;$(x)>",
        "<logs><--tail><7><a b;$(x)>",
    ]


def test_excerpt() -> None:
    assert excerpt([str(number) for number in range(20)], 3) == ["    17", "    18", "    19"]
    assert excerpt([]) == ["    (the log is empty)"]


@pytest.mark.parametrize(
    ("text", "secrets", "hidden"),
    [
        ("key=hush end", ["hush"], "key=(hidden) end"),
        ("nothing", ["hush", ""], "nothing"),
        ("hushhush", ["hush"], "(hidden)(hidden)"),
        # The longer one first, or its rest would stay.
        ("hush-hush", ["hush", "hush-hush"], "(hidden)"),
        ("a.c abc", ["a.c"], "(hidden) abc"),
    ],
)
def test_redact(text: str, secrets: list[str], hidden: str) -> None:
    assert redact(text, secrets) == hidden


@pytest.mark.parametrize("secret", ["hush", 'with "quotes" \\ and backslash', "äöü €", "line\nbreak", "a/b+c=="])
def test_no_secret_survives_in_a_saved_description(secret: str) -> None:
    document = [
        {
            "Name": "/x-r0",
            "Args": ["-c", f"curl -H 'Bearer {secret}'"],
            "Config": {
                "Env": ["PATH=/bin", f"VLLM_API_KEY={secret}", f"HF_TOKEN={secret}", f"ELSE=a{secret}b", "EMPTY"],
                "Labels": {"x": secret},
            },
        }
    ]
    saved = redacted_inspect(json.dumps(document), [secret])
    assert saved.endswith("]\n")
    (entry,) = json.loads(saved)
    assert secret not in repr(entry)
    assert entry == {
        "Name": "/x-r0",
        "Args": ["-c", "curl -H 'Bearer (hidden)'"],
        "Config": {
            "Env": ["PATH=/bin", "VLLM_API_KEY=(hidden)", "HF_TOKEN=(hidden)", "ELSE=a(hidden)b", "EMPTY"],
            "Labels": {"x": "(hidden)"},
        },
    }


def test_values_of_secret_names_are_hidden_even_if_nobody_knows_them() -> None:
    names = ["MY_API_KEY", "hf_token", "DB_PASSWORD", "CLIENT_SECRET"]
    document = [{"Config": {"Env": [f"{name}=x=y" for name in names]}}]
    (entry,) = json.loads(redacted_inspect(json.dumps(document), []))
    assert entry["Config"]["Env"] == [f"{name}=(hidden)" for name in names]


def test_settings_that_only_count_tokens_stay_readable() -> None:
    env = ["NUM_SPECULATIVE_TOKENS=6", "VLLM_DSV4_CKV_GATHER_MAX_TOKENS=393216", "TOKENIZERS_PARALLELISM=false"]
    (entry,) = json.loads(redacted_inspect(json.dumps([{"Config": {"Env": env}}]), []))
    assert entry["Config"]["Env"] == env


def test_a_container_without_environment() -> None:
    assert json.loads(redacted_inspect('[{"Config": {"Env": null}}]', [])) == [{"Config": {"Env": []}}]
