"""The content-addressed store: folders named by the SHA-256 of their manifest, visible only when complete.

A folder is written under a temporary name, synced, then renamed. The layout `sha256/ab/abcd…/` is shared with the model
server.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from models_registry.errors import ArtifactCorrupt
from workspaces.ids import uuid7

MANIFEST = "MANIFEST.json"
DIGEST = re.compile(r"[0-9a-f]{64}")
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    digest: str
    size_bytes: int


def safe_join(root: Path, relative: str) -> Path:
    """The one way from a stored name to a path. Raises ValueError for a name that leaves `root`."""
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()) or path == root.resolve():
        raise ValueError(f"{relative!r} is not inside the store")
    return path


def store_root() -> Path:
    return Path(settings.ARTIFACTS)


def artifact_path(digest: str) -> Path:
    """Where an artifact's files are (or would be). Raises ValueError for what is not a digest."""
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is not a SHA-256")
    return safe_join(store_root(), f"sha256/{digest[:2]}/{digest}")


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def canonical(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def put_folder(
    source: Path, *, kind: str, meta: Mapping[str, Any] | None = None, texts: Mapping[str, str] | None = None
) -> StoredArtifact:
    """Copies a folder into the store, with the files `texts` (by name) in it or over it, and returns its digest.
    Putting the same content twice is one artifact."""
    temporary = safe_join(store_root(), f"incoming/{uuid7()}")
    temporary.mkdir(parents=True)
    try:
        files: dict[str, dict[str, Any]] = {}
        for path in sorted(source.rglob("*")):
            if not path.is_file():
                continue
            name = path.relative_to(source).as_posix()
            if name == MANIFEST:
                raise ValueError(f"{source} holds a file named {MANIFEST}, which is the store's own")
            target = safe_join(temporary, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            files[name] = _described(target)
        if not files:
            raise ValueError(f"{source} holds no files")
        for name, text in (texts or {}).items():
            target = safe_join(temporary, name)
            target.write_text(text, encoding="utf-8")
            files[name] = _described(target)
        manifest = {"schema": 1, "kind": kind, "files": files, "meta": dict(meta or {})}
        digest = hashlib.sha256(canonical(manifest)).hexdigest()
        (temporary / MANIFEST).write_bytes(canonical(manifest))
        _sync(temporary / MANIFEST)
        _publish(temporary, artifact_path(digest))
        return StoredArtifact(digest, sum(entry["size"] for entry in files.values()))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _described(file: Path) -> dict[str, Any]:
    """The manifest's entry of a file that was just written."""
    _sync(file)
    return {"sha256": file_sha256(file), "size": file.stat().st_size}


def _publish(temporary: Path, final: Path) -> None:
    """Sync, rename, sync the parents: after a crash the folder is there whole or not at all."""
    for folder in [temporary, *(path for path in temporary.rglob("*") if path.is_dir())]:
        _sync(folder)
    final.parent.mkdir(parents=True, exist_ok=True)
    _sync(final.parent.parent)
    try:
        temporary.rename(final)
    except OSError:
        if not (final / MANIFEST).exists():  # not the race of two equal puts: a real failure
            raise
    _sync(final.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(digest: str) -> bool:
    """Takes an artifact's files out of the store; False when they were gone. Nobody ever sees half of it: the folder
    is renamed away first, to a name that a second attempt finds when the first one was killed in between."""
    folder = artifact_path(digest)
    going = safe_join(store_root(), f"incoming/removed-{digest}")
    if going.exists():
        shutil.rmtree(going)
    going.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.rename(going)
    except FileNotFoundError:
        return False
    _sync(folder.parent)
    shutil.rmtree(going)
    return True


def remove_incoming(before: dt.datetime) -> Iterator[int]:
    """Folders that a killed writer or remover left, in which nothing has changed since then; yields how many."""
    incoming = store_root() / "incoming"
    for folder in incoming.iterdir() if incoming.is_dir() else ():
        changed = [_changed_at(place) for place in (folder, *folder.rglob("*"))]
        if max(changed) < before.timestamp():
            shutil.rmtree(folder, ignore_errors=True)
            yield 1


def _changed_at(place: Path) -> float:
    try:
        found = place.stat()
    except FileNotFoundError:  # another process is working on it
        return time.time()
    return max(found.st_mtime, found.st_ctime)  # a rename changes the latter alone


def verify_artifact(digest: str) -> dict[str, Any]:
    """Re-hashes every file. Returns the manifest; raises ArtifactCorrupt naming the first file that differs."""
    folder = artifact_path(digest)
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise ArtifactCorrupt(f"Artifact {digest[:12]} has no readable manifest.") from error
    if hashlib.sha256(canonical(manifest)).hexdigest() != digest:
        raise ArtifactCorrupt(f"Artifact {digest[:12]}: the manifest is not the one it is named after.")
    for name, entry in manifest["files"].items():
        path = safe_join(folder, name)
        if not path.is_file() or file_sha256(path) != entry["sha256"]:
            raise ArtifactCorrupt(f"Artifact {digest[:12]}: {name} is missing or changed.")
    return manifest
