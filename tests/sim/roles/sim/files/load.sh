#!/bin/sh
# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: load.sh NODE IMAGE...   Gives the images to a node's own Docker engine unless it has them already.
set -eu
node=$1
shift
# Layers, not image IDs: two image stores give one content two IDs.
layers='{{range .RootFS.Layers}}{{.}} {{end}}{{json .Config.Entrypoint}}'
wanted=$(docker image inspect --format "$layers" "$@")
if [ "$(docker exec "$node" docker image inspect --format "$layers" "$@" 2>/dev/null)" != "$wanted" ]; then
    archive=$(mktemp)
    trap 'rm -f "$archive"' EXIT
    docker save --output "$archive" "$@"
    docker exec --interactive "$node" docker load <"$archive"
    echo loaded
fi
