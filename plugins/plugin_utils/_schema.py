# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a recipe's text to a tree that the JSON Schema accepts. Private to the collection.

Each violation becomes a ``Problem`` in people's words. What was expected is the title that the schema gives the place,
so that editors and messages say the same.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem, RecipeError
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._nearest import did_you_mean

try:
    from jsonschema import Draft202012Validator, validators
except ImportError:
    HAS_JSONSCHEMA = False
else:
    HAS_JSONSCHEMA = True

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

# A key path as people count: keys, and list positions from 1 (held here from 0, as Python counts).
KeyPath = tuple[str | int, ...]
Schema = Mapping[str, Any]
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
SHOWN_LENGTH = 60


def describe(value: object) -> str:
    """Return a value as a message shows it: short, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        text = value if len(value) <= SHOWN_LENGTH else value[: SHOWN_LENGTH - 3] + "..."
        return json.dumps(text, ensure_ascii=not text.isprintable())
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a table"
    return "a date or a time"


def key_path(path: KeyPath) -> str:
    """Return a key path for people: ``extra_mounts[2].host``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step + 1}]"
        else:
            name = step if BARE_KEY.fullmatch(step) else json.dumps(step)
            text += f".{name}" if text else name
    return text


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises:
        RecipeError: the text is not TOML; the place has line and column.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error).partition(" (at ")[0]
        place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        line, column = place.groups() if place else (text.count("\n") + 1, len(text) - text.rfind("\n"))
        raise RecipeError([Problem(f"{file}: line {line}, column {column}", f"broken TOML: {reason}")]) from error
    except RecursionError as error:
        raise RecipeError([Problem(file, "lists or tables nested too deeply", "a recipe")]) from error
    except ValueError as error:
        # Python refuses to read integers of thousands of digits, and tomllib hands that through.
        raise RecipeError([Problem(file, "a number with too many digits", "numbers of at most 64 bits")]) from error


def violations(data: Mapping[str, Any], schema: Schema, file: str) -> dict[KeyPath, list[Problem]]:
    """Return what the schema holds against ``data``, by key path, in the order of the file."""
    if not HAS_JSONSCHEMA:
        cure = "install it there: pip install 'jsonschema>=4.18'"
        raise RecipeError([Problem("Python of the controller", "no jsonschema", "the library jsonschema", cure)])
    found: dict[KeyPath, list[Problem]] = {}
    for error in _validator_class()(schema).iter_errors(data):
        for path, problem in _translate(error, schema, file):
            if problem not in found.setdefault(path, []):
                found[path].append(problem)
    order = {key: place for place, key in enumerate(data)}
    return dict(sorted(found.items(), key=lambda item: (order.get(str(item[0][0]), len(order)), key_path(item[0]))))


@functools.cache
def _validator_class() -> Any:
    """A validator that takes TOML's own types: 8.0 is no integer."""
    checker = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _checker, value: isinstance(value, int) and not isinstance(value, bool)
    )
    return validators.extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]


def _translate(error: ValidationError, schema: Schema, file: str) -> Iterator[tuple[KeyPath, Problem]]:
    path: KeyPath = tuple(error.absolute_path)
    rules: Any = error.schema
    value: Any = error.instance
    if error.validator == "additionalProperties":
        for key in value.keys() - rules["properties"].keys():
            yield (*path, key), _unknown_key(file, (*path, key), rules, schema)
    elif error.validator == "required":
        for key in rules["required"]:
            if key not in value:
                expected = _title(rules["properties"][key], schema)
                yield (*path, key), Problem(_place(file, (*path, key)), "missing", expected)
    elif "propertyNames" in error.absolute_schema_path:
        yield (*path, value), Problem(_place(file, (*path, value)), f"the name {describe(value)}", rules["title"])
    else:
        yield path, Problem(_place(file, path), describe(value), rules["title"], _cure(path, value, schema))


def _unknown_key(file: str, path: KeyPath, rules: Any, schema: Schema) -> Problem:
    key = str(path[-1])
    cure = did_you_mean(key, rules["properties"])
    if len(path) > 1 and key in schema["properties"]:
        cure = f"{key} is a key of the recipe itself: it stands before the first [table]"
    return Problem(_place(file, path), "unknown key", f"a key of {rules['title']}", cure)


def _cure(path: KeyPath, value: object, schema: Schema) -> str:
    if path[0] not in ("env", "nccl"):
        return ""
    if isinstance(value, bool):
        return 'write "1" or "0"'
    if path[-1] in schema["properties"]:
        return f"{path[-1]} is a key of the recipe itself: it stands before the first [table]"
    return ""


def _title(rules: Any, schema: Schema) -> str:
    if "$ref" in rules:
        rules = schema["$defs"][rules["$ref"].rpartition("/")[2]]
    return str(rules["title"])


def _place(file: str, path: KeyPath) -> str:
    return f"{file}: {key_path(path)}"
