"""What the worker does to the database."""

from __future__ import annotations

from training.engine.environments.office import database
from training.engine.environments.office.sheets import describe
from training.engine.environments.office.world import World


def open_table(world: World, table: str) -> str:
    """A whole table, onto the desk."""
    return describe(world.lay(database.read_table(world.database, world.open_to_me(table))))


def query_db(world: World, sql: str) -> str:
    """One statement that reads or changes rows; what it finds comes onto the desk."""
    found, world.database = database.query(world.database, sql, world.locked)
    return describe(world.lay(found))


def add_rows(world: World, table: str) -> str:
    """The rows on the desk, into a table."""
    world.database = database.add_rows(world.database, world.open_to_me(table), world.on_desk.rows)
    return "added"
