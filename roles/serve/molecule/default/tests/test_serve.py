# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rank serves on its node, with its key, as Docker and a client see it."""

from __future__ import annotations

import json

from testinfra.host import Host

ASK = """
import json, sys, urllib.request
request = urllib.request.Request("http://127.0.0.1:8000/v1/completions", method="POST",
    data=json.dumps({"model": "molecule", "prompt": "Hello", "max_tokens": 1}).encode(),
    headers={"Content-Type": "application/json", **json.loads(sys.argv[1])})
try:
    print(urllib.request.urlopen(request, timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_container_runs(host: Host) -> None:
    with host.sudo():
        found = json.loads(host.check_output("docker container inspect molecule-1x-r0"))[0]
    assert found["State"]["Running"]
    assert found["HostConfig"]["ShmSize"] == 1 << 30
    assert found["HostConfig"]["RestartPolicy"]["Name"] == "no"


def test_key_is_asked_for(host: Host) -> None:
    for headers, status in (({}, "401"), ({"Authorization": "Bearer swordfish"}, "200")):
        assert host.check_output("python3 -c %s %s", ASK, json.dumps(headers)) == status
