# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of `vllm serve`, as strict as argparse is about what it knows."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from . import flag_kinds

Value = str | int | float | bool | list[str]


class UsageError(Exception):
    """argparse prints it with the usage and exits with 2."""

    def __init__(self, message: str, program: str = "vllm serve") -> None:
        super().__init__(message)
        self.program = program


@dataclass
class CommandLine:
    """Model and flags; JSON flags stand as text in one spelling, so that equal values are equal."""

    model: str = ""
    flags: dict[str, Value] = field(default_factory=dict)


def _readable(text: str) -> int:
    """8192, 8k (8000), 8K (8192)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", text)
    if not match and not re.fullmatch(r"-\d+", text):
        raise ValueError(text)
    if not match or not match[2]:
        return int(text)
    power = "kmg".index(match[2].lower()) + 1
    return int(float(match[1]) * (1000 if match[2].islower() else 1024) ** power)


def _shown(name: str) -> str:
    """The flag with its short form, as argparse shows it."""
    short = [key for key, value in flag_kinds.SHORT.items() if value == name]
    return "/".join([name, *short])


def _not_json(name: str, text: str, error: ValueError) -> str:
    """Most configurations are read by pydantic, every other flag by the json library."""
    if name.endswith("-config") and name != "--speculative-config":
        parts = name.strip("-").split("-")
        model = "".join(part.upper() if part in ("kv", "ec") else part.capitalize() for part in parts)
        return f"1 validation error for {model}\n  Invalid JSON: {error}"
    return f"Value {text} cannot be converted to <function loads at 0x7f0000000000>."


def _converted(name: str, text: str) -> Value:
    try:
        if name == "--max-model-len" and text == "auto":
            return -1
        if name in flag_kinds.INTEGERS:
            return _readable(text)
        if name in flag_kinds.FLOATS:
            return float(text)
    except ValueError:
        kind = "int" if name in flag_kinds.INTEGERS else "float"
        raise UsageError(f"argument {_shown(name)}: invalid {kind} value: {text!r}") from None
    if name in flag_kinds.JSON:
        try:
            return json.dumps(json.loads(text), sort_keys=True)
        except ValueError as error:
            raise UsageError(f"argument {_shown(name)}: {_not_json(name, text, error)}") from None
    return text


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-\d+(\.\d+)?", word) and word != "-"


def _named(word: str) -> tuple[str, str | None]:
    """Full name with dashes, and the value that stands after = if there is one."""
    if not word.startswith("--"):
        if word.startswith("-O"):
            return "--optimization-level", word[2:].removeprefix("=") or None
        name, equals, value = word.partition("=")
        return flag_kinds.SHORT.get(name, name), value if equals else None
    name, equals, value = word.partition("=")
    plain, dot, key = name.partition(".")
    return plain.replace("_", "-") + dot + key, value if equals else None


class _Reader:
    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 0
        self.line = CommandLine()
        self.extra: list[str] = []

    def _values(self) -> list[str]:
        start = self.at
        while self.at < len(self.words) and not _is_flag(self.words[self.at]):
            self.at += 1
        return self.words[start : self.at]

    def _value(self, name: str) -> str:
        if self.at >= len(self.words) or _is_flag(self.words[self.at]):
            raise UsageError(f"argument {_shown(name)}: expected one argument")
        self.at += 1
        return self.words[self.at - 1]

    def _flag(self, word: str) -> None:
        name, given = _named(word)
        positive = name.replace("--no-", "--", 1)
        if positive in flag_kinds.SWITCHES and (name == positive or positive != "--headless"):
            if given is not None:
                raise UsageError(f"argument {_shown(name)}: ignored explicit argument {given!r}")
            self.line.flags[positive] = name == positive
        elif name in flag_kinds.LISTS:
            values = [given] if given is not None else self._values()
            if not values:
                raise UsageError(f"argument {_shown(name)}: expected at least one argument")
            self.line.flags[name] = values
        elif name in flag_kinds.INTEGERS | flag_kinds.FLOATS | flag_kinds.JSON:
            self.line.flags[name] = _converted(name, given if given is not None else self._value(name))
        else:
            known_absent = self.at >= len(self.words) or _is_flag(self.words[self.at])
            self.line.flags[name] = given if given is not None else (True if known_absent else self._value(name))

    def read(self) -> CommandLine:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if _is_flag(word):
                self._flag(word)
            elif not self.line.model:
                self.line.model = word
            else:
                self.extra.append(word)
        if self.extra:
            raise UsageError("unrecognized arguments: " + " ".join(self.extra), program="vllm")
        return self.line


def parse(words: list[str]) -> CommandLine:
    """The words after `vllm serve`."""
    line = _Reader(words).read()
    named = line.flags.pop("--model", None)
    if isinstance(named, str):
        line.model = named
    return line
