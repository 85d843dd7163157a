# Copyright (c) 2026, The dgxspark.vllm contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the build folder of the image dgxspark-tiny-cpu: the files of image/ and a tar of the wheels they name.

The wheels are fetched here, on the controller, so that the build itself needs no Python registry and can run on a
node that reaches none. They are kept by the hash of what they are asked by: a second run downloads nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
# Under the current folder, as `ansible-playbook` looks things up too.
CACHE: Final = Path(".cache")
# The wheel torch==2.13.0+cpu is on PyTorch's own index and not on PyPI.
TORCH_INDEX: Final = "https://download.pytorch.org/whl/cpu"
PYTHON: Final = "3.11"
# glibc of Debian bookworm, which is what the image runs on, and every older one.
GLIBC: Final = range(36, 4, -1)


def tags(machine: str) -> list[str]:
    """Return the platforms whose wheels the image can run, best first."""
    names = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC]
    return [*names, f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}"]


def download(requirements: list[str], folder: Path, machine: str, *options: str) -> bool:
    """Fetch wheels into ``folder``, for the image's Python and platform whatever this machine has."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += [
        "--python-version",
        PYTHON,
        "--implementation",
        "cp",
        "--abi",
        "cp311",
        "--abi",
        "abi3",
        "--abi",
        "none",
    ]
    for tag in tags(machine):
        command += ["--platform", tag]
    command += ["--progress-bar", "off", "--quiet", "--dest", str(folder), *options, *requirements]
    return subprocess.run(command, check=False).returncode == 0


def download_all(requirements: list[str], folder: Path, machine: str) -> None:
    """Fetch all wheels; PyTorch's own index is asked for torch alone, and only where no other source has it."""
    torch = [line for line in requirements if line.startswith("torch==")]
    others = [line for line in requirements if line not in torch]
    if not download(torch, folder, machine) and not download(torch, folder, machine, "--index-url", TORCH_INDEX):
        sys.exit(f"{torch[0]} is neither on the configured indexes nor to be had from {TORCH_INDEX}")
    if not download(others, folder, machine):
        sys.exit("pip could not fetch all wheels; what it said stands above")


def pack(folder: Path, target: Path) -> None:
    """Put the wheels in one uncompressed archive, equal for equal wheels: one file travels faster than a hundred."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o644
        return member

    with tarfile.open(target, "w") as archive:
        for wheel in sorted(folder.glob("*.whl")):
            archive.add(wheel, arcname=wheel.name, filter=plain)


def wheels(cache: Path, machine: str) -> Path:
    """Return the archive of the wheels, made on first use."""
    requirements = (HERE / "image" / "requirements.txt").read_text(encoding="utf-8").split()
    asked = hashlib.sha256(" ".join([PYTHON, machine, *requirements]).encode()).hexdigest()[:16]
    archive = cache / "wheels" / f"tiny-cpu-{asked}.tar"
    if archive.exists():
        return archive
    folder = archive.with_suffix(".download")
    folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"Downloading the CPU build of vLLM and what it needs, about 400 MB, to {archive}\n")
    sys.stdout.flush()
    download_all(requirements, folder, machine)
    unfinished = archive.with_suffix(".unfinished")
    pack(folder, unfinished)
    unfinished.rename(archive)
    shutil.rmtree(folder)
    return archive


def link(source: Path, target: Path) -> None:
    """Make ``target`` the same file as ``source``, or a copy where links do not work."""
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the wheels and the build folder (.cache)")
    parser.add_argument("--machine", default=platform.machine(), help="the nodes' architecture: x86_64 or aarch64")
    options = parser.parse_args()
    archive = wheels(options.cache, options.machine)
    target = options.cache / "images" / "tiny-cpu"
    target.mkdir(parents=True, exist_ok=True)
    for file in (HERE / "image").iterdir():
        shutil.copy2(file, target / file.name)
    link(archive, target / "wheels.tar")
    sys.stdout.write(f"The build folder is ready: {target}\n")


if __name__ == "__main__":
    main()
