# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import what a serving engine imports, so that the image holds it compiled and every start is quicker.

Compiling all of the packages takes four times as long, and most of them are never imported.
"""

from __future__ import annotations

import importlib
from typing import Final

MODULES: Final = [
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.models.llama",
]

if __name__ == "__main__":
    for name in MODULES:
        importlib.import_module(name)
