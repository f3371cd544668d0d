"""Which methods can learn from a dataset, and why the others cannot: the form that starts a run says so."""

from __future__ import annotations

from dataclasses import dataclass

from training.engine.spec.methods import TRAINING, Method, Need, RowKind
from training.models import DatasetSnapshot

ROWS_IN_WORDS = {
    RowKind.LABELLED: "rows with right answers",
    RowKind.LOGGED: "decisions with rewards",
    RowKind.TEXT: "written texts",
    RowKind.PREFERENCES: "pairs of a better and a worse answer",
    RowKind.TASKS: "tasks of an environment",
}


@dataclass(frozen=True, slots=True)
class Suited:
    """`why_not`: "" of a method that can learn from the dataset, as far as is known before the rows are read. It
    leaves out so many decisions that nobody judged."""

    method: Method
    why_not: str
    leaves_out: int


def suit_methods(dataset: DatasetSnapshot) -> list[Suited]:
    """Every method, those that suit the dataset first; of these, those that are weak on such rows last."""
    unjudged = int(dataset.statistics.get("unjudged", 0))
    found = [
        Suited(method, find_hindrance(method, dataset), 0 if method.learns_unjudged else unjudged)
        for method in TRAINING.values()
    ]
    kind = dataset.row_kind
    return sorted(found, key=lambda one: (one.why_not != "", kind in one.method.offered_last_for))


def find_hindrance(method: Method, dataset: DatasetSnapshot) -> str:
    """Why the method cannot learn from the dataset, for people; "" where it can."""
    kind = dataset.row_kind
    if kind is None or kind not in method.learns_from:
        return f"learns from {' or '.join(ROWS_IN_WORDS[one] for one in method.learns_from)}"
    if lacks := method.find_lacks(kind, {*dataset.find_has(), Need.REWARD_FUNCTION}):
        return "; ".join(dataset.why_without(lack) for lack in lacks)
    return "needs the extra “text”, which is not installed" if method.find_missing(kind) else ""
