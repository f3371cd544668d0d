"""Dumps that somebody else made: no code of theirs runs with the operator's rights, while they are restored or later.

The operator's role is a superuser here, as the embedded server's is, so code with its rights could start any program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from django.test import override_settings

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
LEFT_ROLES = "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'reckoner_restore%'"
LEFT = f"""
SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace)
  + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)
  + ({LEFT_ROLES})
  + (SELECT count(*) FROM pg_largeobject_metadata)
"""
# Would run a program of the operating system, but not where it was written. An index's function must be immutable, and
# PostgreSQL does not look at what that calls.
ACT = """
CREATE FUNCTION public.act() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF current_database() <> 'source' THEN
    COPY (SELECT 1) TO PROGRAM 'touch {marker}';
  END IF;
  RETURN 'x';
END $$;
CREATE FUNCTION public.evil(word text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN RETURN public.act(); END $$;
"""
WORDS = "CREATE TABLE public.words AS SELECT 'x' AS word"
INDEX = "CREATE INDEX evil ON public.words (public.evil(word))"
PADDING = f"CREATE VIEW public.padding AS SELECT '{'x' * 400}' AS x"


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

    def dump(self, *statements: str, template: str = "reckoner") -> bytes:
        """The dump of a migrated database, or with `template0` an empty one, in which a superuser ran the statements.
        `{marker}` in them is the marker's path."""
        self.run("postgres", f"CREATE DATABASE {SOURCE} TEMPLATE {template} STRATEGY file_copy")
        try:
            for statement in statements:
                self.run(SOURCE, statement.replace("{marker}", str(self.marker)))
            command = [find_binaries() / "pg_dump", "--format=custom", self.postgres.url(SOURCE)]
            return subprocess.run(command, check=True, capture_output=True).stdout
        finally:
            self.run("postgres", f"DROP DATABASE {SOURCE}")

    def dump_with(self, statement: str, *others: str) -> bytes:
        """A dump into which a statement was written, which ends the transaction of the restore and begins with one
        that makes `left_behind`."""
        dump = self.dump(PADDING, *others, template="template0")
        at = dump.index(b"CREATE VIEW public.padding")
        room = dump.index(b";\n", at) - at
        written = f"COMMIT; CREATE TABLE public.left_behind (x text); COMMIT; {statement}".encode().ljust(room)
        assert len(written) == room
        return dump[:at] + written + dump[at + room :]

    def save(self, dump: bytes) -> Path:
        file = self.folder / "backup.tar"
        with tarfile.open(file, "w") as tar:
            add(tar, ABOUT, BEGIN)
            add(tar, DUMP, dump)
        return file

    def check_refused(self, dump: bytes, *reasons: str) -> None:
        """Nothing ran, nothing is left, and nothing changed beside it. In this process: a command's takes seconds."""
        kept = self.run("reckoner", "SELECT count(*) FROM django_migrations")
        with override_settings(VAR=self.layout.var), pytest.MonkeyPatch.context() as patch:
            patch.setenv("DATABASE_URL", self.postgres.url(TARGET))
            with pytest.raises(InvalidInput) as refused:
                restore_backup(self.save(dump))
        assert [reason for reason in reasons if reason not in refused.value.message] == [], refused.value.message
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


def test_the_code_of_these_tests_would_run(server: Server) -> None:
    """With --trust, which is for backups of one's own."""
    file = server.save(server.dump(ACT, WORDS, INDEX))
    server.run("postgres", "CREATE DATABASE trusting")
    done = server.restore(file, "--trust", url=server.postgres.url("trusting"))
    assert done.returncode == 0, done.stderr
    assert server.marker.exists()
    server.marker.unlink()
    server.run("postgres", "DROP DATABASE trusting")


REFUSED_BY_THE_SERVER = [
    ((ACT, WORDS, INDEX), "permission denied to COPY to or from an external program, at: CREATE INDEX evil ON"),
    (
        (ACT, "ALTER FUNCTION public.act() SECURITY DEFINER", WORDS, INDEX),
        "permission denied to COPY to or from an external program, at: CREATE INDEX evil ON",
    ),
    (("CREATE EXTENSION vector",), 'permission denied to create extension "vector", at: CREATE EXTENSION'),
    (("CREATE SCHEMA evil",), "permission denied for database target, at: CREATE SCHEMA evil"),
    (("CREATE PUBLICATION evil",), "permission denied for database target, at: CREATE PUBLICATION evil"),
    (("CREATE FOREIGN DATA WRAPPER evil",), 'permission denied to create foreign-data wrapper "evil", at: CREATE'),
    (
        (
            "CREATE FUNCTION evil() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'",
            "CREATE EVENT TRIGGER evil ON ddl_command_end EXECUTE FUNCTION evil()",
        ),
        'permission denied to create event trigger "evil", at: CREATE EVENT TRIGGER evil',
    ),
]


def test_what_needs_rights_fails_while_it_is_restored(server: Server) -> None:
    for statements, reason in REFUSED_BY_THE_SERVER:
        server.check_refused(server.dump(*statements, template="template0"), reason)


REFUSED_BY_KIND_AND_NAME = [
    ("CREATE DOMAIN bad AS text CHECK (evil(value) <> '')", "type public.bad"),
    ("CREATE OPERATOR <<<< (FUNCTION = evil, RIGHTARG = text)", "operator public.<<<<(NONE,pg_catalog.text)"),
    (
        "CREATE FUNCTION row_evil() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM act(); RETURN NEW; END';"
        "CREATE TRIGGER evil BEFORE INSERT ON django_migrations FOR EACH ROW EXECUTE FUNCTION row_evil()",
        "function public.row_evil(); ",
    ),
    ("SELECT 1", "; trigger evil on public.django_migrations"),
    (
        "ALTER TABLE django_migrations ALTER COLUMN name SET DEFAULT act()",
        "default value for public.django_migrations.name, which calls public.act()",
    ),
    (
        "ALTER TABLE jobs_job ADD CONSTRAINT evil CHECK (evil(kind) <> '')",
        "table constraint evil on public.jobs_job, which calls public.evil(text)",
    ),
    (
        "ALTER TABLE jobs_job ADD COLUMN bad text GENERATED ALWAYS AS (evil(kind)) STORED",
        "default value for public.jobs_job.bad, which calls public.evil(text)",
    ),
    (
        "CREATE INDEX evil ON jobs_job (id) WHERE evil(kind) = 'x'",
        "index public.evil, which calls public.evil(text)",
    ),
    ("CREATE POLICY evil ON jobs_job USING (act() = 'x')", "policy evil on public.jobs_job"),
    ("SELECT 1", "function public.act(); function public.evil(text)"),
    (
        "ALTER TABLE django_migrations ALTER COLUMN name SET DEFAULT pg_read_file('/etc/hostname')",
        "default value for public.django_migrations.name, which calls pg_read_file(text)",
    ),
    (
        "ALTER TABLE jobs_job ADD CONSTRAINT evil CHECK (query_to_xml(kind, true, true, '') IS NOT NULL)",
        "which calls query_to_xml(text,boolean,boolean,text)",
    ),
    (
        "ALTER TABLE django_migrations ALTER COLUMN app SET DEFAULT session_user",
        "default value for public.django_migrations.app, which computes SQLVALUEFUNCTION",
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
    ("CREATE RULE evil AS ON INSERT TO django_migrations DO ALSO NOTIFY evil", "rule evil on public.django_migrations"),
    ("CREATE VIEW evil AS SELECT pg_read_file('/etc/hostname')", "; view public.evil"),
    ("CREATE MATERIALIZED VIEW seen AS SELECT 1", "materialized view public.seen"),
    ("CREATE TYPE pair AS (word text)", "type public.pair"),
    ("CREATE CAST (django_migrations AS text) WITH INOUT AS ASSIGNMENT", "cast (public.django_migrations AS"),
    ("CREATE STATISTICS evil ON (lower(kind)), id FROM jobs_job", "statistics object public.evil"),
    ("ALTER TABLE jobs_job ENABLE ROW LEVEL SECURITY", "row-level security of table public.jobs_job"),
    ("ALTER FUNCTION refuse_audit_change() SECURITY DEFINER", "function public.refuse_audit_change()"),
    ("ALTER FUNCTION refuse_ledger_change() SET search_path = x", "function public.refuse_ledger_change()"),
    (
        "CREATE OR REPLACE FUNCTION refuse_change_but_erasure() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
        "function public.refuse_change_but_erasure()",
    ),
    ("CREATE AGGREGATE added(integer) (SFUNC = int4pl, STYPE = integer)", "aggregate public.added(integer)"),
    ("CREATE PROCEDURE evil() LANGUAGE sql AS 'SELECT 1'", "procedure public.evil()"),
    ("SELECT lo_from_bytea(0, 'x')", "large object "),
]  # fmt: skip
AT_ONCE = 10
"""A refusal names up to twenty."""


@pytest.mark.parametrize("first", range(0, len(REFUSED_BY_KIND_AND_NAME), AT_ONCE))
def test_what_our_migrations_do_not_make_is_refused_by_kind_and_name(server: Server, first: int) -> None:
    cases = REFUSED_BY_KIND_AND_NAME[first : first + AT_ONCE]
    own = [ACT] if first == 0 else []
    server.check_refused(server.dump(*own, *(statement for statement, _ in cases)), *(reason for _, reason in cases))


def test_what_this_version_does_not_know_is_refused(server: Server) -> None:
    later = "INSERT INTO django_migrations (app, name, applied) VALUES ('decisions', '9999_later', now())"
    server.check_refused(server.dump(later), "newer version of Reckoner", "its migrations decisions.9999_later")
    server.check_refused(server.dump(WORDS, template="template0"), "The dump is no database of Reckoner")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("COPY (SELECT 1) TO PROGRAM 'touch {marker}'", "permission denied to COPY to or from an external"),
        ("COPY left_behind FROM '/etc/passwd'", "permission denied to COPY from a file"),
        ("SET SESSION AUTHORIZATION reckoner", "permission denied to set session authorization"),
        ("SET ROLE reckoner", "permission denied to set role"),
        ("ALTER ROLE CURRENT_USER SUPERUSER", "permission denied to alter role"),
        ("ALTER SCHEMA public RENAME TO other", "must be owner of schema public"),
        ("ALTER DATABASE target SET search_path = other", "must be owner of database target"),
        ("GRANT ALL ON left_behind TO PUBLIC", "privileges on public.left_behind"),
        ("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC", "default acl"),
    ],
)
def test_statements_that_were_written_into_a_dump_have_no_rights(server: Server, statement: str, reason: str) -> None:
    """They end the transaction of the restore, so what they make is there until it is removed."""
    written = f"SET search_path = public; {statement.replace('{marker}', str(server.marker))}"
    server.check_refused(server.dump_with(written), reason)


def test_files_that_are_no_whole_dump_are_refused(server: Server) -> None:
    dump = server.dump(WORDS, template="template0")
    newer = bytearray(dump)
    newer[6] = 99  # PGDMP, the major version, the minor one
    for wrong, reason in (
        (b"", "too short"),
        (b"SELECT 1;\n" * 100, "does not appear to be a valid"),
        (bytes(newer), "unsupported version (1.99) in file header"),
        (dump[:200], "end of file"),
        (dump[: len(dump) // 2], "end of file"),
        (dump[:-40], ""),
    ):
        server.check_refused(wrong, reason, "the database is empty as before")


def test_a_plain_role_restores_where_it_may_create_roles(server: Server) -> None:
    opened = ("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC", "GRANT ALL ON django_migrations TO PUBLIC")
    good = server.dump(*opened)
    bad = server.dump(ACT, WORDS, INDEX, template="template0")
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
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    assert "permission denied to COPY" in refused.stderr and not server.marker.exists()
    assert server.run("outside", LEFT) == [(0,)]
    done = server.restore(server.save(good), url=url)
    assert done.returncode == 0, done.stderr
    owners = "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert server.run("outside", owners) == [("plain",)]
    assert server.run("outside", LEFT_ROLES) == [(0,)]
    # Who may do what is no part of a backup.
    assert server.run("outside", "SELECT count(*) FROM pg_default_acl") == [(0,)]
    assert server.run("outside", "SELECT relacl FROM pg_class WHERE relname = 'django_migrations'") == [(None,)]
    again = server.restore(server.save(good), url=url)
    assert again.returncode == 2 and "holds tables already" in again.stderr
    migrated = Manage(server.layout, DATABASE_URL=url)("migrate", "--check")
    assert migrated.returncode == 0, migrated.stderr
    server.run("postgres", "DROP DATABASE outside", "DROP ROLE plain")


def test_what_a_killed_restore_leaves_is_not_used_and_goes_with_the_next(server: Server) -> None:
    """With the instance's own server, which such a restore leaves, too."""
    file = server.save(server.dump_with("SELECT pg_sleep(300)"))
    manage = Manage(Layout((server.folder / "killed").resolve()))
    command = [sys.executable, "manage.py", "restore", str(file)]
    restore = subprocess.Popen(command, cwd=PROJECT_ROOT, env=manage.environment)
    layout = Layout((server.folder / "killed").resolve())
    own = Postgres(layout.postgres, layout.locate_sockets("postgres"))
    owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'left_behind'"
    give_up = time.monotonic() + 240
    while not (rows := ask(own, owner)):
        assert restore.poll() is None and time.monotonic() < give_up
        time.sleep(0.2)
    restore.kill()
    restore.wait(10)
    assert str(rows[0][0]).startswith("reckoner_restore_")
    migrated = Manage(layout, DATABASE_URL=own.url())("migrate")
    assert migrated.returncode != 0 and "a restore into this database was broken off" in migrated.stderr

    done = manage("restore", server.save(server.dump()))
    assert done.returncode == 0, done.stderr
    with own.running():
        assert ask(own, owner) == []
        assert ask(own, LEFT_ROLES) == [(0,)]


def ask(postgres: Postgres, statement: str) -> list[tuple[object, ...]]:
    """No rows where nobody answers yet."""
    try:
        with psycopg.connect(postgres.url()) as connection:
            return connection.execute(statement.encode()).fetchall()
    except psycopg.OperationalError:
        return []
