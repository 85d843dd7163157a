# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a recipe's text to facts: the users' recipes, every cross-check, and no other exception whatever the text."""

# Messages stand whole, so that they can be searched for.
# ruff: noqa: E501

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._recipe import expand_recipe, size_bytes
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Recipe
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[4]
SCHEMA = json.loads((ROOT / "recipes" / "recipe.schema.json").read_text(encoding="utf-8"))
# As their users wrote them.
USERS = sorted((ROOT / "tests" / "unit" / "fixtures" / "recipes").glob("*/recipe.toml"))
FILE = "/r/small-2x/recipe.toml"
GOOD = """\
engine = "vllm"
name = "Small"
docker_image = "small:local"
model = "acme/small"
required_nodes = 2
tensor_parallel_size = 2
"""
CURE = "if the recipe may have it, name it in the inventory's recipe_allowed_mounts"


def expand(text: str, *, path: str = FILE, allowed: tuple[str, ...] = (), **changes: Any) -> Recipe:
    return expand_recipe(text, path, SCHEMA, {key.replace("_", "-"): value for key, value in changes.items()}, allowed)


def told(text: str, **options: Any) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        expand(text, **options)
    return str(caught.value).splitlines()


def test_the_smallest_recipe_gets_every_default() -> None:
    assert expand(GOOD) == {
        "id": "small-2x",
        "path": FILE,
        "engine": "vllm",
        "name": "Small",
        "parked": False,
        "parked_reason": "",
        "docker_image": "small:local",
        "docker_image_dir": None,
        "model": "acme/small",
        "required_nodes": 2,
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "distributed_backend": "mp",
        "shm_size": None,
        "entrypoint": None,
        "args": [],
        "host": None,
        "port": None,
        "served_names": ["acme/small"],
        "gpu_memory_utilization": None,
        "mods": [],
        "env": {},
        "mounts": [],
        "nccl": {},
        "warnings": [],
    }


def test_a_full_recipe() -> None:
    facts = expand(
        GOOD.replace("required_nodes = 2", "required_nodes = 4").replace("acme/small", "/models//small/")
        + """\
docker_image_dir = "small"
shm_size = "1.5g"
entrypoint = ["vllm", "serve"]
args = ["--data_parallel_size=2 -tp 2", "--host 0.0.0.0 --port=9000", "--served-model-name one 'two three'", "--gpu-memory-util 0.5"]
[mods]
commands = ["pip install x", "true"]
[env]
OMP_NUM_THREADS = 2
RATIO = 0.5
TEXT = "{{ lookup('pipe', 'id') }}"
[nccl.all]
NCCL_DEBUG = "INFO"
[nccl.ring]
NCCL_IB_TC = 104
[[extra_mounts]]
host = "~/cache"
container = "/root/.cache/vllm"
"""
    )
    assert facts["model"] == "/models/small"
    assert facts["shm_size"] == 1610612736
    assert facts["entrypoint"] == ["vllm", "serve"]
    assert facts["args"] == [
        "--data_parallel_size=2",
        "--served-model-name",
        "one",
        "two three",
        "--gpu-memory-util",
        "0.5",
    ]
    assert (facts["host"], facts["port"], facts["data_parallel_size"]) == ("0.0.0.0", 9000, 2)  # noqa: S104
    assert (facts["served_names"], facts["gpu_memory_utilization"]) == (["one", "two three"], 0.5)
    assert facts["mods"] == ["pip install x", "true"]
    assert facts["env"] == {"OMP_NUM_THREADS": "2", "RATIO": "0.5", "TEXT": "{{ lookup('pipe', 'id') }}"}
    assert facts["nccl"] == {"all": {"NCCL_DEBUG": "INFO"}, "ring": {"NCCL_IB_TC": "104"}}
    assert facts["mounts"] == [
        {"host": "~/cache", "container": "/root/.cache/vllm", "read_only": False, "create": True}
    ]
    assert facts["warnings"] == []


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.parent.name)
def test_recipes_of_users_load_unchanged(path: Path) -> None:
    facts = expand(path.read_text(encoding="utf-8"), path=str(path))
    assert facts["id"] == path.parent.name
    assert facts["shm_size"] == 32 << 30
    assert "--distributed-executor-backend" not in facts["args"]
    assert facts["warnings"] == []


@pytest.mark.parametrize("path", USERS, ids=lambda path: path.parent.name)
def test_shipped_recipes_say_what_their_users_wrote(path: Path) -> None:
    shipped = (ROOT / "recipes" / path.parent.name / "recipe.toml").read_text(encoding="utf-8")
    assert shipped.splitlines()[0] == "#:schema ../recipe.schema.json"
    ours = tomllib.loads(shipped)
    theirs = tomllib.loads(path.read_text(encoding="utf-8"))
    added = {key: ours.pop(key) for key in ("status", "status_reason") if key in ours}
    assert ours == theirs
    assert bool(added) == ("vision" in path.parent.name)


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*/recipe.toml")), ids=lambda path: path.parent.name)
def test_every_shipped_recipe_loads_without_warnings_and_names_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#:schema ../recipe.schema.json\n")
    assert expand(text, path=str(path))["warnings"] == []


@pytest.mark.parametrize(
    ("lines", "parked", "reason"),
    [
        ("", False, ""),
        ('status = "ready"', False, ""),
        ('status = "parked"', True, ""),
        ('status = "parked"\nstatus_reason = "too slow"', True, "too slow"),
        ('status_reason = "once too slow"', False, ""),
    ],
)
def test_parked_by_status(lines: str, parked: bool, reason: str) -> None:
    facts = expand(GOOD + lines)
    assert (facts["parked"], facts["parked_reason"]) == (parked, reason)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("A [PARKED]", "its name ends in [PARKED]"),
        ("A [DEFERRED]  ", "its name ends in [DEFERRED]"),
        ("A [PARKED] b", ""),
        ("A [parked]", ""),
    ],
)
def test_parked_by_name(name: str, reason: str) -> None:
    facts = expand(GOOD.replace("Small", name))
    assert (facts["parked"], facts["parked_reason"]) == (bool(reason), reason)


def test_five_errors_at_once() -> None:
    text = """\
engine = "vllm"
name = "Small"
docker_image = "small:local"
modle = "acme/small"
required_nodes = "2"
args = ["--headless", "--speculative-config", "{]"]
[[extra_mounts]]
host = "/var/run/docker.sock"
container = "/sock"
"""
    assert told(text) == [
        f"{FILE}: modle: unknown key, expected a key of a recipe; did you mean model?",
        f'{FILE}: required_nodes: "2", expected an integer from 1 to 1024',
        f'{FILE}: model: missing, expected a Hugging Face id such as "deepseek-ai/DeepSeek-V4.1-Flash" or an absolute path',
        f"{FILE}: args[1]: --headless, expected no flag of the launcher; remove it: the launcher gives each rank its own",
        (
            f"{FILE}: args[3]: --speculative-config with broken JSON at line 1, column 2: Expecting "
            "property name enclosed in double quotes, expected a JSON object; put the JSON into "
            "single quotes or into a string of its own"
        ),
        f'{FILE}: extra_mounts[1].host: "/var/run/docker.sock", which lies in /var/run, expected a path that gives nothing of the node away; {CURE}',
    ]


NODES = "expected equal numbers: a node has one GPU"


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (
            "pipeline_parallel_size = 2",
            f"required_nodes: 2, while tensor x pipeline x data parallel size is 2 x 2 x 1 = 4, {NODES}",
        ),
        (
            'args = ["-dp 3"]',
            f"required_nodes: 2, while tensor x pipeline x data parallel size is 2 x 1 x 3 = 6, {NODES}",
        ),
        ('args = ["-dp", "x"]', 'args[2]: -dp "x", expected an integer of 1 or more'),
        ('args = ["-dp", "1_0"]', 'args[2]: -dp "1_0", expected an integer of 1 or more'),
        ('args = ["-dcp 3"]', "args[1]: -dcp 3, expected a divisor of tensor_parallel_size, which is 2"),
        (
            'args = ["--decode-context-parallel-size"]',
            "args[1]: --decode-context-parallel-size alone, expected an integer of 1 or more",
        ),
        (
            'args = ["--gpu-memory-utilization", "1.01"]',
            'args[2]: --gpu-memory-utilization "1.01", expected a number above 0 and at most 1',
        ),
        (
            'args = ["--gpu_memory_utilization=0"]',
            'args[1]: --gpu_memory_utilization "0", expected a number above 0 and at most 1',
        ),
        (
            'args = ["--gpu-memory-utilization=nan"]',
            'args[1]: --gpu-memory-utilization "nan", expected a number above 0 and at most 1',
        ),
        ('args = ["--port 65536"]', 'args[1]: --port "65536", expected a port from 1 to 65535'),
        ('args = ["--host="]', 'args[1]: --host "", expected an address'),
        ('args = ["--served-model-name", "--x"]', "args[1]: --served-model-name alone, expected one or more names"),
        (
            'args = ["--tensor-parallel-size 4"]',
            (
                "args[1]: --tensor-parallel-size 4, expected 2, the value of tensor_parallel_size; "
                "remove the flag or change the key"
            ),
        ),
        (
            'args = ["--uds /tmp/s"]',
            (
                "args[1]: --uds, expected no flag of the launcher; remove it: the launcher asks the "
                "engine over HTTP whether it serves"
            ),
        ),
        (
            'args = ["--api-key x"]',
            (
                "args[1]: --api-key, expected no flag of the launcher; remove it: secrets never stand in "
                "argv; set serve_api_key in the inventory"
            ),
        ),
        (
            'args = ["--a", "\'b"]',
            (
                'args[2]: "\'b": no closing quotation, expected words as a POSIX shell reads them; '
                "close the quote, or write the value as a string of its own"
            ),
        ),
        ('shm_size = "0g"', 'shm_size: "0g", expected a size above zero and at most 1024t'),
        ('shm_size = "9999t"', 'shm_size: "9999t", expected a size above zero and at most 1024t'),
        (
            'env.VLLM_HOST_IP = "10.0.0.1"',
            "env.VLLM_HOST_IP: a variable that differs from rank to rank, expected no such key; remove it",
        ),
        (
            'env.HF_HOME = "/models"',
            "env.HF_HOME: a variable of the launcher, which mounts the node's cache there, expected no such key; remove it",
        ),
        (
            'nccl.all.VLLM_HOST_IP = "10.0.0.1"',
            "nccl.all.VLLM_HOST_IP: a variable that differs from rank to rank, expected no such key; remove it",
        ),
        (
            'extra_mounts = [{host = "/", container = "/x"}]',
            (
                'extra_mounts[1].host: "/", which is the whole file system, expected a path that gives '
                f"nothing of the node away; {CURE}"
            ),
        ),
        (
            'extra_mounts = [{host = "~/../x", container = "/x"}]',
            (
                'extra_mounts[1].host: "~/../x", which leaves the home folder, expected a path that '
                f"gives nothing of the node away; {CURE}"
            ),
        ),
        (
            'extra_mounts = [{host = "~/x", container = "/root/.cache/huggingface/"}]',
            (
                'extra_mounts[1].container: "/root/.cache/huggingface", where the model cache is '
                "mounted, expected a path of its own"
            ),
        ),
        (
            'extra_mounts = [{host = "~/x", container = "/dev/shm"}]',
            ('extra_mounts[1].container: "/dev/shm", where the shared memory is mounted, expected a path of its own'),
        ),
    ],
)
def test_cross_checks(lines: str, line: str) -> None:
    assert told(GOOD + lines) == [f"{FILE}: {line}"]


def test_a_model_path_is_a_mount_too() -> None:
    text = GOOD.replace("acme/small", "/models/../etc")
    assert told(text) == [
        f'{FILE}: model: "/models/../etc", which lies in /etc, expected a path that gives nothing of the node away; {CURE}'.replace(
            "lies in", "is"
        )
    ]
    assert expand(text, allowed=("/etc",))["model"] == "/etc"
    mount = 'extra_mounts = [{host = "~/x", container = "/models/a"}]'
    assert told(GOOD.replace("acme/small", "/models/a") + mount) == [
        f'{FILE}: extra_mounts[1].container: "/models/a", where the model is mounted, expected a path of its own'
    ]


@pytest.mark.parametrize("name", ["-x", "a b", ".hidden", "ä", "x" * 101])
def test_the_folders_name_becomes_the_containers(name: str) -> None:
    path = f"/r/{name}/recipe.toml"
    assert told(GOOD, path=path) == [
        f"{path}: the folder's name {json.dumps(name if len(name) < 61 else name[:57] + '...', ensure_ascii=False)}, "
        'expected a name of letters, digits, "_", "." and "-", at most 100 long: containers are called after it; rename the folder'
    ]


@pytest.mark.parametrize(
    ("lines", "warnings"),
    [
        ('args = ["--seed 1 --seed 2"]', ["--seed stands 2 times; vLLM takes the last"]),
        ('args = ["--middleware a --middleware b"]', []),
        ('args = ["--seed", ""]', ["args[2] is empty and gives no word; an empty value is written \"''\""]),
        (
            "args = ['--compilation-config', '{}', '-cc.mode=3']",
            [
                "--compilation-config stands both as JSON and in pieces (--compilation-config.key); vLLM takes the pieces alone"
            ],
        ),
        (
            'args = ["--config /x.yaml"]',
            ["--config reads flags from a file in the container, which nothing here checks"],
        ),
        ('env.HF_TOKEN = "x"', ["env.HF_TOKEN is a secret in a recipe; set serve_hf_token in the inventory instead"]),
        (
            'args = ["--max-cudagraph-capture-size 56"]\nenv.MAX_CUDAGRAPH_CAPTURE_SIZE = 48',
            ["env.MAX_CUDAGRAPH_CAPTURE_SIZE says 48 and --max-cudagraph-capture-size says 56"],
        ),
        (
            'args = [\'--speculative-config\', \'{"num_speculative_tokens": 5, "draft_sample_method": "greedy"}\']\n'
            'env.NUM_SPECULATIVE_TOKENS = "6"\nenv.DSPARK_DRAFT_SAMPLE_METHOD = "Greedy"',
            ["env.NUM_SPECULATIVE_TOKENS says 6 and --speculative-config (num_speculative_tokens) says 5"],
        ),
        ('args = ["-dcp 2"]\nenv.DCP_SIZE = 1', ["env.DCP_SIZE says 1 and --decode-context-parallel-size says 2"]),
        ('args = ["--async-scheduling"]\nenv.VLLM_ASYNC_SCHEDULING = "1"', []),
        ('args = ["--gpu-memory-utilization 0.9"]\nenv.GPU_MEMORY_UTILIZATION = "0.90"', []),
        ('args = ["--seed 1"]\nenv.SEED = ""', []),
    ],
)
def test_warnings(lines: str, warnings: list[str]) -> None:
    assert expand(GOOD + lines)["warnings"] == warnings


def test_serve_set_is_checked_with_the_recipe() -> None:
    text = GOOD + "args = ['--seed 1', '--speculative-config', '{]']"
    assert expand(text, speculative_config=None, seed=2, port=81)["args"] == ["--seed", "2"]
    assert told(text, speculative_config="{", tensor_parallel_size=4, gpu_memory_utilization=2)[0] == (
        "serve_set: tensor-parallel-size: --tensor-parallel-size, expected no flag of the launcher; change tensor_parallel_size in the recipe"
    )
    assert told(GOOD, speculative_config="{") == [
        (
            "serve_set: speculative-config: --speculative-config with broken JSON at line 1, column "
            "2: Expecting property name enclosed in double quotes, expected a JSON object; put the "
            "JSON into single quotes or into a string of its own"
        )
    ]


@pytest.mark.parametrize(
    ("size", "size_in_bytes"),
    [
        (5, 5),
        ("5", 5),
        ("512b", 512),
        ("1k", 1024),
        ("32gb", 32 << 30),
        ("1 GiB", 1 << 30),
        ("10.24g", 10995116277),
        ("2T", 2 << 40),
    ],
)
def test_sizes_are_dockers(size: int | str, size_in_bytes: int) -> None:
    assert size_bytes(size) == size_in_bytes


def facts_or_recipe_error(text: str, serve_set: Any = None) -> None:
    """Whatever else is raised fails the test."""
    problems: tuple[object, ...] = ()
    lines: list[str] = []
    try:
        json.dumps(expand_recipe(text, FILE, SCHEMA, serve_set or {}, []), ensure_ascii=False).encode("utf-8")
    except RecipeError as error:
        problems, lines = error.problems, str(error).split("\n")
        problems = problems or ("an error without a problem", "")
    assert len(lines) == len(problems)


SCALARS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["--headless", "-tp 2", "'", '"{', "{", "~/../x", "/", "//", "~", "--port", "-dp", "-cc", "{}", "0g", "--="]
    ),
    st.integers(),
    st.floats(),
    st.booleans(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
# Whatever a key of a recipe may be called, and a few that are none.
KEYS = st.sampled_from([*SCHEMA["properties"], "modle", "", "a.b", "ä"])


def toml(value: Any) -> str:
    """JSON is nearly TOML: tables and numbers that are no numbers differ."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@settings(max_examples=120, deadline=None)
@given(st.text())
def test_any_text(text: str) -> None:
    facts_or_recipe_error(text)


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_values(changes: dict[str, Any]) -> None:
    data = tomllib.loads(GOOD) | changes
    facts_or_recipe_error("\n".join(f"{toml(key)} = {toml(value)}" for key, value in data.items()))


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(USERS), st.integers(0, 200), st.sampled_from(["cut", "double", "swap"]), st.text(max_size=10))
def test_any_change_of_a_recipe(path: Path, number: int, way: str, text: str) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    place = number % len(lines)
    if way == "cut":
        del lines[place]
    elif way == "double":
        lines.insert(place, lines[place])
    else:
        lines[place] = text
    facts_or_recipe_error("\n".join(lines))


@settings(max_examples=120, deadline=None)
@given(
    st.lists(SCALARS.map(str), max_size=6), st.dictionaries(st.text(max_size=8) | KEYS, VALUES | st.none(), max_size=3)
)
def test_any_args_and_changes(args: list[str], changes: dict[str, Any]) -> None:
    facts_or_recipe_error(GOOD + f"args = {toml(args)}", changes)
