# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words, flags in all their spellings, JSON values, and changes for one run."""

# Messages stand whole, so that they can be searched for.
# ruff: noqa: E501

from __future__ import annotations

import shlex
from typing import Any

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._flags import (
    KNOWN,
    SHORT,
    Flag,
    apply_set,
    canonical,
    group_flags,
    is_flag,
    json_problems,
    settle_owned,
    split_words,
)
from hypothesis import given
from hypothesis import strategies as st

FIELDS = {"tensor_parallel_size": 8, "pipeline_parallel_size": 1, "distributed_backend": "mp"}


def flags_of(*args: str) -> list[Flag]:
    words, problems = split_words(args, "r")
    assert problems == []
    return group_flags(words)


def words_of(flags: list[Flag]) -> list[str]:
    return [word.text for flag in flags for word in flag.words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--max-model-len 8192", ["--max-model-len", "8192"]),
        ("'{\"image\":4}'", ['{"image":4}']),
        ("\n'{\"image\":4}'", ['{"image":4}']),
        ('{"image": 4}', ['{"image": 4}']),
        ("[1, 2]", ["[1, 2]"]),
        ('{"a": "it\'s"}\n', ['{"a": "it\'s"}\n']),
        ('"a b" c\\ d', ["a b", "c d"]),
        ("--a=''", ["--a="]),
        ("''", [""]),
        ("", []),
        ("# $HOME ~ *.txt `ls` | ; &", ["#", "$HOME", "~", "*.txt", "`ls`", "|", ";", "&"]),
        ("{{ x }}", ["{{ x }}"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert [word.text for word in split_words([text], "r")[0]] == words


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "'a",
            (
                'r: args[2]: "\'a": no closing quotation, expected words as a POSIX shell reads them; '
                "close the quote, or write the value as a string of its own"
            ),
        ),
        (
            '--x "',
            (
                'r: args[2]: "--x \\"": no closing quotation, expected words as a POSIX shell reads '
                "them; close the quote, or write the value as a string of its own"
            ),
        ),
        (
            "a\\",
            (
                'r: args[2]: "a\\\\": no escaped character, expected words as a POSIX shell reads them; '
                "close the quote, or write the value as a string of its own"
            ),
        ),
    ],
)
def test_unbalanced_quotes(text: str, line: str) -> None:
    assert [str(problem) for problem in split_words(["ok", text], "r")[1]] == [line]


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_what_a_shell_quotes_is_read_back(words: list[str]) -> None:
    assert [word.text for word in split_words([shlex.quote(word) for word in words], "r")[0]] == words


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("--tensor-parallel-size", "tensor-parallel-size"),
        ("--tensor_parallel_size=8", "tensor-parallel-size"),
        ("--tensor-par", "tensor-parallel-size"),
        ("-tp", "tensor-parallel-size"),
        ("-tp=8", "tensor-parallel-size"),
        ("-t", "tensor-parallel-size"),
        ("-pp", "pipeline-parallel-size"),
        ("-pcp", "prefill-context-parallel-size"),
        ("-p", "-p"),
        ("-n", "nnodes"),
        ("-n8", "nnodes"),
        ("-r=1", "node-rank"),
        ("--api_key=x", "api-key"),
        ("--device-memory-utilization", "gpu-memory-utilization"),
        ("--gpu-memory-util", "gpu-memory-utilization"),
        ("--quantization", "quantization"),
        ("--watermark", "watermark"),
        ("--model", "model"),
        ("--compilation_config.pass_config.x", "compilation-config.pass_config.x"),
        ("-cc.mode=3", "compilation-config.mode"),
        ("-O3", "-O3"),
        ("--", "--"),
    ],
)
def test_canonical(word: str, name: str) -> None:
    assert canonical(word) == name


def test_short_forms_stand_for_themselves() -> None:
    assert {short: canonical(short) for short in SHORT} == SHORT


def test_long_forms_stand_for_themselves() -> None:
    assert [name for name in KNOWN if canonical(f"--{name}") not in (name, "gpu-memory-utilization")] == []


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("--a", True),
        ("-a", True),
        ("--a=b c", True),
        ("-1", False),
        ("-0.5", False),
        ("-", False),
        ("- a", False),
        ("a", False),
    ],
)
def test_is_flag(word: str, flag: bool) -> None:
    assert is_flag(word) is flag


def test_values_follow_their_flag() -> None:
    flags = flags_of("stray --served-model-name a b", "--port=8000 --max-model-len -1")
    assert [(flag.name, [value.text for value in flag.values]) for flag in flags] == [
        ("", ["stray"]),
        ("served-model-name", ["a", "b"]),
        ("port", ["8000"]),
        ("max-model-len", ["-1"]),
    ]
    assert flags[3].place == "r: args[2]"


OWN = "remove it: the launcher gives each rank its own"
DIFFERS = "remove the flag or change the key"


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--headless"], f"r: args[1]: --headless, expected no flag of the launcher; {OWN}"),
        (["--node-rank=0"], f"r: args[1]: --node-rank, expected no flag of the launcher; {OWN}"),
        (["--node_rank", "0"], f"r: args[1]: --node_rank, expected no flag of the launcher; {OWN}"),
        (["-r", "0"], f"r: args[1]: -r (--node-rank), expected no flag of the launcher; {OWN}"),
        (["--a", "-r3"], f"r: args[2]: -r3 (--node-rank), expected no flag of the launcher; {OWN}"),
        (["--master-a", "x"], f"r: args[1]: --master-a (--master-addr), expected no flag of the launcher; {OWN}"),
        (["--x --master-port 1"], f"r: args[1]: --master-port, expected no flag of the launcher; {OWN}"),
        (
            ["-n", "8"],
            "r: args[1]: -n (--nnodes), expected no flag of the launcher; remove it: the key required_nodes says how many nodes there are",
        ),
        (
            ["--model", "x"],
            "r: args[1]: --model, expected no flag of the launcher; remove it: the key model names the model",
        ),
        (
            ["--api-key=s3cret"],
            (
                "r: args[1]: --api-key, expected no flag of the launcher; remove it: secrets never stand "
                "in argv; set serve_api_key in the inventory"
            ),
        ),
        (
            ["--hf-token", "s3cret"],
            (
                "r: args[1]: --hf-token with a value, expected no secret; remove it: secrets never stand "
                "in argv; set serve_hf_token in the inventory"
            ),
        ),
        (
            ["--", "x"],
            "r: args[1]: --, expected no flag of the launcher; remove it: the launcher's own flags stand behind the recipe's",
        ),
        (
            ["--tensor-parallel-size", "4"],
            f"r: args[1]: --tensor-parallel-size 4, expected 8, the value of tensor_parallel_size; {DIFFERS}",
        ),
        (
            ["-tp=4"],
            f"r: args[1]: -tp (--tensor-parallel-size) 4, expected 8, the value of tensor_parallel_size; {DIFFERS}",
        ),
        (["-pp"], f"r: args[1]: -pp without a value, expected 1, the value of pipeline_parallel_size; {DIFFERS}"),
        (
            ["--distributed-executor-backend=ray"],
            (
                "r: args[1]: --distributed-executor-backend ray, expected mp, the value of "
                f"distributed_backend; {DIFFERS}"
            ),
        ),
    ],
)
def test_flags_of_the_launcher(args: list[str], line: str) -> None:
    assert [str(problem) for problem in settle_owned(flags_of(*args), FIELDS)[1]] == [line]


def test_a_flag_that_says_what_its_key_says_is_taken_out() -> None:
    flags, problems = settle_owned(flags_of("-tp 8 --a b", "--distributed_executor_backend=mp", "--hf-token"), FIELDS)
    assert problems == []
    assert words_of(flags) == ["--a", "b", "--hf-token"]


def test_a_repeated_flag_is_refused_even_when_equal() -> None:
    problems = settle_owned(flags_of("-tp 8", "--tensor-parallel-size=8"), FIELDS)[1]
    assert [str(problem) for problem in problems] == [
        "r: args[1]: -tp (--tensor-parallel-size) stands 2 times, expected at most once, as tensor_parallel_size says it",
        "r: args[2]: --tensor-parallel-size stands 2 times, expected at most once, as tensor_parallel_size says it",
    ]


QUOTE = "put the JSON into single quotes or into a string of its own"


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            ["--speculative-config", '{"a": 1,}'],
            (
                "r: args[2]: --speculative-config with broken JSON at line 1, column 9: Expecting "
                "property name enclosed in double quotes, expected a JSON object"
            ),
        ),
        (
            ["--limit-mm-per-prompt {image:4}"],
            (
                "r: args[1]: --limit-mm-per-prompt with broken JSON at line 1, column 2: Expecting "
                f"property name enclosed in double quotes, expected a JSON object; {QUOTE}"
            ),
        ),
        (["-cc", "3"], 'r: args[2]: -cc "3", expected a JSON object'),
        (["--compilation-config"], "r: args[1]: --compilation-config without a value, expected a JSON object"),
        (
            ["--reasoning-config={}x"],
            (
                "r: args[1]: --reasoning-config with broken JSON at line 1, column 3: Extra data, "
                f"expected a JSON object; {QUOTE}"
            ),
        ),
        (["--mm-processor-kwargs", "[1]"], 'r: args[2]: --mm-processor-kwargs "[1]", expected a JSON object'),
        (["--allowed-origins", "{}"], 'r: args[2]: --allowed-origins "{}", expected a JSON list'),
        (
            ["--hf-overrides", "{a}"],
            (
                "r: args[2]: --hf-overrides with broken JSON at line 1, column 2: Expecting property "
                f"name enclosed in double quotes, expected a JSON object; {QUOTE}"
            ),
        ),
        (
            ["--override-generation-config", "[" * 100000],
            ("r: args[2]: --override-generation-config with JSON that cannot be read, expected a JSON object"),
        ),
        (
            ["--kv-transfer-config", '{"a": 8m, "b": }'],
            (
                "r: args[2]: --kv-transfer-config with broken JSON at line 1, column 16: Expecting "
                "value, expected a JSON object"
            ),
        ),
    ],
)
def test_broken_json(args: list[str], line: str) -> None:
    assert [str(problem) for problem in json_problems(flags_of(*args))] == [line]


@pytest.mark.parametrize(
    "args",
    [
        ["--speculative-config", "None"],
        ["--speculative-config", "''"],
        ["--kv-transfer-config", '{"cpu_bytes_to_use": 80m, "note": "80m"}'],
        ["--compilation-config.mode", "3"],
        ["-cc.mode=3"],
        ["--hf-overrides", "my.module"],
        ["--pt-load-map-location", "cuda:0"],
        ["--lora-modules", "one=/a", '{"name": "two", "path": "/b"}'],
        ["--allowed-origins", '["*"]'],
        ["--mm-processor-kwargs", "null"],
        ["--chat-template", "{{ messages }}"],
        ["--default-chat-template-kwargs", '{"thinking": true}'],
    ],
)
def test_what_vllm_reads(args: list[str]) -> None:
    assert json_problems(flags_of(*args)) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max-model-len": 65536}, ["--max-model-len", "65536", "--a", "--n=1"]),
        ({"max_model_len": "8k"}, ["--max-model-len", "8k", "--a", "--n=1"]),
        ({"--max-model-len": -1}, ["--max-model-len", "-1", "--a", "--n=1"]),
        ({"a": None}, ["--max-model-len", "1", "--n=1"]),
        ({"a": True, "b": True}, ["--max-model-len", "1", "--a", "--n=1", "--b"]),
        ({"absent": None}, ["--max-model-len", "1", "--a", "--n=1"]),
        (
            {"served-model-name": ["x", "y z"]},
            ["--max-model-len", "1", "--a", "--n=1", "--served-model-name", "x", "y z"],
        ),
        ({"dcp": 2}, ["--max-model-len", "1", "--a", "--n=1", "--decode-context-parallel-size", "2"]),
        ({"seed": 0.5}, ["--max-model-len", "1", "--a", "--n=1", "--seed", "0.5"]),
        ({"stop": "-x"}, ["--max-model-len", "1", "--a", "--n=1", "--stop=-x"]),
        (
            {"limit-mm-per-prompt": {"image": 4}},
            ["--max-model-len", "1", "--a", "--n=1", "--limit-mm-per-prompt", '{"image": 4}'],
        ),
        ({"allowed-origins": ["*"]}, ["--max-model-len", "1", "--a", "--n=1", "--allowed-origins", '["*"]']),
        ({"compilation-config.mode": 3}, ["--max-model-len", "1", "--a", "--n=1", "--compilation-config.mode", "3"]),
    ],
)
def test_serve_set(changes: dict[str, Any], words: list[str]) -> None:
    flags, problems = apply_set(flags_of("--max-model-len 1 --a --n=1"), changes)
    assert problems == []
    assert words_of(flags) == words


def test_serve_set_replaces_the_first_and_drops_the_others() -> None:
    flags, _unmet = apply_set(flags_of("--port 1 --a --port=2 --b --port 3"), {"port": 4})
    assert words_of(flags) == ["--port", "4", "--a", "--b"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"tensor-parallel-size": 4},
            (
                "serve_set: tensor-parallel-size: --tensor-parallel-size, expected no flag of the "
                "launcher; change tensor_parallel_size in the recipe"
            ),
        ),
        (
            {"tp": 8},
            "serve_set: tp: --tensor-parallel-size, expected no flag of the launcher; change tensor_parallel_size in the recipe",
        ),
        ({"--headless": True}, f"serve_set: --headless: --headless, expected no flag of the launcher; {OWN}"),
        (
            {"-n": 8},
            "serve_set: -n: --nnodes, expected no flag of the launcher; remove it: the key required_nodes says how many nodes there are",
        ),
        (
            {"api_key": "x"},
            (
                "serve_set: api_key: --api-key, expected no flag of the launcher; remove it: secrets "
                "never stand in argv; set serve_api_key in the inventory"
            ),
        ),
        (
            {"hf_token": "s3cret"},
            (
                "serve_set: hf_token: a value, expected no secret; remove it: secrets never stand in "
                "argv; set serve_hf_token in the inventory"
            ),
        ),
        (
            {"async": False},
            'serve_set: async: false, expected true, null or a value; null removes the flag, {"no-async": true} switches it off',
        ),
        ({"a b": 1}, 'serve_set: the key "a b", expected a flag such as max-model-len'),
        ({5: 1}, "serve_set: the key the number 5, expected a flag such as max-model-len"),
        ({"x": []}, "serve_set: x: a list, expected texts and numbers, true, null or a JSON value"),
        ({"x": ["a", "--headless"]}, "serve_set: x: a list, expected texts and numbers, true, null or a JSON value"),
        ({"x": "a\0"}, 'serve_set: x: "a\\u0000", expected texts and numbers, true, null or a JSON value'),
        ({"x": "\ud800"}, 'serve_set: x: "\\ud800", expected texts and numbers, true, null or a JSON value'),
    ],
)
def test_serve_set_refuses(changes: dict[Any, Any], line: str) -> None:
    flags, problems = apply_set([], changes)
    assert flags == []
    assert [str(problem) for problem in problems] == [line]
