# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test sanity, in a copy that stands where ansible-test wants a collection."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from simulated import ROOT

# ansible-test fetches get-pip.py from a site that is no package index. This one does the same with Python's own copy.
GET_PIP = """\
import ensurepip, pathlib, subprocess, sys
wheel = next((pathlib.Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
wanted = [word for word in sys.argv[1:] if word.startswith("pip==")]
subprocess.check_call([sys.executable, f"{wheel}/pip", "install", "-q", "--disable-pip-version-check", *wanted])
"""
PINNED_PIP = ("24_2", "25_2")


def test_sanity(tmp_path: Path) -> None:
    """Every sanity test passes, with nothing ignored."""
    cache = Path.home() / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in PINNED_PIP:
        (cache / f"get_pip_{version}.py").write_text(GET_PIP, encoding="utf-8")
    copy = tmp_path / "ansible_collections/dgxspark/vllm"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", ":!.collections"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    done = subprocess.run(
        ["ansible-test", "sanity", "--local", "--python", f"{sys.version_info[0]}.{sys.version_info[1]}"],
        cwd=copy,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
