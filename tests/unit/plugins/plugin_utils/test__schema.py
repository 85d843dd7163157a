# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TOML text to a tree, and what the schema says about it in people's words."""

# Messages stand whole, so that they can be searched for.
# ruff: noqa: E501

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._schema import describe, key_path, parse_toml, violations
from jsonschema import Draft202012Validator

SCHEMA = json.loads((Path(__file__).parents[4] / "recipes" / "recipe.schema.json").read_text(encoding="utf-8"))
GOOD: dict[str, Any] = {"engine": "vllm", "name": "n", "docker_image": "i:1", "model": "m", "required_nodes": 1}


def told(data: dict[str, Any]) -> list[str]:
    return [str(problem) for problems in violations(data, SCHEMA, "r").values() for problem in problems]


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_every_place_has_a_title_and_every_key_a_description() -> None:
    leaves = [*SCHEMA["$defs"].values(), *SCHEMA["properties"].values()]
    assert [leaf for leaf in leaves if "title" not in leaf and "$ref" not in leaf] == []
    assert [key for key, leaf in SCHEMA["properties"].items() if "description" not in leaf] == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"engine": "sglang"}, 'r: engine: "sglang", expected "vllm"'),
        ({"name": ""}, 'r: name: "", expected a text that is not empty'),
        ({"name": " \n"}, 'r: name: " \\n", expected a text that is not empty'),
        ({"name": 5}, "r: name: the number 5, expected a text that is not empty"),
        ({"name": "a\0b"}, 'r: name: "a\\u0000b", expected a text that is not empty'),
        (
            {"docker_image": "--privileged"},
            'r: docker_image: "--privileged", expected a Docker image such as "vllm/vllm-openai:v0.32.0"',
        ),
        ({"docker_image": "a b"}, 'r: docker_image: "a b", expected a Docker image such as "vllm/vllm-openai:v0.32.0"'),
        (
            {"docker_image": "a:1\n"},
            'r: docker_image: "a:1\\n", expected a Docker image such as "vllm/vllm-openai:v0.32.0"',
        ),
        ({"docker_image_dir": "../x"}, 'r: docker_image_dir: "../x", expected a relative folder without ".."'),
        ({"docker_image_dir": "a/.."}, 'r: docker_image_dir: "a/..", expected a relative folder without ".."'),
        ({"docker_image_dir": "/x"}, 'r: docker_image_dir: "/x", expected a relative folder without ".."'),
        (
            {"model": "--api-key"},
            'r: model: "--api-key", expected a Hugging Face id such as "deepseek-ai/DeepSeek-V4.1-Flash" or an absolute path',
        ),
        (
            {"model": "a/b/c"},
            'r: model: "a/b/c", expected a Hugging Face id such as "deepseek-ai/DeepSeek-V4.1-Flash" or an absolute path',
        ),
        ({"required_nodes": "8"}, 'r: required_nodes: "8", expected an integer from 1 to 1024'),
        ({"required_nodes": 8.0}, "r: required_nodes: the number 8.0, expected an integer from 1 to 1024"),
        ({"required_nodes": True}, "r: required_nodes: true, expected an integer from 1 to 1024"),
        ({"required_nodes": 0}, "r: required_nodes: the number 0, expected an integer from 1 to 1024"),
        ({"required_nodes": 1 << 70}, "r: required_nodes: a number of 71 bits, expected an integer from 1 to 1024"),
        (
            {"required_nodes": datetime.date(2026, 1, 1)},
            "r: required_nodes: a date or a time, expected an integer from 1 to 1024",
        ),
        ({"distributed_backend": "nccl"}, 'r: distributed_backend: "nccl", expected "mp" or "ray"'),
        ({"shm_size": "32gbb"}, 'r: shm_size: "32gbb", expected a size such as "32gb", "1g" or a number of bytes'),
        ({"shm_size": -1}, 'r: shm_size: the number -1, expected a size such as "32gb", "1g" or a number of bytes'),
        ({"shm_size": 1.5}, 'r: shm_size: the number 1.5, expected a size such as "32gb", "1g" or a number of bytes'),
        ({"entrypoint": "vllm serve"}, 'r: entrypoint: "vllm serve", expected a list of one or more strings'),
        ({"entrypoint": []}, "r: entrypoint: a list, expected a list of one or more strings"),
        ({"args": ["--a", 8]}, "r: args[2]: the number 8, expected a string without NUL characters"),
        ({"args": {}}, "r: args: a table, expected a list of strings"),
        ({"mods": ["true"]}, "r: mods: a list, expected a table with commands"),
        (
            {"mods": {"comands": []}},
            "r: mods.comands: unknown key, expected a key of a table with commands; did you mean commands?",
        ),
        ({"env": {"A": True}}, 'r: env.A: true, expected a string or a number; write "1" or "0"'),
        ({"env": {"A": float("inf")}}, "r: env.A: the number inf, expected a string or a number"),
        ({"env": {"A": "x\0"}}, 'r: env.A: "x\\u0000", expected a string or a number'),
        (
            {"env": {"args": ["--a"]}},
            "r: env.args: a list, expected a string or a number; args is a key of the recipe itself: it stands before the first [table]",
        ),
        (
            {"env": {"a b": "1"}},
            'r: env."a b": the name "a b", expected a variable\'s name of letters, digits and "_", not starting with a digit',
        ),
        ({"nccl": {"all": {"A": False}}}, 'r: nccl.all.A: false, expected a string or a number; write "1" or "0"'),
        ({"nccl": {"NCCL_DEBUG": "INFO"}}, 'r: nccl.NCCL_DEBUG: "INFO", expected a table of environment variables'),
        ({"nccl": {"": {}}}, 'r: nccl."": the name "", expected a profile of letters, digits, "_" and "-"'),
        ({"extra_mounts": {}}, "r: extra_mounts: a table, expected a list of tables, each headed [[extra_mounts]]"),
        (
            {"extra_mounts": [{"host": "/a"}]},
            "r: extra_mounts[1].container: missing, expected an absolute path without commas, quotes and control characters",
        ),
        (
            {"extra_mounts": [{"host": "/a", "container": "/b"}, {"host": "a", "container": "/c"}]},
            'r: extra_mounts[2].host: "a", expected an absolute path or one that starts with "~/", without commas, quotes and control characters',
        ),
        (
            {"extra_mounts": [{"host": "/a", "container": "/b", "readonly": True}]},
            "r: extra_mounts[1].readonly: unknown key, expected a key of a table with host and container; did you mean read_only?",
        ),
        (
            {"extra_mounts": [{"host": "/a", "container": "/b", "read_only": "yes"}]},
            'r: extra_mounts[1].read_only: "yes", expected true or false',
        ),
        ({"status": "broken"}, 'r: status: "broken", expected "ready" or "parked"'),
        (
            {"tensor_paralel_size": 8},
            "r: tensor_paralel_size: unknown key, expected a key of a recipe; did you mean tensor_parallel_size?",
        ),
        ({"colour": "red"}, "r: colour: unknown key, expected a key of a recipe"),
    ],
)
def test_one_violation_is_one_line(change: dict[str, Any], line: str) -> None:
    assert told(GOOD | change) == [line]


def test_nothing_at_all_misses_what_is_required() -> None:
    assert told({}) == [
        'r: docker_image: missing, expected a Docker image such as "vllm/vllm-openai:v0.32.0"',
        'r: engine: missing, expected "vllm"',
        'r: model: missing, expected a Hugging Face id such as "deepseek-ai/DeepSeek-V4.1-Flash" or an absolute path',
        "r: name: missing, expected a text that is not empty",
        "r: required_nodes: missing, expected an integer from 1 to 1024",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"model": "/models/a b"},
        {"model": "gpt2"},
        {"docker_image": "registry.example:5000/a/B@sha256:" + "0" * 64},
        {"shm_size": 1},
        {"shm_size": "1.5 GiB"},
        {"shm_size": "512b"},
        {"env": {"A": 1, "B": 0.5, "C": ""}},
        {"nccl": {"ring-8": {"NCCL_SOCKET_IFNAME": "=enp1s0f0np0"}}},
        {"mods": {}},
        {"args": []},
        {"extra_mounts": [{"host": "~", "container": "/b", "create": False}]},
    ],
)
def test_what_the_schema_takes(change: dict[str, Any]) -> None:
    assert told(GOOD | change) == []


def test_violations_come_in_the_order_of_the_file() -> None:
    assert [line.split(":")[1] for line in told({"zz": 1, "engine": 1, "aa": 1} | GOOD | {"engine": 1})] == [
        " zz",
        " engine",
        " aa",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("engine = ", "r: line 1, column 10: broken TOML: Invalid value"),
        ('a = 1\nb = "x', "r: line 2, column 7: broken TOML: Unterminated string"),
        ("a = 1\n\na = 2\n", "r: line 3, column 6: broken TOML: Cannot overwrite a value"),
        ("[a]\nb = 1\n[a]\n", "r: line 3, column 3: broken TOML: Cannot declare ('a',) twice"),
        ("x = " + "[" * 5000, "r: lists or tables nested too deeply, expected a recipe"),
        ("x = " + "9" * 5000, "r: a number with too many digits, expected numbers of at most 64 bits"),
    ],
)
def test_broken_toml(text: str, line: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_toml(text, "r")
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x" * 61, '"' + "x" * 57 + '..."'),
        ("größe", '"größe"'),
        ("a\nb", '"a\\nb"'),
        (float("nan"), "the number nan"),
        ([1], "a list"),
        ({}, "a table"),
    ],
)
def test_describe(value: object, text: str) -> None:
    assert describe(value) == text


def test_key_path_counts_from_one() -> None:
    assert key_path(("extra_mounts", 1, "host")) == "extra_mounts[2].host"
    assert key_path(("env", "a.b")) == 'env."a.b"'
