# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine asked from outside, against a real HTTP server that answers as engines and strangers do."""

from __future__ import annotations

import http.server
import inspect
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils import _endpoint
from ansible_collections.dgxspark.vllm.plugins.module_utils._endpoint import probe

MODELS = json.dumps({"object": "list", "data": [{"id": "small"}, {"id": "small-alias"}]})
HEALTHY: dict[str, tuple[int, str]] = {
    "/health": (200, ""),
    "/v1/models": (200, MODELS),
    "/v1/completions": (200, json.dumps({"choices": [{"text": "!"}]})),
}


class Engine:
    """A server on a free port; ``answers`` by path, ``breaks`` names the path whose answer is cut off."""

    def __init__(self) -> None:
        self.answers = dict(HEALTHY)
        self.requests: list[tuple[str, str, str | None, Any]] = []
        self.pause = 0.0
        self.breaks = ""
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                engine.requests.append((self.command, self.path, self.headers.get("Authorization"), body))
                status, text = engine.answers[self.path]
                if self.path == "/v1/completions":
                    time.sleep(engine.pause)
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data) + (9 if engine.breaks == self.path else 0)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET  # noqa: N815 - http.server's own name

            def log_message(self, *_args: Any) -> None:
                """Stay quiet."""

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_args: Any) -> None:
                """Stay quiet about callers that did not wait."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


FOUND = ["small", "small-alias"]


def test_an_engine_that_serves(engine: Engine) -> None:
    answer = probe(engine.base, ["small"])
    assert 0 <= answer.pop("seconds") < 5
    assert answer == {"health": 200, "models": FOUND, "canary": "ok", "error": ""}
    assert engine.requests == [
        ("GET", "/health", None, None),
        ("GET", "/v1/models", None, None),
        ("POST", "/v1/completions", None, {"model": "small", "prompt": "Hello", "max_tokens": 1, "temperature": 0}),
    ]


def test_the_key_goes_with_every_request(engine: Engine) -> None:
    probe(engine.base, ["small-alias"], "hush")
    assert [request[2] for request in engine.requests] == ["Bearer hush"] * 3
    assert engine.requests[2][3]["model"] == "small-alias"


def test_without_a_canary(engine: Engine) -> None:
    answer = probe(engine.base, ["small"], canary_timeout=0)
    assert answer == {"health": 200, "models": FOUND, "canary": "", "seconds": 0.0, "error": ""}
    assert len(engine.requests) == 2


LIST = "/v1/models answered something else than a list of models: "
CANARY = "the canary (a one-token completion)"


@pytest.mark.parametrize(
    ("path", "answer", "expected"),
    [
        ("/health", (503, "draining"), {"health": 503, "models": [], "error": "/health answered HTTP 503: draining"}),
        ("/health", (500, ""), {"health": 500, "models": [], "error": "/health answered HTTP 500: (nothing)"}),
        (
            "/v1/models",
            (401, '{"error":\n "Unauthorized"}'),
            {"models": [], "error": '/v1/models answered HTTP 401: {"error": "Unauthorized"}'},
        ),
        ("/v1/models", (200, "<html>"), {"models": [], "error": f"{LIST}<html>"}),
        ("/v1/models", (200, '{"data": 5}'), {"models": [], "error": LIST + '{"data": 5}'}),
        ("/v1/models", (200, '{"data": [{}]}'), {"models": [], "error": LIST + '{"data": [{}]}'}),
        ("/v1/models", (200, "[]"), {"models": [], "error": f"{LIST}[]"}),
        ("/v1/models", (200, '{"data": []}'), {"models": [], "error": "the engine serves nothing, not small"}),
        (
            "/v1/models",
            (200, '{"data": [{"id": "qwen"}, {"id": "x"}]}'),
            {"models": ["qwen", "x"], "error": "the engine serves qwen, x, not small"},
        ),
        (
            "/v1/completions",
            (500, "EngineCore encountered an issue"),
            {"canary": "failed", "error": f"{CANARY} answered HTTP 500: EngineCore encountered an issue"},
        ),
        (
            "/v1/completions",
            (200, '{"object": "error"}'),
            {"canary": "failed", "error": CANARY + ' answered HTTP 200: {"object": "error"}'},
        ),
        (
            "/v1/completions",
            (404, "x" * 900),
            {"canary": "failed", "error": f"{CANARY} answered HTTP 404: {'x' * 500}"},
        ),
    ],
)
def test_an_engine_that_does_not_serve(
    engine: Engine, path: str, answer: tuple[int, str], expected: dict[str, Any]
) -> None:
    engine.answers[path] = answer
    found = probe(engine.base, ["small"])
    found.pop("seconds")
    assert found == {"health": 200, "models": FOUND, "canary": "", **expected}


def test_a_canary_that_hangs(engine: Engine) -> None:
    """Health stays 200 when a worker has died, and the request hangs."""
    engine.pause = 1.0
    found = probe(engine.base, ["small"], canary_timeout=0.1)
    assert (found["health"], found["canary"]) == (200, "failed")
    assert found["error"] == f"{CANARY} did not answer: timed out"


@pytest.mark.parametrize("status", [200, 500])
def test_an_engine_that_dies_while_it_answers(engine: Engine, status: int) -> None:
    engine.answers["/v1/completions"] = (status, "half")
    engine.breaks = "/v1/completions"
    found = probe(engine.base, ["small"], canary_timeout=2)
    assert found["canary"] == "failed"
    assert found["error"].startswith(CANARY)


def test_nothing_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{free.getsockname()[1]}"
    found = probe(base, ["small"])
    assert found["health"] == 0
    assert found["error"] == "/health did not answer: [Errno 111] Connection refused"


def test_something_else_listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def greet() -> None:
            caller, _address = server.accept()
            caller.recv(999)
            caller.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            caller.close()

        thread = threading.Thread(target=greet)
        thread.start()
        found = probe(f"http://127.0.0.1:{server.getsockname()[1]}", ["small"])
        thread.join()
    assert found["error"] == "/health did not answer: SSH-2.0-OpenSSH_9.2"


def test_no_proxy_stands_in_between(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert probe(engine.base, ["small"])["error"] == ""


@pytest.mark.parametrize("key", ["line\nbreak", "€"])
def test_a_key_that_no_header_can_carry_is_an_answer_and_stays_hidden(engine: Engine, key: str) -> None:
    found = probe(engine.base, ["small"], key)
    assert found["health"] == 0
    assert found["error"].startswith("/health did not answer: ")
    assert key not in found["error"]


def test_the_file_stands_alone() -> None:
    """bring_up sends its text to the head's own Python, where the collection is not installed."""
    imports = [line for line in inspect.getsource(_endpoint).splitlines() if line.startswith(("import ", "from "))]
    assert "import urllib.request" in imports
    assert [line for line in imports if "ansible" in line] == []
