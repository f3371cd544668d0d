"""The store on a local disk. A folder is written under a temporary name, synced, then renamed: it is visible when it is
whole."""

from __future__ import annotations

import datetime as dt
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from models_registry.store.errors import Corrupt
from models_registry.store.layout import (
    MANIFEST,
    StoredArtifact,
    assemble,
    file_sha256,
    place_of,
    read_manifest,
    safe_join,
    sync,
)


class LocalStore:
    """`root` is the store's folder; half-written folders are in `root/incoming`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def incoming(self) -> Path:
        return self.root / "incoming"

    def put(
        self, source: Path, *, kind: str, meta: Mapping[str, Any] | None = None, texts: Mapping[str, str] | None = None
    ) -> StoredArtifact:
        """Copies a folder into the store, with the files `texts` (by name) in it or over it. Putting the same content
        twice is one artifact. Raises ValueError for a folder that cannot be an artifact."""
        temporary = self.make_incoming()
        try:
            _, stored = assemble(temporary, source, kind=kind, meta=meta, texts=texts)
            self.adopt(temporary, stored.digest)
            return stored
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def make_incoming(self) -> Path:
        """A new empty folder on the store's file system."""
        temporary = safe_join(self.root, f"incoming/{uuid.uuid4()}")
        temporary.mkdir(parents=True)
        return temporary

    def adopt(self, temporary: Path, digest: str) -> None:
        """Makes a complete folder visible. Sync, rename, sync the parents: after a crash it is there whole or not at
        all. One that is there already stays."""
        final = self.place(digest)
        for folder in [temporary, *(path for path in temporary.rglob("*") if path.is_dir())]:
            sync(folder)
        final.parent.mkdir(parents=True, exist_ok=True)
        sync(final.parent.parent)
        try:
            temporary.rename(final)
        except OSError:
            if not (final / MANIFEST).exists():  # not the race of two equal puts: a real failure
                raise
        sync(final.parent)

    def place(self, digest: str) -> Path:
        """Where an artifact's files are (or would be). Raises ValueError for what is not a digest."""
        return safe_join(self.root, place_of(digest))

    def folder(self, digest: str) -> Path:
        """As `place`: nothing has to be fetched."""
        return self.place(digest)

    def reading(self, digest: str) -> AbstractContextManager[Path]:
        """As `folder`; nothing but a removal takes files from a local store."""
        return nullcontext(self.place(digest))

    def has(self, digest: str) -> bool:
        return (self.place(digest) / MANIFEST).is_file()

    def read_raw_manifest(self, digest: str) -> tuple[bytes, float] | None:
        """The manifest's bytes, and when it was written as a Unix time; None where there is none."""
        path = self.place(digest) / MANIFEST
        try:
            return path.read_bytes(), path.stat().st_mtime
        except OSError:
            return None

    def list_digests(self) -> Iterator[tuple[str, float]]:
        """All visible artifacts with the Unix times at which they became so, in the order of their digests."""
        for path in sorted(self.root.glob(f"sha256/??/*/{MANIFEST}")):
            try:
                yield path.parent.name, _changed_at(path.parent)
            except FileNotFoundError:
                continue

    def verify(self, digest: str) -> dict[str, Any]:
        """Re-hashes every file. Returns the manifest; raises Corrupt naming the first file that differs."""
        folder = self.place(digest)
        try:
            manifest = read_manifest((folder / MANIFEST).read_bytes(), digest)
        except OSError as error:
            raise Corrupt(f"Artifact {digest[:12]} has no readable manifest.") from error
        for name, entry in manifest["files"].items():
            path = safe_join(folder, name)
            if not path.is_file() or file_sha256(path) != entry["sha256"]:
                raise Corrupt(f"Artifact {digest[:12]}: {name} is missing or changed.")
        return manifest

    def hide(self, digest: str) -> bool:
        """Takes an artifact out of sight in one step; False when it was. `clear` removes the files."""
        folder = self.place(digest)
        going = self._going(digest)
        if going.exists():
            shutil.rmtree(going)
        going.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.rename(going)
        except FileNotFoundError:
            return False
        sync(folder.parent)
        return True

    def clear(self, digest: str) -> None:
        """Removes the files of an artifact that was hidden, also what a killed removal left."""
        if self._going(digest).exists():
            shutil.rmtree(self._going(digest))

    def remove(self, digest: str) -> bool:
        """Takes an artifact's files out of the store; False when they were gone. Nobody ever sees half of it."""
        hidden = self.hide(digest)
        self.clear(digest)
        return hidden

    def _going(self, digest: str) -> Path:
        return safe_join(self.root, f"incoming/removed-{digest}")

    def remove_incoming(self, before: dt.datetime) -> Iterator[int]:
        """Folders that a killed writer or remover left, in which nothing has changed since then; yields how many."""
        for folder in self.incoming.iterdir() if self.incoming.is_dir() else ():
            changed = [_changed_at(place) for place in (folder, *folder.rglob("*"))]
            if max(changed) < before.timestamp():
                if folder.is_dir():
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    folder.unlink(missing_ok=True)
                yield 1

    def is_there(self) -> bool:
        return self.root.is_dir()


def _changed_at(place: Path) -> float:
    try:
        found = place.stat()
    except FileNotFoundError:  # another process is working on it
        return time.time()
    return max(found.st_mtime, found.st_ctime)  # a rename changes the latter alone
