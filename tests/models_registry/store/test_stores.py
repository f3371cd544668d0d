"""What holds for both stores: the same content is one artifact, a changed one is noticed, a half one is never seen."""

import datetime as dt
import os
import random

import pytest

from models_registry.store.errors import Corrupt
from models_registry.store.layout import MANIFEST
from models_registry.store.local import LocalStore
from models_registry.store.opening import open_store
from tools.store_kills import put_and_die

LATER = dt.timedelta(days=1)
# Every place there is stands in benchmarks/artifacts.py.
KILLED_LOCALLY = (
    ("local", "assemble", "after", 1),
    ("LocalStore", "adopt", "before", 1),
    ("LocalStore", "adopt", "after", 1),
)
KILLED_AT_S3 = (
    *(("RemoteStore", "_upload", "after", 2), ("RemoteStore", "_upload", "before", 4)),
    ("RemoteStore", "_upload", "after", 4),
)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(random.Random(0).randbytes(300_000))
    (folder / "inner" / "deep" / "ünder.json").write_text("{}")
    (folder / "empty").touch()
    return folder


def listed(shelf):
    return [digest for digest, _ in shelf.list_digests()]


def forget(shelf):
    """What another machine sees: the same store without anything in the cache."""
    if not isinstance(shelf, LocalStore):
        for digest, _ in list(shelf.cache.list_digests()):
            shelf.cache.remove(digest)


def test_a_folder_comes_back_as_it_was_put(shelf, source):
    stored = shelf.put(source, kind="model", meta={"a": 1}, texts={"README.md": "# A card"})
    forget(shelf)
    assert shelf.has(stored.digest) and listed(shelf) == [stored.digest]
    with shelf.reading(stored.digest) as folder:
        for path in source.rglob("*"):
            if path.is_file():
                assert (folder / path.relative_to(source)).read_bytes() == path.read_bytes()
        assert (folder / "README.md").read_text() == "# A card"
    manifest = shelf.verify(stored.digest)
    assert set(manifest["files"]) == {"weights.bin", "inner/deep/ünder.json", "empty", "README.md"}
    assert (manifest["kind"], manifest["meta"], stored.size_bytes) == ("model", {"a": 1}, 300_010)
    assert shelf.folder(stored.digest) == folder


def test_the_same_content_is_one_artifact(shelf, source):
    first = shelf.put(source, kind="model")
    os.utime(source / "empty", (0, 0))
    forget(shelf)
    assert shelf.put(source, kind="model") == first
    assert shelf.put(source, kind="adapter") != first
    assert len(listed(shelf)) == 2


def test_what_is_not_there_is_corrupt_has_no_manifest_and_a_path_without_files(shelf):
    digest = "0" * 64
    assert not shelf.has(digest) and shelf.read_raw_manifest(digest) is None
    assert not shelf.folder(digest).exists()
    with pytest.raises(Corrupt, match="no readable manifest"):
        shelf.verify(digest)
    with pytest.raises(ValueError, match="not a SHA-256"):
        shelf.folder("../../etc/passwd")


@pytest.mark.parametrize("damage", ["changed", "removed", "manifest"])
def test_damage_is_noticed(shelf, source, damage):
    digest = shelf.put(source, kind="model").digest
    forget(shelf)
    name = MANIFEST if damage == "manifest" else "weights.bin"
    if isinstance(shelf, LocalStore):
        path = shelf.place(digest) / name
        path.unlink() if damage == "removed" else path.write_bytes(b'{"files": {}}')
    else:
        files, _ = shelf._connect()
        path = shelf._at(digest, name)
        files.rm_file(path) if damage == "removed" else files.pipe_file(path, b'{"files": {}}')
    with pytest.raises(Corrupt, match=digest[:12]):
        shelf.verify(digest)
    if not isinstance(shelf, LocalStore):  # nothing that is not what its digest says gets into the cache
        with pytest.raises(Corrupt, match=digest[:12]):
            shelf.folder(digest)
        assert not shelf.cache.has(digest) and [p for p in shelf.cache.incoming.iterdir() if p.is_dir()] == []


def test_a_removed_artifact_is_gone_and_can_be_put_again(shelf, source):
    stored, other = shelf.put(source, kind="model"), shelf.put(source, kind="adapter")
    assert shelf.remove(stored.digest) is True
    assert shelf.remove(stored.digest) is False
    assert listed(shelf) == [other.digest] and not shelf.folder(stored.digest).exists()
    assert shelf.put(source, kind="model") == stored
    assert shelf.verify(stored.digest)


def test_an_empty_folder_and_a_foreign_manifest_are_no_artifact(shelf, source, tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match="holds no files"):
        shelf.put(tmp_path / "nothing", kind="model")
    (source / MANIFEST).write_text("{}")
    with pytest.raises(ValueError, match="MANIFEST"):
        shelf.put(source, kind="model")
    assert listed(shelf) == []


@pytest.mark.slow
def test_a_killed_writer_leaves_nothing_visible_that_is_not_whole(shelf, source):
    """F7, at each named place; and what it left is collected by age."""
    local = isinstance(shelf, LocalStore)
    digest = shelf.put(source, kind="model").digest
    seen = []
    for place in KILLED_LOCALLY if local else KILLED_AT_S3:
        shelf.remove(digest)
        assert put_and_die(shelf, source, place), place  # it was hit
        seen.append(len(listed(shelf)))
        if seen[-1]:
            forget(shelf)
            assert shelf.verify(digest)["kind"] == "model"
        now = dt.datetime.now(dt.UTC)
        assert sum(shelf.remove_incoming(now - LATER)) == 0
        left = sum(shelf.remove_incoming(now + LATER))
        assert left > 0 or seen[-1], place
        assert sum(shelf.remove_incoming(now + LATER)) == 0
        assert listed(shelf) == [digest] * seen[-1]
    # Only what was killed after the last step is there.
    assert seen == [0, 0, 1]
    assert shelf.put(source, kind="model").digest == digest and shelf.verify(digest)


def test_only_a_digest_is_a_place(tmp_path):
    shelf = open_store(str(tmp_path), cache=tmp_path, cache_bytes=0)
    for name in ("..", "", "A" * 64, "0" * 63, "0" * 64 + "\n", "sha256/" + "0" * 57):
        with pytest.raises(ValueError, match="not a SHA-256"):
            shelf.folder(name)
