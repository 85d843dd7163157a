# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Hugging Face cache that holds the models of the shipped recipes, as far as a launcher looks: names, no weights."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

MODELS = ("deepseek-ai/DeepSeek-V4.1-Flash", "deepseek-ai/DeepSeek-V4-Flash-Vision-Exp")
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def _files(model: str) -> dict[str, str]:
    weights = {f"layers.{index}.weight": shard for index, shard in enumerate(SHARDS)}
    return {
        "config.json": json.dumps({"architectures": ["DeepseekV4ForCausalLM"], "_name_or_path": model}),
        "tokenizer_config.json": json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}),
        "model.safetensors.index.json": json.dumps({"metadata": {"total_size": 16}, "weight_map": weights}),
        **{shard: f"{model} {shard}" for shard in SHARDS},
    }


def add_model(cache: Path, model: str) -> None:
    """Blobs named by content, and a snapshot of links to them, as huggingface_hub lays them out."""
    folder = cache / "hub" / ("models--" + model.replace("/", "--"))
    revision = hashlib.sha256(model.encode()).hexdigest()[:40]
    snapshot = folder / "snapshots" / revision
    for part in (folder / "blobs", folder / "refs", snapshot):
        part.mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(revision, encoding="ascii")
    for name, text in _files(model).items():
        blob = hashlib.sha256(text.encode()).hexdigest()
        (folder / "blobs" / blob).write_text(text, encoding="utf-8")
        link = snapshot / name
        link.unlink(missing_ok=True)
        link.symlink_to(Path("..") / ".." / "blobs" / blob)


if __name__ == "__main__":
    for wanted in MODELS:
        add_model(Path(sys.argv[1]), wanted)
