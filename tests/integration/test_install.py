# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection runs from the checkout, from its playbooks folder and installed from the built archive."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from simulated import FLASH, ROOT, Cluster, run_playbook


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the archive and install it; return the folder of collections."""
    folder = tmp_path_factory.mktemp("built")
    galaxy = [str(Path(sys.executable).with_name("ansible-galaxy")), "collection"]
    subprocess.run([*galaxy, "build", "--output-path", str(folder)], cwd=ROOT, check=True, capture_output=True)
    archive = next(folder.glob("dgxspark-vllm-*.tar.gz"))
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert "recipes/dsv41-flash-8x/recipe.toml" in names
    assert not [name for name in names if name.startswith(("tests", ".", "runs", "dist")) or "molecule" in name]
    subprocess.run(
        [*galaxy, "install", str(archive), "-p", str(folder / "collections"), "--no-deps"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "collections"


def test_from_the_playbooks_folder(cluster: Cluster) -> None:
    """The literal command of the README, inside playbooks/."""
    run = cluster.play("serve.yml", "-e", f"recipe={FLASH}", cwd=ROOT / "playbooks")
    assert run.rc == 0, run.text
    literal = run_playbook("stop.yml", "-i", str(cluster.inventory), "-e", f"recipe={FLASH}", cwd=ROOT / "playbooks")
    assert literal.rc == 0, literal.text
    assert f"stopped rank 0 of {FLASH} on dgx1" in literal.text


def test_installed_from_the_archive(cluster: Cluster, installed: Path, tmp_path: Path) -> None:
    """By its full name from any folder, with Ansible's own five forks for eight ranks."""
    words = ["-i", str(cluster.inventory), "-e", f"recipe={FLASH}"]
    where = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    served = run_playbook("dgxspark.vllm.serve", *words, cwd=tmp_path, **where)
    assert served.rc == 0, served.text
    status = run_playbook("dgxspark.vllm.status", *words, cwd=tmp_path, **where)
    assert f"{FLASH} serves" in status.text
    stopped = run_playbook("dgxspark.vllm.stop", *words, cwd=tmp_path, **where)
    assert stopped.rc == 0, stopped.text
