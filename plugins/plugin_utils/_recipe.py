# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a recipe's text to the facts that the plugins share. Private to the collection.

All problems of a recipe are told at once: what the schema refuses is set aside, and the rest is checked all the same.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._container import CACHE_TARGET
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem, RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._flags import (
    JSON_FLAGS,
    Flag,
    apply_set,
    group_flags,
    json_problems,
    read_json,
    settle_owned,
    split_words,
)
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._mounts import expand_mounts, normal_path, refusal
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._schema import (
    KeyPath,
    Schema,
    describe,
    parse_toml,
    violations,
)
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Mount, Recipe

DEFAULTS = {"tensor_parallel_size": 1, "pipeline_parallel_size": 1, "distributed_backend": "mp"}
RECIPE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
RECIPE_ID_RULE = 'a name of letters, digits, "_", "." and "-", at most 100 long: containers are called after it'
SIZE = re.compile(r"([0-9.]+) ?([kmgt]?)i?b?", re.IGNORECASE)
LARGEST_SIZE = 1024**5
UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
PARKED_NAME = re.compile(r"\[(?:DEFERRED|PARKED)\]\Z")
OWNED_ENV = {
    "VLLM_HOST_IP": "a variable that differs from rank to rank",
    "HF_HOME": "a variable of the launcher, which mounts the node's cache there",
}
SECRET_ENV = {"VLLM_API_KEY": "serve_api_key", "HF_TOKEN": "serve_hf_token", "HUGGING_FACE_HUB_TOKEN": "serve_hf_token"}
# Images read some settings from the environment; these prefixes and names stand for the flag of the same meaning.
ENV_PREFIXES = ("VLLM_", "DSPARK_")
ENV_MEANINGS = {"dcp_size": "decode_context_parallel_size"}
TRUTHS = {"1": "true", "0": "false", "on": "true", "off": "false", "yes": "true", "no": "false"}
COUNT = re.compile(r"[1-9][0-9]{0,5}")
VALUE_RULES: dict[str, tuple[Callable[[str], bool], str]] = {
    "data-parallel-size": (lambda text: bool(COUNT.fullmatch(text)), "an integer of 1 or more"),
    "decode-context-parallel-size": (lambda text: bool(COUNT.fullmatch(text)), "an integer of 1 or more"),
    "gpu-memory-utilization": (lambda text: 0 < float(text) <= 1, "a number above 0 and at most 1"),
    "host": (bool, "an address"),
    "port": (lambda text: bool(COUNT.fullmatch(text)) and int(text) <= 65535, "a port from 1 to 65535"),
    "served-model-name": (bool, "one or more names"),
}
# Each use of these counts; of any other flag vLLM takes the last.
REPEATABLE = ("middleware",)


def expand_recipe(
    text: str, path: str, schema: Schema, serve_set: Mapping[Any, Any], allowed_mounts: Collection[str]
) -> Recipe:
    """Return the facts of the recipe whose file ``path`` holds ``text``.

    Raises:
        RecipeError: with every problem of the recipe, of ``serve_set`` and of the two together.
    """
    data = parse_toml(text, path)
    wrong = violations(data, schema, path)
    problems = _id_problems(path) + [problem for found in wrong.values() for problem in found]
    sound = DEFAULTS | {key: value for key, value in data.items() if not _touched(wrong, (key,))}
    flags, flag_problems = _flags(sound, serve_set, path)
    mounts, mount_problems = _mounts(data, wrong, allowed_mounts, path)
    problems += flag_problems + mount_problems
    problems += _model_problems(sound, allowed_mounts, path)
    problems += _env_problems(data, path)
    problems += _size_problems(sound, path)
    problems += _parallel_problems(sound, flags, path)
    if problems:
        raise RecipeError(problems)
    return _facts(sound, path, flags, mounts)


def _touched(wrong: Mapping[KeyPath, Any], path: KeyPath) -> bool:
    return any(found[: len(path)] == path for found in wrong)


def _id_problems(path: str) -> list[Problem]:
    name = recipe_id(path)
    if RECIPE_ID.fullmatch(name):
        return []
    return [Problem(path, f"the folder's name {describe(name)}", RECIPE_ID_RULE, "rename the folder")]


def recipe_id(path: str) -> str:
    """Return the id of a recipe by its file: the name of the folder."""
    return posixpath.basename(posixpath.dirname(path))


def _flags(sound: Mapping[str, Any], serve_set: Mapping[Any, Any], path: str) -> tuple[list[Flag], list[Problem]]:
    words, problems = split_words(sound.get("args", []), path)
    kept, owned = settle_owned(group_flags(words), {key: sound[key] for key in DEFAULTS if key in sound})
    flags, refused = apply_set(kept, serve_set)
    # With a string missing in between, what looks like a flag's value may be another's.
    return flags, problems + owned + refused + ([] if problems else json_problems(flags))


def _mounts(
    data: Mapping[str, Any], wrong: Mapping[KeyPath, Any], allowed: Collection[str], path: str
) -> tuple[list[Mount], list[Problem]]:
    if ("extra_mounts",) in wrong:
        return [], []
    tables = {
        place: table
        for place, table in enumerate(data.get("extra_mounts", []))
        if not _touched(wrong, ("extra_mounts", place))
    }
    taken = {CACHE_TARGET: "the model cache", "/dev/shm": "the shared memory"}  # noqa: S108
    if not _touched(wrong, ("model",)) and str(data.get("model", "")).startswith("/"):
        taken[normal_path(data["model"])] = "the model"
    return expand_mounts(tables, allowed, taken, path)


def _model_problems(sound: Mapping[str, Any], allowed: Collection[str], path: str) -> list[Problem]:
    model = sound.get("model", "")
    return refusal(f"{path}: model", model, allowed) if model.startswith("/") else []


def _env_problems(data: Mapping[str, Any], path: str) -> list[Problem]:
    tables = {"env": data.get("env")}
    profiles = data.get("nccl")
    if isinstance(profiles, dict):
        tables |= {f"nccl.{name}": table for name, table in profiles.items()}
    return [
        Problem(f"{path}: {name}.{key}", reason, "no such key", "remove it")
        for name, table in tables.items()
        if isinstance(table, dict)
        for key, reason in OWNED_ENV.items()
        if key in table
    ]


def _size_problems(sound: Mapping[str, Any], path: str) -> list[Problem]:
    size = sound.get("shm_size")
    if size is None or 0 < size_bytes(size) <= LARGEST_SIZE:
        return []
    return [Problem(f"{path}: shm_size", describe(size), "a size above zero and at most 1024t")]


def size_bytes(size: int | str) -> int:
    """Return a size as Docker counts it: units of 1024, fractions of a byte dropped."""
    if isinstance(size, int):
        return size
    match = SIZE.fullmatch(size)
    if match is None:
        return 0
    return int(Decimal(match[1]) * 1024 ** UNITS[match[2].lower()])


def _parallel_problems(sound: Mapping[str, Any], flags: Sequence[Flag], path: str) -> list[Problem]:
    problems = list(_value_problems(flags))
    data_parallel = _integer(_last(flags, "data-parallel-size"), 1)
    sizes = [sound.get("tensor_parallel_size"), sound.get("pipeline_parallel_size"), data_parallel]
    nodes = sound.get("required_nodes")
    if None not in sizes and nodes is not None:
        product = math.prod(int(size) for size in sizes if size is not None)
        if product != nodes:
            found = (
                f"{nodes}, while tensor x pipeline x data parallel size is {' x '.join(map(str, sizes))} = {product}"
            )
            problems.append(Problem(f"{path}: required_nodes", found, "equal numbers: a node has one GPU"))
    context = _last(flags, "decode-context-parallel-size")
    ways, tensor = _integer(context, 1), sizes[0]
    if context and ways and tensor and tensor % ways:
        found = f"{context.spelled} {ways}"
        problems.append(Problem(context.place, found, f"a divisor of tensor_parallel_size, which is {tensor}"))
    return problems


def _value_problems(flags: Sequence[Flag]) -> Iterator[Problem]:
    for flag in flags:
        if flag.name not in VALUE_RULES:
            continue
        holds, expected = VALUE_RULES[flag.name]
        try:
            good = bool(flag.values) and holds(flag.values[0].text)
        except ValueError:
            good = False
        if not good:
            found = f"{flag.spelled} {describe(flag.values[0].text)}" if flag.values else f"{flag.spelled} alone"
            yield Problem(flag.values[0].place if flag.values else flag.place, found, expected)


def _last(flags: Iterable[Flag], name: str) -> Flag | None:
    found = [flag for flag in flags if flag.name == name]
    return found[-1] if found else None


def _integer(flag: Flag | None, default: int) -> int | None:
    """A flag's integer; None when it has no sound one, which is a problem told elsewhere."""
    if flag is None:
        return default
    text = flag.values[0].text if flag.values else ""
    return int(text) if COUNT.fullmatch(text) else None


def _facts(data: Mapping[str, Any], path: str, flags: Sequence[Flag], mounts: list[Mount]) -> Recipe:
    model = normal_path(data["model"]) if data["model"].startswith("/") else data["model"]
    last = {flag.name: [value.text for value in flag.values] for flag in flags}
    parked, reason = _parking(data)
    environment = _texts(data.get("env", {}))
    return {
        "id": recipe_id(path),
        "path": path,
        "engine": data["engine"],
        "name": data["name"],
        "parked": parked,
        "parked_reason": reason,
        "docker_image": data["docker_image"],
        "docker_image_dir": data.get("docker_image_dir"),
        "model": model,
        "required_nodes": data["required_nodes"],
        "tensor_parallel_size": data["tensor_parallel_size"],
        "pipeline_parallel_size": data["pipeline_parallel_size"],
        "data_parallel_size": int(last.get("data-parallel-size", ["1"])[0]),
        "distributed_backend": data["distributed_backend"],
        "shm_size": size_bytes(data["shm_size"]) if "shm_size" in data else None,
        "entrypoint": data.get("entrypoint"),
        "args": [word.text for flag in flags if flag.name not in ("host", "port") for word in flag.words],
        "host": last["host"][0] if "host" in last else None,
        "port": int(last["port"][0]) if "port" in last else None,
        "served_names": last.get("served-model-name", [model]),
        "gpu_memory_utilization": float(last["gpu-memory-utilization"][0])
        if "gpu-memory-utilization" in last
        else None,
        "mods": data.get("mods", {}).get("commands", []),
        "env": environment,
        "mounts": mounts,
        "nccl": {name: _texts(table) for name, table in data.get("nccl", {}).items()},
        "warnings": [*_flag_warnings(flags, data.get("args", [])), *_env_warnings(environment, flags)],
    }


def _texts(table: Mapping[str, str | float]) -> dict[str, str]:
    return {key: str(value) for key, value in table.items()}


def _parking(data: Mapping[str, Any]) -> tuple[bool, str]:
    mark = PARKED_NAME.search(data["name"].rstrip())
    if data.get("status") != "parked" and not mark:
        return False, ""
    return True, data.get("status_reason", f"its name ends in {mark[0]}" if mark else "")


def _flag_warnings(flags: Sequence[Flag], args: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(args, start=1):
        if not text.strip():
            yield f"args[{number}] is empty and gives no word; an empty value is written \"''\""
    counts = Counter(flag.name for flag in flags if flag.name)
    for name, count in counts.items():
        if count > 1 and name not in REPEATABLE and "." not in name:
            yield f"--{name} stands {count} times; vLLM takes the last"
    for name in dict.fromkeys(name.partition(".")[0] for name in counts if "." in name):
        if name in counts:
            yield f"--{name} stands both as JSON and in pieces (--{name}.key); vLLM takes the pieces alone"
    if "config" in counts:
        yield "--config reads flags from a file in the container, which nothing here checks"


def _env_warnings(env: Mapping[str, str], flags: Sequence[Flag]) -> Iterator[str]:
    for key, option in SECRET_ENV.items():
        if env.get(key):
            yield f"env.{key} is a secret in a recipe; set {option} in the inventory instead"
    said = _said(flags)
    for key, value in env.items():
        for name in _meanings(key):
            if value and name in said and not _same(value, said[name][1]):
                flag, told = said[name]
                yield f"env.{key} says {value} and {flag} says {told}"


def _meanings(key: str) -> list[str]:
    names = [key, *(key.removeprefix(prefix) for prefix in ENV_PREFIXES if key.startswith(prefix))]
    return [ENV_MEANINGS.get(name.lower(), name.lower()) for name in names]


def _said(flags: Sequence[Flag]) -> dict[str, tuple[str, str]]:
    """What the flags say, by meaning: the flag as people know it, and its value."""
    said: dict[str, tuple[str, str]] = {}
    for flag in flags:
        value = flag.values[0].text if flag.values else "true"
        if flag.name in JSON_FLAGS:
            data = read_json(flag.name, value) if value.lstrip().startswith("{") else {}
            said |= {
                key: (f"--{flag.name} ({key})", str(part).lower() if isinstance(part, bool) else str(part))
                for key, part in data.items()
                if isinstance(part, str | int | float)
            }
        else:
            said[flag.name.replace("-", "_")] = (f"--{flag.name}", value)
    return said


def _same(one: str, other: str) -> bool:
    one, other = one.strip().lower(), other.strip().lower()
    try:
        return float(one) == float(other)
    except ValueError:
        return TRUTHS.get(one, one) == TRUTHS.get(other, other)
