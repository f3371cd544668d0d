"""The base class of management commands: a fast start, refusals with exit code 2, and finding the workspace.

What an operator can cause ends in a line that says what is wrong, and no traceback: `--traceback` shows that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand
from django.db import DataError, InterfaceError, OperationalError, ProgrammingError

from workspaces.errors import ReckonerError
from workspaces.storage.full_disk import find_full_disk

if TYPE_CHECKING:
    from workspaces.models import Workspace

EXIT_BAD_INPUT, EXIT_NO_DATABASE, EXIT_INTERRUPTED = 2, 4, 130
EXPECTED = (
    ReckonerError,
    OperationalError,
    InterfaceError,
    ProgrammingError,
    DataError,
    ImproperlyConfigured,
    OSError,
    UnicodeError,
    RecursionError,
    KeyboardInterrupt,
)
NOT_MIGRATED = frozenset({"42P01", "42703"})
"""SQLSTATE of a table and of a column that is not there."""


class UncheckedCommand(BaseCommand):
    """A command that starts at once: Django's checks load every view, seconds of CPU; `make check` runs them."""

    requires_system_checks: list[str] = []

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            for name, value in options.items():
                for text in value if isinstance(value, list) else [value]:
                    if isinstance(text, str) and not _is_text(text):
                        self.refuse(f"{name.replace('_', '-')}: {text[:100]!r} is not text in UTF-8")
            return super().execute(*args, **options)
        except EXPECTED as error:
            ending = None if options.get("traceback") else find_ending(error)
            if ending is None:
                raise
            code, reason = ending
            self.stderr.write(reason)
            sys.exit(code)

    def refuse(self, reason: str) -> NoReturn:
        """Says what is wrong with what was given, and exits with 2."""
        self.stderr.write(reason)
        sys.exit(EXIT_BAD_INPUT)

    def find_workspace(self, slug: str | None) -> Workspace:
        """The one with the slug, or the only one there is; else exits with 2 and names them."""
        from workspaces.models import Workspace  # `up` is loaded before Django's apps are

        workspaces = Workspace.objects.order_by("created_at")
        found = list((workspaces.filter(slug=slug) if slug else workspaces)[:2])
        if len(found) != 1:
            known = ", ".join(Workspace.objects.values_list("slug", flat=True)) or "none"
            self.refuse(f"--workspace: name one of: {known}")
        return found[0]


def find_ending(error: BaseException) -> tuple[int, str] | None:
    """Exit code and reason, for people; None for a fault of the program."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED, "Interrupted."
    if isinstance(error, ReckonerError):
        faults = [f"{fault.field}: {fault.says}" for fault in error.faults]
        return EXIT_BAD_INPUT, "\n".join([error.message, *faults])
    if (full := find_full_disk(error)) is not None:
        place = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
        return EXIT_BAD_INPUT, f"{place}{full.message}"
    if isinstance(error, (OperationalError, InterfaceError)):
        return EXIT_NO_DATABASE, f"The database does not answer: {_first_line(error)}"
    if isinstance(error, ProgrammingError):
        if getattr(error.__cause__, "sqlstate", None) not in NOT_MIGRATED:
            return None
        return EXIT_NO_DATABASE, f"The database is not migrated: {_first_line(error)}. Run manage.py migrate."
    if isinstance(error, OSError):
        about = f"{error.filename}: " if error.filename is not None else ""
        return EXIT_BAD_INPUT, f"{about}{error.strerror or error}"
    if isinstance(error, RecursionError):
        return EXIT_BAD_INPUT, "What was given is nested too deeply."
    if isinstance(error, UnicodeError):
        return EXIT_BAD_INPUT, f"What was given is not UTF-8: {_first_line(error)}"
    return EXIT_BAD_INPUT, _first_line(error)


def _is_text(value: str) -> bool:
    """Whether the database can hold it. Bytes of the command line that are not UTF-8 are surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
