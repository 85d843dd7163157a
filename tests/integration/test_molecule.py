# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role's molecule scenario."""

from __future__ import annotations

import subprocess

import pytest
from simulated import ROOT

SCENARIOS = sorted(path.parents[1].parent.name for path in ROOT.glob("roles/*/molecule/default/molecule.yml"))


@pytest.mark.parametrize("role", SCENARIOS)
def test_role(role: str) -> None:
    """Check mode predicts, the run does, the second run changes nothing, testinfra looks, the way back works."""
    done = subprocess.run(
        ["molecule", "test"],
        cwd=ROOT / "roles" / role,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
