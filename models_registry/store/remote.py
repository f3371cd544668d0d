"""The store at a server that fsspec can talk to, such as S3, with a cache on the local disk.

Such a server cannot rename a folder. So the files go up first and the manifest last: an artifact is visible once its
manifest is there, and goes with its manifest first. What a killed upload left has no manifest, and is collected by age.
"""

from __future__ import annotations

import datetime as dt
import errno
import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models_registry.store.cache import Cache
from models_registry.store.errors import BadAddress, Corrupt, Unreachable
from models_registry.store.layout import (
    DIGEST,
    MANIFEST,
    StoredArtifact,
    assemble,
    file_sha256,
    place_of,
    read_manifest,
    safe_join,
)

# What each protocol's package is called where ours has an extra for it.
EXTRAS = {"s3": "s3fs", "s3a": "s3fs"}
# Packages whose exceptions say that the server could not be reached, or what it refused.
CLIENTS = ("botocore", "aiobotocore", "aiohttp", "fsspec", "s3fs")
# What the disk under the cache says.
OWN_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class RemoteStore:
    """`address` is an fsspec URL such as `s3://bucket/prefix`. Credentials and the server's address come from the
    environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, …), never from the URL.

    Raises BadAddress for a URL that nothing here can read.
    """

    def __init__(self, address: str, cache: Cache) -> None:
        self.address = address
        self.cache = cache
        protocol = address.partition("://")[0]
        self._is_s3 = protocol in EXTRAS
        package = EXTRAS.get(protocol)
        if package is not None and importlib.util.find_spec(package) is None:
            raise BadAddress(
                f"RECKONER_ARTIFACTS: {protocol}:// needs the package {package}, which is not installed: "
                f"`make s3`, or `pip install 'reckoner-ledger[s3]'`."
            )
        _, self._path = self._connect()
        if not self._path:
            raise BadAddress(f"RECKONER_ARTIFACTS: {address} names no bucket; expected: s3://BUCKET/PREFIX")

    def _connect(self) -> tuple[Any, str]:
        """fsspec keeps one connection a process, also after a fork."""
        import fsspec.core

        # Other processes write as well, so no listing is kept.
        options: dict[str, Any] = {"use_listings_cache": False} if self._is_s3 else {}
        try:
            files, path = fsspec.core.url_to_fs(self.address, **options)
        except (ValueError, ImportError) as error:
            raise BadAddress(f"RECKONER_ARTIFACTS: {self.address} cannot be used: {error}") from error
        return files, str(path).rstrip("/")

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """The server's files; what it says becomes Unreachable, but for a file that is not there."""
        files, _ = self._connect()
        try:
            yield files
        except FileNotFoundError:
            raise
        except Exception as error:
            # Every client has exceptions of its own below this one; ours are not among them.
            if isinstance(error, OSError):
                ours = error.errno in OWN_DISK
            else:
                ours = not type(error).__module__.startswith(CLIENTS)
            if ours:
                raise
            raise Unreachable(f"{self.address} does not answer: {str(error)[:200] or type(error).__name__}") from error

    def _at(self, digest: str, name: str = "") -> str:
        return f"{self._path}/{place_of(digest)}" + (f"/{name}" if name else "")

    def put(
        self, source: Path, *, kind: str, meta: Mapping[str, Any] | None = None, texts: Mapping[str, str] | None = None
    ) -> StoredArtifact:
        """As LocalStore.put. The copy that is uploaded stays in the cache. Raises Unreachable."""
        self.cache.make_room()
        temporary = self.cache.make_incoming()
        try:
            manifest, stored = assemble(temporary, source, kind=kind, meta=meta, texts=texts)
            if not self.has(stored.digest):
                for name in manifest["files"]:
                    self._upload(temporary / name, self._at(stored.digest, name))
                self._check_uploaded(manifest, stored.digest)
                self._upload(temporary / MANIFEST, self._at(stored.digest, MANIFEST))
            self.cache.adopt(temporary, stored.digest)
            self.cache.find(stored.digest)
            return stored
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _upload(self, source: Path, target: str) -> None:
        with self._asking() as files:
            try:
                if not self._is_s3:
                    files.makedirs(target.rpartition("/")[0], exist_ok=True)
                files.put_file(str(source), target)
            except FileNotFoundError as error:
                raise Unreachable(f"{self.address}: {error}") from error

    def _check_uploaded(self, manifest: Mapping[str, Any], digest: str) -> None:
        """Just before it becomes visible: a collector may have taken a file for what an earlier upload left."""
        for name, entry in manifest["files"].items():
            with self._asking() as files:
                try:
                    size = files.info(self._at(digest, name))["size"]
                except FileNotFoundError:
                    size = None
            if size != entry["size"]:
                raise Unreachable(f"{self.address}: {name} of {digest[:12]} was not stored completely; store it again.")

    def folder(self, digest: str) -> Path:
        """The artifact's files on this disk, fetched if need be; where they would be if the store does not have it.
        They stay for an hour at least, and longer inside `reading`. Raises Unreachable, Corrupt."""
        found = self.cache.find(digest)
        if found is None:
            self._fetch(digest)
            self.cache.find(digest)
        return self.cache.place(digest)

    @contextmanager
    def reading(self, digest: str) -> Iterator[Path]:
        """As `folder`, and the files stay until the end of the block."""
        self.folder(digest)
        with self.cache.hold(digest):
            # An eviction between the two lines needs an hour of idleness; what went is fetched again under the lock.
            yield self.folder(digest)

    def _fetch(self, digest: str) -> None:
        """Into the cache, whole and verified. Nothing where the store does not have it."""
        with self.cache.fetching(digest):
            found = None if self.cache.has(digest) else self.read_raw_manifest(digest)
            if found is None:
                return
            manifest = read_manifest(found[0], digest)
            self.cache.make_room(sum(int(entry["size"]) for entry in manifest["files"].values()))
            temporary = self.cache.make_incoming()
            try:
                for name, entry in manifest["files"].items():
                    self._download(self._at(digest, name), safe_join(temporary, name), digest, entry)
                (temporary / MANIFEST).write_bytes(found[0])
                os.utime(temporary / MANIFEST, (found[1], found[1]))
                self.cache.adopt(temporary, digest)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)

    def _download(self, source: str, target: Path, digest: str, entry: Mapping[str, Any]) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._asking() as files:
            try:
                files.get_file(source, str(target))
            except FileNotFoundError as error:
                raise Corrupt(f"Artifact {digest[:12]}: {target.name} is missing or changed.") from error
        if file_sha256(target) != entry["sha256"]:
            raise Corrupt(f"Artifact {digest[:12]}: {target.name} is missing or changed.")

    def has(self, digest: str) -> bool:
        with self._asking() as files:
            try:
                files.info(self._at(digest, MANIFEST))
            except FileNotFoundError:
                return False
        return True

    def read_raw_manifest(self, digest: str) -> tuple[bytes, float] | None:
        """As LocalStore.read_raw_manifest. Raises Unreachable."""
        path = self._at(digest, MANIFEST)
        with self._asking() as files:
            try:
                raw, written = files.cat_file(path), files.modified(path)
            except FileNotFoundError:
                return None
        return bytes(raw), written.timestamp()

    def list_digests(self) -> Iterator[tuple[str, float]]:
        """As LocalStore.list_digests; lists every object of the store. Raises Unreachable."""
        for digest, found in sorted(self._list().items()):
            if MANIFEST in found:
                yield digest, found[MANIFEST]

    def _list(self) -> dict[str, dict[str, float]]:
        """Digest → name → Unix time at which the object was written."""
        top = f"{self._path}/sha256"
        with self._asking() as files:
            try:
                found = files.find(top, detail=True)
            except FileNotFoundError:
                return {}
        objects: dict[str, dict[str, float]] = {}
        for path, about in found.items():
            _, digest, name = path.removeprefix(top).lstrip("/").split("/", 2)
            if DIGEST.fullmatch(digest):
                objects.setdefault(digest, {})[name] = _written_at(about)
        return objects

    def verify(self, digest: str) -> dict[str, Any]:
        """As LocalStore.verify: reads what the server has, not the cache. Raises Corrupt, Unreachable."""
        found = self.read_raw_manifest(digest)
        if found is None:
            raise Corrupt(f"Artifact {digest[:12]} has no readable manifest.")
        manifest = read_manifest(found[0], digest)
        temporary = self.cache.make_incoming()
        try:
            for name, entry in manifest["files"].items():
                place = safe_join(temporary, name)
                self._download(self._at(digest, name), place, digest, entry)
                place.unlink()
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return manifest

    def hide(self, digest: str) -> bool:
        """Takes an artifact out of sight in one step, here in the cache too; False when it was. Raises Unreachable."""
        there = self.has(digest)
        self._remove_objects([self._at(digest, MANIFEST)])
        self.cache.remove(digest)
        return there

    def clear(self, digest: str) -> None:
        """Removes the files of an artifact that was hidden, also what a killed removal left."""
        if self.has(digest):
            return
        with self._asking() as files:
            try:
                left = list(files.find(self._at(digest)))
            except FileNotFoundError:
                return
        self._remove_objects(left)

    def remove(self, digest: str) -> bool:
        """As LocalStore.remove. Caches on other machines drop their copies with `drop_removed`."""
        hidden = self.hide(digest)
        self.clear(digest)
        return hidden

    def _remove_objects(self, paths: list[str]) -> None:
        for path in paths:
            with self._asking() as files:
                try:
                    files.rm_file(path)
                except FileNotFoundError:
                    continue

    def remove_incoming(self, before: dt.datetime) -> Iterator[int]:
        """What killed uploads, downloads and removals left, in which nothing has changed since then, and copies in the
        cache of what was removed elsewhere; yields how many. Raises Unreachable."""
        yield from self.cache.remove_incoming(before)
        for digest, found in self._list().items():
            if MANIFEST not in found and max(found.values()) < before.timestamp():
                self._remove_objects([self._at(digest, name) for name in found])
                if self.has(digest):  # somebody finished the same upload in this very moment: they have to do it again
                    self.hide(digest)
                yield 1
        yield from self._abort_parts(before)
        yield from self._drop_removed()
        self.cache.make_room()

    def _abort_parts(self, before: dt.datetime) -> Iterator[int]:
        """Parts of large files whose upload never ended: S3 shows them in no listing, and keeps them."""
        files, _ = self._connect()
        if not hasattr(files, "list_multipart_uploads"):
            return
        bucket, _, prefix = self._path.partition("/")
        with self._asking():
            uploads = files.list_multipart_uploads(bucket)
        for upload in uploads:
            if upload["Key"].startswith(f"{prefix}/" if prefix else "") and upload["Initiated"] < before:
                with self._asking():
                    files.call_s3(
                        "abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )
                yield 1

    def _drop_removed(self) -> Iterator[int]:
        for digest, _ in self.cache.list_digests():
            if not self.has(digest) and self.cache.remove(digest):
                yield 1

    def is_there(self) -> bool:
        """Whether the server answers."""
        try:
            with self._asking() as files:
                files.exists(self._path)
        except Unreachable:
            return False
        return True


def _written_at(about: Mapping[str, Any]) -> float:
    """When an object was written: S3 says `LastModified`, other servers in fsspec `mtime` or `created`."""
    told = about.get("LastModified") or about.get("mtime") or about.get("created")
    if told is None:
        raise BadAddress("RECKONER_ARTIFACTS: this kind of server does not say when a file was written")
    return told.timestamp() if isinstance(told, dt.datetime) else float(told)
