"""Workbooks (.xlsx) ↔ tables. The same table gives the same bytes, so that states can be compared."""

from __future__ import annotations

import datetime
import io
import zipfile
from functools import lru_cache
from typing import Any

import openpyxl
from openpyxl.writer.excel import ExcelWriter

from training.engine.environments.office.tables import Table, ToolError

WRITTEN = datetime.datetime(2000, 1, 1)
"""What every workbook names as the time of its making."""
KEPT = 4096
"""Workbooks whose bytes or contents are kept: the episodes of one task read the same ones, and openpyxl takes
milliseconds for each."""


class _Archive(zipfile.ZipFile):
    """Names one time for all of its parts."""

    def _part(self, name: str) -> zipfile.ZipInfo:
        part = zipfile.ZipInfo(name, WRITTEN.timetuple()[:6])
        part.compress_type = zipfile.ZIP_DEFLATED
        return part

    def writestr(self, zinfo_or_arcname: Any, data: Any, *more: Any, **named: Any) -> None:
        super().writestr(self._part(zinfo_or_arcname), data)

    def write(self, filename: Any, arcname: Any = None, *more: Any, **named: Any) -> None:
        with open(filename, "rb") as file:  # noqa: PTH123 - openpyxl names its own temporary file
            super().writestr(self._part(arcname or filename), file.read())


@lru_cache(KEPT)
def write_workbook(table: Table) -> bytes:
    """A workbook of one sheet: the columns' names, then the rows."""
    book = openpyxl.Workbook()
    book.properties.created = book.properties.modified = WRITTEN
    sheet = book.active
    sheet.append(table.columns)
    for row in table.rows:
        sheet.append(row)
    target = io.BytesIO()
    with _Archive(target, "w", zipfile.ZIP_DEFLATED) as archive:
        # Workbook.save would write the present time into it.
        ExcelWriter(book, archive).write_data()
    book.close()
    return target.getvalue()


@lru_cache(KEPT)
def read_workbook(content: bytes) -> Table:
    """The first sheet. Raises ToolError for what is no workbook."""
    try:
        book = openpyxl.load_workbook(io.BytesIO(content))
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise ToolError("no workbook") from error
    rows = [tuple(row) for row in book.worksheets[0].iter_rows(values_only=True)]
    book.close()
    if not rows:
        raise ToolError("an empty sheet")
    return Table(tuple(str(name) for name in rows[0]), tuple(rows[1:]))
