"""Opens the store that an address names: a folder, or an fsspec URL with a cache."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from models_registry.store.cache import Cache
from models_registry.store.local import LocalStore
from models_registry.store.remote import RemoteStore

Store = LocalStore | RemoteStore


def is_remote(address: str) -> bool:
    return "://" in address


@lru_cache(maxsize=16)
def open_store(address: str, *, cache: Path, cache_bytes: int) -> Store:
    """`cache` and its bytes matter to a remote store alone. Raises BadAddress."""
    if not is_remote(address):
        return LocalStore(Path(address))
    return RemoteStore(address, Cache(cache, cache_bytes))
