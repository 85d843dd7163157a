# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe from command to completion on eight simulated Sparks, and back."""

from __future__ import annotations

import json
import re
import shlex
import urllib.request
from typing import Any

import pytest
from simulated import FLASH, NETWORK, Cluster

VISION = "dsv4-vision-aiden-4x"
LABEL = "dgxspark.vllm."


def complete(model: str, prompt: str = "Hello") -> dict[str, Any]:
    """Ask the head for a completion, as a client on the network would."""
    request = urllib.request.Request(
        f"http://10.{NETWORK}.0.11:8000/v1/completions",
        data=json.dumps({"model": model, "prompt": prompt, "max_tokens": 4}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def assert_container(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare what Docker says of a container with its golden description."""
    host, config = found["HostConfig"], found["Config"]
    assert found["Name"] == f"/{wanted['name']}"
    assert config["Image"] == wanted["image"]
    entry = [wanted["entrypoint"]] if wanted["entrypoint"] else None
    assert entry is None or config["Entrypoint"] == entry
    assert config["Cmd"] == wanted["command"]
    assert set(wanted["env"].items()) <= {tuple(line.split("=", 1)) for line in config["Env"]}
    mounts = {(mount["Source"], mount["Target"], mount.get("ReadOnly", False)) for mount in host["Mounts"]}
    assert mounts == {(mount["source"], mount["target"], mount["read_only"]) for mount in wanted["mounts"]}
    assert not host["Binds"]
    assert host["NetworkMode"] == "host"
    assert host["IpcMode"] == wanted["ipc"]
    assert host["ShmSize"] == wanted["shm_size"]
    assert {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]} == wanted["ulimits"]
    assert [device["PathOnHost"] for device in host["Devices"]] == wanted["devices"]
    assert host["DeviceRequests"][0]["Count"] == -1
    assert host["CapAdd"] == wanted["cap_add"]
    assert host["Privileged"] is wanted["privileged"]
    assert host["Init"] is True
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["OomScoreAdj"] == wanted["oom_score_adj"]
    assert host["LogConfig"] == {"Type": "json-file", "Config": wanted["log_options"]}
    assert (config["StopSignal"], config["StopTimeout"]) == (wanted["stop_signal"], wanted["stop_timeout"])
    labels = {key: value for key, value in config["Labels"].items() if key.startswith(LABEL)}
    assert labels.pop(LABEL + "digest").startswith("sha256:")
    assert labels.pop(LABEL + "run")
    assert labels == wanted["labels"]


def test_the_whole_way(cluster: Cluster, golden: dict[str, list[dict[str, Any]]]) -> None:
    """Three nodes lack the image: the check predicts the run, the run serves, the second run changes nothing."""
    checked = cluster.play("serve.yml", "-e", f"recipe={FLASH}", "--check", "--diff")
    assert checked.rc == 0, checked.text
    assert f"{FLASH} would serve deepseek-v4-flash" in checked.text
    assert all(not containers for containers in cluster.containers().values())

    served = cluster.play("serve.yml", "-e", f"recipe={FLASH}")
    assert served.rc == 0, served.text
    assert checked.changes == served.changes
    assert f"serves deepseek-v4-flash at http://10.{NETWORK}.0.11:8000" in served.text
    assert re.search(r"^ +\d+ s  .*\((?:all )?ranks?", served.text, re.MULTILINE)

    assert complete("deepseek-v4-flash")["choices"][0]["text"]
    found = [cluster.inspect(node, f"{FLASH}-r{rank}") for rank, node in enumerate(cluster.nodes)]
    for inspect, wanted in zip(found, golden[FLASH], strict=True):
        assert_container(inspect, wanted)
    started = [inspect["State"]["StartedAt"] for inspect in found]
    assert started == sorted(started)

    again = cluster.play("serve.yml", "-e", f"recipe={FLASH}")
    assert (again.rc, again.changed) == (0, 0), again.text
    assert [cluster.inspect(node, f"{FLASH}-r{rank}")["Id"] for rank, node in enumerate(cluster.nodes)] == [
        inspect["Id"] for inspect in found
    ]

    planned = cluster.play("plan.yml", "-e", f"recipe={FLASH}")
    assert planned.rc == 0, planned.text
    assert planned.changed == 0
    lines = [shlex.split(line) for line in planned.text.splitlines() if line.startswith("docker run ")]
    assert len(lines) == cluster.size
    for words, inspect in zip(lines, found, strict=True):
        assert f"{LABEL}digest={inspect['Config']['Labels'][LABEL + 'digest']}" in words
        assert words[words.index(inspect["Config"]["Image"]) + 1 :] == inspect["Config"]["Cmd"]
        environment = [words[index + 1] for index, word in enumerate(words) if word == "--env"]
        assert set(environment) <= set(inspect["Config"]["Env"])

    status = cluster.play("status.yml", "-e", f"recipe={FLASH}", "-e", "serve_must_answer=true")
    assert status.rc == 0, status.text
    assert status.changed == 0
    assert f"{FLASH} serves" in status.text

    stopped = cluster.play("stop.yml", "-e", f"recipe={FLASH}")
    assert stopped.rc == 0, stopped.text
    assert all(not containers for containers in cluster.containers().values())
    nothing = cluster.play("stop.yml", "-e", f"recipe={FLASH}")
    assert (nothing.rc, nothing.changed) == (0, 0), nothing.text


def test_a_changed_flag_replaces_the_whole_set(cluster: Cluster) -> None:
    """Another specification is another set: no rank of the old one stays."""
    assert cluster.play("serve.yml", "-e", f"recipe={FLASH}").rc == 0
    before = cluster.containers()
    changed = cluster.play("serve.yml", "-e", f"recipe={FLASH}", "-e", '{"serve_set": {"max-model-len": 65536}}')
    assert changed.rc == 0, changed.text
    assert "the whole set is replaced" in changed.text
    after = cluster.containers()
    assert all(len(containers) == 1 for containers in after.values())
    assert not {entry for entries in before.values() for entry in entries} & {
        entry for entries in after.values() for entry in entries
    }
    command = cluster.inspect("dgx1", f"{FLASH}-r0")["Config"]["Cmd"]
    assert command[command.index("--max-model-len") + 1] == "65536"


def test_parked_recipe_with_an_entrypoint_that_doubles_flags(
    cluster: Cluster, golden: dict[str, list[dict[str, Any]]]
) -> None:
    """The vision recipe is refused with its reason, and served with the override; its mods replace the entrypoint."""
    refused = cluster.play("serve.yml", "-e", f"recipe={VISION}")
    assert refused.rc != 0
    assert "is parked: " in refused.message
    assert refused.message.endswith("Serve it all the same with -e serve_parked=true.")
    assert all(not containers for containers in cluster.containers().values())

    served = cluster.play("serve.yml", "-e", f"recipe={VISION}", "-e", "serve_parked=true")
    assert served.rc == 0, served.text
    for rank, wanted in enumerate(golden[VISION]):
        assert_container(cluster.inspect(cluster.nodes[rank], f"{VISION}-r{rank}"), wanted)
    assert complete("deepseek-v4-vision")["choices"][0]["text"]

    other = cluster.play("serve.yml", "-e", f"recipe={FLASH}")
    assert other.rc != 0
    assert f"recipe {VISION} runs here" in other.message
    replaced = cluster.play("serve.yml", "-e", f"recipe={FLASH}", "-e", "serve_replace=true")
    assert replaced.rc == 0, replaced.text
    assert all(len(containers) == 1 for containers in cluster.containers().values())


@pytest.mark.parametrize("secret", ["serve_api_key", "serve_hf_token"])
def test_secrets_are_in_the_environment_alone(cluster: Cluster, secret: str) -> None:
    """A secret reaches the container and no command line, label, plan or output."""
    value = "swordfish-4711"
    served = cluster.play("serve.yml", "-e", f"recipe={VISION}", "-e", "serve_parked=true", "-e", f"{secret}={value}")
    assert served.rc == 0, served.text
    assert value not in served.text
    inspect = cluster.inspect("dgx1", f"{VISION}-r0")
    assert any(line.endswith(f"={value}") for line in inspect["Config"].pop("Env"))
    assert value not in json.dumps(inspect)
    processes = cluster.on("dgx1", "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert value not in processes
