"""Environments of other packages, for tests of the programs that run in them: a virtual environment with a stub.

A stub holds the few names that a program of ours uses, each with the signature that the real package has, so a call
that the real one would refuse is refused here, too.
"""

from __future__ import annotations

import sys
import venv
from collections.abc import Mapping
from pathlib import Path


def make_environment(folder: Path, files: Mapping[str, str], packages: Mapping[str, str], *also: str) -> Path:
    """The path of an interpreter that finds the `files`, told as if `packages` (name → version) were installed. `also`:
    other folders on its path."""
    venv.create(folder, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    for name, content in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
    for name, number in packages.items():
        info = site / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    (site / "also.pth").write_text("".join(f"{place}\n" for place in also))
    return folder / "bin" / "python"
