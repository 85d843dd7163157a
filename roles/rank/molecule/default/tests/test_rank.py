# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rank's container is there, as told, and has not been started."""

from __future__ import annotations

import json

from testinfra.host import Host


def test_container(host: Host) -> None:
    with host.sudo():
        found = json.loads(host.check_output("docker container inspect molecule-1x-r0"))[0]
    assert found["State"]["Status"] == "created"
    assert found["Config"]["Cmd"] == ["serve", "it's {{ literal }}"]
    assert "PLAIN=two words" in found["Config"]["Env"]
    assert "VLLM_API_KEY=swordfish" in found["Config"]["Env"]
    assert found["Config"]["Labels"] == {
        "content": "none",
        "dgxspark.vllm.recipe": "molecule-1x",
        "dgxspark.vllm.digest": "sha256:5afe",
    }
    assert found["HostConfig"]["NetworkMode"] == "host"
