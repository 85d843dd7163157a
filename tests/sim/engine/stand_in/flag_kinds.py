# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in knows of vLLM's flags. A flag that is not here is taken with the one word that may follow it."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-q": "--quantization",
    "-ep": "--enable-expert-parallel",
    "-cc": "--compilation-config",
    "-sc": "--speculative-config",
    "-ac": "--attention-config",
    "-dc": "--diffusion-config",
}

# On or off. All but --headless have a --no- form as well.
SWITCHES = _names(
    """
    --async-scheduling --disable-cascade-attn --disable-chunked-mm-input --disable-custom-all-reduce
    --disable-hybrid-kv-cache-manager --disable-log-stats --disable-sliding-window --disable-uvicorn-access-log
    --enable-auto-tool-choice --enable-chunked-prefill --enable-dbo --enable-eplb --enable-expert-parallel
    --enable-flashinfer-autotune --enable-log-outputs --enable-log-requests --enable-lora --enable-mm-embeds
    --enable-prefix-caching --enable-prompt-embeds --enable-prompt-tokens-details --enable-server-load-tracking
    --enable-sleep-mode --enforce-eager --fully-sharded-loras --interleave-mm-strings --kv-cache-metrics
    --language-model-only --mm-encoder-only --numa-bind --scheduler-reserve-full-isl --skip-mm-profiling
    --skip-tokenizer-init --trust-remote-code --use-tqdm-on-load --allow-credentials --enable-offline-docs
    --headless
    """
)

INTEGERS = _names(
    """
    --tensor-parallel-size --pipeline-parallel-size --data-parallel-size --decode-context-parallel-size
    --prefill-context-parallel-size --nnodes --node-rank --master-port --port --seed --max-num-seqs
    --max-num-batched-tokens --block-size --max-cudagraph-capture-size --distributed-timeout-seconds
    --api-server-count --max-logprobs --stream-interval --max-model-len
    """
)

FLOATS = frozenset({"--gpu-memory-utilization", "--cpu-offload-gb", "--video-pruning-rate"})

JSON = _names(
    """
    --additional-config --attention-config --compilation-config --default-chat-template-kwargs --diffusion-config
    --ec-transfer-config --engram-config --eplb-config --hf-overrides --kernel-config --kv-events-config
    --kv-transfer-config --limit-mm-per-prompt --media-io-kwargs --mm-processor-kwargs --model-loader-extra-config
    --override-generation-config --pooler-config --profiler-config --quantization-config --reasoning-config
    --speculative-config --structured-outputs-config --weight-transfer-config
    """
)

LISTS = _names(
    """
    --served-model-name --api-key --lora-modules --cudagraph-capture-sizes --ignore-patterns --logits-processors
    --kv-cache-dtype-skip-layers --device-ids
    """
)

# Different on every rank, or meaningful on rank 0 alone: not compared between ranks.
RANKS_OWN = frozenset({"--node-rank", "--headless", "--host", "--port", "--api-key", "--root-path", "--uds"})
