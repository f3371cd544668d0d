"""What an exported decision is to a model that chooses: rows to train on and to be measured on.

Datasets and their rows are a floor above; that floor registers its writer here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decisions.queries.export import Exported

__all__ = ["row_writer", "write_choice_rows"]

Writer = Callable[["Exported"], "list[dict[str, Any]] | None"]
_writers: list[Writer] = []


def row_writer(writer: Writer) -> Writer:
    """Decorator: this writes the rows of a decision that chose or ranked, none of one that cannot be learnt from; None
    of one whose action was written. There is one."""
    if _writers:
        raise ValueError("exported decisions have a writer of rows already")
    _writers.append(writer)
    return writer


def write_choice_rows(row: Exported) -> dict[str, Any]:
    """The field `rows` of an exported line; nothing of an action that was written."""
    rows = _writers[0](row) if _writers else None
    return {} if rows is None else {"rows": rows}
