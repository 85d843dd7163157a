# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read-only questions to a node's Docker engine over its socket. Private to the collection.

One question costs a few milliseconds, where starting the docker program costs a process each time.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any
from urllib.parse import quote, urlencode

DEFAULT_SOCKET = "/var/run/docker.sock"
EXCERPT = 200


class DockerError(Exception):
    """The engine cannot be asked, or refused; ``str()`` says which."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def socket_path(environ: dict[str, str] | None = None) -> str:
    """Return the engine's socket: that of DOCKER_HOST when it names one, else the usual one."""
    host = (os.environ if environ is None else environ).get("DOCKER_HOST", "")
    return host[len("unix://") :] if host.startswith("unix://") else DEFAULT_SOCKET


class Engine:
    """A node's Docker engine."""

    def __init__(self, path: str | None = None, timeout: float = 30.0) -> None:
        self._path = path or socket_path()
        self._timeout = timeout

    def get(self, resource: str, **query: str) -> Any:
        """Return the answer to GET ``resource``, None where the engine has no such object.

        Raises:
            DockerError: the socket is missing, closed to this user or silent, or the engine reports an error.
        """
        target = resource + (f"?{urlencode(query)}" if query else "")
        connection = _UnixConnection(self._path, self._timeout)
        try:
            connection.request("GET", target)
            response = connection.getresponse()
            body = response.read()
        except FileNotFoundError as error:
            raise DockerError(f"there is no Docker engine at {self._path}") from error
        except PermissionError as error:
            raise DockerError(f"the login user may not use {self._path}") from error
        except (OSError, http.client.HTTPException) as error:
            raise DockerError(f"the Docker engine at {self._path} does not answer: {error}") from error
        finally:
            connection.close()
        if response.status == http.client.NOT_FOUND:
            return None
        text = " ".join(body.decode("utf-8", "replace").split())
        try:
            document = json.loads(body) if body else None
        except ValueError:
            document = {"message": f"HTTP {response.status} {text[:EXCERPT]}"}
            if response.status < http.client.BAD_REQUEST:
                raise DockerError(f"{self._path} is no Docker engine: {document['message']}") from None
        if response.status >= http.client.BAD_REQUEST:
            message = document.get("message", "") if isinstance(document, dict) else ""
            raise DockerError(f"the Docker engine at {self._path} says: {message or response.reason}")
        return document

    def image(self, name: str) -> dict[str, Any] | None:
        """Return what the engine says of an image, None if it has none of that name."""
        found: dict[str, Any] | None = self.get(f"/images/{quote(name, safe='/:@')}/json")
        return found

    def containers(self, label: str) -> list[dict[str, Any]]:
        """Return the full description of every container, running or not, that has ``label``."""
        listed = self.get("/containers/json", all="1", filters=json.dumps({"label": [label]})) or []
        found = (self.container(entry["Id"]) for entry in listed)
        return [entry for entry in found if entry is not None]

    def container(self, name: str) -> dict[str, Any] | None:
        """Return what the engine says of a container, None if there is none of that name."""
        found: dict[str, Any] | None = self.get(f"/containers/{quote(name, safe='')}/json")
        return found
