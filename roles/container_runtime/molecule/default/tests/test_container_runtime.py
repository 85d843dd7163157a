# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node with a Docker engine made ready is like."""

from __future__ import annotations

import json

from testinfra.host import Host


def test_user_may_talk_to_docker(host: Host) -> None:
    assert "docker" in host.user("spark").groups
    assert "sudo" in host.user("spark").groups
    assert host.run("docker info --format '{{.LoggingDriver}}'").stdout.strip() == "json-file"


def test_settings_are_merged(host: Host) -> None:
    assert json.loads(host.file("/etc/docker/daemon.json").content_string) == {
        "debug": False,
        "log-driver": "json-file",
        "log-opts": {"mode": "non-blocking", "max-size": "50m", "max-file": "5"},
    }


def test_docker_runs_at_boot(host: Host) -> None:
    assert host.service("docker").is_enabled
    assert host.package("python3-requests").is_installed


def test_record_tells_what_to_undo(host: Host) -> None:
    record = json.loads(host.file("/var/lib/dgxspark.vllm/container_runtime.json").content_string)
    assert record["packages"] == []
    assert record["users"] == ["spark"]
    assert record["before"] == {"debug": False, "log-driver": "journald", "log-opts": {"mode": "non-blocking"}}
