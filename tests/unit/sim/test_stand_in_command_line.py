# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of `vllm serve`: what is understood, what is refused, and how."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stand_in.command_line import UsageError, parse
from stand_in.launch import LaunchError, check

if TYPE_CHECKING:
    from .conftest import Ranks

RECIPES = sorted((Path(__file__).resolve().parents[3] / "recipes").glob("d*/recipe.toml"))
TWO = ["m", "-tp", "2", "--nnodes", "2", "--master-addr", "10.0.0.1", "--master-port", "29501"]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["m"], {}),
        (["m", "--max-model-len", "8K"], {"--max-model-len": 8192}),
        (["m", "--max_model_len=8k"], {"--max-model-len": 8000}),
        (["m", "-tp", "2", "-n=3"], {"--tensor-parallel-size": 2, "--nnodes": 3}),
        (["m", "--served-model-name", "a", "b", "--seed", "-1"], {"--served-model-name": ["a", "b"], "--seed": -1}),
        (
            ["--trust-remote-code", "m", "--no-async-scheduling"],
            {"--trust-remote-code": True, "--async-scheduling": False},
        ),
        (["m", "-O3"], {"--optimization-level": "3"}),
        (
            ["m", "--new-switch", "--new-value", "x", "--new=y"],
            {"--new-switch": True, "--new-value": "x", "--new": "y"},
        ),
        (["m", "-cc", '{"b": 1,"a":2}'], {"--compilation-config": '{"a": 2, "b": 1}'}),
        (["m", "--compilation-config.mode", "3"], {"--compilation-config.mode": "3"}),
        (["m", "--gpu-memory-utilization", "0.9"], {"--gpu-memory-utilization": 0.9}),
    ],
)
def test_understood(words: list[str], flags: dict[str, Any]) -> None:
    line = parse(words)
    assert (line.model, line.flags) == ("m", flags)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["m", "n"], "unrecognized arguments: n"),
        (["m", "--trust-remote-code", "m"], "unrecognized arguments: m"),
        (["m", "--max-num-seqs", "many"], "argument --max-num-seqs: invalid int value: 'many'"),
        (["m", "--gpu-memory-utilization", "x"], "argument --gpu-memory-utilization: invalid float value: 'x'"),
        (["m", "--port"], "argument --port: expected one argument"),
        (["m", "--served-model-name", "--headless"], "argument --served-model-name: expected at least one argument"),
        (["m", "--headless=yes"], "argument --headless: ignored explicit argument 'yes'"),
        (
            ["m", "--speculative-config", "{'a': 1}"],
            "argument --speculative-config/-sc: Value {'a': 1} cannot be converted to "
            "<function loads at 0x7f0000000000>.",
        ),
        (
            ["m", "--kv-transfer-config", "{"],
            "argument --kv-transfer-config: 1 validation error for KVTransferConfig\n"
            "  Invalid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
    ],
)
def test_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TWO, "--node-rank", "1"], "--node-rank 1 must be headless."),
        ([*TWO, "--headless"], "--node-rank 0 serves HTTP and must not be headless."),
        (["m", "--headless"], "--node-rank 0 serves HTTP and must not be headless."),
        (["m", "-tp", "2", "--nnodes", "2"], "--nnodes 2 needs --master-addr and --master-port."),
        (
            [*TWO, "--distributed-executor-backend", "ray"],
            "nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher.",
        ),
        (
            [*TWO, "--node-rank", "2", "--headless"],
            "Invalid data-parallel launch options: `--node-rank` must be between 0 and 1; got `--node-rank 2`. Set it "
            "to this node's zero-based index.",
        ),
        (["m", "--gpu-memory-utilization", "1.5"], "GPU memory utilization must be less than 1.0. Got 1.5."),
        ([*TWO, "-dcp", "3"], "tp_size=2 must be divisible bydcp_size=3."),
    ],
)
def test_makes_no_sense(words: list[str], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        check(parse(words))
    assert str(caught.value) == message


@pytest.mark.parametrize("path", RECIPES, ids=[path.parent.name for path in RECIPES])
def test_flags_of_the_shipped_recipes(path: Path) -> None:
    recipe = tomllib.loads(path.read_text(encoding="utf-8"))
    words = [word for text in recipe["args"] for word in shlex.split(text)]
    line = parse([recipe["model"], *words])
    assert line.model == recipe["model"]
    assert len(line.flags) == sum(word.startswith("--") for word in words)


def test_doubled_words_end_with_code_2(ranks: Ranks) -> None:
    words = ["m/x", "--served-model-name", "a", "--trust-remote-code"]
    ranks.run(0, [*words, *words])
    assert ranks.code(0) == 2
    assert ranks.log(0) == (
        "usage: vllm [-h] [-v] {chat,complete,serve,launch,bench,collect-env,run-batch} ...\n"
        "vllm: error: unrecognized arguments: m/x\n"
    )


def test_a_launch_that_makes_no_sense_ends_with_code_1(ranks: Ranks) -> None:
    ranks.run(0, ["m/x", "--tensor-parallel-size", "2"])
    assert ranks.code(0) == 1
    assert "ValueError: World size (2) is larger than the number of available GPUs (1) in this node." in ranks.log(0)
