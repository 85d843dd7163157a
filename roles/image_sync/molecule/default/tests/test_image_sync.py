# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes are like after a sync: one content, nothing of the transfer left, the replaced image kept."""

from __future__ import annotations

import json
from typing import Any

from testinfra.host import Host

IMAGE = "sync-mol:local"


def image(host: Host, name: str = IMAGE) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(host.check_output("docker image inspect %s", name))
    return found[0]


def test_image_is_the_one_of_dgx2(host: Host) -> None:
    found = image(host)
    assert found["Config"]["Entrypoint"] == ["vllm", "serve"]
    # Docker's own word for where the top layer came from: only dgx2 copied a file of this name.
    assert "/dgx2" in host.check_output("docker history --no-trunc --format '{{.CreatedBy}}' %s", IMAGE)


def test_lower_layer_is_shared(host: Host) -> None:
    assert image(host)["RootFS"]["Layers"][:1] == image(host, "sync-mol:base")["RootFS"]["Layers"]


def test_image_is_whole(host: Host) -> None:
    made = host.check_output("docker create %s", IMAGE)
    assert "/dgx2" in host.check_output("docker cp %s:/dgx2 - | tar -t | sed s:^:/:", made)
    host.check_output("docker rm %s", made)


def test_replaced_image_is_kept(host: Host) -> None:
    kept = [tag for tag in host.check_output("docker images --format '{{.Tag}}' sync-mol").split() if "-was-" in tag]
    assert len(kept) == (1 if host.check_output("hostname") == "dgx3" else 0)


def test_nothing_of_the_transfer_is_left(host: Host) -> None:
    assert "dgxspark" not in host.check_output("docker images --format '{{.Repository}}'")
    assert "dgxspark" not in host.file("/home/spark/.ssh/authorized_keys").content_string
    assert not host.file("/run/dgxspark-image-sync").exists
