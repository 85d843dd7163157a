# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Near misses are found, strangers are not."""

from __future__ import annotations

import pytest
from ansible_collections.dgxspark.vllm.plugins.plugin_utils._nearest import did_you_mean, nearest

KEYS = ("tensor_parallel_size", "pipeline_parallel_size", "docker_image", "docker_image_dir", "model")


@pytest.mark.parametrize(
    ("word", "cure"),
    [
        ("tensor_paralel_size", "did you mean tensor_parallel_size?"),
        ("Tensor-Parallel-Size", "did you mean tensor_parallel_size?"),
        ("modle", "did you mean model?"),
        ("docker_img", "did you mean docker_image?"),
        ("colour", ""),
        ("", ""),
    ],
)
def test_did_you_mean(word: str, cure: str) -> None:
    assert did_you_mean(word, KEYS) == cure


def test_nearest_comes_first() -> None:
    assert nearest("docker_image_di", KEYS, 2) == ["docker_image_dir", "docker_image"]
