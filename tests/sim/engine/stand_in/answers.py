# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies of the OpenAI-shaped answers, pure data."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]

_WORDS = ("Eight", " sparks", " in", " a", " row", ",", " one", " model", " on", " the", " go", ".")


# What a completion without a limit of its own gets; a chat gets all that the context leaves.
_DEFAULT_TOKENS = 16


class BadRequestError(Exception):
    """What the client sent cannot be answered."""

    def __init__(self, message: str, code: int = 400, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.body: Body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
        self.code = code


def invalid(kind: str, place: str, said: str, given: str) -> BadRequestError:
    """The body is not of the request's shape: pydantic's complaint, as vLLM passes it on."""
    complaint = f"{{'type': '{kind}', 'loc': '{place}', 'msg': '{said}', 'input': {given}}}"
    return BadRequestError(f"1 validation error:\n  {complaint}", 400, "Bad Request", place)


def undecodable(error: json.JSONDecodeError) -> BadRequestError:
    """The body is no JSON."""
    place = f"body.{error.pos}"
    ended = f"'<dict of 0 items>', 'ctx': {{'error': '{error.msg}'}}"
    return invalid("json_invalid", place, "JSON decode error", ended)


@dataclass(frozen=True)
class Request:
    """A completion that can be answered."""

    model: str
    chat: bool
    prompt_tokens: int
    max_tokens: int
    stream: bool


def _limit(body: Body, longest: int, chat: bool) -> int:
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    wanted = body.get(name)
    if wanted is None:
        return longest if chat and longest > 0 else _DEFAULT_TOKENS
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        said = "Input should be a valid integer, unable to parse string as an integer"
        raise invalid("int_parsing", f"body.{name}", said, repr(wanted))
    if wanted < 1:
        message = f"max_tokens must be at least 1, got {wanted}. (parameter=max_tokens, value={wanted})"
        raise BadRequestError(message, param="max_tokens")
    if 0 < longest < wanted:
        raise BadRequestError(
            f"max_tokens={wanted} cannot be greater than max_model_len={longest}. Please request fewer output tokens. "
            f"(parameter=max_tokens, value={wanted})",
            param="max_tokens",
        )
    return wanted


def _prompt(body: Body, chat: bool) -> str:
    if chat and "messages" not in body:
        raise invalid("missing", "body.messages", "Field required", f"'<dict of {len(body)} items>'")
    if not chat and not body.get("prompt"):
        message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise BadRequestError(message, param="prompt")
    return str(body["messages" if chat else "prompt"])


def read(body: object, chat: bool, names: list[str], longest: int) -> Request:
    """Raises BadRequestError with vLLM's words."""
    if not isinstance(body, dict):
        said = "Input should be a valid dictionary or object to extract fields from"
        size = f" of {len(body)} items" if isinstance(body, list | str) else ""
        raise invalid("model_attributes_type", "body", said, f"'<{type(body).__name__}{size}>'")
    text = _prompt(body, chat)
    model = body.get("model") or names[0]
    if model not in names:
        message = f"The model `{model}` does not exist. Valid aliases: {', '.join(names)}."
        raise BadRequestError(message, 404, "NotFoundError", "model")
    return Request(str(model), chat, max(len(text.split()), 1), _limit(body, longest, chat), bool(body.get("stream")))


def words(request: Request) -> list[str]:
    """The same text for everyone."""
    return list(itertools.islice(itertools.cycle(_WORDS), min(request.max_tokens, 64)))


def _frame(request: Request, number: int, kind: str) -> Body:
    prefix = "chatcmpl" if request.chat else "cmpl"
    return {"id": f"{prefix}-{number:016x}", "object": kind, "created": int(time.time()), "model": request.model}


def whole(request: Request, number: int) -> Body:
    """The answer in one piece."""
    text = words(request)
    reason = "length"
    choice: Body = {"index": 0, "logprobs": None, "finish_reason": reason, "stop_reason": None}
    if request.chat:
        choice["message"] = {"role": "assistant", "content": "".join(text), "refusal": None, "reasoning": None}
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
    # A chat begins with who speaks.
    said: list[Body] = [{"delta": {"role": "assistant", "content": ""}}] if request.chat else []
    said += [{"delta": {"content": word}} if request.chat else {"text": word} for word in text]
    for index, piece in enumerate(said):
        reason = "length" if index == len(said) - 1 else None
        parts.append({**frame, "choices": [{"index": 0, **piece, "logprobs": None, "finish_reason": reason}]})
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
