"""Makes an instance of a backup: its files, then the database in one transaction, then its secrets.

What is broken off before the database's commit can be begun again: artifacts are named by their content.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

import psycopg
from django.conf import settings
from django.db import OperationalError, ProgrammingError

from models_registry.artifacts.opening import find_store, verify_artifact
from models_registry.errors import ArtifactCorrupt
from models_registry.store.local import LocalStore
from project.backup.confined import load_confined, load_dump, remove_unfinished
from project.backup.form import ABOUT, ARTIFACTS, DUMP, RUNS, SECRETS, About, read_about
from project.embedded.instance import take_lock
from project.embedded.layout import Layout, write_private
from project.embedded.postgres import Postgres
from project.embedded.processes import reap
from workspaces.errors import InvalidInput

LONGEST_ABOUT, LONGEST_SECRET = 1 << 16, 1 << 16
"""Bytes."""
TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
DIGESTS = "SELECT digest FROM models_registry_artifact WHERE removed_at IS NULL ORDER BY digest"


@dataclass(slots=True)
class Restored:
    """`broken`: digests of artifacts whose files are missing or not what they were."""

    made_at: str
    tables: int = 0
    artifacts: int = 0
    broken: list[str] = field(default_factory=list)


def restore_backup(file: Path, *, trust: bool = False) -> Restored:
    """Into `RECKONER_VAR`, and the database of `DATABASE_URL` or the instance's own, which must hold nothing. `trust`
    restores the dump with the rights of that address, and what it holds is not checked. Raises InvalidInput, with
    nothing changed in the database, AlreadyRunningError, EmbeddedError and OSError."""
    layout = Layout(Path(settings.VAR))
    layout.create()
    lock = take_lock(layout)
    try:
        with _open(file) as (tar, about), _database(layout) as url, tempfile.TemporaryDirectory(dir=layout.run) as made:
            remove_unfinished(url)
            if _ask(url, TABLES)[0][0]:
                raise InvalidInput("The database holds tables already. A backup is restored into an empty one.")
            restored, dump = Restored(about.made_at), Path(made, DUMP)
            secrets = _extract(tar, layout, dump)
            if not dump.exists():
                raise InvalidInput(f"The backup has no {DUMP}: it is incomplete.")
            (load_dump if trust else load_confined)(dump, url)
            for name, secret in secrets.items():
                write_private(layout.secrets / name, secret)
            restored.tables = int(_ask(url, TABLES)[0][0])
            digests = [str(row[0]) for row in _ask(url, DIGESTS)] if about.artifacts else []
            restored.artifacts = len(digests)
            restored.broken = [digest for digest in digests if not _is_whole(digest)]
            return restored
    finally:
        os.close(lock)


@contextmanager
def _open(file: Path) -> Iterator[tuple[tarfile.TarFile, About]]:
    try:
        with tarfile.open(file, mode="r:") as tar:
            first = tar.next()
            content = tar.extractfile(first) if first is not None and first.name == ABOUT else None
            if content is None:
                raise InvalidInput(f"{file} is no backup of Reckoner: it does not begin with {ABOUT}.")
            if first is None or first.issparse() or first.size > LONGEST_ABOUT:
                raise InvalidInput(f"{file} is no backup of Reckoner: its {ABOUT} is too long.")
            yield tar, read_about(content.read())
    except tarfile.TarError as error:
        raise InvalidInput(f"{file} is no whole backup of Reckoner: {error}.") from error


@contextmanager
def _database(layout: Layout) -> Iterator[str]:
    """The address of the database; the instance's own server runs meanwhile."""
    if url := os.environ.get("DATABASE_URL"):
        yield url
        return
    reap(layout)  # a restore that was killed leaves its server, and two servers on one cluster destroy it
    postgres = Postgres(layout.postgres, layout.locate_sockets("postgres"))
    with postgres.running():
        yield postgres.url()


def _ask(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Raises Django's errors: OperationalError where nobody answers at the address, ProgrammingError for a table that
    is not there."""
    try:
        with psycopg.connect(url) as connection:
            return connection.execute(statement.encode()).fetchall()
    except psycopg.OperationalError as error:
        raise OperationalError(str(error)) from error
    except psycopg.ProgrammingError as error:
        raise ProgrammingError(str(error)) from error


def _extract(tar: tarfile.TarFile, layout: Layout, dump: Path) -> dict[str, str]:
    """Puts artifacts, runs and the dump in their places, and gives the secrets, which come last."""
    store = find_store()
    places = {RUNS: layout.var / RUNS}
    if isinstance(store, LocalStore):
        places[ARTIFACTS] = store.root / "sha256"
    secrets: dict[str, str] = {}
    for member in tar:
        if member.issparse():  # holes: a few bytes of the file would become as many as its header names
            raise InvalidInput(f"{member.name[:200]!r} is a sparse file, and no backup of Reckoner holds one.")
        content = tar.extractfile(member) if member.isreg() else None
        if content is None:
            continue
        if member.name == DUMP:
            _write(dump, content)
            continue
        prefix = next((name for name in (*places, SECRETS) if member.name.startswith(f"{name}/")), None)
        within = PurePosixPath(member.name[len(prefix) + 1 :]) if prefix else None
        if prefix is None or within is None or not _is_inside(within):
            continue
        if prefix == SECRETS and len(within.parts) == 1:
            if member.size > LONGEST_SECRET:
                raise InvalidInput(f"{member.name[:200]!r} is too long for a secret.")
            secrets[str(within)] = content.read().decode("ascii")
        elif prefix in places:
            _write(places[prefix] / within, content)
    return secrets


def _is_inside(within: PurePosixPath) -> bool:
    """Returns whether a path names a file below its folder."""
    return bool(within.parts) and not within.is_absolute() and ".." not in within.parts and "\0" not in str(within)


def _write(path: Path, content: IO[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        shutil.copyfileobj(content, out)


def _is_whole(digest: str) -> bool:
    try:
        verify_artifact(digest)
    except (ArtifactCorrupt, OSError):
        return False
    return True
