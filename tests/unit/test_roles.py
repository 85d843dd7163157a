# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role keeps its contract: spec and defaults say the same, and scenario, tests and pointer are there."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.parents[1].name for path in ROOT.glob("roles/*/meta/main.yml"))
TASK_FILES = sorted(ROOT.glob("roles/*/tasks/**/*.yml"))
TYPES: dict[str, tuple[type, ...]] = {
    "raw": (object,),
    "str": (str,),
    "path": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
}
Options = dict[str, dict[str, Any]]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def entry_points(role: str) -> dict[str, dict[str, Any]]:
    spec: dict[str, dict[str, Any]] = load(ROOT / "roles" / role / "meta/argument_specs.yml")["argument_specs"]
    return spec


def options(role: str) -> Options:
    """Return the options of all entry points by name."""
    found: Options = {}
    for entry in entry_points(role).values():
        found |= entry.get("options", {})
    return found


def defaults(role: str) -> dict[str, Any]:
    return load(ROOT / "roles" / role / "defaults/main.yml") or {}


def fits(value: object, kind: str) -> bool:
    """Return whether a value has a spec's type; a template has it when it is rendered."""
    if isinstance(value, str) and value.startswith("{{"):
        return True
    # To Python a bool is a number.
    return isinstance(value, TYPES[kind]) and (kind in ("bool", "raw") or not isinstance(value, bool))


def test_there_are_roles() -> None:
    assert "earlyoom" in ROLES
    assert {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()} == set(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_spec_and_defaults_are_equal(role: str) -> None:
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert documented == defaults(role)
    # Equality alone would take 1 for true.
    assert {name: type(value) for name, value in documented.items()} == {
        name: type(value) for name, value in defaults(role).items()
    }


@pytest.mark.parametrize("role", ROLES)
def test_every_option_is_typed_and_described(role: str) -> None:
    for name, option in options(role).items():
        assert option.get("description"), name
        assert option.get("type") in TYPES, name
        assert ("elements" in option) == (option["type"] == "list"), name
        assert not (option.get("required") and "default" in option), name
    for entry in entry_points(role).values():
        assert entry.get("short_description")
        assert entry.get("description")


@pytest.mark.parametrize("role", ROLES)
def test_defaults_have_the_documented_type(role: str) -> None:
    for name, value in defaults(role).items():
        option = options(role)[name]
        assert fits(value, option["type"]), name
        if isinstance(value, list):
            assert all(fits(element, option["elements"]) for element in value), name
        if "choices" in option:
            assert value in option["choices"], name


@pytest.mark.parametrize("role", ROLES)
def test_names_begin_with_the_role(role: str) -> None:
    variables = load(ROOT / "roles" / role / "vars/main.yml") or {}
    assert [name for name in options(role) if not name.startswith(f"{role}_")] == []
    assert [name for name in variables if not name.startswith(f"_{role}_")] == []
    tasks = "\n".join(read(path) for path in TASK_FILES if path.parents[1].name == role)
    registered = re.findall(r"register: (\S+)", tasks)
    assert [name for name in registered if not name.startswith(f"__{role}_")] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_option_is_used(role: str) -> None:
    # A lookup may read a variable of its own accord.
    folders = [ROOT / "roles" / role / name for name in ("tasks", "vars", "handlers", "templates")]
    files = [path for folder in [*folders, ROOT / "plugins/lookup"] for path in folder.rglob("*") if path.is_file()]
    text = "\n".join(read(path) for path in files if path.suffix != ".pyc")
    assert [name for name in options(role) if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_entry_point_has_its_tasks(role: str) -> None:
    assert [name for name in entry_points(role) if not (ROOT / f"roles/{role}/tasks/{name}.yml").is_file()] == []


@pytest.mark.parametrize("role", ROLES)
def test_has_a_scenario_with_tests(role: str) -> None:
    folder = ROOT / "roles" / role / "molecule/default"
    assert load(folder / "molecule.yml")["scenario"]["name"] == role
    assert re.search(r"^def test_\w+\(host: Host", read(folder / f"tests/test_{role}.py"), re.MULTILINE)


@pytest.mark.parametrize("role", ROLES)
def test_readme_points_to_the_documentation(role: str) -> None:
    readme = read(ROOT / "roles" / role / "README.md")
    assert f"`ansible-doc -t role dgxspark.vllm.{role}`" in readme
    assert len(readme.splitlines()) <= 20


def test_scenarios_have_networks_of_their_own() -> None:
    """As .config/molecule/create.yml reckons them, so that scenarios can run side by side."""
    networks = [101 + int(hashlib.sha256(role.encode()).hexdigest()[:4], 16) % 99 for role in ROLES]
    assert len(set(networks)) == len(ROLES)


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: str(path.relative_to(ROOT / "roles")))
def test_tasks_file_is_short(path: Path) -> None:
    lines = [line for line in read(path).splitlines() if line.strip()]
    assert len(lines) <= (40 if path.name == "main.yml" else 60)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
