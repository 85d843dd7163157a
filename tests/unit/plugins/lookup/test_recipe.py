# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup as Ansible runs it: where it looks, what it refuses to read, and that its documentation runs."""

# Messages stand whole, so that they can be searched for.
# ruff: noqa: E501

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import lookup_loader
from ansible.template import Templar, trust_as_template
from ansible_collections.dgxspark.vllm.plugins.lookup import recipe as plugin

ROOT = Path(__file__).resolve().parents[4]
# The copy that ansible-test works in has no link tree, it stands in one.
COLLECTIONS = ROOT.parents[2] if ROOT.parents[1].name == "ansible_collections" else ROOT / ".collections"
OWN = plugin.OWN_RECIPES
GOOD = 'engine = "vllm"\nname = "Small"\ndocker_image = "small:local"\nmodel = "acme/small"\nrequired_nodes = 1\n'


def make(folder: Path, text: str = GOOD) -> Path:
    folder.mkdir(parents=True)
    file = folder / "recipe.toml"
    file.write_text(text, encoding="utf-8")
    return file


def look(term: Any, variables: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    known = variables or {}
    loader = DataLoader()
    lookup = lookup_loader.get("dgxspark.vllm.recipe", loader=loader, templar=Templar(loader=loader, variables=known))
    facts: list[dict[str, Any]] = lookup.run([term], variables=known, **options)
    return facts[0]


def told(term: Any, variables: dict[str, Any] | None = None, **options: Any) -> str:
    with pytest.raises(AnsibleLookupError) as caught:
        look(term, variables, **options)
    return str(caught.value)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, so that no test finds the checkout's recipes by chance."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_folders_in_order(tmp_path: Path, here: Path) -> None:
    (tmp_path / "inventory").mkdir()
    variables = {
        "recipe_path": [str(tmp_path / "first"), str(tmp_path / "second")],
        "ansible_inventory_sources": [str(tmp_path / "inventory"), "dgx1,dgx2,"],
        "playbook_dir": str(tmp_path / "plays"),
    }
    places = [
        tmp_path / "first",
        tmp_path / "second",
        tmp_path / "recipes",
        tmp_path / "plays" / "recipes",
        here / "recipes",
    ]
    assert look("dsv41-flash-8x", variables)["path"] == str(OWN / "dsv41-flash-8x" / "recipe.toml")
    for place in reversed(places):
        file = make(place / "dsv41-flash-8x")
        assert look("dsv41-flash-8x", variables)["path"] == str(file)
    listed = ", ".join(map(str, [*places, OWN]))
    assert told("qwen", variables) == f"recipe qwen: not found, expected a folder of this name in one of {listed}"


def test_beside_an_inventory_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").touch()
    file = make(tmp_path / "recipes" / "a")
    assert look("a", {"ansible_inventory_sources": [str(tmp_path / "hosts.yml")]})["path"] == str(file)


def test_nearest_names(tmp_path: Path) -> None:
    make(tmp_path / "dsv41-flash-4x")
    line = told("dsv41-flash-9x", recipe_path=[str(tmp_path)])
    assert line.endswith("; did you mean dsv41-flash-8x or dsv41-flash-4x?")


@pytest.mark.parametrize(
    "term", ["{folder}", "{folder}/", "{folder}/recipe.toml", "../my-recipe", "./../my-recipe/recipe.toml"]
)
def test_by_path(tmp_path: Path, term: str) -> None:
    file = make(tmp_path / "my-recipe")
    facts = look(term.format(folder=file.parent))
    assert (facts["id"], facts["path"]) == ("my-recipe", str(file))


def test_a_relative_path_is_looked_up_beside_the_playbook_too(tmp_path: Path) -> None:
    file = make(tmp_path / "plays" / "models" / "a")
    assert look("models/a", {"playbook_dir": str(tmp_path / "plays")})["path"] == str(file)


RULE = 'expected a name of letters, digits, "_", "." and "-", at most 100 long: containers are called after it; a path has a slash in it'


@pytest.mark.parametrize(
    ("term", "line"),
    [
        ("", f"recipe '': no recipe's id, {RULE}"),
        ("{{ x }}", f"recipe '{{{{ x }}}}': no recipe's id, {RULE}"),
        ("-rf", f"recipe '-rf': no recipe's id, {RULE}"),
        ("a\0/b", f"recipe 'a\\x00/b': no recipe's id, {RULE}"),
        ("x" * 5000, f"recipe '{'x' * 5000}': no recipe's id, {RULE}"),
        (5, f"recipe 5: no recipe's id, {RULE}"),
        ("/no/such/recipe", "/no/such/recipe: not readable: No such file or directory, expected a TOML file"),
        ("/" + "x" * 5000, f"/{'x' * 5000}: not readable: File name too long, expected a TOML file"),
        ("/dev/zero", "/dev/zero: no ordinary file, expected a TOML file"),
    ],
)
def test_no_recipe(term: Any, line: str) -> None:
    assert told(term) == line


def test_a_folder_that_is_no_recipe(here: Path) -> None:
    (here / "recipes" / "empty").mkdir(parents=True)
    line = f"{here}/recipes/empty: a folder without recipe.toml, expected a recipe's folder"
    assert told("empty") == line
    assert told("recipes/empty") == line


def test_recipe_toml_is_a_folder(here: Path) -> None:
    (here / "recipes" / "odd" / "recipe.toml").mkdir(parents=True)
    assert told("odd") == f"{here}/recipes/odd/recipe.toml: no ordinary file, expected a TOML file"


def test_a_pipe_is_not_waited_for(here: Path) -> None:
    (here / "a").mkdir()
    os.mkfifo(here / "a" / "recipe.toml")
    assert told("./a") == f"{here}/a/recipe.toml: no ordinary file, expected a TOML file"


def test_a_link_to_itself(here: Path) -> None:
    (here / "a").mkdir()
    (here / "a" / "recipe.toml").symlink_to("recipe.toml")
    assert told("./a") == f"{here}/a/recipe.toml: not readable: Too many levels of symbolic links, expected a TOML file"


def test_bytes_that_are_no_text(here: Path) -> None:
    make(here / "a").write_bytes(b'name = "\xff"')
    assert (
        told("./a")
        == f"{here}/a/recipe.toml: bytes that are not UTF-8, the first at offset 8, expected a text in UTF-8"
    )


def test_a_byte_order_mark_is_no_error(here: Path) -> None:
    make(here / "a", "\ufeff" + GOOD)
    assert look("./a")["id"] == "a"


def test_a_huge_file_is_refused_by_its_size(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make(here / "a").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    assert told("./a") == f"{here}/a/recipe.toml: 104857600 bytes, expected a recipe of at most 1048576 bytes"


def test_broken_toml_has_line_and_column(here: Path) -> None:
    make(here / "a", 'engine = "vllm"\nname = oops\n')
    assert told("./a") == f"{here}/a/recipe.toml: line 2, column 8: broken TOML: Invalid value"


def test_several_problems_are_counted_and_listed(here: Path) -> None:
    make(here / "a", GOOD + 'colour = 1\nargs = ["--headless"]\n')
    file = f"{here}/a/recipe.toml"
    assert told("./a") == (
        f"2 problems:\n{file}: colour: unknown key, expected a key of a recipe\n"
        f"{file}: args[1]: --headless, expected no flag of the launcher; remove it: the launcher gives each rank its own"
    )


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        ({"serve_set": {"max-model-len": 65536, "x": 1}}, {}),
        ({"serve_set": '{"max-model-len": 65536, "x": 1}'}, {}),
        ({"serve_set": '{"max-model-len":', "_raw_params": '65536, "x": 1}'}, {}),
        ({"serve_set": '{"max-model-len": 65536, "x": 1}', "_raw_params": "of another -e"}, {}),
        ({}, {"serve_set": '{"max-model-len": 65536, "x": 1}'}),
        ({"serve_set": trust_as_template("{{ mine }}"), "mine": {"max-model-len": 65536, "x": 1}}, {}),
    ],
)
def test_serve_set_in_all_its_forms(here: Path, variables: dict[str, Any], options: dict[str, Any]) -> None:
    make(here / "a", GOOD + 'args = ["--max-model-len 1 --y"]')
    assert look("./a", variables, **options)["args"] == ["--max-model-len", "65536", "--y", "--x", "1"]


@pytest.mark.parametrize("nothing", [None, "", {}, "{}"])
def test_nothing_set(here: Path, nothing: Any) -> None:
    make(here / "a", GOOD)
    assert look("./a", {"serve_set": nothing})["args"] == []


@pytest.mark.parametrize(("value", "shown"), [("{", "'{'"), ("[1]", "[1]"), (5, "5"), ("x=1", "'x=1'")])
def test_serve_set_that_is_none(value: Any, shown: str) -> None:
    assert told("dsv41-flash-8x", serve_set=value) == (
        f"serve_set: {shown}, expected flags and values as a dictionary or a JSON object; "
        """write it as in -e '{"serve_set": {"max-model-len": 65536}}'"""
    )


def test_allowed_mounts_come_from_the_inventory(here: Path) -> None:
    make(here / "a", GOOD + 'extra_mounts = [{host = "/etc/ssl/certs", container = "/certs"}]')
    assert "recipe_allowed_mounts" in told("./a")
    assert look("./a", {"recipe_allowed_mounts": ["/etc/ssl/certs"]})["mounts"][0]["host"] == "/etc/ssl/certs"


def play(folder: Path, tasks: list[dict[str, Any]], *arguments: str) -> str:
    """Run tasks by ansible-playbook; the output."""
    book = folder / "play.yml"
    here = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    content = [{"hosts": "localhost", "gather_facts": False, "vars": here, "tasks": tasks}]
    book.write_text(yaml.safe_dump(content), encoding="utf-8")
    (folder / "ansible.cfg").touch()
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
    }
    result = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", str(book), *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_nothing_in_a_recipe_is_templated(here: Path) -> None:
    text = "{{ lookup('pipe', 'touch pwned') }}"
    make(
        here / "a",
        f'args = ["--x", "{text}"]\nmods.commands = ["{text}"]\nenv.A = "{text}"\n{GOOD.replace("Small", text)}',
    )
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.set_fact": {"r": "{{ lookup('dgxspark.vllm.recipe', './a') }}"}},
        {"ansible.builtin.set_fact": {"again": "{{ r | combine({'more': r.mods}) }}"}},
        {"ansible.builtin.debug": {"msg": "{{ again.name }}"}},
        {"ansible.builtin.copy": {"content": "{{ again | to_json }}", "dest": str(here / "out.json"), "mode": "0600"}},
    ]
    assert f'"msg": "{text}"' in play(here, tasks)
    facts = json.loads((here / "out.json").read_text(encoding="utf-8"))
    assert [facts["name"], facts["more"], facts["env"]] == [text, [text], {"A": text}]
    assert facts["args"] == ["--x", text]
    assert not (here / "pwned").exists()


def test_serve_set_on_the_command_line(here: Path) -> None:
    tasks = [{"ansible.builtin.debug": {"msg": "{{ lookup('dgxspark.vllm.recipe', recipe).args | join(' ') }}"}}]
    output = play(here, tasks, "-e", "recipe=dsv41-flash-8x", "-e", 'serve_set={"max-model-len": 65536}')
    assert "--max-model-len 65536 " in output


def test_examples_run(here: Path) -> None:
    make(here / "models" / "my-model-2x")
    make(here / "models" / "my-certified-2x", GOOD + 'extra_mounts = [{host = "/etc/ssl/certs", container = "/certs"}]')
    tasks = yaml.safe_load(plugin.EXAMPLES)
    output = play(here, [*tasks, {"ansible.builtin.debug": {"msg": "{{ own_recipe.id }} {{ site_recipe.id }}"}}])
    assert "DSpark k=5, Engram in DRAM) takes 8 nodes" in output
    assert "my-model-2x my-certified-2x" in output


def test_documentation_names_what_is_returned() -> None:
    documented = yaml.safe_load(plugin.RETURN)["_raw"]["contains"]
    facts = look("dsv41-flash-8x")
    assert list(documented) == list(facts)
    assert list(documented["mounts"]["contains"]) == list(facts["mounts"][0])
