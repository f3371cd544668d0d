"""What is dear to make and only read afterwards is made by one worker of a session, for all of them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """The session's folder of this name, filled by `make(folder)`; who asks meanwhile waits. What `make` raises is
    raised, and the next one tries again."""
    folder = Path(os.environ["RECKONER_VAR"]) / "made" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{name}.done")
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
