# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's command line: every option once, and a printed line that a shell reads back word for word."""

from __future__ import annotations

import csv
import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._docker_argv import create_arguments, mount_option, run_line
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import BindMount, Container
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SMALL = Container(
    name="small-r0",
    image="small:local",
    entrypoint=None,
    command=["acme/small", "--port", "8000"],
    env={"A": "1", "B": "x=y z"},
    secret_env=["VLLM_API_KEY"],
    mounts=[
        BindMount(source="/models", target="/models", read_only=True),
        BindMount(source="/home/a b", target="/c", read_only=False),
    ],
    devices=["/dev/infiniband"],
    gpus="all",
    network="host",
    ipc="private",
    shm_size=1024,
    cap_add=["IPC_LOCK"],
    privileged=False,
    ulimits={"memlock": -1, "nofile": 1048576},
    init=True,
    stop_signal="SIGTERM",
    stop_timeout=60,
    log_driver="json-file",
    log_options={"max-file": "5", "max-size": "50m"},
    oom_score_adj=500,
    restart="no",
    labels={"dgxspark.vllm.recipe": "small"},
)


def changed(**changes: Any) -> Container:
    return Container(**{**SMALL, **changes})  # type: ignore[typeddict-item]


def test_the_whole_line() -> None:
    assert run_line(SMALL) == (
        "docker run --detach --name small-r0 --pull never --network host --ipc private --shm-size 1024 --gpus all"
        " --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1:-1 --ulimit nofile=1048576:1048576 --init"
        " --stop-signal SIGTERM --stop-timeout 60 --restart no --oom-score-adj 500 --log-driver json-file"
        " --log-opt max-file=5 --log-opt max-size=50m --mount type=bind,source=/models,target=/models,readonly"
        " --mount 'type=bind,source=/home/a b,target=/c' --env A=1 --env 'B=x=y z' --env VLLM_API_KEY"
        " --label dgxspark.vllm.recipe=small small:local acme/small --port 8000"
    )


@pytest.mark.parametrize(
    ("changes", "gone", "new"),
    [
        ({"shm_size": None, "ipc": "host"}, {"--shm-size", "1024", "private"}, set()),
        ({"gpus": ""}, {"--gpus", "all"}, set()),
        ({"devices": []}, {"--device", "/dev/infiniband"}, set()),
        ({"privileged": True}, set(), {"--privileged"}),
        ({"init": False}, {"--init"}, set()),
        ({"entrypoint": "/start me"}, set(), {"--entrypoint", "/start me"}),
        ({"secret_env": []}, {"VLLM_API_KEY"}, set()),
    ],
)
def test_options_that_come_and_go(changes: dict[str, Any], gone: set[str], new: set[str]) -> None:
    before, after = set(create_arguments(SMALL)), set(create_arguments(changed(**changes)))
    assert (before - after, after - before) == (gone, new)


def test_options_stand_before_the_image_and_the_command_after_it() -> None:
    words = create_arguments(changed(entrypoint="sh", command=["-c", "--gpus", "small:local"]))
    place = words.index("small:local")
    assert words[place:] == ["small:local", "-c", "--gpus", "small:local"]
    assert words[place - 2 : place] == ["--entrypoint", "sh"]


def test_never_a_volume_and_never_a_restart(cluster: Callable[..., Any]) -> None:
    for name in ("dsv41-flash-8x", "dsv4-vision-aiden-4x"):
        for rank in cluster(name).deploy()["ranks"]:
            options = rank["arguments"][: rank["arguments"].index(rank["spec"]["image"])]
            assert not {"-v", "--volume", "--rm", "--privileged"} & set(options)
            assert options[options.index("--restart") + 1] == "no"


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("/a", "type=bind,source=/a,target=/t"),
        ("/a,readonly", 'type=bind,"source=/a,readonly",target=/t'),
        ('/a"b', 'type=bind,"source=/a""b",target=/t'),
        ("/a\nb", 'type=bind,"source=/a\nb",target=/t'),
        ("/a=b", "type=bind,source=/a=b,target=/t"),
    ],
)
def test_mounts_are_csv_as_docker_reads_it(source: str, option: str) -> None:
    assert mount_option(BindMount(source=source, target="/t", read_only=False)) == option


# Whatever a recipe may hold; TOML has no surrogates, and an argument can hold no NUL.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
NAME = st.text(st.characters(exclude_characters="\0=", exclude_categories=["Cs"]), min_size=1, max_size=10)
MOUNT = st.builds(BindMount, source=TEXT, target=TEXT, read_only=st.booleans())
CONTAINER = st.builds(
    changed,
    command=st.lists(TEXT, max_size=6),
    env=st.dictionaries(NAME, TEXT, max_size=4),
    mounts=st.lists(MOUNT, max_size=3),
    entrypoint=st.none() | TEXT,
)


@given(container=CONTAINER)
@settings(deadline=None)
def test_the_line_read_back_is_the_argv(container: Container) -> None:
    assert shlex.split(run_line(container)) == ["docker", "run", "--detach", *create_arguments(container)]


@given(container=CONTAINER)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_a_real_shell_reads_back_the_argv(container: Container) -> None:
    # The function stands where the program would: it prints its words, each ended by a NUL.
    script = "docker() { printf '%s\\0' \"$@\"; }\n" + run_line(container)
    answer = subprocess.run(["/bin/sh"], input=script.encode(), capture_output=True, check=True)
    assert answer.stdout.decode().split("\0")[:-1] == ["run", "--detach", *create_arguments(container)]


@given(mount=MOUNT)
@settings(deadline=None)
def test_a_mount_read_back_is_the_mount(mount: BindMount) -> None:
    # strict: a quote inside a bare field is an error to Docker's reader too.
    fields = next(csv.reader([mount_option(mount)], strict=True), None)
    if not set("\r\n") & set(mount["source"] + mount["target"]):
        words = ["type=bind", f"source={mount['source']}", f"target={mount['target']}"]
        assert fields == words + ["readonly"] * mount["read_only"]
