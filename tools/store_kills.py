"""Kills a writer of the store of artifacts at a named place, as a power cut would (F7), for tests and the benchmark."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from models_registry.store.local import LocalStore
from models_registry.store.opening import Store

ROOT = Path(__file__).resolve().parents[1]
Place = tuple[str, str, str, int]
"""A module or class, its function, on which side of it ("before", "after"), and at which of its calls."""

WRITER = """
import os, pathlib, signal, sys
from models_registry.store import layout, local, remote
from models_registry.store.opening import open_store
address, cache, source, owner, name, side, times = sys.argv[1:]
owner = {"RemoteStore": remote.RemoteStore, "LocalStore": local.LocalStore, "local": local, "remote": remote}[owner]
real, calls = getattr(owner, name), iter(range(1, 1_000_000))
def dies(*given, **named):
    last = next(calls) == int(times)
    if last and side == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = real(*given, **named)
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
setattr(owner, name, dies)
open_store(address, cache=pathlib.Path(cache), cache_bytes=1 << 40).put(pathlib.Path(source), kind="model")
"""


def put_and_die(store: Store, source: Path, place: Place) -> bool:
    """Puts the folder by a process of its own, which kills itself there; False where it did not come by."""
    if isinstance(store, LocalStore):
        address, cache = str(store.root), store.root
    else:
        address, cache = store.address, store.cache.root
    command = [sys.executable, "-c", WRITER, *map(str, (address, cache, source, *place))]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == -signal.SIGKILL
