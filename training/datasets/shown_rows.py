"""What the page of a dataset shows of its rows: a few at a time, read from the file where a page begins, each as the
turns of a chat with what was answered."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from decisions.queries.chat_shown import ShownChat, show_chat
from models_registry.artifacts.opening import artifact_path
from training.models import DatasetItem, DatasetKind, DatasetSnapshot
from training.rows.parts import ROWS_FILE
from workspaces.errors import FieldFault, InvalidInput
from workspaces.templatetags import show

ON_A_PAGE = 10
LONGEST = 256 * 1024
"""Bytes of a row; a longer one is not shown."""
LONGEST_LINE = 160
"""Characters of a text in the line that stands for a row."""
REPLIES: Mapping[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    DatasetKind.LABELLED: (("Right answer", ("answer", "completion"), "reply"),),
    DatasetKind.LOGGED: (("Action", ("action",), ""),),
    DatasetKind.TEXT: (("Answer", ("completion",), "reply"),),
    DatasetKind.PREFERENCES: (("Better", ("chosen",), "chosen_reply"), ("Worse", ("rejected",), "rejected_reply")),
}
"""By the kind of rows: the title of each answer, the fields that may hold its text, and that of its message. Labelled
rows of texts have no options, so their right answer is a completion."""


@dataclass(frozen=True, slots=True)
class Answer:
    title: str
    said: ShownChat | None
    text: str


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One row. `question` and `answers` as chats; `facts` are pairs of a name and a value; `decision` is None where it
    comes from none of the ledger. `size` is set instead of all that where the row is too long, in bytes."""

    id: str = ""
    question: ShownChat | None = None
    prompt: str = ""
    answers: tuple[Answer, ...] = ()
    options: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    decision: uuid.UUID | None = None
    size: int = 0

    @property
    def asks(self) -> str:
        """The last thing that was asked, in one line."""
        turns = self.question.turns if self.question is not None else ()
        asked = next((turn for turn in reversed(turns) if turn.role == "user" and turn.speech), None)
        words = " ".join(piece.text for piece in asked.speech) if asked is not None else self.prompt
        return _shorten(words)

    @property
    def answers_in_short(self) -> str:
        return " · ".join(_shorten(answer.text) for answer in self.answers)


@dataclass(frozen=True, slots=True)
class RowsPage:
    """`following`: the byte at which the next page begins, None on the last one. `missing`: the files are gone."""

    rows: Sequence[ShownRow] = ()
    begins_at: int = 0
    following: int | None = None
    missing: bool = False


def show_rows(dataset: DatasetSnapshot, at: str) -> RowsPage | None:
    """The rows from this byte of the file on, "" for the first; None of tasks, which their own table shows, and where
    rows were erased. Raises InvalidInput where no row begins there."""
    if dataset.is_of_tasks or dataset.marked_at is not None:
        return None
    path = artifact_path(dataset.artifact.digest) / ROWS_FILE
    if not path.is_file():
        return RowsPage(missing=True)
    begins_at = _read_place(at, path)
    with path.open("rb") as file:
        file.seek(begins_at)
        lines = list(_read_lines(file))
        here = file.tell()
        following = here if file.read(1) else None
    rows = [line if isinstance(line, int) else msgspec.json.decode(line) for line in lines]
    known = _find_decisions(dataset, [row for row in rows if not isinstance(row, int)])
    shown = [ShownRow(size=row) if isinstance(row, int) else _show_row(dataset.kind, row, known) for row in rows]
    return RowsPage(shown, begins_at, following)


def _read_place(given: str, path: Path) -> int:
    """Raises InvalidInput."""
    if not given:
        return 0
    place = int(given) if given.isdecimal() and len(given) <= 18 else -1
    if 0 < place < path.stat().st_size:
        with path.open("rb") as file:
            file.seek(place - 1)
            if file.read(1) == b"\n":
                return place
    elif place == 0:
        return 0
    raise InvalidInput(
        "The rows cannot be shown.",
        faults=[FieldFault("at", f"no row begins at {given[:40]!r}", "a link of the dataset’s page")],
    )


def _read_lines(file: Any) -> Iterator[bytes | int]:
    """The rows of one page; of a row that is too long its size in bytes."""
    for _ in range(ON_A_PAGE):
        line = file.readline(LONGEST + 1)
        if not line:
            return
        if len(line) <= LONGEST:
            yield line
            continue
        size = len(line)
        while not line.endswith(b"\n") and (line := file.readline(LONGEST)):
            size += len(line)
        yield size


def _decision_of(row: Mapping[str, Any]) -> uuid.UUID | None:
    """The decision that its id names, of an item of a ranking the ranking's."""
    try:
        return uuid.UUID(str((row.get("slate") or row)["id"]))
    except (KeyError, ValueError):
        return None


def _find_decisions(dataset: DatasetSnapshot, rows: Sequence[Mapping[str, Any]]) -> frozenset[uuid.UUID]:
    """Which of the ids that they name are decisions behind the dataset."""
    named = {found for row in rows if (found := _decision_of(row)) is not None}
    return frozenset(
        DatasetItem.objects.filter(dataset=dataset, decision_id__in=named).values_list("decision_id", flat=True)
    )


def _show_row(kind: str, row: Mapping[str, Any], known: frozenset[uuid.UUID]) -> ShownRow:
    decision = _decision_of(row)
    return ShownRow(
        id=str(row.get("id", "")),
        question=show_chat(_as_chat(row)),
        prompt=str(row.get("prompt", "")),
        answers=tuple(_show_answer(row, *names) for names in REPLIES[kind]),
        options=tuple(map(str, row.get("options") or ())),
        facts=tuple(_find_facts(row)),
        decision=decision if decision in known else None,
    )


def _as_chat(row: Mapping[str, Any]) -> dict[str, Any]:
    if row.get("messages"):
        return {"messages": row["messages"], "tools": row.get("tools")}
    system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    return {"messages": [*system, {"role": "user", "content": str(row.get("prompt", ""))}]}


def _show_answer(row: Mapping[str, Any], title: str, texts: Sequence[str], reply: str) -> Answer:
    words = next((str(row[text]) for text in texts if row.get(text) is not None), "")
    message = row.get(reply) or {"role": "assistant", "content": words}
    return Answer(title, show_chat({"messages": [message]}), words)


def _find_facts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("reward", "right"):
        if row.get(name) is not None:
            yield name, show.reward(row[name])
    if row.get("propensity") is not None:
        yield "propensity", show.percent(row["propensity"])
    for name in ("verdict", "source"):
        if row.get(name):
            yield name, str(row[name])
    if slate := row.get("slate"):
        yield "item", str(slate.get("item", ""))
    if row.get("synthetic"):
        yield "synthetic", "nobody chose it"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"
