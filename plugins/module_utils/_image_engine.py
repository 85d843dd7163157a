# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What image sync asks of a node's Docker engine beyond reading: tags, removal, saving. Private to the collection."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ansible_collections.dgxspark.vllm.plugins.module_utils._docker_api import DockerError, Engine, _UnixConnection

CONTAINERD_STORE = "io.containerd.snapshotter.v1"
CHUNK = 1 << 20
SILENCE_LIMIT = 600.0


class ImageInUseError(DockerError):
    """The engine keeps an image since a container uses it; ``str()`` says which."""


class ImageEngine(Engine):
    """A node's Docker engine, as a keeper of images."""

    def info(self) -> dict[str, Any]:
        """What ``docker info`` tells."""
        return dict(self.get("/info") or {})

    def images(self) -> list[dict[str, Any]]:
        """Every image in short, those without a tag included."""
        return list(self.get("/images/json") or [])

    def tag(self, name: str, target: str) -> None:
        """Give an image one more tag, taking it from the image that has it now."""
        repository, _colon, tag = target.rpartition(":")
        self._change("POST", f"/images/{quote(name, safe='/:@')}/tag?{urlencode({'repo': repository, 'tag': tag})}")

    def remove(self, name: str) -> None:
        """Remove a tag, and the image with its last tag. It is no error when the engine has none of that name.

        Raises:
            ImageInUseError: a container, running or not, is made of it.
        """
        self._change("DELETE", f"/images/{quote(name, safe='/:@')}")

    def save(self, name: str) -> Iterator[bytes]:
        """The archive of one image, as ``docker save`` writes it."""
        connection, response = self._open("GET", f"/images/{quote(name, safe='/:@')}/get")
        try:
            if response.status >= http.client.BAD_REQUEST:
                raise DockerError(_reason(response))
            while chunk := response.read(CHUNK):
                yield chunk
        finally:
            connection.close()

    def _change(self, method: str, target: str) -> None:
        connection, response = self._open(method, target)
        try:
            if response.status == http.client.CONFLICT:
                raise ImageInUseError(_reason(response))
            absent = response.status == http.client.NOT_FOUND and method == "DELETE"
            if response.status >= http.client.BAD_REQUEST and not absent:
                raise DockerError(_reason(response))
        finally:
            connection.close()

    def _open(self, method: str, target: str) -> tuple[_UnixConnection, http.client.HTTPResponse]:
        connection = _UnixConnection(self._path, SILENCE_LIMIT)
        try:
            connection.request(method, target)
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise DockerError(f"the Docker engine at {self._path} does not answer: {error}") from error


def image_store(info: Mapping[str, Any]) -> str:
    """``containerd``, or the name of the storage driver."""
    status = dict(entry[:2] for entry in info.get("DriverStatus") or [])
    return "containerd" if status.get("driver-type") == CONTAINERD_STORE else str(info.get("Driver") or "")


def _reason(response: http.client.HTTPResponse) -> str:
    text = response.read().decode("utf-8", "replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or response.reason
