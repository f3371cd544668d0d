"""Checkpoints: everything a run needs to resume as if it had never stopped, bit for bit on the CPU.

A checkpoint is a folder `step-00000120/` with `state.pt` and a `COMPLETE` marker, which holds the hashes of the state
and the spec. It is written under another name, synced, and renamed, so a folder with the final name is complete.
Attempts only read each other's folders. Other trainers' checkpoints (training.engine.text) are folders of their own
form, `checkpoint-120/`; once one is written, `mark_complete` puts the same marker into it.

The newest two stay, in case the newest is damaged; the others go when a third is complete. `checkpoint-epoch-N/`, where
a spec asks for it, is another thing: the weights alone, for other programs, of every epoch.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from training.engine.attempt.events import Events
from training.engine.spec.run_spec import CHECKPOINTS_KEPT, RunSpec

STATE, MARKER = "state.pt", "COMPLETE"
NAME = re.compile(r"(step|checkpoint)-\d+")
DOES_NOT_MATTER = {"checkpoint_every_seconds", "epoch_checkpoints", "evaluate", "serving", "threads"}
"""Fields of a spec that may differ between the attempt that left a checkpoint and the one that takes it up."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`state` is empty of another trainer's checkpoint, which reads `path` itself."""

    path: Path
    step: int
    state: dict[str, Any]


def fingerprint(spec: RunSpec) -> str:
    """Hash of what a checkpoint depends on."""
    content = spec.model_dump(mode="json", exclude=DOES_NOT_MATTER)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_checkpoint(folder: Path, step: int, state: dict[str, Any], spec: RunSpec) -> Path:
    """Writes `folder/step-…` and keeps the newest two. `state` holds tensors and plain values only."""
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{step:08d}"
    if final.exists():
        return final
    unfinished = folder / f".unfinished-{step:08d}-{os.getpid()}"
    unfinished.mkdir()
    with (unfinished / STATE).open("wb") as file:
        torch.save(state, file)
        sync(file.fileno())
    mark_complete(unfinished, step, spec)
    unfinished.rename(final)
    sync_folder(folder)
    for old in sorted(folder.glob("step-*"))[:-CHECKPOINTS_KEPT]:
        shutil.rmtree(old)
    return final


def mark_complete(folder: Path, step: int, spec: RunSpec) -> None:
    """From now on the folder's files are a checkpoint after `step` steps."""
    marker = {"step": step, "sha256": _hash_files(folder), "spec": fingerprint(spec)}
    write_synced(folder / MARKER, json.dumps(marker))


def newest_checkpoint(attempts: Path, spec: RunSpec, events: Events) -> Checkpoint | None:
    """The furthest complete checkpoint of any attempt, whatever its number, that fits this spec and is undamaged."""
    for path in sorted(_complete(attempts), key=lambda found: (_step(found), int(found.parts[-3])), reverse=True):
        name = str(path.relative_to(attempts))
        try:
            marker = json.loads((path / MARKER).read_text())
            other_spec, damaged = marker["spec"] != fingerprint(spec), marker["sha256"] != _hash_files(path)
        except (OSError, ValueError, TypeError, KeyError):
            other_spec, damaged = False, True
        if other_spec:
            events.warn(f"checkpoint {name} belongs to another spec and is ignored")
        elif damaged:
            events.warn(f"checkpoint {name} is damaged and is ignored")
        else:
            # Into the computer's memory: a GPU's has no room for the weights and their moments twice.
            ours = path / STATE
            state = torch.load(ours, map_location="cpu", weights_only=True) if ours.exists() else {}
            return Checkpoint(path, marker["step"], state)
    return None


def write_synced(path: Path, text: str) -> None:
    """Writes through a temporary name, synced to disk before it takes its place."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        sync(file.fileno())
    unfinished.rename(path)
    sync_folder(path.parent)


def sync(descriptor: int) -> None:
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Makes a rename inside `folder` last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _complete(attempts: Path) -> Iterator[Path]:
    for path in attempts.glob("*/checkpoints/*"):
        if path.parts[-3].isdigit() and NAME.fullmatch(path.name) and (path / MARKER).exists():
            yield path


def _step(path: Path) -> int:
    """As its name says."""
    return int(path.name.rpartition("-")[2])


def _hash_files(folder: Path) -> str:
    """SHA-256 over the files in the folder, in order of name, but for the marker."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        digest.update(str(path.relative_to(folder)).encode() + content)
    return digest.hexdigest()
