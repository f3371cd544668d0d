"""Rows of an acceptance run on the documentation of importers and operations, by what the tests ask too."""

from __future__ import annotations

import sys

from tools.documented import importer_faults, importers, operation_faults, places
from tools.openapi import operations, read_document
from tools.report import Report


def docs_rows(report: Report) -> None:
    """Two rows: importers with a page that has every part, operations with a place that has every part."""
    named = importers()
    lacking = [f"{name}: {faults[0]}" for name in named if (faults := importer_faults(name))]
    report.add(
        "importers with a section",
        bound=f"{len(named)} of {len(named)}",
        figure=lacking[:3] or len(named),
        passed=not lacking,
    )
    every, held = list(operations(read_document())), places()
    without = [
        f"{method.upper()} {path}: {faults[0]}"
        for method, path, operation in every
        if (faults := operation_faults(method, path, operation, held))
    ]
    report.add(
        "operations with a place in docs",
        bound=f"{len(every)} of {len(every)}",
        figure=without[:3] or len(every),
        passed=not without,
    )


if __name__ == "__main__":
    made = Report("ledger_docs")
    docs_rows(made)
    sys.exit(made.finish())
