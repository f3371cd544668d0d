"""Uploaded files: their largest size, their name, and storing them.

The forms of rehearsals and of imports use it. An import's file waits for its job in the store's folder `incoming`,
which is emptied after `RECKONER_KEEP_INCOMING_DAYS`.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from django.core.files.uploadedfile import UploadedFile

from models_registry.artifacts.opening import local_root, safe_join
from workspaces.storage.ids import uuid7

LARGEST_UPLOAD = 32 << 20
LONGEST_STEM, LONGEST_ENDING = 40, 16
ABOUT = "about.json"


def size_fault(upload: UploadedFile[Any]) -> str:
    """What is wrong with its size; empty when nothing is."""
    size = upload.size or 0
    if size <= LARGEST_UPLOAD:
        return ""
    return f"{size / (1 << 20):.1f} MiB is more than {LARGEST_UPLOAD >> 20} MiB; on the server, manage.py takes more"


def write_upload(upload: UploadedFile[Any], folder: Path) -> Path:
    """The file in the folder, under its own name as far as every file system takes it: faults are told by it."""
    name = Path(upload.name or "file")
    stem, ending = _plain(name.stem)[:LONGEST_STEM] or "file", _plain(name.suffix)[:LONGEST_ENDING]
    path = folder / f"{stem}{ending}"
    with path.open("wb") as handle:
        for chunk in upload.chunks():
            handle.write(chunk)
    return path


def _plain(name: str) -> str:
    return "".join(letter for letter in name if letter.isalnum() or letter in " ._-").strip(" ")


def keep_file(path: Path, about: Mapping[str, Any]) -> uuid.UUID:
    """Puts a checked file where its job finds it, with what was said of it; returns the name of the two."""
    upload = uuid7()
    folder = _folder(upload)
    try:
        folder.mkdir(parents=True)
        (folder / ABOUT).write_bytes(msgspec.json.encode({**about, "file": path.name}))
        (folder / "file").mkdir()
        shutil.move(path, folder / "file" / path.name)
    except OSError:  # such as a full disk
        drop_kept(upload)
        raise
    return upload


def read_kept(upload: uuid.UUID) -> tuple[Path, dict[str, Any]] | None:
    """The file and what was said of it; None when it was taken, thrown away or kept for long enough."""
    try:
        about = msgspec.json.decode((_folder(upload) / ABOUT).read_bytes())
    except FileNotFoundError:
        return None
    path = _folder(upload) / "file" / about["file"]
    return (path, about) if path.is_file() else None


def drop_kept(upload: uuid.UUID) -> None:
    shutil.rmtree(_folder(upload), ignore_errors=True)


def _folder(upload: uuid.UUID) -> Path:
    return safe_join(local_root(), f"incoming/upload-{upload}")
