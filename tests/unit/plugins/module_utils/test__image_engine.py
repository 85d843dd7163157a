# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tags, removal and saving of images, against a small real server on a Unix socket."""

from __future__ import annotations

import http.server
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError
from ansible_collections.dgxspark.vllm.plugins.module_utils._image_engine import (
    CHUNK,
    ImageEngine,
    ImageInUseError,
    image_store,
)


class Docker:
    """A server that answers every question alike and keeps what it was asked."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.status, self.body = 200, b""
        self.asked: list[str] = []
        docker = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                docker.asked.append(f"{self.command} {self.path}")
                self.send_response(docker.status)
                self.end_headers()
                self.wfile.write(docker.body)

            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer()

            def do_DELETE(self) -> None:
                self.answer()

            def address_string(self) -> str:
                return "socket"

            def log_message(self, *_args: Any) -> None:
                """Stay quiet."""

        self.server = socketserver.UnixStreamServer(self.path, Handler)

    @property
    def engine(self) -> ImageEngine:
        return ImageEngine(self.path, timeout=5)


@pytest.fixture
def docker() -> Iterator[Docker]:
    # A short path: the kernel takes at most 108 characters for a socket's.
    with tempfile.TemporaryDirectory() as folder:
        made = Docker(str(Path(folder) / "docker.sock"))
        thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.server.shutdown()
        made.server.server_close()
        thread.join()


def test_tag_of_a_name_with_a_registry_port(docker: Docker) -> None:
    docker.status = 201
    docker.engine.tag("dgxspark-image-sync:run", "registry:5000/team/vllm:v1-was-3f2a")
    assert docker.asked == [
        "POST /images/dgxspark-image-sync:run/tag?repo=registry%3A5000%2Fteam%2Fvllm&tag=v1-was-3f2a"
    ]


@pytest.mark.parametrize(("status", "reason"), [(404, "No such image: gone:local"), (409, "conflict"), (500, "broken")])
def test_tag_that_is_refused(docker: Docker, status: int, reason: str) -> None:
    docker.status, docker.body = status, f'{{"message": "{reason}"}}'.encode()
    with pytest.raises(DockerError, match=f"^{reason}$"):
        docker.engine.tag("gone:local", "new:local")


def test_removal(docker: Docker) -> None:
    docker.body = b'[{"Untagged": "vllm:v1-was-3f2a"}]'
    docker.engine.remove("vllm:v1-was-3f2a")
    assert docker.asked == ["DELETE /images/vllm:v1-was-3f2a"]


def test_removal_of_what_is_not_there_is_no_error(docker: Docker) -> None:
    docker.status, docker.body = 404, b'{"message": "No such image: gone:local"}'
    docker.engine.remove("gone:local")
    assert docker.asked == ["DELETE /images/gone:local"]


def test_removal_that_is_refused(docker: Docker) -> None:
    docker.status, docker.body = 409, b'{"message": "image is being used by running container 3f2a"}'
    with pytest.raises(ImageInUseError, match=r"^image is being used by running container 3f2a$"):
        docker.engine.remove("vllm:v1-was-3f2a")


def test_saved_image_comes_in_chunks(docker: Docker) -> None:
    docker.body = bytes(range(256)) * (CHUNK // 128) + b"end"
    chunks = list(docker.engine.save("vllm:local"))
    assert b"".join(chunks) == docker.body
    assert [len(chunk) for chunk in chunks] == [CHUNK, CHUNK, 3]
    assert docker.asked == ["GET /images/vllm:local/get"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"message": "No such image: gone:local"}', "No such image: gone:local"),
        (b"a proxy's page\n", "a proxy's page"),
        (b'["no object"]', r'\["no object"\]'),
        (b"", "Internal Server Error"),
    ],
)
def test_image_that_cannot_be_saved(docker: Docker, body: bytes, reason: str) -> None:
    docker.status, docker.body = 500, body
    with pytest.raises(DockerError, match=f"^{reason}$"):
        list(docker.engine.save("gone:local"))


def test_no_engine_to_change(tmp_path: Path) -> None:
    engine = ImageEngine(str(tmp_path / "none.sock"))
    with pytest.raises(DockerError, match=r"^the Docker engine at .*none\.sock does not answer: .*No such file"):
        engine.remove("vllm:local")


def test_lists(docker: Docker) -> None:
    docker.body = b'[{"Id": "sha256:1"}]'
    assert docker.engine.images() == [{"Id": "sha256:1"}]
    docker.body = b'{"Driver": "overlay2"}'
    assert docker.engine.info() == {"Driver": "overlay2"}
    docker.body = b"null"
    assert (docker.engine.images(), docker.engine.info()) == ([], {})


def test_store() -> None:
    assert image_store({"Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]]}) == "overlay2"
    assert (
        image_store({"Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]})
        == "containerd"
    )
    assert image_store({"Driver": "btrfs", "DriverStatus": None}) == "btrfs"
    assert image_store({}) == ""
