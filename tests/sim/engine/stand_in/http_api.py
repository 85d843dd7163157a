# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rank 0's HTTP: health, models, completions, metrics, version, and the errors vLLM answers with."""

from __future__ import annotations

import hmac
import json
import os
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import VERSION, answers
from .faults import EngineDeadError
from .group import Group
from .journal import API_SERVER, Journal
from .launch import Launch

_GUARDED = ("/v1", "/v2", "/inference", "/cohere")
_READS = ("/health", "/ping", "/load", "/version", "/metrics", "/v1/models")
_COMPLETIONS = ("/v1/completions", "/v1/chat/completions")


class Api(ThreadingHTTPServer):
    """Bound early, as vLLM binds before it loads; listens when the engine is ready."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, launch: Launch, journal: Journal) -> None:
        self.launch = launch
        self.journal = journal
        self.group: Group | None = None
        self.dead = False
        self.done = 0
        self._count = threading.Lock()
        given = os.environ.get("VLLM_API_KEY", "")
        self.keys = [key for key in launch.words("--api-key") or [given] if key]
        super().__init__((launch.text("--host"), launch.number("--port", 8000)), Handler, bind_and_activate=False)
        self.server_bind()

    def server_bind(self) -> None:
        """Without the name lookup of the standard library's: it can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.launch.text("--host"), self.launch.number("--port", 8000)

    def serve(self, group: Group) -> None:
        """From now on requests are answered."""
        self.group = group
        self.server_activate()
        self.journal.say("launcher.py:186", "Available routes are:", API_SERVER)
        for path in (*_READS, *_COMPLETIONS):
            methods = "POST" if path in _COMPLETIONS else "GET"
            self.journal.say("launcher.py:195", f"Route: {path}, Methods: {methods}", API_SERVER)
        self.journal.uvicorn(f"Started server process [{os.getpid()}]")
        self.journal.uvicorn("Waiting for application startup.")
        self.journal.uvicorn("Application startup complete.")
        self.serve_forever(poll_interval=0.1)

    def generate(self) -> int:
        """One completion through all ranks; its number."""
        if self.dead or self.group is None:
            raise EngineDeadError(0)
        self.group.step()
        with self._count:
            self.done += 1
            return self.done

    def engine_died(self, died: EngineDeadError) -> None:
        """The server goes after the engine, as if all were well: that is vLLM's exit code too."""
        self.dead = True
        self.journal.uvicorn("Shutting down")
        self.journal.uvicorn("Application shutdown complete.")
        self.journal.uvicorn(f"Finished server process [{os.getpid()}]")
        threading.Timer(0.2, os._exit, args=(died.code,)).start()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "uvicorn"
    sys_version = ""
    server: Api

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """uvicorn's access log comes from _answer."""

    def _answer(self, code: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self._access(code)

    def _access(self, code: int) -> None:
        phrase = HTTPStatus(code).phrase
        client = f"{self.client_address[0]}:{self.client_address[1]}"
        self.server.journal.uvicorn(f'{client} - "{self.command} {self.path} HTTP/1.1" {code} {phrase}')

    def _json(self, code: int, body: answers.Body) -> None:
        self._answer(code, json.dumps(body).encode())

    def _refuse(self, code: int) -> None:
        self._json(code, {"detail": HTTPStatus(code).phrase})

    def _allowed(self) -> bool:
        if not self.server.keys or not self.path.startswith(_GUARDED):
            return True
        scheme, _blank, key = (self.headers.get("Authorization") or "").partition(" ")
        good = [hmac.compare_digest(key.encode(), known.encode()) for known in self.server.keys]
        if scheme.lower() == "bearer" and any(good):
            return True
        self._json(401, {"error": "Unauthorized"})
        return False

    def do_GET(self) -> None:
        """Everything that can be read."""
        if not self._allowed():
            return
        path = self.path.partition("?")[0]
        launch = self.server.launch
        names = launch.served_names
        if path in ("/health", "/ping"):
            self._answer(503 if self.server.dead else 200, b"", kind="")
        elif path == "/v1/models":
            self._json(200, answers.models(names, launch.model, launch.max_model_len))
        elif path == "/version":
            self._json(200, {"version": VERSION})
        elif path == "/load":
            self._json(200, {"server_load": 0})
        elif path == "/metrics":
            text = answers.metrics(names[0], self.server.done)
            self._answer(200, text.encode(), "text/plain; version=1.0.0; charset=utf-8")
        else:
            self._refuse(405 if path in _COMPLETIONS else 404)

    def do_HEAD(self) -> None:
        """Nothing answers to it."""
        self._refuse(405)

    def do_POST(self) -> None:
        """Completions."""
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self._allowed():
            return
        path = self.path.partition("?")[0]
        if path not in _COMPLETIONS:
            self._refuse(405 if path in _READS else 404)
            return
        try:
            self._complete(content, path == "/v1/chat/completions")
        except answers.BadRequestError as bad:
            self._json(bad.code, bad.body)
        except EngineDeadError as died:
            error = {"message": str(died), "type": "InternalServerError", "param": None, "code": 500}
            # First, as the client may be gone by now.
            self.server.engine_died(died)
            self._json(500, {"error": error})

    def _complete(self, content: bytes, chat: bool) -> None:
        try:
            body = json.loads(content.decode("utf-8", "replace"))
        except json.JSONDecodeError as error:
            raise answers.undecodable(error) from None
        launch = self.server.launch
        request = answers.read(body, chat, launch.served_names, launch.max_model_len)
        number = self.server.generate()
        if not request.stream:
            self._json(200, answers.whole(request, number))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self._access(200)
        for chunk in answers.chunks(request, number):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")
