"""Dumps that somebody else made: no code of theirs runs with the operator's rights, while they are restored or later.

The operator's role is a superuser here, as the embedded server's is, so code with its rights could start any program.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from django.test import override_settings
from psycopg import sql

from project.backup.form import ABOUT, DUMP
from project.backup.restoring import restore_backup
from project.embedded.layout import PROJECT_ROOT, Layout
from project.embedded.postgres import Postgres, find_binaries
from project.embedded.testing import SESSION
from tests.project.embedded.test_backup import Manage
from tests.project.embedded.test_hostile_backups import BEGIN, add
from tests.template_database import migrate_instance
from workspaces.errors import InvalidInput

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.xdist_group("embedded")]
SOURCE, TARGET = "source", "target"
LEFT = """
SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace)
  + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)
  + (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'reckoner_restore%')
  + (SELECT count(*) FROM pg_largeobject_metadata)
"""
# Runs a program of the operating system wherever it has a superuser's rights, but not where it was written.
EVIL = """
CREATE FUNCTION public.evil({takes}) RETURNS {gives} LANGUAGE plpgsql IMMUTABLE {more} AS $$
BEGIN
  IF current_database() <> 'source' THEN
    EXECUTE $run$COPY (SELECT 1) TO PROGRAM 'touch {marker}'$run$;
  END IF;
  RETURN {result};
END $$;
"""
OF_TEXT = {"takes": "word text", "gives": "text", "more": "", "result": "word"}
OF_NOTHING = {"takes": "", "gives": "text", "more": "", "result": "'x'"}
OF_ROW = {"takes": "", "gives": "trigger", "more": "", "result": "NEW"}
INDEX = "CREATE INDEX evil ON public.django_migrations (public.evil(name))"


@dataclass(frozen=True)
class Server:
    """A server with the empty database `target`, and `reckoner`, which is migrated. What `marker` names would be made
    by code with a superuser's rights."""

    postgres: Postgres
    layout: Layout
    folder: Path

    @property
    def marker(self) -> Path:
        return self.folder / "marker"

    def run(self, database: str, *statements: str) -> list[tuple[object, ...]]:
        """The last statement's rows."""
        with psycopg.connect(self.postgres.url(database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def restore(self, file: Path, *options: str, url: str = "") -> subprocess.CompletedProcess[str]:
        return Manage(self.layout, DATABASE_URL=url or self.postgres.url(TARGET))("restore", file, *options)

    def dump(self, *statements: str) -> bytes:
        """The dump of a migrated database in which a superuser ran the statements."""
        self.run("postgres", f"CREATE DATABASE {SOURCE} TEMPLATE reckoner STRATEGY file_copy")
        try:
            for statement in statements:
                self.run(SOURCE, statement)
            command = [find_binaries() / "pg_dump", "--format=custom", self.postgres.url(SOURCE)]
            return subprocess.run(command, check=True, capture_output=True).stdout
        finally:
            self.run("postgres", f"DROP DATABASE {SOURCE}")

    def save(self, dump: bytes) -> Path:
        file = self.folder / "backup.tar"
        with tarfile.open(file, "w") as tar:
            add(tar, ABOUT, BEGIN)
            add(tar, DUMP, dump)
        return file

    def check_refused(self, file: Path, reason: str) -> None:
        """Nothing ran, nothing is left, and nothing changed beside it. In this process: a command's takes seconds."""
        kept = self.run("reckoner", "SELECT count(*) FROM django_migrations")
        with override_settings(VAR=self.layout.var), pytest.MonkeyPatch.context() as patch:
            patch.setenv("DATABASE_URL", self.postgres.url(TARGET))
            with pytest.raises(InvalidInput) as refused:
                restore_backup(file)
        assert reason in refused.value.message
        assert not self.marker.exists()
        assert self.run(TARGET, LEFT) == [(0,)]
        assert self.run("reckoner", "SELECT count(*) FROM django_migrations") == kept


@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: pytest.FixtureDef[object]) -> Iterator[Server]:
    if SESSION not in os.environ:
        pytest.skip("makes dumps as a superuser, on a server of the tests' own")
    folder = Path(tempfile.mkdtemp(prefix="reckoner-test-"))
    folder.chmod(0o777)  # PostgreSQL's own user would write the marker
    layout = Layout((folder / "var").resolve())
    with django_db_blocker.unblock():
        migrate_instance(layout.var)
    postgres = Postgres(layout.postgres, layout.locate_sockets("postgres"), durable=False)
    with postgres.running():
        server = Server(postgres, Layout((folder / "other").resolve()), folder)
        server.run("postgres", f"CREATE DATABASE {TARGET}")
        yield server
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def evil(server: Server) -> Callable[..., str]:
    def make(**shape: str) -> str:
        return EVIL.format(marker=server.marker, **shape)

    return make


def test_the_code_of_these_tests_would_run(server: Server, evil: Callable[..., str]) -> None:
    """With --trust, which is for backups of one's own."""
    file = server.save(server.dump(evil(**OF_TEXT), INDEX))
    server.run("postgres", "CREATE DATABASE trusting")
    done = server.restore(file, "--trust", url=server.postgres.url("trusting"))
    assert done.returncode == 0, done.stderr
    assert server.marker.exists()
    server.marker.unlink()
    server.run("postgres", "DROP DATABASE trusting")


@pytest.mark.parametrize(
    ("shape", "statement", "reason"),
    [
        (OF_TEXT, INDEX, "INDEX evil: permission denied to COPY to or from an external program"),
        (OF_TEXT, "SELECT 1", "function public.evil(text)"),
        ({**OF_TEXT, "more": "SECURITY DEFINER"}, INDEX, "permission denied to COPY"),
        (
            OF_ROW,
            "CREATE TRIGGER evil BEFORE INSERT ON public.django_migrations FOR EACH ROW EXECUTE FUNCTION public.evil()",
            "function public.evil(); trigger evil on public.django_migrations",
        ),
        (
            OF_NOTHING,
            "ALTER TABLE public.django_migrations ALTER COLUMN name SET DEFAULT public.evil()",
            "default value for public.django_migrations.name, which calls public.evil()",
        ),
        (
            OF_TEXT,
            "ALTER TABLE public.jobs_job ADD CONSTRAINT evil CHECK (public.evil(kind) <> '')",
            "table constraint evil on public.jobs_job, which calls public.evil(text)",
        ),
        (
            OF_TEXT,
            "ALTER TABLE public.jobs_job ADD COLUMN bad text GENERATED ALWAYS AS (public.evil(kind)) STORED",
            "default value for public.jobs_job.bad, which calls public.evil(text)",
        ),
        (
            OF_TEXT,
            "CREATE INDEX evil ON public.jobs_job (id) WHERE public.evil(kind) = 'x'",
            "index public.evil, which calls public.evil(text)",
        ),
        (
            OF_NOTHING,
            "CREATE POLICY evil ON public.jobs_job USING (public.evil() = 'x')",
            "policy evil on public.jobs_job",
        ),
        (
            OF_TEXT,
            "CREATE DOMAIN public.bad AS text CHECK (public.evil(value) <> '')",
            "type public.bad",
        ),
        (
            OF_TEXT,
            "CREATE OPERATOR public.<<<< (FUNCTION = public.evil, RIGHTARG = text)",
            "operator public.<<<<(NONE,pg_catalog.text)",
        ),
    ],
)  # fmt: skip
def test_a_function_of_theirs_is_refused_wherever_it_is_called(
    server: Server, evil: Callable[..., str], shape: dict[str, str], statement: str, reason: str
) -> None:
    server.check_refused(server.save(server.dump(evil(**shape), statement)), reason)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "ALTER TABLE django_migrations ALTER COLUMN name SET DEFAULT pg_read_file('/etc/hostname')",
            "default value for public.django_migrations.name, which calls pg_read_file(text)",
        ),
        (
            "ALTER TABLE jobs_job ADD CONSTRAINT evil CHECK (query_to_xml(kind, true, true, '') IS NOT NULL) NOT VALID",
            "which calls query_to_xml(text,boolean,boolean,text)",
        ),
        (
            "ALTER TABLE django_migrations ALTER COLUMN name SET DEFAULT session_user",
            "default value for public.django_migrations.name, which computes SQLVALUEFUNCTION",
        ),
        (
            "CREATE TRIGGER evil BEFORE UPDATE ON jobs_job"
            " FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "trigger evil on public.jobs_job",
        ),
        (
            "CREATE TRIGGER decisions_reward_append_only BEFORE UPDATE ON jobs_job FOR EACH ROW"
            " WHEN (pg_notify('a', NEW.kind) IS NOT NULL) EXECUTE FUNCTION refuse_change_but_erasure()",
            "trigger decisions_reward_append_only on public.jobs_job, which calls pg_notify(text,text)",
        ),
        ("CREATE RULE evil AS ON INSERT TO django_migrations DO ALSO NOTIFY evil", "rule evil on public.django_migrat"),
        ("CREATE VIEW evil AS SELECT pg_read_file('/etc/hostname')", "view public.evil"),
        ("CREATE MATERIALIZED VIEW evil AS SELECT 1", "materialized view public.evil"),
        ("CREATE TYPE evil AS (word text)", "composite type public.evil"),
        ("CREATE CAST (django_migrations AS text) WITH INOUT AS ASSIGNMENT", "cast (public.django_migrations AS"),
        ("CREATE STATISTICS evil ON (lower(kind)), id FROM jobs_job", "statistics object public.evil"),
        ("ALTER TABLE jobs_job ENABLE ROW LEVEL SECURITY", "row-level security of table public.jobs_job"),
        ("ALTER FUNCTION refuse_audit_change() SECURITY DEFINER", "function public.refuse_audit_change()"),
        ("ALTER FUNCTION refuse_audit_change() SET search_path = x", "function public.refuse_audit_change()"),
        (
            "CREATE OR REPLACE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
            "function public.refuse_audit_change()",
        ),
        ("CREATE AGGREGATE evil(text) (SFUNC = array_append, STYPE = text[])", "aggregate public.evil"),
        ("CREATE PROCEDURE evil() LANGUAGE sql AS 'SELECT 1'", "procedure public.evil()"),
        ("SELECT lo_from_bytea(0, 'x')", "large object"),
        ("CREATE EXTENSION vector", "EXTENSION vector: permission denied to create extension"),
        ("CREATE SCHEMA evil", "SCHEMA evil: permission denied for database target"),
        ("CREATE SCHEMA evil; CREATE TABLE evil.evil ()", "SCHEMA evil: permission denied for database target"),
        ("CREATE PUBLICATION evil FOR ALL TABLES", "PUBLICATION evil: permission denied for database target"),
        ("CREATE FOREIGN DATA WRAPPER evil", "FOREIGN DATA WRAPPER evil: permission denied"),
        ("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC", ""),
        (
            "CREATE FUNCTION evil() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';"
            " CREATE EVENT TRIGGER evil ON ddl_command_end EXECUTE FUNCTION evil()",
            'EVENT TRIGGER evil: permission denied to create event trigger "evil"',
        ),
        (
            "INSERT INTO django_migrations (app, name, applied) VALUES ('decisions', '9999_later', now())",
            "newer version of Reckoner, and the database is empty as before. This version does not know its migrations"
            " decisions.9999_later",
        ),
        ("DROP TABLE django_migrations", "The dump is no database of Reckoner"),
    ],
)  # fmt: skip
def test_what_our_migrations_do_not_make_is_refused(server: Server, statement: str, reason: str) -> None:
    file = server.save(server.dump(statement))
    if reason:
        server.check_refused(file, reason)
        return
    # Who may do what is no part of a backup.
    assert server.restore(file).returncode == 0
    assert server.run(TARGET, "SELECT count(*) FROM pg_default_acl") == [(0,)]
    server.run("postgres", f"DROP DATABASE {TARGET}", f"CREATE DATABASE {TARGET}")


def test_statements_that_were_written_into_a_dump_have_no_rights(server: Server) -> None:
    """They end the transaction of the restore, so what they make is there until it is removed."""
    dump = server.dump(f"CREATE VIEW evil AS SELECT '{'x' * 400}' AS x")
    at = dump.index(b"CREATE VIEW public.evil")
    room = dump.index(b";\n", at) - at
    for tried, reason in (
        (f"COPY (SELECT 1) TO PROGRAM 'touch {server.marker}'", "permission denied to COPY to or from an external"),
        ("SET SESSION AUTHORIZATION reckoner", "permission denied to set session authorization"),
        ("SET ROLE reckoner", "permission denied to set role"),
        ("ALTER ROLE CURRENT_USER SUPERUSER", "permission denied to alter role"),
        ("GRANT CREATE ON SCHEMA public TO PUBLIC; SELECT 1/0", "division by zero"),
        ("ALTER SCHEMA public RENAME TO other", "must be owner of schema public"),
        ("ALTER DATABASE target SET search_path = other", "must be owner of database target"),
        ("COPY django_site FROM '/etc/passwd'", "COPY"),
        ("GRANT ALL ON left_behind TO PUBLIC", "privileges on public.left_behind"),
    ):
        told = f"COMMIT; CREATE TABLE public.left_behind (); SET search_path = public; {tried}".encode().ljust(room)
        assert len(told) == room
        server.check_refused(server.save(dump[:at] + told + dump[at + room :]), reason)


def test_files_that_are_no_whole_dump_are_refused(server: Server) -> None:
    dump = server.dump()
    newer = bytearray(dump)
    newer[6] = 99  # PGDMP, the major version, the minor one
    for wrong, reason in (
        (b"", "too short"),
        (b"SELECT 1;\n" * 100, "does not appear to be a valid archive"),
        (bytes(newer), "unsupported version (1.99) in file header"),
        (dump[:200], "end of file"),
        (dump[: len(dump) // 4], "end of file"),
        (dump[:-200], "end of file"),
    ):
        server.check_refused(server.save(wrong), reason)


def test_a_plain_role_restores_where_it_may_create_roles(server: Server, evil: Callable[..., str]) -> None:
    good = server.dump()
    bad = server.dump(evil(**OF_TEXT), INDEX)
    server.run("postgres", "CREATE ROLE plain LOGIN", "CREATE DATABASE outside OWNER plain")
    url = server.postgres.url("outside").replace("//reckoner@", "//plain@")
    refused = server.restore(server.save(good), url=url)
    assert refused.returncode == 2 and "the role plain must be able to create roles" in refused.stderr
    assert "CREATEROLE" in refused.stderr and "--trust" in refused.stderr
    server.run("postgres", "ALTER ROLE plain CREATEROLE", "ALTER DATABASE outside OWNER TO reckoner")
    refused = server.restore(server.save(good), url=url)
    assert refused.returncode == 2 and "must own the database" in refused.stderr
    server.run("postgres", "ALTER DATABASE outside OWNER TO plain")
    refused = server.restore(server.save(bad), url=url)
    assert refused.returncode == 2 and "permission denied to COPY" in refused.stderr
    assert server.run("outside", LEFT) == [(0,)]
    done = server.restore(server.save(good), url=url)
    assert done.returncode == 0, done.stderr
    owners = "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert server.run("outside", owners) == [("plain",)]
    assert server.run("outside", "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'reckoner_restore%'") == [(0,)]
    again = server.restore(server.save(good), url=url)
    assert again.returncode == 2 and "holds tables already" in again.stderr
    migrated = Manage(server.layout, DATABASE_URL=url)("migrate", "--check")
    assert migrated.returncode == 0, migrated.stderr
    server.run("postgres", "DROP DATABASE outside", "ALTER ROLE plain NOCREATEROLE NOLOGIN")


def test_what_a_killed_restore_leaves_is_not_used_and_goes_with_the_next(server: Server) -> None:
    slow = server.dump(
        "CREATE FUNCTION evil(word text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
        " IF current_database() <> 'source' THEN PERFORM pg_sleep(300); END IF; RETURN word; END $$",
        f"CREATE VIEW padding AS SELECT '{'x' * 400}' AS x",
        INDEX,
    )
    at = slow.index(b"CREATE VIEW public.padding")
    room = slow.index(b";\n", at) - at
    early = b"COMMIT; CREATE TABLE public.left_behind ()".ljust(room)
    file = server.save(slow[:at] + early + slow[at + room :])
    manage = Manage(server.layout, DATABASE_URL=server.postgres.url(TARGET))
    command = ["/bin/sh", "-c", 'exec "$0" "$@"', str(PROJECT_ROOT / ".venv/bin/python"), "manage.py", "restore", file]
    restore = subprocess.Popen(command, cwd=PROJECT_ROOT, env=manage.environment, start_new_session=True)
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    give_up = time.monotonic() + 120
    while server.run(TARGET, sleeping) == [(0,)]:
        assert restore.poll() is None and time.monotonic() < give_up
        time.sleep(0.1)
    os.killpg(restore.pid, signal.SIGKILL)
    restore.wait(10)
    owned = sql.SQL("SELECT tableowner FROM pg_tables WHERE tablename = 'left_behind'").as_string()
    assert str(server.run(TARGET, owned)[0][0]).startswith("reckoner_restore_")
    migrated = manage("migrate")
    assert migrated.returncode != 0 and "a restore into this database was broken off" in migrated.stderr
    done = server.restore(server.save(server.dump()))
    assert done.returncode == 0, done.stderr
    assert server.run(TARGET, owned) == []
    assert server.run(TARGET, "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'reckoner_restore%'") == [(0,)]
    assert server.run(TARGET, sleeping) == [(0,)]
    server.run("postgres", f"DROP DATABASE {TARGET}", f"CREATE DATABASE {TARGET}")
