"""Restores into servers that are older than the pg_restore of the package, which sets what they do not know.

pg_restore writes its script, and that goes to the server without the line. psql does not take part: its commands in
lines of a dump that somebody else made would run on this machine. `confined.load_dump` calls it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import psycopg

from project.embedded.postgres import find_binaries

KNOWS_TRANSACTION_TIMEOUT: Final = 170_000
"""The first version of a server that has the parameter."""
UNKNOWN = b"SET transaction_timeout = 0;\n"
FOR_PSQL = re.compile(rb"\\(?:un)?restrict [0-9A-Za-z]+\n")
COPY = re.compile(rb"COPY .+ FROM stdin;\n")
END_OF_COPY = b"\\.\n"


class UnusableDump(Exception):
    """pg_restore cannot read it, or the server refuses a statement of it; says which."""


def apply_dump(dump: Path, url: str, *options: str) -> None:
    """With the rights of the role of `url`, in one transaction. Raises UnusableDump, and psycopg's OperationalError
    where nobody answers."""
    command = [str(find_binaries() / "pg_restore"), "--no-owner", *options, "--file=-", str(dump)]
    with tempfile.TemporaryFile() as said, psycopg.connect(url) as server:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as program:  # noqa: S603 - the packaged one
            assert program.stdout is not None
            try:
                _apply(server, _leave_out(program.stdout))
            except psycopg.Error as error:
                program.kill()
                raise UnusableDump(_read_failure(error)) from error
        if program.returncode != 0:  # the transaction ends with the exception
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            raise UnusableDump(lines[-1] if lines else "?")


def _leave_out(script: IO[bytes]) -> Iterator[bytes]:
    """The lines without the first one that sets what the server does not know, and without psql's own."""
    unknown = UNKNOWN
    for line in script:
        if line == unknown:
            unknown = b""
        elif not FOR_PSQL.fullmatch(line):
            yield line


def _apply(server: psycopg.Connection[Any], lines: Iterator[bytes]) -> None:
    """Statements between two COPY go to the server together, and rows as they come."""
    statements: list[bytes] = []
    for line in lines:
        if not COPY.fullmatch(line):
            statements.append(line)
            continue
        _run(server, statements)
        with server.cursor() as cursor, cursor.copy(line) as rows:
            for row in lines:
                if row == END_OF_COPY:
                    break
                rows.write(row)
    _run(server, statements)


def _run(server: psycopg.Connection[Any], statements: list[bytes]) -> None:
    if b"".join(statements).strip():
        server.execute(b"".join(statements))
    statements.clear()


def _read_failure(error: psycopg.Error) -> str:
    """What the server said, and in which rows or function if it said that, too."""
    said = error.diag.message_primary or str(error)
    return f"{said}, at: {error.diag.context}" if error.diag.context else said
