#!/bin/sh
# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Writes down what a role may change on a node: configuration, packages, units, users, MTU.
set -eu
{
    # Backups of the user database and of ld.so are made by any change of another kind.
    find /etc /usr/local /var/lib/dgxspark.vllm -type f ! -name '*-' ! -name .pwd.lock ! -name ld.so.cache \
        -exec sha256sum {} + 2>/dev/null | sort -k 2
    find /etc /usr/local -type l -printf 'link %p -> %l\n' | sort
    find /run/dgxspark.vllm -type f 2>/dev/null | sort
    dpkg-query --show --showformat 'package ${Package} ${db:Status-Abbrev}\n'
    systemctl list-units --plain --no-legend --type=service --state=active,failed | awk '{ print "unit", $1, $3, $4 }' \
        | grep -v -e '^unit user' -e '@'
    systemctl show docker systemd-logind --property=Id,LimitNOFILE,LimitMEMLOCK,FragmentPath,DropInPaths
    ip -o link | awk '{ print "link", $2, $4, $5 }' | grep -v veth
    id spark
} >"$1"
