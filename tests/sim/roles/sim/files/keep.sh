#!/bin/sh
# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# usage: keep.sh NODE IMAGE NAME   Brings a node's image to this machine, as NAME.
set -eu
archive=$(mktemp)
trap 'rm -f "$archive"' EXIT
docker exec "$1" docker save "$2" >"$archive"
docker load --quiet --input "$archive"
docker tag "$2" "$3"
