"""Reads artifacts from the content-addressed store, and checks their hashes before use. No Django, no torch.

An artifact is a folder ROOT/sha256/<first 2>/<digest>/ of files and MANIFEST.json. The digest is the SHA-256 of the
manifest's canonical JSON, and the manifest holds every file's SHA-256. The registry writes the store. Where it is at a
server, files are fetched into a cache when a model is loaded.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from models_registry.store.errors import Corrupt, StoreError
from models_registry.store.local import LocalStore
from models_registry.store.opening import Store
from training.engine.serving.faults import Fault

MANIFEST = "MANIFEST.json"
SERVED_KINDS = ("model", "adapter", "classifier")
OVER_A_BASE = ("adapter", "classifier")
"""Kinds whose manifest names the artifact that they need: an adapter always, a classifier where it has an encoder."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Artifact:
    """A manifest whose digest is right; its files are believed only after `ArtifactStore.verify`.

    `base` is the digest of the model an adapter belongs to, or of a classifier's sentence encoder; None for a model and
    for a classifier of words. `created` is a Unix time.
    """

    digest: str
    kind: str
    base: str | None
    folder: Path
    files: dict[str, tuple[str, int]]
    created: int


class ArtifactStore:
    """All artifacts, read only. Manifests are kept once read: under one digest they cannot change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Artifact] = {}

    def find(self, digest: str) -> Artifact:
        """Raises Fault: model_not_found, artifact_corrupt when the manifest is not what its digest says, or
        artifact_unusable while the store does not answer."""
        known = self._known.get(digest)
        if known is not None:
            return known
        if not _DIGEST.fullmatch(digest):
            raise Fault(
                "model_not_found", f"{digest[:80]!r} is not an artifact digest (64 hexadecimal digits)", "model"
            )
        try:
            found = self._store.read_raw_manifest(digest)
        except StoreError as error:
            raise _unreached(digest, error) from error
        if found is None:
            raise Fault("model_not_found", f"no artifact {digest} in the store", "model")
        raw, written = found
        shelf = self._store if isinstance(self._store, LocalStore) else self._store.cache
        folder = shelf.place(digest)
        artifact = _parse(digest, folder, raw, created=int(written))
        self._known[digest] = artifact
        return artifact

    def find_served(self, digest: str) -> Artifact:
        """As `find`, and refuses what is no policy."""
        artifact = self.find(digest)
        if artifact.kind not in SERVED_KINDS:
            raise Fault("model_not_found", f"artifact {digest} is a {artifact.kind}, not a model", "model")
        return artifact

    @contextmanager
    def reading(self, artifact: Artifact) -> Iterator[None]:
        """Inside the block its files are in its folder, fetched if need be. Raises Fault."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._store.reading(artifact.digest))
            except StoreError as error:
                raise _unreached(artifact.digest, error) from error
            yield

    def is_there(self) -> bool:
        """Whether the store can be read."""
        return self._store.is_there()

    def verify(self, artifact: Artifact) -> None:
        """Reads every file and compares. Raises Fault artifact_corrupt for a wrong, missing or additional file."""
        found = {
            path.relative_to(artifact.folder).as_posix() for path in artifact.folder.rglob("*") if not path.is_dir()
        } - {MANIFEST}
        if found != artifact.files.keys():
            name = sorted(found ^ artifact.files.keys())[0]
            state = "is not in its manifest" if name in found else "is missing"
            raise Fault("artifact_corrupt", f"artifact {artifact.digest}: {name} {state}", "model")
        for name, (sha256, size) in artifact.files.items():
            path = artifact.folder / name
            if path.stat().st_size != size or _file_sha256(path) != sha256:
                raise Fault(
                    "artifact_corrupt", f"artifact {artifact.digest}: {name} has changed since it was stored", "model"
                )

    def served(self) -> Iterator[Artifact]:
        """All policies whose manifest can be believed, in digest order."""
        for digest, _ in self._store.list_digests():
            try:
                artifact = self.find(digest)
            except Fault:
                continue  # a listing shows what can be loaded; loading a broken one reports its fault
            if artifact.kind in SERVED_KINDS:
                yield artifact


def _parse(digest: str, folder: Path, raw: bytes, *, created: int) -> Artifact:
    corrupt = Fault("artifact_corrupt", f"artifact {digest}: its manifest is not the one it was stored with", "model")
    try:
        manifest: Any = json.loads(raw)
        canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise corrupt from error
    if digest != hashlib.sha256(canonical).hexdigest():
        raise corrupt
    try:
        files = {str(name): (str(entry["sha256"]), int(entry["size"])) for name, entry in manifest["files"].items()}
        kind, base = str(manifest["kind"]), manifest.get("meta", {}).get("base")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Fault("artifact_unusable", f"artifact {digest}: its manifest is incomplete ({error})", "model") from error
    if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in files):
        raise Fault("artifact_unusable", f"artifact {digest}: a file name leads out of its folder", "model")
    names_base = isinstance(base, str) and _DIGEST.fullmatch(base)
    if kind == "classifier" and base is not None and not names_base:
        raise Fault("artifact_unusable", f"artifact {digest}: its manifest names no encoder by its digest", "model")
    if kind == "adapter" and not names_base:
        raise Fault("artifact_unusable", f"artifact {digest}: an adapter whose manifest names no base", "model")
    return Artifact(digest, kind, base if kind in OVER_A_BASE else None, folder, files, created)


def _unreached(digest: str, error: StoreError) -> Fault:
    if isinstance(error, Corrupt):
        return Fault("artifact_corrupt", f"artifact {digest}: {error}", "model")
    return Fault("artifact_unusable", f"artifact {digest}: {error}", "model")


def _file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
