# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rank 0 answers over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Ranks


def test_health_is_empty(serving: Ranks) -> None:
    assert serving.http("/health") == (200, "")


def test_models_are_the_served_names(serving: Ranks) -> None:
    cards = serving.http("/v1/models").json["data"]
    assert [(card["id"], card["root"], card["max_model_len"]) for card in cards] == [
        ("spark", "m/x", 4096),
        ("other", "m/x", 4096),
    ]


def test_version(serving: Ranks) -> None:
    assert serving.http("/version").json == {"version": "0.32.0"}


def test_completion(serving: Ranks) -> None:
    answer = serving.http("/v1/completions", {"model": "other", "prompt": "hi there", "max_tokens": 2})
    assert answer.code == 200
    assert answer.json["model"] == "other"
    assert answer.json["choices"][0]["text"] == "Eight sparks"
    assert answer.json["usage"] == {"prompt_tokens": 2, "total_tokens": 4, "completion_tokens": 2}


def test_chat_completion(serving: Ranks) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 1}
    choice = serving.http("/v1/chat/completions", body).json["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "Eight", "refusal": None, "reasoning": None}
    assert choice["finish_reason"] == "length"


def test_stream_ends_with_done(serving: Ranks) -> None:
    body = {"messages": [], "max_tokens": 3, "stream": True}
    events = [line for line in serving.http("/v1/chat/completions", body).text.split("\n\n") if line]
    assert events[-1] == "data: [DONE]"
    deltas = [json.loads(event.removeprefix("data: "))["choices"][0]["delta"] for event in events[:-1]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert deltas[1:] == [{"content": "Eight"}, {"content": " sparks"}, {"content": " in"}]


def test_metrics_count_completions(serving: Ranks) -> None:
    name = 'vllm:request_success_total{engine="0",finished_reason="length",model_name="spark"}'

    def count() -> float:
        line = next(line for line in serving.http("/metrics").text.splitlines() if line.startswith(name))
        return float(line.split()[-1])

    before = count()
    assert serving.complete().code == 200
    assert count() == before + 1


@pytest.mark.parametrize(
    ("path", "body", "code", "detail"),
    [
        ("/nothing", None, 404, "Not Found"),
        ("/v1/completions", None, 405, "Method Not Allowed"),
        ("/health", {}, 405, "Method Not Allowed"),
    ],
)
def test_refusals(serving: Ranks, path: str, body: Any, code: int, detail: str) -> None:
    answer = serving.http(path, body)
    assert (answer.code, answer.json) == (code, {"detail": detail})


COMPLETIONS = "/v1/completions"


@pytest.mark.parametrize(
    ("path", "body", "code", "param", "message"),
    [
        (COMPLETIONS, [], 400, "body", "'Input should be a valid dictionary or object to extract fields from'"),
        (COMPLETIONS, {}, 400, "prompt", "Either prompt or prompt_embeds must be provided and non-empty."),
        ("/v1/chat/completions", {}, 400, "body.messages", "'Field required', 'input': '<dict of 0 items>'"),
        (COMPLETIONS, {"prompt": "a", "max_tokens": 0}, 400, "max_tokens", "max_tokens must be at least 1, got 0."),
        (
            COMPLETIONS,
            {"prompt": "a", "max_tokens": "x"},
            400,
            "body.max_tokens",
            "unable to parse string as an integer",
        ),
        (COMPLETIONS, {"prompt": "a", "max_tokens": 5000}, 400, "max_tokens", "greater than max_model_len=4096."),
        (
            COMPLETIONS,
            {"prompt": "a", "model": "spork"},
            404,
            "model",
            "`spork` does not exist. Valid aliases: spark, other.",
        ),
        (COMPLETIONS, b"{", 400, "body.1", "'JSON decode error'"),
        (COMPLETIONS, b"\xff", 400, "body.0", "'JSON decode error'"),
    ],
)
def test_errors(serving: Ranks, path: str, body: Any, code: int, param: str, message: str) -> None:
    answer = serving.http(path, body)
    error = answer.json["error"]
    assert (answer.code, error["code"], error["param"]) == (code, code, param)
    assert message in error["message"]


def test_api_key_guards_v1_alone(ranks: Ranks) -> None:
    ranks.start_all(1, VLLM_API_KEY="hush")
    ranks.ready()
    assert ranks.http("/health").code == 200
    assert ranks.http("/v1/models") == (401, '{"error": "Unauthorized"}')
    assert ranks.http("/v1/models", key="hum").code == 401
    assert ranks.http("/v1/models", key="hush").code == 200
    assert ranks.http("/v1/completions", {"prompt": "hi"}).code == 401
    assert "hush" not in ranks.log(0)
