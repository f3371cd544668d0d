"""An artifact's files as one tar archive, made while it is sent: memory does not grow with the files.

Only what the manifest names is in it, and texts that are written for who asks, under one folder. The length is known
before the first byte.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models_registry.artifacts.opening import CHUNK, MANIFEST, artifact_path, reading, safe_join
from models_registry.errors import ArtifactCorrupt

BLOCK = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK)
Member = tuple[bytes, Path | bytes, int]
"""Header, file or content, and its length."""


@dataclass(frozen=True, slots=True)
class Archive:
    """`size` in bytes is exactly what `chunks` gives."""

    size: int
    chunks: Iterator[bytes]


def stream_archive(digest: str, *, folder: str, texts: Mapping[str, str] | None = None) -> Archive:
    """The artifact as a tar archive with everything inside `folder`, first the `texts`, by name, in place of files of
    that name. Raises ArtifactCorrupt where a file that the
    manifest names is not there at its size; contents are not hashed again."""
    root = artifact_path(digest)
    try:
        manifest: Mapping[str, Any] = json.loads((root / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise ArtifactCorrupt(f"Artifact {digest[:12]} has no readable manifest.") from error
    texts = texts or {}
    members: list[Member] = []
    for name, text in texts.items():
        content = text.encode()
        members.append((_header(f"{folder}/{name}", len(content)), content, len(content)))
    for name, entry in sorted(manifest["files"].items()):
        if name in texts:
            continue
        try:
            path = safe_join(root, name)
            there = path.is_file() and path.stat().st_size == entry["size"]
        except ValueError:
            there = False
        if not there:
            raise ArtifactCorrupt(f"Artifact {digest[:12]}: {name} is missing or changed.")
        members.append((_header(f"{folder}/{name}", entry["size"]), path, int(entry["size"])))
    size = sum(len(header) + length + _padding(length) for header, _, length in members) + len(END)
    return Archive(size, _read(digest, members))


def _header(name: str, size: int) -> bytes:
    """The same for the same file, whenever it is sent."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member.tobuf(format=tarfile.PAX_FORMAT)


def _padding(length: int) -> int:
    return -length % BLOCK


def _read(digest: str, members: list[Member]) -> Iterator[bytes]:
    with reading(digest):
        for header, content, length in members:
            yield header
            if isinstance(content, bytes):
                yield content
            else:
                with content.open("rb") as handle:
                    while block := handle.read(CHUNK):
                        yield block
            yield bytes(_padding(length))
    yield END
