# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of one run: what it may do, that it goes, and that nothing else is touched."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.dgxspark.vllm.plugins.module_utils import _image_access as access

OWN = "ssh-ed25519 AAAAown somebody@home\n"
KEY = "ssh-ed25519 AAAAkey whatever the comment"


@pytest.fixture
def user(tmp_path: Path) -> pwd.struct_passwd:
    here = pwd.getpwuid(os.getuid())
    return pwd.struct_passwd((here.pw_name, "x", here.pw_uid, here.pw_gid, "", str(tmp_path), "/bin/sh"))


def keys(user: pwd.struct_passwd) -> Path:
    return Path(user.pw_dir) / ".ssh" / "authorized_keys"


def test_key_can_load_and_nothing_else() -> None:
    line = access.key_line(KEY, "run1", "10.0.0.1", "/usr/bin/docker load -q")
    pattern = (
        r'restrict,from="10\.0\.0\.1",expiry-time="\d{12}",command="/usr/bin/docker load -q" '
        r"ssh-ed25519 AAAAkey dgxspark-image-sync run1"
    )
    assert re.fullmatch(pattern, line)


def test_key_comes_and_goes_and_others_stay(user: pwd.struct_passwd) -> None:
    keys(user).parent.mkdir()
    keys(user).write_text(OWN)
    keys(user).chmod(0o640)
    for run in ("run1", "run2"):
        access.authorize(user, access.key_line(KEY, run, "10.0.0.1", "docker load"))
    assert access.has_keys(user)
    assert len(keys(user).read_text().splitlines()) == 3
    assert access.revoke(user, "run1")
    assert "run2" in keys(user).read_text()
    assert access.revoke(user, "")
    assert keys(user).read_text() == OWN
    assert keys(user).stat().st_mode & 0o777 == 0o640
    assert not access.revoke(user, "")
    assert not access.has_keys(user)


def test_user_without_a_key_file(user: pwd.struct_passwd) -> None:
    assert not access.has_keys(user)
    assert not access.revoke(user, "")
    access.authorize(user, access.key_line(KEY, "run1", "10.0.0.1", "docker load"))
    assert keys(user).stat().st_mode & 0o777 == 0o600


def test_file_without_a_line_end_is_mended(user: pwd.struct_passwd) -> None:
    keys(user).parent.mkdir()
    keys(user).write_text(OWN.rstrip())
    access.authorize(user, "restrict ssh-ed25519 AAAAkey dgxspark-image-sync run1")
    assert keys(user).read_text().splitlines()[0] == OWN.rstrip()


def test_ssh_trusts_only_what_it_was_told(tmp_path: Path) -> None:
    words = list(access.ssh_argv(tmp_path, "spark", "10.0.0.2", 2222))
    assert words[:9] == ["ssh", "-F", "/dev/null", "-T", "-i", f"{tmp_path}/key", "-p", "2222", "-l"]
    assert "StrictHostKeyChecking=yes" in words
    assert f"UserKnownHostsFile={tmp_path}/known_hosts" in words
    assert words[words.index("-c") + 1].startswith("aes128-gcm@openssh.com,")


def test_key_is_made_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "runs_dir", lambda: tmp_path / "runs")
    public = access.make_key("run1")
    assert public.endswith(" dgxspark-image-sync run1")
    assert access.make_key("run1") == public
    [folder] = access.run_dirs()
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    access.remove_run(folder)
    assert access.run_dirs() == []
    assert not folder.parent.exists()


def test_folder_that_is_open_to_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir(mode=0o777)
    (tmp_path / "runs").chmod(0o777)
    monkeypatch.setattr(access, "runs_dir", lambda: tmp_path / "runs")
    with pytest.raises(PermissionError, match=r"belongs to somebody else or is open to others$"):
        access.make_key("run1")


def test_only_a_sender_is_ended_with_its_run(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run1"
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as innocent:
        (folder / "pid").write_text(str(innocent.pid))
        access.remove_run(folder)
        time.sleep(0.1)
        assert innocent.poll() is None
        innocent.kill()
    assert not folder.exists()
