# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipe name or path to validated facts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: recipe
short_description: Load a recipe and check all of it
version_added: 0.1.0
author: The dgxspark.vllm contributors (@dgxspark)
description:
  - Reads the TOML file of a recipe, checks it against the collection's JSON Schema and its own rules, and returns facts
    with every default filled in. Nothing on any node is touched.
  - All problems of a recipe are reported at once, each with the file, the key, what was found, what was expected and,
    where there is one, a cure.
  - A recipe is data from strangers. Nothing in it is ever templated, and neither a flag that the launcher owns nor a
    secret in a flag nor a mount that gives the node away is accepted.
options:
  _terms:
    description:
      - Recipes to load, each by its id, which is the name of its folder, or by a path.
      - A path has a slash in it and names the folder or the file.
        A relative one is looked up in the current folder, then beside the playbook.
      - An id is looked up in the folders of O(recipe_path), in C(recipes/) beside the inventory, beside the playbook
        and in the current folder, and last among the collection's own recipes. The first that is found counts.
    type: list
    elements: str
    required: true
  recipe_path:
    description:
      - Folders with recipes, searched first.
    type: list
    elements: str
    default: []
    vars:
      - name: recipe_path
  recipe_allowed_mounts:
    description:
      - Paths on the node that a recipe may mount although they are sensitive, each exactly as the recipe names it.
      - Sensitive are C(/), C(/etc), C(/root), C(/home), C(/proc), C(/sys), C(/dev), C(/boot) and C(/run), the socket
        and the data of Docker and containerd, a whole home folder and the keys in it, all that holds one of these, and
        what leaves the home folder by C(..).
    type: list
    elements: str
    default: []
    vars:
      - name: recipe_allowed_mounts
  serve_set:
    description:
      - Engine flags to change for this run, as a dictionary or as JSON text.
      - A value replaces the one in the recipe where it stands, or is added at the end. V(true) gives a flag without a
        value, V(null) removes it, a list gives several values, a dictionary becomes JSON.
      - A flag that the launcher owns is refused.
    type: raw
    default: {}
    vars:
      - name: serve_set
notes:
  - The controller's Python needs the library C(jsonschema).
  - A file of more than 1 MiB is refused by its size, without being read.
  - Inventory folders are not searched themselves, since Ansible would take recipes in them for inventories.
seealso:
  - name: JSON Schema of recipes
    description: What every key means and takes. Editors that know TOML schemas use it too.
    link: https://github.com/dgxspark/vllm/blob/main/recipes/recipe.schema.json
"""

EXAMPLES = r"""
- name: Show what a recipe asks for
  ansible.builtin.debug:
    msg: "{{ recipe.name }} takes {{ recipe.required_nodes }} nodes"
  vars:
    recipe: "{{ lookup('dgxspark.vllm.recipe', 'dsv41-flash-8x') }}"

- name: Load a recipe with a shorter context and a flag less
  ansible.builtin.set_fact:
    short_recipe: "{{ lookup('dgxspark.vllm.recipe', 'dsv41-flash-8x', serve_set=changes) }}"
  vars:
    changes:
      max-model-len: 65536
      trust-remote-code: null

- name: Load a recipe from a folder of one's own
  ansible.builtin.set_fact:
    own_recipe: "{{ lookup('dgxspark.vllm.recipe', 'my-model-2x', recipe_path=[playbook_dir ~ '/models']) }}"

- name: Load a recipe by its path and let it read the site's certificates
  ansible.builtin.set_fact:
    site_recipe: >-
      {{ lookup('dgxspark.vllm.recipe', './models/my-certified-2x', recipe_allowed_mounts=['/etc/ssl/certs']) }}
"""

RETURN = r"""
_raw:
  description: The facts of each recipe.
  type: list
  elements: dict
  contains:
    id:
      description: The name of the recipe's folder.
      type: str
      sample: dsv41-flash-8x
    path:
      description: The file, absolute.
      type: str
    engine:
      description: Always V(vllm).
      type: str
    name:
      description: The title for people.
      type: str
    parked:
      description: Whether serving it is refused unless asked for.
      type: bool
    parked_reason:
      description: Why it is parked; empty if it is not, or if the recipe does not say.
      type: str
    docker_image:
      description: The image of every rank.
      type: str
    docker_image_dir:
      description: The folder to build the image from, if there is one.
      type: str
    model:
      description: A Hugging Face id, or an absolute path on the node.
      type: str
    required_nodes:
      description: The number of ranks.
      type: int
    tensor_parallel_size:
      description: As in the recipe, V(1) by default.
      type: int
    pipeline_parallel_size:
      description: As in the recipe, V(1) by default.
      type: int
    data_parallel_size:
      description: From C(--data-parallel-size), V(1) by default.
      type: int
    distributed_backend:
      description: V(mp) or V(ray).
      type: str
    shm_size:
      description: Bytes of C(/dev/shm), or none for the host's.
      type: int
    entrypoint:
      description: What replaces the image's entrypoint, or none.
      type: list
      elements: str
    args:
      description:
        - The engine's words after the model, as the engine gets them, with O(serve_set) applied.
        - Without the flags that the launcher writes itself, and without C(--host) and C(--port).
      type: list
      elements: str
    host:
      description: From C(--host), or none.
      type: str
    port:
      description: From C(--port), or none.
      type: int
    served_names:
      description: From C(--served-model-name), by default the model.
      type: list
      elements: str
    gpu_memory_utilization:
      description: From C(--gpu-memory-utilization), or none.
      type: float
    mods:
      description: Shell commands to run in the container before the engine.
      type: list
      elements: str
    env:
      description: Environment of every rank, all texts.
      type: dict
    mounts:
      description: Bind mounts, their paths without C(.), C(..) and doubled slashes.
      type: list
      elements: dict
      contains:
        host:
          description: Path on the node, which may start with C(~).
          type: str
        container:
          description: Path in the container.
          type: str
        read_only:
          description: Whether the container may only read it.
          type: bool
        create:
          description: Whether a missing folder is created on the node.
          type: bool
    nccl:
      description: Environment for the fabric by profile.
      type: dict
    warnings:
      description: What looks wrong without being an error, for people.
      type: list
      elements: str
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem, RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._nearest import nearest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._recipe import RECIPE_ID, RECIPE_ID_RULE, expand_recipe
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._shapes import Recipe

OWN_RECIPES = Path(__file__).resolve().parents[2] / "recipes"
FILE_NAME = "recipe.toml"
OPTIONS = ("recipe_path", "recipe_allowed_mounts", "serve_set")
LARGEST = 1024 * 1024


class LookupModule(LookupBase):
    """The rim of the core: options, files and Ansible's kind of error."""

    def run(self, terms: list[Any], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[Recipe]:
        """Return the facts of each recipe named."""
        known = variables or {}
        # Variables arrive as they were written, templates and all; what a recipe says never comes this way.
        options = {name: self._templar.template(known[name]) for name in OPTIONS if name in known}
        self.set_options(var_options=options, direct=kwargs)
        try:
            changes = _changes(self.get_option("serve_set"), known.get("_raw_params"))
            return [self._load(term, known, changes) for term in terms]
        except RecipeError as error:
            title = f"{len(error.problems)} problems:\n" if len(error.problems) > 1 else ""
            raise AnsibleLookupError(f"{title}{error}") from None  # Ansible would print the chain's texts behind it
        except OSError as error:
            problem = Problem(str(error.filename), f"not readable: {error.strerror}", "a TOML file")
            raise AnsibleLookupError(str(problem)) from None

    def _load(self, term: object, variables: Mapping[str, Any], changes: Mapping[Any, Any]) -> Recipe:
        path = _find(term, list(dict.fromkeys(self._folders(variables))), variables)
        schema = json.loads((OWN_RECIPES / "recipe.schema.json").read_text(encoding="utf-8"))
        return expand_recipe(
            _read(path), str(path), schema, changes, list(map(str, self.get_option("recipe_allowed_mounts")))
        )

    def _folders(self, variables: Mapping[str, Any]) -> Iterator[Path]:
        for folder in self.get_option("recipe_path"):
            yield _absolute(str(folder))
        for source in variables.get("ansible_inventory_sources") or []:
            if Path(source).exists():
                yield _absolute(source).parent / "recipes"
        if variables.get("playbook_dir"):
            yield _absolute(variables["playbook_dir"]) / "recipes"
        yield _absolute("recipes")
        yield OWN_RECIPES


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111


def _changes(value: Any, rest: Any) -> Mapping[Any, Any]:
    """Return ``serve_set`` as a dictionary.

    ``-e serve_set='{"a": 1}'`` reaches Ansible as one word, and Ansible takes it apart at its blanks: what follows the
    first one lands in ``_raw_params``.
    """
    texts = [f"{value} {rest}", value] if isinstance(rest, str) else [value]
    for text in texts if isinstance(value, str) else []:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        break
    if value in ("", None):
        return {}
    if isinstance(value, Mapping):
        return value
    cure = """write it as in -e '{"serve_set": {"max-model-len": 65536}}'"""
    raise RecipeError([Problem("serve_set", repr(value), "flags and values as a dictionary or a JSON object", cure)])


def _find(term: object, folders: list[Path], variables: Mapping[str, Any]) -> Path:
    if isinstance(term, str) and "\0" not in term and ("/" in term or term in (".", "..")):
        bases = ["", str(variables.get("playbook_dir", ""))]
        paths = list(dict.fromkeys(_absolute(os.path.join(base, os.path.expanduser(term))) for base in bases))  # noqa: PTH111, PTH118
        return _file(next((path for path in paths if os.path.lexists(path)), paths[0]))
    if not isinstance(term, str) or not RECIPE_ID.fullmatch(term):
        raise RecipeError([Problem(f"recipe {term!r}", "no recipe's id", RECIPE_ID_RULE, "a path has a slash in it")])
    candidates = [folder / term for folder in folders]
    for candidate in candidates:
        if (candidate / FILE_NAME).exists():
            return _file(candidate)
    for candidate in candidates:
        if candidate.is_dir():
            return _file(candidate)
    names = {path.parent.name for folder in folders for path in folder.glob(f"*/{FILE_NAME}")}
    cure = f"did you mean {' or '.join(near)}?" if (near := nearest(term, names, 3)) else ""
    looked = ", ".join(map(str, folders))
    raise RecipeError([Problem(f"recipe {term}", "not found", f"a folder of this name in one of {looked}", cure)])


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    file = path / FILE_NAME
    if not os.path.lexists(file):
        raise RecipeError([Problem(str(path), f"a folder without {FILE_NAME}", "a recipe's folder")])
    return file


def _read(path: Path) -> str:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise RecipeError([Problem(str(path), "no ordinary file", "a TOML file")])
    if status.st_size > LARGEST:
        raise RecipeError([Problem(str(path), f"{status.st_size} bytes", f"a recipe of at most {LARGEST} bytes")])
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"bytes that are not UTF-8, the first at offset {error.start}"
        raise RecipeError([Problem(str(path), found, "a text in UTF-8")]) from error
