"""The content-addressed store: the same content is one artifact, a changed one is noticed, a half one is never seen."""

import json
import os
import random

import pytest

from models_registry.artifacts import opening as artifacts
from models_registry.errors import ArtifactCorrupt
from models_registry.models import Artifact
from models_registry.store import layout
from models_registry.versions.services import store_artifact
from tools.factories import put_files


def visible(store):
    return list(store.glob("sha256/*/*"))


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(random.Random(0).randbytes(3_000_000))
    (folder / "inner" / "deep" / "config.json").write_text("{}")
    (folder / "empty").touch()
    return folder


def test_a_folder_comes_back_as_it_was_put(store, source):
    stored = artifacts.put_folder(source, kind="model", meta={"a": 1})
    folder = artifacts.artifact_path(stored.digest)
    for path in source.rglob("*"):
        if path.is_file():
            assert (folder / path.relative_to(source)).read_bytes() == path.read_bytes()
    manifest = artifacts.verify_artifact(stored.digest)
    assert set(manifest["files"]) == {"weights.bin", "inner/deep/config.json", "empty"}
    assert (manifest["kind"], manifest["meta"], manifest["schema"]) == ("model", {"a": 1}, 1)
    assert stored.size_bytes == 3_000_002
    assert list((store / "incoming").iterdir()) == []
    assert [path for path in (store, *store.rglob("*")) if path.stat().st_mode & 0o077] == []  # its owner's alone


def test_the_same_content_is_one_artifact(store, source):
    first = artifacts.put_folder(source, kind="model")
    os.utime(source / "empty", (0, 0))
    assert artifacts.put_folder(source, kind="model") == first
    assert artifacts.put_folder(source, kind="adapter") != first
    assert artifacts.put_folder(source, kind="model", meta={"run": "1"}) != first
    assert len(visible(store)) == 3


@pytest.mark.parametrize("damage", ["changed", "shortened", "removed", "manifest", "no manifest", "renamed"])
def test_damage_is_noticed(store, source, damage):
    digest = artifacts.put_folder(source, kind="model").digest
    folder = artifacts.artifact_path(digest)
    weights = folder / "weights.bin"
    if damage == "changed":
        content = bytearray(weights.read_bytes())
        content[1_500_000] ^= 1
        weights.write_bytes(content)
    elif damage == "shortened":
        os.truncate(weights, 100)
    elif damage == "removed":
        weights.unlink()
    elif damage == "manifest":
        manifest = json.loads((folder / "MANIFEST.json").read_text())
        del manifest["files"]["weights.bin"]
        (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    elif damage == "no manifest":
        (folder / "MANIFEST.json").unlink()
    else:
        weights.rename(folder / "other.bin")
    with pytest.raises(ArtifactCorrupt, match=digest[:12]):
        artifacts.verify_artifact(digest)


def test_what_is_not_there_is_corrupt_and_not_a_crash(store):
    with pytest.raises(ArtifactCorrupt):
        artifacts.verify_artifact("0" * 64)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..", "", "A" * 64, "0" * 63, "0" * 64 + "\n", "sha256/" + "0" * 57]
)
def test_only_a_digest_is_a_path(store, name):
    with pytest.raises(ValueError, match="not"):
        artifacts.artifact_path(name)


@pytest.mark.parametrize("relative", ["../x", "/etc/passwd", "a/../../x", "", ".", "a/.."])
def test_a_name_cannot_leave_the_store(tmp_path, relative):
    with pytest.raises(ValueError, match="not inside"):
        artifacts.safe_join(tmp_path, relative)


def test_a_link_cannot_leave_the_store(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "out").symlink_to("/etc")
    with pytest.raises(ValueError, match="not inside"):
        artifacts.safe_join(tmp_path / "store", "out/passwd")


def test_an_empty_folder_is_no_artifact(store, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no files"):
        artifacts.put_folder(tmp_path / "empty", kind="model")
    assert visible(store) == []


def test_a_file_named_as_the_manifest_is_refused(store, source):
    (source / "MANIFEST.json").write_text("{}")
    with pytest.raises(ValueError, match="MANIFEST"):
        artifacts.put_folder(source, kind="model")
    assert visible(store) == []


def test_a_disk_that_fails_leaves_nothing(store, source, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(layout, "sync", full)
    with pytest.raises(OSError, match="No space"):
        artifacts.put_folder(source, kind="model")
    assert visible(store) == []
    assert list((store / "incoming").iterdir()) == []


@pytest.mark.django_db
def test_one_row_a_workspace_and_digest(store, source, workspace, other_workspace):
    first = store_artifact(workspace=workspace, folder=source, kind="model", meta={"a": 1})
    assert store_artifact(workspace=workspace, folder=source, kind="model", meta={"a": 1}) == first
    theirs = store_artifact(workspace=other_workspace, folder=source, kind="model", meta={"a": 1})
    assert (theirs.digest, theirs.id != first.id) == (first.digest, True)
    assert Artifact.objects.count() == 2


def test_the_tests_own_way_to_store_files(store):
    digest = put_files({"a/b.txt": "hello"}).digest
    assert (artifacts.artifact_path(digest) / "a" / "b.txt").read_text() == "hello"
