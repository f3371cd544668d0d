"""Restores a dump that somebody else may have made, so that code in it never has the rights of the product's role.

A dump is a program: its functions run while it is restored (an index on an expression) or at any later statement (a
trigger, a rule, a default). So it is restored by a role that may log in and create objects in the schema public, and
nothing else. What it made is then compared with what our migrations make, and only then becomes the product's role's.
The role is named after its database: a restore that is killed leaves it, the next one removes it with all it owns, and
`manage.py migrate` refuses the database until then.
"""

from __future__ import annotations

import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from django.db import OperationalError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from psycopg import sql
from psycopg.conninfo import make_conninfo

from project.backup.catalogue import list_refused
from project.backup.form import split_address
from project.backup.older_servers import KNOWS_TRANSACTION_TIMEOUT, UnusableDump, apply_dump
from project.embedded.postgres import find_binaries
from workspaces.errors import InvalidInput

APPS = ("workspaces", "jobs", "models_registry", "decisions", "training")
NAMED = 20
LONGEST_NAME = 300
END_SECONDS = 30
NOT_RESTORED = "The dump could not be restored, and the database is empty as before:"

MAY_CREATE_ROLES: Final = "SELECT rolsuper OR rolcreaterole, rolname FROM pg_roles WHERE rolname = current_user"
MAY_CREATE_TABLES: Final = """
SELECT has_database_privilege(%(role)s, current_database(), 'CONNECT')
  AND has_schema_privilege(%(role)s, 'public', 'CREATE')
"""
NAME_OF_ROLE: Final = "SELECT 'reckoner_restore_' || oid::text FROM pg_database WHERE datname = current_database()"
ROLE: Final = "SELECT oid FROM pg_roles WHERE rolname = %s"
END_SESSIONS: Final = "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE usesysid = %s"
SESSIONS: Final = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usesysid = %s)"
UNFINISHED: Final = """
SELECT EXISTS (
  SELECT FROM pg_shdepend JOIN pg_roles ON pg_roles.oid = refobjid
    JOIN pg_database ON rolname = 'reckoner_restore_' || pg_database.oid::text
  WHERE refclassid = 'pg_authid'::regclass AND deptype = 'o' AND datname = current_database()
)
"""
APPLIED: Final = "SELECT app || '.' || name FROM public.django_migrations WHERE app = ANY (%s)"


@contextmanager
def connect(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection with autocommit that looks for names among the built-in ones only. Raises Django's OperationalError
    where nobody answers, and InvalidInput where the role of `url` may not do what the block does."""
    try:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("SET search_path = pg_catalog")
            yield server
    except psycopg.OperationalError as error:
        raise OperationalError(str(error)) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise InvalidInput(
            f"The role of the database's address may not restore: {error.diag.message_primary}"
        ) from error


def remove_unfinished(url: str) -> None:
    """Removes what a restore that was killed left in the database: its role, with all that the role owns."""
    with connect(url) as server:
        _remove_role(server)


def load_confined(dump: Path, url: str) -> None:
    """Raises InvalidInput where the dump is broken or holds what no backup of Reckoner holds, or where the role of
    `url` cannot make another; the database is then empty as before."""
    with connect(url) as server:
        address = make_conninfo(url, **_make_role(server))
    try:
        _check_log_in(address)
        # Who may do what is for the operator of this database to say; comments of what is there already are refused.
        load_dump(dump, address, "--no-privileges", "--no-comments")
        with connect(url) as server:
            _take_over(server)
    except BaseException:
        remove_unfinished(url)
        raise


def load_dump(dump: Path, url: str, *options: str) -> None:
    """Restores with the rights of the role of `url`, in one transaction. Raises InvalidInput."""
    with connect(url) as server:
        version = server.info.server_version
    if version < KNOWS_TRANSACTION_TIMEOUT:
        try:
            apply_dump(dump, url, *options)
        except UnusableDump as error:
            raise InvalidInput(f"{NOT_RESTORED} {_clean(str(error))}") from error
        return
    command = [str(find_binaries() / "pg_restore"), "--no-owner", "--single-transaction", "--exit-on-error"]
    address, environment = split_address(url)
    command += [*options, f"--dbname={address}", str(dump)]
    done = subprocess.run(  # noqa: S603 - the packaged program
        command, capture_output=True, text=True, errors="replace", check=False, env=environment
    )
    if done.returncode != 0:
        raise InvalidInput(f"{NOT_RESTORED} {_read_failure(done.stderr)}")


def _make_role(server: psycopg.Connection[Any]) -> dict[str, str]:
    """Makes the role, which this connection's may act for, and returns its name and password."""
    name, password = _name_role(server), secrets.token_urlsafe(32)
    may, own = server.execute(MAY_CREATE_ROLES).fetchone() or (False, "?")
    needs = (
        f"the role {own} must be able to create roles (ALTER ROLE … CREATEROLE) and must own the database, because a "
        "backup is restored by a temporary role without rights. With --trust a backup that you made yourself is "
        f"restored without one: what is in it then runs with all rights of {own}."
    )
    if not may:
        raise InvalidInput(f"Nothing was restored: {needs}")
    # Encrypted here, so that no log of the server has it.
    stored = server.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    role = sql.Identifier(name)
    try:
        with server.transaction():
            for statement in (
                sql.SQL("CREATE ROLE {} LOGIN NOINHERIT PASSWORD {}").format(role, sql.Literal(stored)),
                sql.SQL("GRANT {} TO CURRENT_USER WITH INHERIT TRUE, SET TRUE").format(role),
                sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(server.info.dbname), role),
                sql.SQL("GRANT USAGE, CREATE ON SCHEMA public TO {}").format(role),
            ):
                server.execute(statement)
            # Who may not grant is warned only.
            if not server.execute(MAY_CREATE_TABLES, {"role": name}).fetchall()[0][0]:
                raise InvalidInput(f"Nothing was restored: {needs}")
    except psycopg.errors.InsufficientPrivilege as error:
        raise InvalidInput(f"Nothing was restored ({error.diag.message_primary}): {needs}") from error
    return {"user": name, "password": password}


def _check_log_in(address: str) -> None:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError as error:
        raise InvalidInput(
            "Nothing was restored: a backup is restored by a temporary role, and the server does not let that log in "
            "(pg_hba.conf, or a pooler with a list of its own); with --trust a backup that you made yourself is "
            f"restored without one: {error}"
        ) from error


def _take_over(server: psycopg.Connection[Any]) -> None:
    """Gives what the role made to this connection's role and removes the role. Raises InvalidInput, with nothing
    given, where the role made anything that migrations do not make."""
    owner, role = _end_role(server)
    with server.transaction():
        refused = sorted(list_refused(server, owner))
        if refused:
            more = f"; and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
            raise InvalidInput(
                "The dump holds what no backup of this version of Reckoner holds, and the database is empty as before: "
                f"{'; '.join(_clean(name) for name in refused[:NAMED])}{more}."
            )
        _check_migrations(server)
        server.execute(sql.SQL("REASSIGN OWNED BY {0} TO CURRENT_USER; DROP OWNED BY {0}; DROP ROLE {0}").format(role))


def _check_migrations(server: psycopg.Connection[Any]) -> None:
    """Raises InvalidInput for a database that this code cannot serve, which Django would not notice."""
    try:
        applied = {str(row[0]) for row in server.execute(APPLIED, [list(APPS)])}
    except psycopg.ProgrammingError as error:
        raise InvalidInput("The dump is no database of Reckoner, and the database is empty as before.") from error
    loader = MigrationLoader(None, load=False)
    loader.load_disk()
    known = {f"{app}.{name}" for app, name in loader.disk_migrations}
    replaced = {f"{app}.{name}" for on_disk in loader.disk_migrations.values() for app, name in on_disk.replaces}
    if newer := sorted(applied - known - replaced):
        raise InvalidInput(
            "The backup is of a newer version of Reckoner, and the database is empty as before. This version does not "
            f"know its migrations {', '.join(_clean(name) for name in newer[:NAMED])}."
        )


def is_unfinished() -> bool:
    """Returns whether a restore into Django's database was broken off with something in it, which may run code."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path = pg_catalog")
        cursor.execute(UNFINISHED)
        unfinished = bool(cursor.fetchone()[0])
        transaction.set_rollback(True)  # the search path as it was, also within a transaction of the caller's
        return unfinished


def _name_role(server: psycopg.Connection[Any]) -> str:
    return str(server.execute(NAME_OF_ROLE).fetchall()[0][0])


def _end_role(server: psycopg.Connection[Any]) -> tuple[int, sql.Identifier]:
    """Lets the role do nothing more, and waits for the end of its sessions. Raises LookupError where there is none."""
    name = _name_role(server)
    role = server.execute(ROLE, [name]).fetchone()
    if role is None:
        raise LookupError(name)
    server.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(name)))
    server.execute(END_SESSIONS, [END_SECONDS * 1000, role[0]])
    if server.execute(SESSIONS, [role[0]]).fetchall()[0][0]:
        raise InvalidInput(f"A session of the temporary role {name} does not end. End it, and restore again.")
    return int(role[0]), sql.Identifier(name)


def _remove_role(server: psycopg.Connection[Any]) -> None:
    try:
        _, role = _end_role(server)
    except LookupError:
        return
    with server.transaction():
        server.execute(sql.SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(role))


def _read_failure(said: str) -> str:
    """What the server said of the statement that failed, and how that begins; else pg_restore's own last error."""
    errors = re.findall(r"error: (?:could not execute query: )?(?:ERROR:\s*)?(.+)$", said, re.MULTILINE)
    statements = re.findall(r"^Command was: (.+)$", said, re.MULTILINE)
    last = errors[-1] if errors else (said.strip().splitlines() or ["?"])[-1]
    return _clean(f"{last}, at: {statements[-1]}" if statements else last)


def _clean(name: str) -> str:
    """A name out of a dump, fit for a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST_NAME])
