"""The store of artifacts that the settings name, for everything that runs under Django.

A local folder needs nothing else. At a server that speaks S3, whoever needs files on a disk asks `artifact_path` or
`reading`, which fetch them into a cache (docs/adr/0032-artifacts-at-s3.md).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from models_registry.errors import ArtifactCorrupt, StoreUnavailable
from models_registry.store.cache import Cache
from models_registry.store.errors import BadAddress, Corrupt, Unreachable
from models_registry.store.layout import CHUNK, DIGEST, MANIFEST, StoredArtifact, canonical, file_sha256, safe_join
from models_registry.store.local import LocalStore
from models_registry.store.opening import Store, open_store

__all__ = [
    "CHUNK",
    "DIGEST",
    "MANIFEST",
    "StoredArtifact",
    "artifact_path",
    "canonical",
    "clear_folder",
    "file_sha256",
    "find_store",
    "has_artifact",
    "hide_folder",
    "list_digests",
    "local_root",
    "put_folder",
    "reading",
    "remove_folder",
    "remove_incoming",
    "safe_join",
    "verify_artifact",
]


def find_store() -> Store:
    """Raises StoreUnavailable for an address that cannot be used."""
    with _told():
        return open_store(
            str(settings.ARTIFACTS), cache=Path(settings.ARTIFACT_CACHE), cache_bytes=settings.ARTIFACT_CACHE_BYTES
        )


def local_root() -> Path:
    """The folder on this disk that has the store's files: the store itself, or its cache."""
    store = find_store()
    return store.root if isinstance(store, LocalStore) else store.cache.root


def find_cache() -> Cache | None:
    """None with a local store, which needs none."""
    store = find_store()
    return None if isinstance(store, LocalStore) else store.cache


@contextmanager
def _told() -> Iterator[None]:
    """The store's errors as the registry's."""
    try:
        yield
    except Corrupt as error:
        raise ArtifactCorrupt(str(error)) from error
    except (Unreachable, BadAddress) as error:
        raise StoreUnavailable(str(error)) from error


def artifact_path(digest: str) -> Path:
    """The folder with an artifact's files, fetched if need be; where it would be if the store does not have it. Open
    what you need soon, or inside `reading`. Raises ValueError for what is not a digest, ArtifactCorrupt,
    StoreUnavailable."""
    with _told():
        return find_store().folder(digest)


@contextmanager
def reading(*digests: str) -> Iterator[None]:
    """Inside the block the files at `artifact_path` of these stay where they are. Raises as that."""
    with ExitStack() as stack:
        with _told():
            for digest in digests:
                stack.enter_context(find_store().reading(digest))
        yield


def put_folder(
    source: Path, *, kind: str, meta: Mapping[str, Any] | None = None, texts: Mapping[str, str] | None = None
) -> StoredArtifact:
    """Copies a folder into the store, with the files `texts` (by name) in it or over it, and returns its digest.
    Putting the same content twice is one artifact. Raises ValueError for a folder that cannot be one,
    StoreUnavailable."""
    with _told():
        return find_store().put(source, kind=kind, meta=meta, texts=texts)


def remove_folder(digest: str) -> bool:
    """Takes an artifact's files out of the store; False when they were gone. Raises StoreUnavailable."""
    with _told():
        return find_store().remove(digest)


def has_artifact(digest: str) -> bool:
    """Whether the store has it whole. Raises StoreUnavailable."""
    with _told():
        return find_store().has(digest)


def list_digests() -> Iterator[tuple[str, float]]:
    """Everything that is visible, with the Unix time since when. Raises StoreUnavailable."""
    with _told():
        yield from find_store().list_digests()


def hide_folder(digest: str) -> bool:
    """Takes an artifact out of sight in one step; False when it was. Raises StoreUnavailable."""
    with _told():
        return find_store().hide(digest)


def clear_folder(digest: str) -> None:
    """Removes the files of one that was hidden. Raises StoreUnavailable."""
    with _told():
        find_store().clear(digest)


def remove_incoming(before: dt.datetime) -> Iterator[int]:
    """What killed writers and removers left, in which nothing has changed since then; yields how many."""
    with _told():
        yield from find_store().remove_incoming(before)


def verify_artifact(digest: str) -> dict[str, Any]:
    """Re-hashes every file in the store. Returns the manifest; raises ArtifactCorrupt naming the first file that
    differs, StoreUnavailable."""
    with _told():
        return find_store().verify(digest)
