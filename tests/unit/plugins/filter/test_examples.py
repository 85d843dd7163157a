# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of the filters as people read them, run by one real ansible-playbook; and how errors look there."""

from __future__ import annotations

import copy
import importlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.dgxspark.vllm.plugins.filter.ranks import ranks as ranks_filter

ROOT = Path(__file__).resolve().parents[4]
# The copy that ansible-test works in has no link tree, it stands in one.
COLLECTIONS = ROOT.parents[2] if ROOT.parents[1].name == "ansible_collections" else ROOT / ".collections"
FILTERS = [
    "dgxspark.vllm.ranks",
    "dgxspark.vllm.container",
    "dgxspark.vllm.docker_argv",
    "dgxspark.vllm.docker_run",
    "dgxspark.vllm.problems",
    "dgxspark.vllm.deployment",
    "dgxspark.vllm.status",
]
SAFE = {"ansible.builtin.debug", "ansible.builtin.assert", "ansible.builtin.set_fact"}
RECIPE = "dsv4-vision-aiden-4x"
# The example of the filter container loads a recipe for one node by its id.
TINY = 'engine = "vllm"\nname = "Tiny"\ndocker_image = "tiny:local"\nmodel = "acme/tiny"\nrequired_nodes = 1\n'


def example_tasks(name: str) -> list[dict[str, Any]]:
    """Return a filter's examples; what would change a node shows its arguments instead."""
    plugin = importlib.import_module(f"ansible_collections.dgxspark.vllm.plugins.filter.{name.rpartition('.')[2]}")
    tasks: list[dict[str, Any]] = yaml.safe_load(plugin.EXAMPLES)
    for task in tasks:
        for module in [key for key in task if key.count(".") >= 2 and key not in SAFE]:
            task["ansible.builtin.debug"] = {"msg": task.pop(module)}
    return tasks


def play(folder: Path, tasks: list[dict[str, Any]], variables: dict[str, Any]) -> list[Any]:
    """Run tasks on this machine; the result of each."""
    (folder / "variables.json").write_text(json.dumps(variables), encoding="utf-8")
    book = [{"hosts": "localhost", "gather_facts": False, "vars_files": ["variables.json"], "tasks": tasks}]
    (folder / "play.yml").write_text(yaml.safe_dump(book), encoding="utf-8")
    (folder / "ansible.cfg").touch()
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
    }
    answer = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", "play.yml"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return [task["hosts"]["localhost"] for task in json.loads(answer.stdout)["plays"][0]["tasks"]]


def test_examples_run(cluster: Callable[..., Any], tmp_path: Path) -> None:
    made = cluster(RECIPE)
    made.stand()
    (tmp_path / "own" / "tiny-cpu-1x").mkdir(parents=True)
    (tmp_path / "own" / "tiny-cpu-1x" / "recipe.toml").write_text(TINY, encoding="utf-8")
    variables = {
        "recipe_path": [str(tmp_path / "own")],
        "recipe": made.recipe,
        "ranks": made.ranks,
        "looks": made.looks,
        "settings": made.settings,
        "options": made.options,
        "container": made.deploy()["ranks"][0]["spec"],
        "facts": made.nodes["dgx1"],
    }
    examples = {name: example_tasks(name) for name in FILTERS}
    tasks = [task for name in FILTERS for task in examples[name]]
    results = iter(play(tmp_path, copy.deepcopy(tasks), variables))
    told = {name: [next(results) for _task in examples[name]] for name in FILTERS}
    deployed = json.loads(json.dumps(made.deploy()))
    assert told["dgxspark.vllm.ranks"][0]["msg"] == "dgx1"
    assert told["dgxspark.vllm.container"][0]["msg"] == "tiny-cpu-1x-r0"
    assert told["dgxspark.vllm.docker_argv"][0]["msg"]["arguments"] == deployed["ranks"][0]["arguments"]
    assert told["dgxspark.vllm.docker_run"][0]["msg"] == deployed["ranks"][0]["run_line"]
    # What came through Ansible is what the core decided.
    assert told["dgxspark.vllm.deployment"][0]["ansible_facts"]["deployment"] == deployed
    assert told["dgxspark.vllm.problems"][0]["msg"] == told["dgxspark.vllm.status"][0]["msg"] == "All assertions passed"


def test_errors_become_ansibles_own_kind(recipe: Callable[..., Any]) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        ranks_filter(recipe(RECIPE), "dgx1,dgx1,dgx2", ["dgx1", "dgx2", "dgx3"])
    assert str(caught.value).splitlines() == [
        "nodes: dgx1 stands 2 times, expected each node once; "
        "name each node once: a node has one GPU and takes one rank",
        f"recipes/{RECIPE}/recipe.toml: required_nodes: 2 nodes (dgx1, dgx2), expected 4 nodes; "
        "add nodes to the inventory group sparks, or choose a recipe for fewer nodes",
    ]


def test_a_node_that_is_not_in_the_inventory(recipe: Callable[..., Any]) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        ranks_filter(recipe(RECIPE), "dgx9", ["dgx1"])
    assert str(caught.value) == "nodes: dgx9, expected a node of the inventory group sparks, which has dgx1"
