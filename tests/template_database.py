"""A database with every migration applied, which each test session copies instead of migrating its own.

It lies in the tests' own PostgreSQL (project/embedded/testing.py) from session to session, and is named after the
content of the migrations: a change of them makes another. Servers given from outside get none.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import django
import psycopg
from psycopg import sql

from project.embedded.layout import Layout
from project.embedded.postgres import Postgres, find_binaries
from project.embedded.testing import SESSION
from project.settings_test import PROJECT, TEST_VAR

PREFIX = "migrated_"


def name_template() -> str:
    """PREFIX and a digest of Django's version and of all that our migrations say."""
    digest = hashlib.sha256(django.__version__.encode())
    for path in sorted([*PROJECT.glob("*/migrations/*.py"), *PROJECT.glob("project/settings*.py")]):
        digest.update(path.relative_to(PROJECT).as_posix().encode() + path.read_bytes())
    return PREFIX + digest.hexdigest()[:16]


def ensure_template(server_url: str) -> str:
    """The name of the template on this server, made if it is not there. `server_url` has no database's name."""
    name = name_template()
    with (
        (TEST_VAR / "template.lock").open("w") as lock,
        psycopg.connect(f"{server_url}/postgres", autocommit=True) as server,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = {row[0] for row in server.execute("SELECT datname FROM pg_database").fetchall()}
        if name in there:
            return name
        # Of other migrations, or left unfinished. One that a session copies at this moment stays.
        for old in sorted(one for one in there if one.startswith(PREFIX)):
            with contextlib.suppress(psycopg.errors.ObjectInUse):
                server.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(old)))
        unfinished = f"{PREFIX}unfinished"
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(unfinished)))
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=PROJECT,
            env={**os.environ, "DATABASE_URL": f"{server_url}/{unfinished}"},
            check=True,
        )
        rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
        server.execute(rename.format(sql.Identifier(unfinished), sql.Identifier(name)))
    return name


def migrate_instance(var: Path) -> None:
    """The cluster of an instance that has not started yet, with the schema that this test's database has: the
    instance's own migrations, some fifteen seconds of processor time, find nothing to do. The test's own servers only.
    """
    if SESSION not in os.environ:
        return
    from django.db import connection

    layout = Layout(var.resolve())
    layout.create()
    cluster = Postgres(layout.postgres, layout.locate_sockets("postgres"), durable=False)
    with cluster.running():
        programs = find_binaries()
        source = f"{os.environ['DATABASE_URL'].rpartition('/')[0]}/{connection.settings_dict['NAME']}"
        dumped = subprocess.run([programs / "pg_dump", source], check=True, capture_output=True).stdout
        filled = [programs / "psql", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", cluster.url()]
        subprocess.run(filled, input=dumped, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    ensure_template(os.environ["DATABASE_URL"].rpartition("/")[0])
