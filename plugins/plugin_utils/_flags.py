# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's flags as a recipe gives them. Private to the collection.

What a flag is called and takes follows vLLM 0.32: a flag has dashes or underscores, some have short forms, argparse
takes any unique beginning of a long one, and ``--config.key value`` builds JSON piece by piece.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.dgxspark.vllm.plugins.plugin_utils._errors import Problem
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._schema import describe

SHORT = {
    "-ac": "attention-config",
    "-asc": "api-server-count",
    "-cc": "compilation-config",
    "-dc": "diffusion-config",
    "-dcp": "decode-context-parallel-size",
    "-dp": "data-parallel-size",
    "-dpa": "data-parallel-address",
    "-dpb": "data-parallel-backend",
    "-dpe": "data-parallel-external-lb",
    "-dph": "data-parallel-hybrid-lb",
    "-dpl": "data-parallel-size-local",
    "-dpm": "data-parallel-multi-port-external-lb",
    "-dpn": "data-parallel-rank",
    "-dpp": "data-parallel-rpc-port",
    "-dpr": "data-parallel-start-rank",
    "-ep": "enable-expert-parallel",
    "-n": "nnodes",
    "-pcp": "prefill-context-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-q": "quantization",
    "-r": "node-rank",
    "-sc": "speculative-config",
    "-tp": "tensor-parallel-size",
}
SYNONYMS = {"device-memory-utilization": "gpu-memory-utilization"}

# The launcher writes these itself. With a key, a recipe's flag is welcome as long as it says what the key says.
OWNED_WITH_KEY = {
    "tensor-parallel-size": "tensor_parallel_size",
    "pipeline-parallel-size": "pipeline_parallel_size",
    "distributed-executor-backend": "distributed_backend",
}
BEHIND = "remove it: the launcher gives each rank its own"
REFUSED = {
    "--": "remove it: the launcher's own flags stand behind the recipe's",
    "api-key": "remove it: secrets never stand in argv; set serve_api_key in the inventory",
    "grpc": "remove it: the launcher asks the engine over HTTP whether it serves",
    "headless": BEHIND,
    "master-addr": BEHIND,
    "master-port": BEHIND,
    "model": "remove it: the key model names the model",
    "nnodes": "remove it: the key required_nodes says how many nodes there are",
    "node-rank": BEHIND,
    "uds": "remove it: the launcher asks the engine over HTTP whether it serves",
}
HUB_CURE = "remove it: secrets never stand in argv; set serve_hf_token in the inventory"
READ = (
    "data-parallel-size",
    "decode-context-parallel-size",
    "gpu-memory-utilization",
    "hf-token",
    "host",
    "port",
    "served-model-name",
)

# vLLM reads the values of CONFIGS into its configuration classes and lets numbers in them end in k, M or G.
CONFIGS = frozenset(
    [
        "attention-config",
        "aux-output-config",
        "compilation-config",
        "ec-manager-config",
        "ec-transfer-config",
        "engram-config",
        "eplb-config",
        "fault-tolerance-config",
        "ir-op-priority",
        "kernel-config",
        "kv-events-config",
        "kv-transfer-config",
        "logging-config",
        "pooler-config",
        "profiler-config",
        "quantization-config",
        "reasoning-config",
        "structured-outputs-config",
        "weight-transfer-config",
    ]
)
OBJECTS = frozenset(
    [
        "custom-histogram-buckets",
        "default-chat-template-kwargs",
        "default-mm-loras",
        "limit-mm-per-prompt",
        "media-io-kwargs",
        "mm-processor-kwargs",
        "model-class-overrides",
        "override-generation-config",
    ]
)
# An empty value or None means none.
OPTIONAL = frozenset(("diffusion-config", "speculative-config", "watermark-config"))
LISTS = frozenset(("allowed-headers", "allowed-methods", "allowed-origins"))
# JSON only when the value is in braces: the name of a class, device or path:... is as good.
LOOSE = frozenset(
    [
        "additional-config",
        "hf-overrides",
        "lora-modules",
        "model-loader-extra-config",
        "pt-load-map-location",
    ]
)
JSON_FLAGS = CONFIGS | OBJECTS | OPTIONAL | LISTS | LOOSE

KNOWN = (*OWNED_WITH_KEY, *(name for name in REFUSED if name != "--"), *READ, *SYNONYMS)
NUMBER = re.compile(r"-\d+|-\d*\.\d+")
JSON_STRING_OR_SIZE = re.compile(r'("(?:[^"\\]|\\.)*")|(\b\d+(?:\.\d+)?)[kKmMgGtT]\b')
SET_KEY = re.compile(r"-{0,2}[A-Za-z][A-Za-z0-9_.-]*\+?")


@dataclass(frozen=True)
class Word:
    """One word of the command line, and where it comes from."""

    text: str
    place: str


@dataclass(frozen=True)
class Flag:
    """One flag with its values; words before the first flag belong to one without a name."""

    name: str
    words: tuple[Word, ...]
    values: tuple[Word, ...]

    @property
    def place(self) -> str:
        """Where the flag itself stands."""
        return self.words[0].place

    @property
    def spelled(self) -> str:
        """The flag as it was written, without its value."""
        return self.words[0].text.partition("=")[0]


def split_words(args: Sequence[str], file: str) -> tuple[list[Word], list[Problem]]:
    """Return the shell words of a recipe's ``args``, and the strings that no shell could read."""
    words: list[Word] = []
    problems: list[Problem] = []
    for number, text in enumerate(args, start=1):
        place = f"{file}: args[{number}]"
        if text.startswith(("{", "[")):
            words.append(Word(text, place))
            continue
        try:
            words += [Word(word, place) for word in shlex.split(text)]
        except ValueError as error:
            cure = "close the quote, or write the value as a string of its own"
            found = f"{describe(text)}: {str(error).lower()}"
            problems.append(Problem(place, found, "words as a POSIX shell reads them", cure))
    return words, problems


def canonical(word: str) -> str:
    """Return a flag's long name without leading dashes: ``-tp``, ``--tensor_parallel_size=8`` and beginnings alike."""
    if word == "--":
        return word
    head, dot, rest = word.partition("=")[0].partition(".")
    if not head.startswith("--"):
        return _long_name(head) + dot + rest
    name = head[2:].replace("_", "-")
    if len(name) > 2 and name not in ("quantization", "watermark", *JSON_FLAGS, *KNOWN):
        beginnings = [known for known in KNOWN if known.startswith(name)]
        name = beginnings[0] if beginnings else name
    return SYNONYMS.get(name, name) + dot + rest


def _long_name(short: str) -> str:
    if short in SHORT:
        return SHORT[short]
    if short[:2] in ("-n", "-r"):
        return SHORT[short[:2]]
    matches = [name for key, name in SHORT.items() if key.startswith(short)]
    return matches[0] if len(matches) == 1 else short


def is_flag(word: str) -> bool:
    """Whether argparse would take a word for a flag, not for a value."""
    name = word.partition("=")[0]
    return len(word) > 1 and name.startswith("-") and not NUMBER.fullmatch(word) and not re.search(r"\s", name)


def group_flags(words: Iterable[Word]) -> list[Flag]:
    """Return the words by flag, each with the values that follow it."""
    groups: list[list[Word]] = []
    for word in words:
        if is_flag(word.text) or not groups:
            groups.append([])
        groups[-1].append(word)
    return [_flag(group) for group in groups]


def _flag(group: Sequence[Word]) -> Flag:
    first, *rest = group
    if not is_flag(first.text):
        return Flag("", tuple(group), tuple(group))
    equals, value = first.text.partition("=")[1:]
    inline = [Word(value, first.place)] if equals else []
    return Flag(canonical(first.text), tuple(group), (*inline, *rest))


def settle_owned(flags: Sequence[Flag], fields: Mapping[str, Any]) -> tuple[list[Flag], list[Problem]]:
    """Return the flags that are the recipe's to give, and the problems of those that are the launcher's.

    ``fields`` holds the sound values of the keys in ``OWNED_WITH_KEY``.
    """
    counts = Counter(flag.name for flag in flags)
    kept: list[Flag] = []
    problems: list[Problem] = []
    for flag in flags:
        name = flag.name.partition(".")[0] if flag.name != "--" else "--"
        if name in REFUSED:
            problems.append(Problem(flag.place, _shown(flag, name), "no flag of the launcher", REFUSED[name]))
        elif name == "hf-token" and flag.values:
            problems.append(Problem(flag.place, f"{flag.spelled} with a value", "no secret", HUB_CURE))
        elif name not in OWNED_WITH_KEY:
            kept.append(flag)
        elif counts[name] > 1:
            found = f"{_shown(flag, name)} stands {counts[name]} times"
            problems.append(Problem(flag.place, found, f"at most once, as {OWNED_WITH_KEY[name]} says it"))
        elif OWNED_WITH_KEY[name] in fields:
            problems += _differs(flag, OWNED_WITH_KEY[name], fields[OWNED_WITH_KEY[name]])
    return kept, problems


def _shown(flag: Flag, name: str) -> str:
    plain = flag.spelled.replace("_", "-")
    return flag.spelled if plain in ("--", f"--{name}") else f"{flag.spelled} (--{name})"


def _differs(flag: Flag, key: str, wanted: object) -> list[Problem]:
    values = [value.text for value in flag.values]
    if [value.strip() for value in values] == [str(wanted)]:
        return []
    found = " ".join([_shown(flag, flag.name), *values]) if values else f"{flag.spelled} without a value"
    return [Problem(flag.place, found, f"{wanted}, the value of {key}", "remove the flag or change the key")]


def json_problems(flags: Iterable[Flag]) -> list[Problem]:
    """Return the flags whose value should be JSON and is not."""
    problems: list[Problem] = []
    for flag in flags:
        if flag.name in LOOSE:
            values = [value for value in flag.values if re.fullmatch(r"\s*\{.*\}\s*", value.text, re.DOTALL)]
        elif flag.name in JSON_FLAGS:
            values = list(flag.values[:1])
            if not values:
                problems.append(Problem(flag.place, f"{flag.spelled} without a value", _json_kind(flag.name)))
        else:
            continue
        for value in values:
            problems += _json_problem(flag, value)
    return problems


def _json_kind(name: str) -> str:
    return "a JSON list" if name in LISTS else "a JSON object"


def _json_problem(flag: Flag, value: Word) -> list[Problem]:
    if flag.name in OPTIONAL and value.text in ("", "None"):
        return []
    try:
        data = read_json(flag.name, value.text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        found = f"{flag.spelled} with broken JSON at {where}: {error.msg}"
        cure = "put the JSON into single quotes or into a string of its own"
        return [Problem(value.place, found, _json_kind(flag.name), "" if '"' in value.text else cure)]
    except (RecursionError, ValueError):
        return [Problem(value.place, f"{flag.spelled} with JSON that cannot be read", _json_kind(flag.name))]
    if isinstance(data, list if flag.name in LISTS else dict) or (data is None and flag.name in OBJECTS | OPTIONAL):
        return []
    return [Problem(value.place, f"{flag.spelled} {describe(value.text)}", _json_kind(flag.name))]


def read_json(name: str, text: str) -> Any:
    """Return the JSON value of a flag."""
    if name in CONFIGS:
        # A blank for the unit keeps the columns of messages right.
        text = JSON_STRING_OR_SIZE.sub(lambda match: match[1] or f"{match[2]} ", text)
    return json.loads(text)


def apply_set(flags: Sequence[Flag], changes: Mapping[Any, Any]) -> tuple[list[Flag], list[Problem]]:
    """Return the flags with ``serve_set`` applied: replaced in place, added at the end, or removed for ``None``."""
    result = list(flags)
    problems: list[Problem] = []
    for key, value in changes.items():
        place = f"serve_set: {key}"
        if not isinstance(key, str) or not SET_KEY.fullmatch(key):
            problems.append(Problem("serve_set", f"the key {describe(key)}", "a flag such as max-model-len"))
            continue
        name = _set_name(key)
        owner = name.partition(".")[0]
        if owner in REFUSED or owner in OWNED_WITH_KEY:
            cure = f"change {OWNED_WITH_KEY[owner]} in the recipe" if owner in OWNED_WITH_KEY else REFUSED[owner]
            problems.append(Problem(place, f"--{owner}", "no flag of the launcher", cure))
            continue
        words, reason = _set_words(name, value)
        if name == "hf-token" and len(words) > 1:
            reason = "a value", "no secret", HUB_CURE
        if reason:
            problems.append(Problem(place, *reason))
            continue
        _replace(result, name, group_flags(Word(word, place) for word in words))
    return result, problems


def _set_name(key: str) -> str:
    if not key.startswith("-") and f"-{key}" in SHORT:
        return SHORT[f"-{key}"]
    return canonical(key if key.startswith("-") else f"--{key}")


def _replace(flags: list[Flag], name: str, new: Sequence[Flag]) -> None:
    places = [place for place, flag in enumerate(flags) if flag.name == name]
    for place in reversed(places[1:]):
        del flags[place]
    first = places[0] if places else len(flags)
    flags[first : first + 1] = new


def _set_words(name: str, value: Any) -> tuple[list[str], tuple[str, str, str] | None]:
    flag = f"--{name}"
    if value is None:
        return [], None
    if value is True:
        return [flag], None
    if value is False:
        return [], ("false", "true, null or a value", f'null removes the flag, {{"no-{name}": true}} switches it off')
    if isinstance(value, dict) or (isinstance(value, list) and name in JSON_FLAGS and name != "lora-modules"):
        return [flag, json.dumps(value)], None
    items = value if isinstance(value, list) else [value]
    texts = [_scalar(item) for item in items]
    if not texts or None in texts or (len(texts) > 1 and any(is_flag(str(text)) for text in texts)):
        return [], (describe(value), "texts and numbers, true, null or a JSON value", "")
    if len(texts) == 1 and is_flag(str(texts[0])):
        return [f"{flag}={texts[0]}"], None
    return [flag, *map(str, texts)], None


def _scalar(item: object) -> str | None:
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        return None
    text = str(item)
    return None if "\0" in text or text.encode("utf-8", "replace").decode() != text else text
