"""`manage.py migrate`: Django's, which first refuses what an older version left between two releases, or a restore
unchecked."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from project.backup.confined import is_unfinished
from workspaces.commands import UncheckedCommand

# The last commit that has every replaced migration as a file.
LAST_WITH_REPLACED = "35dcdb56"


class Command(UncheckedCommand, migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        if is_unfinished():
            raise CommandError(
                "nothing was migrated: a restore into this database was broken off before what it had restored was"
                " checked; run manage.py restore again, which removes that first"
            )
        partial = list_partly_replaced(connections[options["database"]])
        if partial:
            raise CommandError(
                f"nothing was migrated: of the migrations that {' and '.join(partial)} replaced, this database has only"
                f" some, so migrate it with the code of commit {LAST_WITH_REPLACED} first, and then with this one"
            )
        super().handle(*args, **options)


def list_partly_replaced(connection: BaseDatabaseWrapper) -> list[str]:
    """The squashed migrations of which the database has applied some of those that they replace, but not all.

    Django's loader would fail on them without saying what to do.
    """
    applied = set(MigrationRecorder(connection).applied_migrations())
    loader = MigrationLoader(None, load=False)
    loader.load_disk()
    replaced = {f"{app}.{name}": set(on_disk.replaces) for (app, name), on_disk in loader.disk_migrations.items()}
    gone = {name: names - loader.disk_migrations.keys() for name, names in replaced.items()}
    return sorted(name for name, names in gone.items() if applied & names and names - applied)
