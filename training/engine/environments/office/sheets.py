"""What the office's spreadsheet program does: it opens and saves workbooks, and reckons with what lies on the desk."""

from __future__ import annotations

from training.engine.environments.office import tables
from training.engine.environments.office.files import find_file, store_file
from training.engine.environments.office.spreadsheets import read_workbook, write_workbook
from training.engine.environments.office.tables import Table, ToolError
from training.engine.environments.office.world import World

SHOWN = 4
"""Rows that an answer shows in full; of more it tells the columns."""


def describe(found: Table) -> str:
    """In a line: the cells of few rows, the number of rows and the columns of more."""
    if len(found.rows) <= SHOWN and len(found.columns) * len(found.rows) <= 2 * SHOWN:
        return found.as_text()
    return f"{len(found.rows)} rows: {', '.join(found.columns)}"


def _lay(world: World, found: Table) -> str:
    return describe(world.lay(found))


def show_desk(world: World) -> str:
    """All cells of what lies on the desk."""
    found = world.on_desk
    return f"{', '.join(found.columns)}: {found.as_text()}"


def open_sheet(world: World, file: str) -> str:
    found = _read(world, file)
    world.file = file
    return _lay(world, found)


def _read(world: World, file: str) -> Table:
    content = find_file(world, file)
    if not file.endswith(".xlsx"):
        raise ToolError(f"{file} is no sheet")
    return read_workbook(content)


def save_sheet(world: World, file: str) -> str:
    """What lies on the desk, as a workbook."""
    if not world.open_to_me(file).endswith(".xlsx"):
        raise ToolError("a sheet's name ends with .xlsx")
    store_file(world, file, write_workbook(world.on_desk))
    return "saved"


def keep_rows(world: World, value: str, column: str | None = None) -> str:
    return _lay(world, tables.keep_rows(world.on_desk, value, column))


def sort_rows(world: World, column: str) -> str:
    return _lay(world, tables.sort_rows(world.on_desk, column))


def first_rows(world: World, count: int) -> str:
    return _lay(world, tables.first_rows(world.on_desk, count))


def list_column(world: World, column: str) -> str:
    return _lay(world, tables.list_column(world.on_desk, column))


def sheet_sum(world: World, column: str) -> str:
    return _lay(world, tables.add_up(world.on_desk, column))


def sheet_mean(world: World, column: str) -> str:
    return _lay(world, tables.average(world.on_desk, column))


def sheet_count(world: World, column: str) -> str:
    return _lay(world, tables.count_by(world.on_desk, column))


def sheet_max(world: World, column: str) -> str:
    return _lay(world, tables.largest(world.on_desk, column))


def sheet_min(world: World, column: str) -> str:
    return _lay(world, tables.smallest(world.on_desk, column))


def join_sheet(world: World, file: str) -> str:
    other = _read(world, file)
    return _lay(world, tables.join(world.on_desk, other))


def subtract_columns(world: World, column: str, minus: str) -> str:
    return _lay(world, tables.subtract(world.on_desk, column, minus))
