"""Tables as values, and the arithmetic that the office's tools do on them. Nothing here changes a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Cell = str | int | float | None


class ToolError(ValueError):
    """A tool cannot do what was asked. Its text says why, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns and rows of as many cells. A number alone is a table of one cell."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        return self  # it never changes: snapshots may share it

    def place(self, column: str) -> int:
        if column not in self.columns:
            raise ToolError(f"no column {column}")
        return self.columns.index(column)

    def numbers(self, column: str) -> list[int | float]:
        """Raises ToolError where a cell is no number, or there is none."""
        place = self.place(column)
        found = [cell for row in self.rows if isinstance(cell := row[place], int | float)]
        if not found or len(found) < len(self.rows):
            raise ToolError(f"no numbers in {column}")
        return found

    def as_text(self) -> str:
        """Rows by "; ", their cells by ", "."""
        return "; ".join(", ".join("" if cell is None else str(cell) for cell in row) for row in self.rows)


def table(columns: Iterable[str], rows: Iterable[Sequence[Cell]]) -> Table:
    return Table(tuple(columns), tuple(tuple(row) for row in rows))


def one_cell(column: str, cell: Cell) -> Table:
    return Table((column,), ((cell,),))


def keep_rows(found: Table, value: str, column: str | None = None) -> Table:
    """The rows that have the value in the column, or in any column. Raises ToolError where none has."""
    places = range(len(found.columns)) if column is None else [found.place(column)]
    rows = tuple(row for row in found.rows if any(str(row[place]) == value for place in places))
    if not rows:
        raise ToolError(f"no rows with {value}")
    return Table(found.columns, rows)


def sort_rows(found: Table, column: str) -> Table:
    """Largest number first; equal ones stay in order."""
    found.numbers(column)
    place = found.place(column)
    return Table(found.columns, tuple(sorted(found.rows, key=lambda row: -float(row[place] or 0))))


def first_rows(found: Table, count: int) -> Table:
    return Table(found.columns, found.rows[:count])


def list_column(found: Table, column: str) -> Table:
    place = found.place(column)
    return Table((column,), tuple((row[place],) for row in found.rows))


def add_up(found: Table, column: str) -> Table:
    return one_cell("sum", rounded(sum(found.numbers(column))))


def average(found: Table, column: str) -> Table:
    numbers = found.numbers(column)
    return one_cell("mean", rounded(sum(numbers) / len(numbers)))


def count_by(found: Table, column: str) -> Table:
    """Each value of the column with how often it stands there, in order of first appearance."""
    place = found.place(column)
    counts = Counter(row[place] for row in found.rows)
    return Table((column, "count"), tuple(counts.items()))


def largest(found: Table, column: str) -> Table:
    """The first row with the largest number."""
    return first_rows(sort_rows(found, column), 1)


def smallest(found: Table, column: str) -> Table:
    numbers = found.numbers(column)
    return Table(found.columns, (found.rows[numbers.index(min(numbers))],))


def join(found: Table, other: Table) -> Table:
    """Each row with the columns of the other table's row that has the same first cell; rows without one are left
    out."""
    if found.columns[0] != other.columns[0]:
        raise ToolError(f"no column {found.columns[0]} to join by")
    beside = {row[0]: row[1:] for row in other.rows}
    rows = tuple((*row, *beside[row[0]]) for row in found.rows if row[0] in beside)
    if not rows:
        raise ToolError("no rows in common")
    return Table((*found.columns, *other.columns[1:]), rows)


def subtract(found: Table, column: str, minus: str) -> Table:
    """With a column `difference`, column − minus, at the end."""
    pairs = zip(found.rows, found.numbers(column), found.numbers(minus), strict=True)
    return Table((*found.columns, "difference"), tuple((*row, rounded(one - other)) for row, one, other in pairs))


def rounded(number: float) -> int | float:
    """To 2 places; whole numbers as int."""
    near = round(number, 2)
    return int(near) if near == int(near) else near
