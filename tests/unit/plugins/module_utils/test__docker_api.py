# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to a Docker engine, against a small real server on a Unix socket."""

from __future__ import annotations

import http.server
import json
import os
import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError, Engine, socket_path


class Docker:
    """A server that answers by path; what it does not know is 404, as Docker says it."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "docker.sock")
        self.answers: dict[str, tuple[int, str]] = {}
        self.asked: list[str] = []
        docker = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                docker.asked.append(self.path)
                status, text = docker.answers.get(urlsplit(self.path).path, (404, '{"message":"No such object"}'))
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def address_string(self) -> str:
                return "socket"

            def log_message(self, *_args: Any) -> None:
                """Stay quiet."""

        self.server = socketserver.UnixStreamServer(self.path, Handler)

    @property
    def engine(self) -> Engine:
        return Engine(self.path, timeout=5)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: the kernel takes at most 108 characters for a socket's."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture
def docker(folder: Path) -> Iterator[Docker]:
    made = Docker(folder)
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_get(docker: Docker) -> None:
    docker.answers["/info"] = (200, '{"Driver": "overlay2"}')
    docker.answers["/empty"] = (200, "")
    assert docker.engine.get("/info") == {"Driver": "overlay2"}
    assert docker.engine.get("/empty") is None


def test_what_is_not_there_is_none(docker: Docker) -> None:
    assert docker.engine.get("/nothing") is None
    assert docker.engine.image("small:local") is None
    assert docker.engine.container("small-r0") is None
    assert docker.engine.containers("x") == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("small:local", "/images/small:local/json"),
        ("ghcr.io/acme/small@sha256:1f", "/images/ghcr.io/acme/small@sha256:1f/json"),
        ("odd name?x#y", "/images/odd%20name%3Fx%23y/json"),
    ],
)
def test_an_image(docker: Docker, name: str, path: str) -> None:
    docker.answers[path] = (200, '{"Id": "sha256:1"}')
    assert docker.engine.image(name) == {"Id": "sha256:1"}


def test_a_containers_name_is_one_segment(docker: Docker) -> None:
    docker.answers["/containers/a%2Fb/json"] = (200, '{"Id": "1"}')
    assert docker.engine.container("a/b") == {"Id": "1"}


def test_containers_of_a_label(docker: Docker) -> None:
    docker.answers["/containers/json"] = (200, '[{"Id": "1"}, {"Id": "2"}, {"Id": "3"}]')
    docker.answers["/containers/1/json"] = (200, '{"Name": "/one"}')
    # The second one goes between the two questions.
    docker.answers["/containers/3/json"] = (200, '{"Name": "/three"}')
    assert docker.engine.containers("dgxspark.vllm.recipe") == [{"Name": "/one"}, {"Name": "/three"}]
    query = parse_qs(urlsplit(docker.asked[0]).query)
    assert query["all"] == ["1"]
    assert json.loads(query["filters"][0]) == {"label": ["dgxspark.vllm.recipe"]}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (500, '{"message": "layer does not exist"}', "says: layer does not exist"),
        (409, "", "says: Conflict"),
        (500, "[]", "says: Internal Server Error"),
        (400, "400 Bad Request: missing\nHost", "says: HTTP 400 400 Bad Request: missing Host"),
    ],
)
def test_errors_of_the_engine(docker: Docker, status: int, body: str, message: str) -> None:
    docker.answers["/info"] = (status, body)
    with pytest.raises(DockerError) as caught:
        docker.engine.get("/info")
    assert str(caught.value) == f"the Docker engine at {docker.path} {message}"


def test_something_else_behind_the_socket(docker: Docker) -> None:
    docker.answers["/info"] = (200, "<html>hello</html>")
    with pytest.raises(DockerError) as caught:
        docker.engine.get("/info")
    assert str(caught.value) == f"{docker.path} is no Docker engine: HTTP 200 <html>hello</html>"


def test_no_socket(folder: Path) -> None:
    with pytest.raises(DockerError) as caught:
        Engine(f"{folder}/docker.sock").get("/info")
    assert str(caught.value) == f"there is no Docker engine at {folder}/docker.sock"


def test_an_engine_that_went_away(folder: Path) -> None:
    path = f"{folder}/docker.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(path)
    with pytest.raises(DockerError) as caught:
        Engine(path).get("/info")
    assert str(caught.value) == f"the Docker engine at {path} does not answer: [Errno 111] Connection refused"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not use the socket")
def test_a_user_who_may_not(docker: Docker, folder: Path) -> None:
    folder.chmod(0o755)
    Path(docker.path).chmod(0o600)
    os.seteuid(65534)
    try:
        with pytest.raises(DockerError) as caught:
            docker.engine.get("/info")
    finally:
        os.seteuid(0)
    assert str(caught.value) == f"the login user may not use {docker.path}"


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({}, "/var/run/docker.sock"),
        ({"DOCKER_HOST": "unix:///run/user/1000/docker.sock"}, "/run/user/1000/docker.sock"),
        ({"DOCKER_HOST": "tcp://10.0.0.1:2375"}, "/var/run/docker.sock"),
    ],
)
def test_where_the_socket_is(environ: dict[str, str], path: str) -> None:
    assert socket_path(environ) == path
