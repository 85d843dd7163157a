# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a tiny random Llama with a byte-level tokenizer, as a Hugging Face cache holds a model.

It speaks gibberish, and that is enough: what it proves is that all ranks compute together.
Runs inside the image's build, so it needs only what the engine brings along, and no download.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, ByteLevelBPETokenizer

REPOSITORY: Final = "dgxspark/tiny-llama"
REVISION: Final = "0" * 40
SPECIAL: Final = ["<s>", "</s>", "<pad>"]
CHAT_TEMPLATE: Final = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
CORPUS: Final = [
    "One node is rank zero, the head, and the other ranks follow it over the fabric.",
    "user: What do you serve? assistant: One large model across many small machines.",
    "A canary is a completion of one token: the only honest proof that all ranks work.",
]
CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "torch_dtype": "float16",
}


def weights() -> dict[str, np.ndarray]:
    """Random weights of the configured shape, the same at every build."""
    random = np.random.default_rng(20260101)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return random.normal(0.0, 0.08, (rows, columns)).astype(np.float16)

    tensors = {
        "model.embed_tokens.weight": matrix(512, 128),
        "lm_head.weight": matrix(512, 128),
        "model.norm.weight": np.ones(128, np.float16),
    }
    for layer in range(2):
        name = f"model.layers.{layer}"
        tensors |= {
            f"{name}.input_layernorm.weight": np.ones(128, np.float16),
            f"{name}.post_attention_layernorm.weight": np.ones(128, np.float16),
            f"{name}.self_attn.q_proj.weight": matrix(128, 128),
            f"{name}.self_attn.k_proj.weight": matrix(64, 128),
            f"{name}.self_attn.v_proj.weight": matrix(64, 128),
            f"{name}.self_attn.o_proj.weight": matrix(128, 128),
            f"{name}.mlp.gate_proj.weight": matrix(256, 128),
            f"{name}.mlp.up_proj.weight": matrix(256, 128),
            f"{name}.mlp.down_proj.weight": matrix(128, 256),
        }
    return tensors


def write_tokenizer(folder: Path) -> None:
    """A byte-level BPE tokenizer: 256 bytes, three special tokens, and merges up to the vocabulary's size."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        CORPUS, vocab_size=512, min_frequency=1, show_progress=False, special_tokens=SPECIAL
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")


def main(cache: Path) -> None:
    """Lay the model out under a Hugging Face cache, so that the engine finds it by its id, offline."""
    model = cache / f"models--{REPOSITORY.replace('/', '--')}"
    snapshot = model / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(REVISION, encoding="utf-8")
    (snapshot / "config.json").write_text(json.dumps(CONFIG, indent=2), encoding="utf-8")
    save_file(weights(), str(snapshot / "model.safetensors"), metadata={"format": "pt"})
    write_tokenizer(snapshot)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
