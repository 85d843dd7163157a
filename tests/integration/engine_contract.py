# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection and its tests take an engine to do, as one table that the real one and the stand-in are held to.

Recorded from vLLM 0.32.0. A pattern is a value, a compiled expression that is searched for in a text, a type, or a
dictionary or list of patterns; a dictionary may have more keys than its pattern.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

MODEL: Final = "tiny-llama"
KEY: Final = "swordfish-4711"
LONGEST: Final = 256
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
JSON, TEXT, STREAM = "application/json", "text/plain", "text/event-stream"
HELLO: Final = {"model": MODEL, "prompt": "Hello", "max_tokens": 2}
TALK: Final = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}


@dataclass(frozen=True)
class Exchange:
    """A request and the answer to it: status, content type without parameters, and a pattern of the body.

    ``body`` is sent with POST, as JSON unless it is bytes already; ``key`` is the API key that is sent, if any.
    The pattern of a stream is held against the list of its events, of which the last is the text ``[DONE]``.
    """

    path: str
    status: int
    answer: Any = None
    kind: str = JSON
    body: Any = None
    method: str = ""
    key: str | None = KEY

    def __str__(self) -> str:
        sent = "" if self.body is None else f" {self.body!r}"
        who = {KEY: "", None: ", no key"}.get(self.key, ", wrong key")
        return f"{self.verb} {self.path}{sent[:60]}{who}"

    @property
    def verb(self) -> str:
        """The HTTP method."""
        return self.method or ("GET" if self.body is None else "POST")


def _error(status: int, kind: str, param: str, said: str) -> dict[str, Any]:
    return {"error": {"message": re.compile(said), "type": kind, "param": param, "code": status}}


def _choice(**said: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "length", "logprobs": None, **said}]}


USAGE: Final = {"usage": {"prompt_tokens": int, "completion_tokens": 2, "total_tokens": int}}
REFUSED: Final = {"error": "Unauthorized"}

EXCHANGES: Final = [
    Exchange("/health", 200, "", kind=""),
    Exchange("/health", 200, "", kind="", key=None),
    Exchange("/ping", 200, "", kind=""),
    Exchange("/version", 200, {"version": re.compile(r"^0\.32\.")}),
    Exchange("/load", 200, {"server_load": 0}),
    Exchange("/metrics", 200, re.compile(r"(?m)^vllm:num_requests_running\{.*\} \d"), kind=TEXT, key=None),
    Exchange(
        "/v1/models", 200, {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": LONGEST}]}
    ),
    Exchange("/v1/models", 401, REFUSED, key=None),
    Exchange("/v1/models", 401, REFUSED, key="wrong"),
    Exchange("/nothing", 404, {"detail": "Not Found"}),
    Exchange(COMPLETIONS, 405, {"detail": "Method Not Allowed"}),
    Exchange("/health", 405, {"detail": "Method Not Allowed"}, method="POST"),
    Exchange("/v1/models", 405, {"detail": "Method Not Allowed"}, method="POST"),
    Exchange(COMPLETIONS, 200, {"object": "text_completion", "model": MODEL, **_choice(text=str), **USAGE}, body=HELLO),
    Exchange(COMPLETIONS, 200, {"model": MODEL, **_choice(text=str)}, body={"prompt": "Hello", "max_tokens": 1}),
    Exchange(COMPLETIONS, 200, {"usage": {"completion_tokens": int}}, body={"model": MODEL, "prompt": "Hello"}),
    Exchange(COMPLETIONS, 401, REFUSED, body=HELLO, key=None),
    Exchange(
        CHAT,
        200,
        {
            "object": "chat.completion",
            "model": MODEL,
            **_choice(message={"role": "assistant", "content": str}),
            **USAGE,
        },
        body=TALK,
    ),
    Exchange(CHAT, 401, REFUSED, body=TALK, key="wrong"),
    Exchange(
        COMPLETIONS,
        404,
        _error(404, "NotFoundError", "model", rf"^The model `other` does not exist\. Valid aliases: {MODEL}\.$"),
        body={**HELLO, "model": "other"},
    ),
    Exchange(
        COMPLETIONS,
        400,
        _error(400, "BadRequestError", "prompt", r"^Either prompt or prompt_embeds must be provided and non-empty\."),
        body={"model": MODEL},
    ),
    Exchange(CHAT, 400, _error(400, "Bad Request", "body.messages", "'Field required'"), body={"model": MODEL}),
    Exchange(COMPLETIONS, 400, _error(400, "Bad Request", "body.9", "'JSON decode error'"), body=b'{"model":'),
    Exchange(COMPLETIONS, 400, _error(400, "Bad Request", "body", "'Input should be a valid dictionary"), body=[]),
    Exchange(
        COMPLETIONS,
        400,
        _error(
            400, "BadRequestError", "max_tokens", rf"^max_tokens=5000 cannot be greater than max_model_len={LONGEST}\."
        ),
        body={**HELLO, "max_tokens": 5000},
    ),
    Exchange(
        COMPLETIONS,
        400,
        _error(400, "BadRequestError", "max_tokens", r"^max_tokens must be at least 1, got 0\."),
        body={**HELLO, "max_tokens": 0},
    ),
    Exchange(
        COMPLETIONS,
        400,
        _error(400, "Bad Request", "body.max_tokens", "'Input should be a valid integer, unable to parse"),
        body={**HELLO, "max_tokens": "x"},
    ),
]

# First and last events; how many lie between them depends on where a token ends a character.
STREAMS: Final = [
    (
        Exchange(COMPLETIONS, 200, kind=STREAM, body={**HELLO, "stream": True}),
        {"object": "text_completion", "model": MODEL, "choices": [{"index": 0, "text": str}]},
        {"choices": [{"index": 0, "text": str, "finish_reason": "length"}]},
    ),
    (
        Exchange(CHAT, 200, kind=STREAM, body={**TALK, "stream": True}),
        {"object": "chat.completion.chunk", "choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"index": 0, "delta": {"content": str}, "finish_reason": "length"}]},
    ),
]


@dataclass(frozen=True)
class Refusal:
    """Words after ``vllm serve`` that are not taken: the exit code, and what the last lines say."""

    words: tuple[str, ...]
    code: int
    said: str

    def __str__(self) -> str:
        return " ".join(self.words)


_RANKS: Final = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", "29501")
REFUSALS: Final = [
    Refusal(("m", "extra"), 2, r"^vllm: error: unrecognized arguments: extra$"),
    Refusal(("m", "--port", "x"), 2, r"^vllm serve: error: argument --port: invalid int value: 'x'$"),
    Refusal(("m", "-tp"), 2, r"^vllm serve: error: argument --tensor-parallel-size/-tp: expected one argument$"),
    Refusal(
        ("m", "--compilation-config", "{"),
        2,
        r"^vllm serve: error: argument --compilation-config/-cc: 1 validation error for CompilationConfig$",
    ),
    Refusal(
        ("m", "--speculative-config", "{"),
        2,
        r"^vllm serve: error: argument --speculative-config/-sc: Value \{ cannot be converted to <function loads at 0x",
    ),
    Refusal(
        ("dgxspark/tiny-llama", *_RANKS, "--node-rank", "5", "--tensor-parallel-size", "2"),
        1,
        r"^(\(.*\) )?ValueError: .*`--node-rank` must be between 0 and 1; got `--node-rank 5`\.",
    ),
    Refusal(
        ("dgxspark/tiny-llama", *_RANKS, "--node-rank", "0", "--tensor-parallel-size", "3"),
        1,
        r"^(\(.*\) )?ValueError: .*`--nnodes 2` must evenly divide the total world size \(3\)\.",
    ),
]


def difference(found: Any, pattern: Any, where: str = "") -> str:
    """Return where ``found`` differs from the pattern, nothing if it does not."""
    if isinstance(pattern, dict):
        if not isinstance(found, dict):
            return f"{where} is {found!r}, not an object"
        parts = (difference(found.get(key, f"no {key}"), value, f"{where}.{key}") for key, value in pattern.items())
        return next(filter(None, parts), "")
    if isinstance(pattern, list):
        if not isinstance(found, list) or len(found) != len(pattern):
            return f"{where} is {found!r}, not {len(pattern)} items"
        parts = (
            difference(item, value, f"{where}[{at}]")
            for at, (item, value) in enumerate(zip(found, pattern, strict=True))
        )
        return next(filter(None, parts), "")
    if isinstance(pattern, re.Pattern):
        alike = isinstance(found, str) and pattern.search(found) is not None
    elif isinstance(pattern, type):
        alike = isinstance(found, pattern)
    else:
        alike = type(found) is type(pattern) and found == pattern
    return "" if alike else f"{where or 'the answer'} is {found!r}, expected {pattern!r}"


def events(text: str) -> list[Any]:
    """Return what a stream brought: an object for each event, and its closing word."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]
