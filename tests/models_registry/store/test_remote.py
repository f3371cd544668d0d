"""A store at S3: the cache keeps to its size and to what is read, and what the server refuses is said."""

import datetime as dt
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from models_registry.artifacts import opening as artifacts
from models_registry.errors import ArtifactCorrupt, StoreUnavailable
from models_registry.store import remote as remote_store
from models_registry.store.errors import BadAddress, Unreachable
from models_registry.store.opening import open_store
from training.engine.serving.artifacts import ArtifactStore
from training.engine.serving.faults import Fault

ROOT = Path(__file__).resolve().parents[3]
AT_S3 = pytest.mark.xdist_group("swift")
# Reads, says so, and holds on until its standard input ends.
READER = """
import pathlib, sys
from models_registry.store.cache import Cache
with Cache(pathlib.Path(sys.argv[1]), 0).hold(sys.argv[2]) as folder:
    print(folder is not None, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def put(remote, tmp_path):
    """Stores an artifact of a thousand bytes; its digest."""

    def one(name):
        folder = tmp_path / f"source-{name}"
        folder.mkdir()
        (folder / "rows.jsonl").write_text(name.ljust(1000))
        return remote.put(folder, kind="dataset").digest

    return one


def last_used(remote, digest, hours):
    then = time.time() - 3600 * hours
    os.utime(remote.cache.root / "used" / digest, (then, then))


def cached(remote):
    return {digest for digest, _ in remote.cache.list_digests()}


@AT_S3
def test_the_cache_evicts_what_was_used_longest_ago_but_not_what_is_read(remote, put):
    first, read, fresh, last = (put(name) for name in ("first", "read", "fresh", "last"))
    for digest, hours in ((read, 9), (first, 8), (last, 7), (fresh, 0.5)):
        last_used(remote, digest, hours)
    remote.cache.limit = 2000
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(remote.cache.root), read],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with reader:
        assert reader.stdout.readline() == "True\n"
        last_used(remote, read, 9)
        assert remote.cache.make_room() == 2
        assert cached(remote) == {read, fresh}
        remote.cache.limit = 0
        assert remote.cache.make_room() == 0  # one is read, the other was just used
        reader.stdin.close()
    assert remote.cache.make_room() == 1 and cached(remote) == {fresh}
    with remote.reading(first) as folder:  # fetched again, whatever the limit
        assert (folder / "rows.jsonl").read_text().startswith("first")
    assert remote.verify(last)


@AT_S3
def test_an_artifact_is_fetched_once(remote, put, monkeypatch):
    digest = put("rows")
    remote.cache.remove(digest)
    fetched = []
    real = remote_store.RemoteStore._download
    monkeypatch.setattr(
        remote_store.RemoteStore, "_download", lambda self, *given: (fetched.append(given[0]), real(self, *given))
    )
    for _ in range(3):
        with remote.reading(digest):
            assert remote.folder(digest).is_dir()
    assert len(fetched) == 1


@AT_S3
def test_parts_of_an_upload_that_never_ended_and_copies_of_what_was_removed_elsewhere_are_collected(remote, put):
    files, _ = remote._connect()
    bucket, _, prefix = remote._path.partition("/")
    files.call_s3("create_multipart_upload", Bucket=bucket, Key=f"{prefix}/sha256/ab/part")
    other = files.call_s3("create_multipart_upload", Bucket=bucket, Key="another/store")
    gone, stays = put("gone"), put("stays")
    files.rm(remote._at(gone), recursive=True)
    now = dt.datetime.now(dt.UTC)
    assert sum(remote.remove_incoming(now - dt.timedelta(days=1))) == 1
    assert cached(remote) == {stays}
    assert sum(remote.remove_incoming(now + dt.timedelta(days=1))) == 1
    assert [upload["UploadId"] for upload in files.list_multipart_uploads(bucket)] == [other["UploadId"]]
    assert remote.verify(stays)


@AT_S3
def test_under_django_everything_gets_its_files_by_one_function(s3, settings, tmp_path):
    settings.ARTIFACTS, settings.ARTIFACT_CACHE = s3, tmp_path / "cache"
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("hello")
    digest = artifacts.put_folder(source, kind="model").digest
    settings.ARTIFACT_CACHE = tmp_path / "another machine"
    assert (artifacts.artifact_path(digest) / "a.txt").read_text() == "hello"
    assert artifacts.artifact_path(digest).is_relative_to(settings.ARTIFACT_CACHE)
    with artifacts.reading(digest):
        assert artifacts.verify_artifact(digest)["kind"] == "model"
    assert artifacts.remove_folder(digest)
    with pytest.raises(ArtifactCorrupt):
        artifacts.verify_artifact(digest)


@AT_S3
def test_the_model_server_reads_the_same_store(remote, tmp_path):
    source = tmp_path / "model"
    source.mkdir()
    (source / "model.safetensors").write_bytes(b"weights")
    digest = remote.put(source, kind="model").digest
    remote.put(source, kind="dataset")
    remote.cache.remove(digest)
    store = ArtifactStore(remote)
    assert store.is_there() and [artifact.digest for artifact in store.served()] == [digest]
    artifact = store.find_served(digest)
    assert not artifact.folder.exists()  # listed, and nothing fetched yet
    with store.reading(artifact):
        store.verify(artifact)
    remote.remove(digest)
    with pytest.raises(Fault, match="no artifact"):
        ArtifactStore(remote).find(digest)


@AT_S3
def test_what_the_server_refuses_is_said_and_puts_nothing(remote, put, monkeypatch, tmp_path):
    digest = put("rows")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    remote._connect()[0].clear_instance_cache()
    with pytest.raises(Unreachable, match=r"Forbidden|SignatureDoesNotMatch"):
        remote.verify(digest)
    monkeypatch.undo()
    remote._connect()[0].clear_instance_cache()


@AT_S3
def test_a_bucket_that_is_not_there_is_said(s3, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").touch()
    nowhere = open_store("s3://no-such-bucket/x", cache=tmp_path / "cache", cache_bytes=1)
    with pytest.raises(Unreachable, match=r"no-such-bucket.*bucket does not exist"):
        nowhere.put(tmp_path / "source", kind="model")
    assert list(nowhere.cache.list_digests()) == []


@pytest.mark.parametrize(
    ("address", "why"),
    [("s3://", "names no bucket"), ("nonsense://x/y", "nonsense"), ("s4:///x", "s4")],
)
def test_an_address_that_cannot_be_used_is_refused(settings, tmp_path, address, why):
    with pytest.raises(BadAddress, match=f"RECKONER_ARTIFACTS.*{why}"):
        open_store(address, cache=tmp_path, cache_bytes=1)
    settings.ARTIFACTS = address
    with pytest.raises(StoreUnavailable, match=why):
        artifacts.artifact_path("0" * 64)


def test_without_s3fs_it_is_said_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(remote_store.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadAddress, match=r"s3fs, which is not installed: `make s3`"):
        open_store("s3://bucket/without", cache=tmp_path, cache_bytes=1)
