"""Writes a backup while the instance runs: first the database, then the files that its rows name."""

from __future__ import annotations

import datetime as dt
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from django.conf import settings
from django.db import connection

from models_registry.artifacts.opening import find_store
from models_registry.store.local import LocalStore
from project.backup.form import ABOUT, ARTIFACTS, DUMP, FORM, RUNS, SECRETS, About, split_address
from project.embedded.layout import Layout
from project.embedded.postgres import find_binaries
from workspaces.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Backup:
    """What was written; `bytes` is the size of the file."""

    file: str
    bytes: int
    artifacts: int
    holds_artifacts: bool


def write_backup(file: Path, *, runs: bool = False) -> Backup:
    """Writes the file at once, readable by its owner alone: it holds secrets. Raises InvalidInput where the file is
    there already or the database cannot be dumped, and OSError."""
    if file.exists():
        raise InvalidInput(f"{file} is there already: name another file.")
    layout, store = Layout(Path(settings.VAR)), find_store()
    folder = store.root / "sha256" if isinstance(store, LocalStore) else None
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as beside:
        dump, draft = Path(beside, DUMP), Path(beside, "backup.tar")
        server = _dump_database(dump)
        about = About(FORM, dt.datetime.now(dt.UTC).isoformat(), server, folder is not None, runs)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as out:
            with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as tar:
                _add_bytes(tar, ABOUT, msgspec.json.encode(about))
                tar.add(dump, DUMP)
                for _ in _add_folder(tar, layout.secrets, SECRETS):
                    pass
                artifacts = {path.parts[1] for path in _add_folder(tar, folder, ARTIFACTS)} if folder else set()
                if runs:
                    for _ in _add_folder(tar, layout.var / "runs", RUNS):
                        pass
            out.flush()
            os.fsync(out.fileno())
        if file.exists():  # it has come meanwhile
            raise InvalidInput(f"{file} is there already: name another file.")
        draft.rename(file)
    return Backup(str(file), file.stat().st_size, len(artifacts), folder is not None)


def _dump_database(dump: Path) -> str:
    """PostgreSQL's version. The programs are those of the package, which dump older servers, too."""
    address, environment = split_address(settings.DATABASE_URL)
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        server = str(cursor.fetchone()[0])
    command = [
        str(find_binaries() / "pg_dump"),
        "--format=custom",
        "--no-owner",
        f"--file={dump}",
        f"--dbname={address}",
    ]
    done = subprocess.run(  # noqa: S603 - the packaged program
        command, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        raise InvalidInput(f"The database could not be dumped: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return server


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o600
    tar.addfile(member, io.BytesIO(content))


def _add_folder(tar: tarfile.TarFile, folder: Path, name: str) -> Iterator[Path]:
    """Gives the path of each file within the folder. What is removed meanwhile is left out."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        within = path.relative_to(folder)
        try:
            tar.add(path, f"{name}/{within}")
        except FileNotFoundError:
            continue
        yield within
