"""What is dear to make and only read afterwards: made by one worker of a session for all, or kept for later ones."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest


def made_once(name: str, make: Callable[[Path], object], *, sources: Sequence[Path] = ()) -> Path:
    """The session's folder of this name, filled by `make(folder)`; who asks meanwhile waits. What `make` raises is
    raised, and the next one tries again.

    With `sources`, files and folders of Python, what was made is kept for later sessions too, and made again as soon
    as one of these, an installed package or Python itself is another.
    """
    if sources:
        from project.settings_test import TEST_VAR

        kept = TEST_VAR / "made"
        folder = kept / f"{name}-{_fingerprint(sources)}"
    else:
        kept = Path(os.environ["RECKONER_VAR"]) / "made"
        folder = kept / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{folder.name}.done")
    with (kept / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for old in (folder, *(kept.glob(f"{name}-*") if sources else ())):
                shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def _fingerprint(sources: Sequence[Path]) -> str:
    """Of the text of these files, and of what is installed."""
    found = hashlib.sha256(sys.version.encode())
    packages = Path(pytest.__file__).parents[1].glob("*.dist-info")
    found.update(" ".join(sorted(path.name for path in packages)).encode())
    for source in sources:
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]
