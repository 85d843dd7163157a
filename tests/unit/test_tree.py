# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the tree, held by machine: documentation, tests, directions of imports, names and sizes."""

from __future__ import annotations

import ast
import configparser
import graphlib
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
SOURCES = sorted(PLUGINS.glob("*/*.py"))
DOCUMENTED = [path for path in SOURCES if path.parent.name in ("lookup", "filter", "modules")]
PRIVATE = [path for path in SOURCES if path.parent.name in ("plugin_utils", "module_utils")]
OWN = "ansible_collections.dgxspark.vllm.plugins."
# Anything that a task may hold besides its module.
KEYWORDS = {
    "name", "vars", "when", "register", "loop", "loop_control", "delegate_to", "run_once", "become", "no_log",
    "changed_when", "check_mode", "tags",
}  # fmt: skip
# The core knows nothing of the disk and of time. These are rims between the core and the world, and say so themselves.
WORLD = {"os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "time", "urllib", "http"}
RIMS = {
    "_bring_up": {"time"},
    "_connections": {"time"},
    "_take_down": {"pathlib"},
}
ANSIBLE_RIMS = {"_connections"}
# Only real connections and a real Docker engine prove them: the integration tests use them on simulated Sparks.
WITHOUT_UNIT_TEST = {"_connections", "_image_engine"}
# Wider than the style's 40 lines: a table of options is long and plain.
LONGEST_FUNCTION = 60


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=label)


def load(path: Path) -> Any:
    return importlib.import_module(OWN + f"{path.parent.name}.{path.stem}")


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """Return the names of all modules that a file imports."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{label(path)}: imports are absolute"
            package = node.module or ""
            kinds = {f"{OWN}{kind}" for kind in ("plugin_utils", "module_utils")}
            found |= {f"{package}.{alias.name}" for alias in node.names} if package in kinds else {package}
    return found


def own_imports(path: Path) -> set[str]:
    return {name.removeprefix(OWN) for name in imports(path) if name.startswith(OWN)}


def test_there_is_something_to_hold() -> None:
    assert len(DOCUMENTED) > 10
    assert len(PRIVATE) > 15


@each(DOCUMENTED)
def test_documentation_has_the_files_name(path: Path) -> None:
    documentation = yaml.safe_load(load(path).DOCUMENTATION)
    assert documentation["module" if path.parent.name == "modules" else "name"] == path.stem
    assert documentation["short_description"]
    assert not documentation["short_description"].endswith(".")
    assert isinstance(yaml.safe_load(load(path).RETURN), dict)


@each(DOCUMENTED)
def test_examples_are_tasks(path: Path) -> None:
    tasks = yaml.safe_load(load(path).EXAMPLES)
    assert isinstance(tasks, list)
    for task in tasks:
        assert task["name"][0].isupper()
        modules = task.keys() - KEYWORDS
        assert len(modules) == 1, f"{task['name']}: {modules}"
        assert modules.pop().count(".") >= 2, f"{task['name']}: the module has its full name"
    assert f"dgxspark.vllm.{path.stem}" in load(path).EXAMPLES


def test_every_action_is_documented_as_a_module() -> None:
    assert {path.stem for path in PLUGINS.glob("action/*.py")} <= {path.stem for path in PLUGINS.glob("modules/*.py")}


@each([path for path in SOURCES if path.parent.name in ("filter", "lookup")])
def test_the_plugin_answers_to_its_files_name(path: Path) -> None:
    module = load(path)
    if path.parent.name == "filter":
        assert list(module.FilterModule().filters()) == [path.stem]
    else:
        assert hasattr(module, "LookupModule")


def users() -> str:
    """Return the text of everything that uses plugins: tests, roles, playbooks."""
    files = [
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("tests/**/*.yml"),
        *ROOT.glob("roles/**/*.yml"),
        *ROOT.glob("playbooks/*.yml"),
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in files if path != Path(__file__))


@each(SOURCES)
def test_every_plugin_is_tested_or_used(path: Path) -> None:
    kind, stem = path.parent.name, path.stem
    if (ROOT / "tests/unit/plugins" / kind / f"test_{stem}.py").exists() or stem in WITHOUT_UNIT_TEST:
        return
    if path in PRIVATE:
        assert re.search(rf"\b{stem}\b import|import {stem}\b", users()), "no test imports it"
    else:
        assert f"dgxspark.vllm.{stem}" in users(), "nothing uses it"


@each(SOURCES)
def test_a_private_file_says_that_it_is(path: Path) -> None:
    docstring = ast.get_docstring(tree(path))
    assert docstring, "a file is opened by what it is"
    if path in PRIVATE:
        assert path.stem.startswith("_")
        assert re.search(r"\bPrivate to th(e|is) collection\b", docstring)


@each(sorted(PLUGINS.glob("module_utils/*.py")))
def test_what_nodes_need_is_pure(path: Path) -> None:
    for name in imports(path):
        ours = name.startswith(f"{OWN}module_utils.")
        assert ours or name.partition(".")[0] in sys.stdlib_module_names, name


@each(sorted(PLUGINS.glob("plugin_utils/*.py")))
def test_the_core_knows_nothing_of_ansible_disk_or_time(path: Path) -> None:
    for name in imports(path):
        top = name.partition(".")[0]
        assert top != "ansible" or path.stem in ANSIBLE_RIMS, name
        if top == "ansible_collections":
            assert name.removeprefix(OWN).partition(".")[0] in ("plugin_utils", "module_utils"), name
        assert top not in WORLD - RIMS.get(path.stem, set()), name


@each(sorted(PLUGINS.glob("modules/*.py")))
def test_modules_import_what_is_shipped_to_nodes(path: Path) -> None:
    for name in imports(path):
        allowed = name.startswith(("ansible.module_utils.", f"{OWN}module_utils."))
        assert allowed or name.partition(".")[0] in sys.stdlib_module_names, name


@each([path for path in SOURCES if path.parent.name in ("action", "filter", "lookup")])
def test_plugins_import_downwards(path: Path) -> None:
    for name in own_imports(path):
        assert name.partition(".")[0] in ("plugin_utils", "module_utils"), name


def test_the_core_imports_in_no_circle() -> None:
    graph = {f"{path.parent.name}.{path.stem}": own_imports(path) for path in PRIVATE}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert set(graph) <= set(order)


PYTHON = sorted(path for folder in ("plugins", "tests") for path in (ROOT / folder).glob("**/*.py"))


@each(PYTHON)
def test_functions(path: Path) -> None:
    """Imports stand at a file's head, where its direction shows; a function fits on a screen."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = [entry for entry in ast.walk(node) if isinstance(entry, ast.Import | ast.ImportFrom)]
            assert not inner, f"{node.name} imports inside"
            if PLUGINS in path.parents:
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


def test_no_drawers() -> None:
    folders = ("plugins", "roles", "playbooks", "tests", "inventory")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    drawers = re.compile(r"_*(utils?|common|misc|helpers?|stuff)_*")
    assert [label(path) for path in files if drawers.fullmatch(path.stem)] == []


def settings(path: Path) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser()
    parser.read_string(path.read_text(encoding="utf-8"))
    return {section: dict(parser[section]) for section in parser.sections()}


def test_both_configurations_say_the_same() -> None:
    """Ansible reads the one of the current folder only; paths are relative to it, all else is equal."""
    above, below = settings(ROOT / "ansible.cfg"), settings(ROOT / "playbooks/ansible.cfg")
    assert below["defaults"].pop("collections_path") == f"../{above['defaults'].pop('collections_path')}"
    assert below["defaults"].pop("inventory") == f"../{above['defaults'].pop('inventory')}"
    assert below == above


def test_every_playbook_is_in_the_readme() -> None:
    """All verbs, that is: what other playbooks import is a part of them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    books = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "playbooks").glob("*.yml"))}
    parts = set(re.findall(r"import_playbook: (\S+)", "\n".join(books.values())))
    assert [name for name in books if name.removesuffix(".yml") not in text and name not in parts] == []


def test_the_version_is_one() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    assert (galaxy["namespace"], galaxy["name"]) == ("dgxspark", "vllm")
    # Semantic versioning, as galaxy demands it.
    assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?", galaxy["version"])


def test_the_modules_are_grouped_for_module_defaults() -> None:
    runtime = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))
    assert re.fullmatch(r">=2\.\d+\.\d+.*", runtime["requires_ansible"])
    grouped = {name for group in runtime.get("action_groups", {}).values() for name in group if isinstance(name, str)}
    assert grouped <= {path.stem for path in PLUGINS.glob("modules/*.py")}


@each(PYTHON)
def test_every_file_has_its_license(path: Path) -> None:
    assert "SPDX-License-Identifier: GPL-3.0-or-later" in path.read_text(encoding="utf-8")[:400]
