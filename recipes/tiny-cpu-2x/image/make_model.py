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
# No multiple of 32: for those the engine takes its AMX kernel where the processor has one, without asking the system
# for leave, and dies of an illegal instruction at the first request (seen with 0.32.0).
HEAD_DIM: Final = 80
CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": HEAD_DIM,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "torch_dtype": "bfloat16",
}


def shapes() -> dict[str, list[int]]:
    """Return the shape of every tensor."""
    hidden, inner, vocabulary = 128, 256, 512
    queries, keys = 4 * HEAD_DIM, 2 * HEAD_DIM
    tensors = {
        "model.embed_tokens.weight": [vocabulary, hidden],
        "lm_head.weight": [vocabulary, hidden],
        "model.norm.weight": [hidden],
    }
    for layer in range(2):
        name = f"model.layers.{layer}"
        tensors |= {
            f"{name}.input_layernorm.weight": [hidden],
            f"{name}.post_attention_layernorm.weight": [hidden],
            f"{name}.self_attn.q_proj.weight": [queries, hidden],
            f"{name}.self_attn.k_proj.weight": [keys, hidden],
            f"{name}.self_attn.v_proj.weight": [keys, hidden],
            f"{name}.self_attn.o_proj.weight": [hidden, queries],
            f"{name}.mlp.gate_proj.weight": [inner, hidden],
            f"{name}.mlp.up_proj.weight": [inner, hidden],
            f"{name}.mlp.down_proj.weight": [hidden, inner],
        }
    return tensors


def write_weights(path: Path) -> None:
    """Write random weights as safetensors, the same at every build; norms are ones."""
    random = np.random.default_rng(20260101)
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, shape in shapes().items():
        values = np.ones(shape) if len(shape) == 1 else random.normal(0.0, 0.08, shape)
        start = len(data)
        # bfloat16 is the upper half of float32; numpy does not know it.
        data += (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_tokenizer(folder: Path) -> None:
    """A byte-level BPE tokenizer: 256 bytes, three special tokens, and merges up to the vocabulary's size."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(CORPUS, vocab_size=512, min_frequency=1, show_progress=False, special_tokens=SPECIAL)
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
    write_weights(snapshot / "model.safetensors")
    write_tokenizer(snapshot)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
