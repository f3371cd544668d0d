"""A backup of the embedded server, which is of version 18, is restored into a server of PostgreSQL 16."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from project.backup.older_servers import _leave_out
from project.embedded.layout import Layout
from tests.project.embedded.test_backup import Manage, saved  # noqa: F401 - a fixture
from tests.servers import start_postgres

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.xdist_group("embedded")]
TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"


@pytest.fixture
def address() -> Iterator[str]:
    """Of an empty database; its role owns it and may make roles."""
    folder, running = Path(tempfile.mkdtemp(prefix="reckoner-servers-")), []
    try:
        url = start_postgres(folder, "16", running)
        secret = (folder / "postgres" / "password").read_text()
        admin = f"postgresql://postgres:{secret}@127.0.0.1:{urlsplit(url).port}/postgres"
        with psycopg.connect(admin, autocommit=True) as server:
            server.execute("ALTER ROLE reckoner CREATEROLE")
        yield url
    finally:
        for server in running:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def read(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchall()


def restore(file: Path, before: Layout, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    other = Layout((before.var.parent / "other").resolve())
    return Manage(other, DATABASE_URL=url)("restore", file, "--json", *options)


def test_it_comes_back_whole(saved: tuple[Layout, Path, str], address: str) -> None:  # noqa: F811
    before, file, _ = saved
    done = restore(file, before, address)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["artifacts"], told["broken"], told["tables"] > 80) == (1, [], True)
    assert read(address, "SELECT slug FROM decisions_agent") == [("filer",)]
    assert read(address, "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'reckoner_restore%'") == [(0,)]
    other = Layout((before.var.parent / "other").resolve())
    migrated = Manage(other, DATABASE_URL=address)("migrate", "--check")
    assert migrated.returncode == 0, migrated.stderr


@pytest.mark.parametrize("options", [(), ("--trust",)])
def test_what_fails_leaves_nothing(
    saved: tuple[Layout, Path, str],  # noqa: F811
    address: str,
    options: tuple[str, ...],
    tmp_path: Path,
) -> None:
    before, file, _ = saved
    cut = tmp_path / "cut.tar"
    with tarfile.open(file) as old, tarfile.open(cut, "w") as new:
        for member in old:
            content = old.extractfile(member)
            assert content is not None
            body = content.read()
            if member.name == "database.dump":
                body = body[: len(body) * 3 // 4]
                member.size = len(body)
            new.addfile(member, io.BytesIO(body))
    done = restore(cut, before, address, *options)
    assert done.returncode == 2 and "the database is empty as before" in done.stderr, done.stderr
    assert read(address, TABLES) == [(0,)]


def test_one_line_is_left_out_and_no_other() -> None:
    unknown = b"SET transaction_timeout = 0;\n"
    kept = [b"SET lock_timeout = 0;\n", b"SET transaction_timeout = 5;\n", b"SET new_timeout = 0;\n"]
    script = [b"\\restrict aB3\n", kept[0], unknown, *kept[1:], unknown, b"\\unrestrict aB3\n"]
    assert list(_leave_out(io.BytesIO(b"".join(script)))) == [*kept, unknown]
