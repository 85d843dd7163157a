# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies of the OpenAI-shaped answers, pure data."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]

_WORDS = ("Eight", " sparks", " in", " a", " row", ",", " one", " model", " on", " the", " go", ".")


class BadRequestError(Exception):
    """What the client sent cannot be answered."""

    def __init__(self, message: str, code: int = 400, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.body: Body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
        self.code = code


@dataclass(frozen=True)
class Request:
    """A completion that can be answered."""

    model: str
    chat: bool
    prompt_tokens: int
    max_tokens: int
    stream: bool


def _limit(body: Body, longest: int) -> int:
    wanted = body.get("max_completion_tokens", body.get("max_tokens"))
    if wanted is None:
        wanted = len(_WORDS)
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        raise BadRequestError("max_tokens: Input should be a valid integer", param="max_tokens")
    if wanted < 1:
        raise BadRequestError(f"max_tokens must be at least 1, got {wanted}.", param="max_tokens")
    if 0 < longest < wanted:
        raise BadRequestError(
            f"'max_tokens' or 'max_completion_tokens' is too large: {wanted}. This model's maximum context length is "
            f"{longest} tokens.",
            param="max_tokens",
        )
    return wanted


def read(body: object, chat: bool, names: list[str], longest: int) -> Request:
    """Raises BadRequestError with vLLM's words."""
    needed = "messages" if chat else "prompt"
    if not isinstance(body, dict):
        raise BadRequestError("Input should be a valid dictionary", param="body")
    if needed not in body:
        raise BadRequestError(f"{needed}: Field required", param=needed)
    model = body.get("model") or names[0]
    if model not in names:
        message = f"The model `{model}` does not exist. Valid aliases: {', '.join(names)}."
        raise BadRequestError(message, 404, "NotFoundError", "model")
    text = str(body[needed])
    return Request(str(model), chat, max(len(text.split()), 1), _limit(body, longest), bool(body.get("stream")))


def words(request: Request) -> list[str]:
    """The same text for everyone."""
    return list(itertools.islice(itertools.cycle(_WORDS), min(request.max_tokens, 64)))


def _frame(request: Request, number: int, kind: str) -> Body:
    prefix = "chatcmpl" if request.chat else "cmpl"
    return {"id": f"{prefix}-{number:032x}", "object": kind, "created": int(time.time()), "model": request.model}


def whole(request: Request, number: int) -> Body:
    """The answer in one piece."""
    text = words(request)
    reason = "length"
    choice: Body = {"index": 0, "logprobs": None, "finish_reason": reason, "stop_reason": None}
    if request.chat:
        choice["message"] = {"role": "assistant", "content": "".join(text), "tool_calls": []}
    else:
        choice["text"] = "".join(text)
    usage = {
        "prompt_tokens": request.prompt_tokens,
        "total_tokens": request.prompt_tokens + len(text),
        "completion_tokens": len(text),
    }
    kind = "chat.completion" if request.chat else "text_completion"
    return {**_frame(request, number, kind), "choices": [choice], "usage": usage}


def chunks(request: Request, number: int) -> list[Body]:
    """The answer word by word."""
    text = words(request)
    frame = _frame(request, number, "chat.completion.chunk" if request.chat else "text_completion")
    parts: list[Body] = []
    for index, word in enumerate(text):
        reason = "length" if index == len(text) - 1 else None
        said: Body = {"delta": {"role": "assistant", "content": word}} if request.chat else {"text": word}
        parts.append({**frame, "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": reason}]})
    return parts


def models(names: list[str], root: str, longest: int) -> Body:
    """The served names."""
    cards: list[Body] = [
        {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": root,
            "parent": None,
            "max_model_len": longest,
            "permission": [],
        }
        for name in names
    ]
    return {"object": "list", "data": cards}


def metrics(model: str, done: int) -> str:
    """A few of vLLM's, in Prometheus' text form."""
    labels = f'{{engine="0",model_name="{model}"}}'
    return (
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
        "# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{labels} 0.0\n"
        "# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.\n"
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        f"vllm:kv_cache_usage_perc{labels} 0.0\n"
        "# HELP vllm:request_success_total Count of successfully processed requests.\n"
        "# TYPE vllm:request_success_total counter\n"
        f'vllm:request_success_total{{engine="0",finished_reason="length",model_name="{model}"}} {float(done)}\n'
    )
