# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input gets one clear error and changes nothing on any node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from simulated import FLASH, ROOT, Cluster

GOOD = """\
engine = "vllm"
name = "A recipe to spoil"
docker_image = "dsv41-flash:local"
model = "deepseek-ai/DeepSeek-V4.1-Flash"
required_nodes = 2
tensor_parallel_size = 2
args = ["--max-model-len 8192"]
"""


@pytest.fixture(scope="module", autouse=True)
def nothing_changes(fresh_cluster: Cluster) -> Iterator[None]:
    """Compare every node before and after all of this module's refusals."""
    fresh_cluster.no_faults()
    fresh_cluster.stop_all()
    fresh_cluster.play("status.yml", "-e", f"recipe={FLASH}")
    before = fresh_cluster.state()
    yield
    assert fresh_cluster.state() == before


@pytest.fixture
def spoiled(tmp_path: Path) -> Callable[[str], str]:
    """Write a recipe and return its path."""

    def write(text: str) -> str:
        folder = tmp_path / "spoiled"
        folder.mkdir()
        (folder / "recipe.toml").write_text(text, encoding="utf-8")
        return str(folder)

    return write


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param('engine = "vllm\n', ["line 1, column"], id="broken TOML"),
        pytest.param(GOOD + "extra_mount = []\n", ["extra_mount", "extra_mounts"], id="unknown key, near miss"),
        pytest.param(GOOD.replace("= 2", '= "two"', 1), ["required_nodes", '"two"'], id="wrong type"),
        pytest.param(GOOD.replace("8192", "8192 --node-rank 1"), ["--node-rank"], id="launcher-owned flag"),
        pytest.param(GOOD.replace("--max-model-len 8192", "--x 'y"), ["args[1]"], id="unbalanced quote"),
        pytest.param(
            GOOD.replace('"--max-model-len 8192"', '"--speculative-config", "{\\"a\\": }"'),
            ["--speculative-config"],
            id="bad JSON in a JSON flag",
        ),
        pytest.param(GOOD.replace("parallel_size = 2", "parallel_size = 4"), ["required_nodes"], id="TP is not nodes"),
        pytest.param(
            GOOD + '[[extra_mounts]]\nhost = "/"\ncontainer = "/host"\n', ["recipe_allowed_mounts"], id="mount of /"
        ),
        pytest.param(
            GOOD + '[[extra_mounts]]\nhost = "/var/run/docker.sock"\ncontainer = "/s"\n',
            ["recipe_allowed_mounts"],
            id="mount of the Docker socket",
        ),
        pytest.param(
            GOOD + '[[extra_mounts]]\nhost = "~/../x"\ncontainer = "/x"\n', ["~/../x"], id="mount that leaves home"
        ),
    ],
)
def test_recipe(fresh_cluster: Cluster, spoiled: Callable[[str], str], text: str, messages: list[str]) -> None:
    """A spoiled recipe is refused by name of file and key, without a traceback."""
    run = fresh_cluster.play("serve.yml", "-e", f"recipe={spoiled(text)}")
    assert run.rc != 0
    assert "Traceback" not in run.text
    assert "recipe.toml" in run.message
    for message in messages:
        assert message in run.message


def test_five_errors_at_once(fresh_cluster: Cluster, spoiled: Callable[[str], str]) -> None:
    """All of them are told in one run."""
    text = GOOD.replace('"vllm"', '"tgi"').replace("required_nodes = 2", "required_nodes = 0") + (
        'colour = "red"\nshm_size = "many"\n[env]\nDEBUG = true\n'
    )
    run = fresh_cluster.play("serve.yml", "-e", f"recipe={spoiled(text)}")
    assert run.rc != 0
    for key in ("engine", "required_nodes", "colour", "shm_size", "env.DEBUG"):
        assert key in run.message


def test_a_huge_recipe(fresh_cluster: Cluster, spoiled: Callable[[str], str]) -> None:
    """100 MB are refused by their size."""
    run = fresh_cluster.play("serve.yml", "-e", f"recipe={spoiled('#' * 100_000_000)}")
    assert run.rc != 0
    assert "Traceback" not in run.text
    assert "100000000 bytes" in run.message.replace(",", "").replace("_", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["-e", "recipe=dsv41-flash-9x"], "dsv41-flash-8x", id="no such recipe, near miss"),
        pytest.param(["-e", "recipe=/etc"], "recipe.toml", id="a folder that is no recipe"),
        pytest.param([], "Which recipe?", id="no recipe at all"),
        pytest.param(["-e", f"recipe={FLASH}", "-l", "dgx1,dgx2"], "expected 8 nodes", id="fewer nodes than required"),
        pytest.param(["-e", f"recipe={FLASH}", "-e", "nodes=dgx1,dgx1"], "dgx1 stands 2 times", id="a node twice"),
        pytest.param(["-e", f"recipe={FLASH}", "-e", "nodes=dgx9"], "dgx9", id="a node that is not there"),
        pytest.param(["-e", f"recipe={FLASH}", "-e", '{"serve_set": {"nnodes": 2}}'], "nnodes", id="set an owned flag"),
        pytest.param(["-e", f"recipe={FLASH}", "-e", "serve_port=none"], "serve_port", id="a port that is no number"),
    ],
)
def test_command_line(fresh_cluster: Cluster, words: list[str], message: str) -> None:
    """What is asked cannot be done, and the message says so."""
    run = fresh_cluster.play("serve.yml", *words)
    assert run.rc != 0
    assert "Traceback" not in run.text
    assert message in run.message, run.text


def test_jinja_in_a_recipe_stays_text(fresh_cluster: Cluster, spoiled: Callable[[str], str]) -> None:
    """A recipe is data from strangers: nothing in it is evaluated, here or on a node."""
    text = GOOD + "[env]\nGREETING = \"{{ lookup('pipe', 'touch /tmp/pwned') }}$(id)\"\n"
    run = fresh_cluster.play("plan.yml", "-e", f"recipe={spoiled(text)}")
    assert run.rc == 0, run.text
    assert "GREETING={{ lookup(" in run.text
    assert not Path("/tmp/pwned").exists()  # noqa: S108 - the file that must not be


def test_a_node_out_of_reach(fresh_cluster: Cluster) -> None:
    """The node is named with a cure; all others were only looked at."""
    fresh_cluster.on("dgx3", "sh", "-c", "systemctl stop ssh; pkill -u spark sshd || true")
    try:
        run = fresh_cluster.play("serve.yml", "-e", f"recipe={FLASH}")
    finally:
        fresh_cluster.on("dgx3", "systemctl", "start", "ssh")
    assert run.rc != 0
    assert "dgx3: cannot be reached: " in run.message, run.text
    assert "cure: see that 'ssh dgx3' works" in run.message


def test_a_node_without_docker(fresh_cluster: Cluster) -> None:
    """Its problem is told with the cure."""
    fresh_cluster.on("dgx2", "systemctl", "stop", "docker.service", "docker.socket")
    try:
        run = fresh_cluster.play("serve.yml", "-e", f"recipe={FLASH}")
    finally:
        fresh_cluster.on("dgx2", "systemctl", "start", "docker.service")
    assert run.rc != 0
    assert "dgx2: " in run.message, run.text
    assert "cure: run provision.yml (role container_runtime)" in run.message


@pytest.mark.parametrize("playbook", ["serve", "plan", "status", "provision", "logs", "stop"])
def test_an_empty_inventory(playbook: str, tmp_path: Path) -> None:
    """No node at all is an error, not a run that did nothing."""
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"sparks": {"hosts": {}}}), encoding="utf-8")
    cluster = Cluster("none", 1, 0)
    cluster.inventory = inventory
    run = cluster.play(f"{playbook}.yml", "-e", f"recipe={FLASH}", cwd=ROOT)
    assert run.rc != 0
    assert "The inventory has no node in its group sparks." in run.message
