"""Rows of an acceptance run on the served description of the API, by what the tests ask too."""

from __future__ import annotations

import sys

from tools.openapi import document_faults, example_faults, missing_examples, operations, read_document
from tools.report import Report


def openapi_rows(report: Report) -> None:
    """Three rows: the document is valid, every operation has its examples, every example fits."""
    document = read_document()
    faults = document_faults(document)
    report.add("OpenAPI 3.1 document: faults", bound="0", figure=faults[:3] or 0, passed=not faults)
    every = list(operations(document))
    without = [operation["operationId"] for _, _, operation in every if missing_examples(operation)]
    report.add(
        "operations with their examples",
        bound=f"{len(every)} of {len(every)}",
        figure=without[:3] or len(every) - len(without),
        passed=not without,
    )
    refused = example_faults(document)
    report.add("examples that their schema refuses", bound="0", figure=refused[:3] or 0, passed=not refused)


if __name__ == "__main__":
    made = Report("ledger_openapi")
    openapi_rows(made)
    sys.exit(made.finish())
