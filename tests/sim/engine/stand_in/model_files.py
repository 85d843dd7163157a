# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the model is where vLLM would look for it."""

from __future__ import annotations

import os
from pathlib import Path

from .faults import cache_folder
from .launch import LaunchError


def check(model: str) -> None:
    """An absolute path must be a folder; offline, a Hugging Face id must be in the cache."""
    if model.startswith("/"):
        if not (Path(model) / "config.json").is_file():
            raise LaunchError(f"Invalid repository ID or local directory specified: '{model}'.")
        return
    snapshots = cache_folder() / "hub" / ("models--" + model.replace("/", "--")) / "snapshots"
    if os.environ.get("HF_HUB_OFFLINE") == "1" and not any(snapshots.glob("*/config.json")):
        raise LaunchError(
            f"We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached "
            f"files.\nCheck your internet connection or see how to run the library in offline mode: {model} is not in "
            f"{cache_folder()}."
        )
