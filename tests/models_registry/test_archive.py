"""An artifact as one archive: whole, of the length that was said, in small pieces, and nothing from outside of it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from models_registry.artifacts import opening as artifacts
from models_registry.artifacts.archive import stream_archive
from models_registry.artifacts.opening import CHUNK, artifact_path, canonical
from models_registry.errors import ArtifactCorrupt
from tools.factories import put_files

FILES = {"config.json": "{}", "deep/tokenizer.json": "x" * 513, "empty.txt": "", "model.bin": "w" * (2 * CHUNK + 7)}


def test_it_holds_every_file_in_pieces_and_is_as_long_as_it_says(store: Path) -> None:
    digest = put_files(FILES).digest
    archive = stream_archive(digest, folder="filer-2")
    chunks = list(archive.chunks)
    assert max(map(len, chunks)) <= CHUNK and sum(map(len, chunks)) == archive.size
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        members = {member.name: member for member in tar.getmembers()}
        assert all(member.isfile() for member in members.values())
        found = {name: tar.extractfile(member).read().decode() for name, member in members.items()}  # type: ignore[union-attr]
    assert found == {f"filer-2/{name}": content for name, content in FILES.items()}
    assert b"".join(stream_archive(digest, folder="filer-2").chunks) == b"".join(chunks)


def test_a_name_of_any_length_is_kept(store: Path) -> None:
    name = "/".join(["ж" * 40] * 5)
    archive = stream_archive(put_files({name: "x"}).digest, folder="f")
    content = b"".join(archive.chunks)
    assert len(content) == archive.size
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.getnames() == [f"f/{name}"]


def spoil(digest: str, how: str) -> None:
    file = artifact_path(digest) / "config.json"
    if how == "shorter":
        file.write_text("")
    else:
        file.unlink()
    if how == "a link":
        outside = file.parents[2] / "outside.json"
        outside.write_text("{}")
        file.symlink_to(outside)


@pytest.mark.parametrize("how", ["gone", "shorter", "a link"])
def test_what_is_not_there_as_the_manifest_says_is_refused_before_the_first_byte(how: str, store: Path) -> None:
    digest = put_files(FILES).digest
    spoil(digest, how)
    with pytest.raises(ArtifactCorrupt, match=r"config\.json"):
        stream_archive(digest, folder="f")


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/hostname", "a/../../outside.txt"])
def test_a_manifest_reaches_nothing_outside_of_its_folder(name: str, store: Path) -> None:
    manifest: dict[str, Any] = {"schema": 1, "kind": "model", "files": {name: {"sha256": "", "size": 1}}, "meta": {}}
    digest = hashlib.sha256(canonical(manifest)).hexdigest()
    folder = artifact_path(digest)
    folder.mkdir(parents=True)
    (folder / artifacts.MANIFEST).write_text(json.dumps(manifest))
    (folder.parent / "outside.txt").write_text("s")
    with pytest.raises(ArtifactCorrupt):
        stream_archive(digest, folder="f")
    with pytest.raises(ArtifactCorrupt):
        stream_archive("0" * 64, folder="f")
