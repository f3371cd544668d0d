"""What an artifact is: a folder of files with a manifest, named by the SHA-256 of the manifest's canonical JSON.

Both stores have it at `sha256/<first two digits>/<digest>/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models_registry.store.errors import Corrupt

MANIFEST = "MANIFEST.json"
DIGEST = re.compile(r"[0-9a-f]{64}")
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """`size_bytes` is the sum of its files, without the manifest."""

    digest: str
    size_bytes: int


def safe_join(root: Path, relative: str) -> Path:
    """The one way from a stored name to a path. Raises ValueError for a name that leaves `root`."""
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()) or path == root.resolve():
        raise ValueError(f"{relative!r} is not inside the store")
    return path


def place_of(digest: str) -> str:
    """Where an artifact is below the store's root. Raises ValueError for what is not a digest."""
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is not a SHA-256")
    return f"sha256/{digest[:2]}/{digest}"


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def canonical(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_manifest(raw: bytes, digest: str) -> dict[str, Any]:
    """Raises Corrupt for bytes that are no manifest, or another artifact's."""
    try:
        manifest: dict[str, Any] = json.loads(raw)
        named = hashlib.sha256(canonical(manifest)).hexdigest()
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"Artifact {digest[:12]} has no readable manifest.") from error
    if named != digest:
        raise Corrupt(f"Artifact {digest[:12]}: the manifest is not the one it is named after.")
    return manifest


def assemble(
    temporary: Path, source: Path, *, kind: str, meta: Mapping[str, Any] | None, texts: Mapping[str, str] | None
) -> tuple[dict[str, Any], StoredArtifact]:
    """Copies the files of `source`, with `texts` (content by name) in them or over them, into an empty folder, writes
    their manifest, and syncs all. Returns the manifest. Raises ValueError for a folder that cannot be an artifact."""
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
        files[name] = _describe(target)
    if not files:
        raise ValueError(f"{source} holds no files")
    for name, text in (texts or {}).items():
        target = safe_join(temporary, name)
        target.write_text(text, encoding="utf-8")
        files[name] = _describe(target)
    manifest = {"schema": 1, "kind": kind, "files": files, "meta": dict(meta or {})}
    raw = canonical(manifest)
    (temporary / MANIFEST).write_bytes(raw)
    sync(temporary / MANIFEST)
    size = sum(entry["size"] for entry in files.values())
    return manifest, StoredArtifact(hashlib.sha256(raw).hexdigest(), size)


def _describe(file: Path) -> dict[str, Any]:
    """The manifest's entry of a file that was just written."""
    sync(file)
    return {"sha256": file_sha256(file), "size": file.stat().st_size}


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
