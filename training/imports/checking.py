"""Checks an uploaded file before anything is written: its kind, its first rows, and every fault.

The page shows the result. Page and API start no import of a file with a fault that stops it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.utils import timezone
from msgspec import UNSET

from decisions.agents.current import find_agents, get_current_agent
from decisions.importers.archives import unpack
from decisions.importers.formats import FORMATS, Format
from decisions.importers.opening import ending_of, grows_beyond
from decisions.importers.reading import UnusableFile
from decisions.importers.records import Found, Imported, Place, Reading, Refusal, text_of
from decisions.importers.running import MOST_DECISIONS, Unusable, check_batch, make_setup, survey
from training.errors import UnusableImport
from training.imports.plan import LABELLED, ImportPlan
from training.imports.row_files import RowFile, read_row_file, read_usable_rows
from training.imports.uploads import LARGEST_UPLOAD
from training.models import DatasetKind
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault

FIRST, SHOWN = 5, 20
"""Rows that a preview shows, and faults that are told one by one."""
LONGEST_CELL = 200
MOST_REFUSALS = 1_000


@dataclass(frozen=True, slots=True)
class Preview:
    """What a usable file holds. `columns` says which field is what; `rows` are the first ones, a cell a column. `kind`
    of rows for a dataset.

    `refusals` name the records that are left out, at most SHOWN of `refused`.
    """

    total: int
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]
    kind: str = LABELLED
    agents: tuple[tuple[str, int, bool], ...] = ()
    """Of decisions: slug, how many, and whether the agent has to be made."""
    feedback: int = 0
    refused: int = 0
    refusals: tuple[str, ...] = ()


LABELLED_COLUMNS = (
    ("id", "Names the row"),
    ("prompt", "What is asked"),
    ("options", "What can be chosen"),
    ("answer", "The right option"),
    ("group", "Rows that belong together"),
)
LOGGED_COLUMNS = (
    *LABELLED_COLUMNS[:3],
    ("action", "What was chosen"),
    ("reward", "What it earned, from 0 to 1"),
)
TEXT_COLUMNS = (*LABELLED_COLUMNS[:2], ("completion", "What was written"), ("reward", "What it earned, from 0 to 1"))
PAIR_COLUMNS = (*LABELLED_COLUMNS[:2], ("chosen", "The better text"), ("rejected", "The worse text"))
COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    DatasetKind.LABELLED: LABELLED_COLUMNS,
    DatasetKind.LOGGED: LOGGED_COLUMNS,
    DatasetKind.TEXT: TEXT_COLUMNS,
    DatasetKind.PREFERENCES: PAIR_COLUMNS,
}
SYSTEM_COLUMN = ("system", "The system prompt")
DECISION_COLUMNS = (
    ("agent", "Who decided"),
    ("state", "What was asked"),
    ("options", "What could be chosen"),
    ("action", "What was chosen"),
    ("propensity", "How likely that was"),
    ("observed_at", "When"),
    ("feedback", "What was said of it"),
)


def check_file(*, by: Actor, plan: ImportPlan, path: Path) -> Preview:
    """Raises UnusableImport with every fault of the file, UnknownAgent for an agent that is not there."""
    if ending_of(path) not in plan.endings:
        raise _unusable([f"{path.name}: ends in {path.suffix or 'nothing'}; give {', '.join(plan.endings)}"])
    if plan.what == LABELLED:
        get_current_agent(by, plan.agent)
        if grows_beyond(path, LARGEST_UPLOAD):  # rows are read whole, decisions one by one
            most = f"{LARGEST_UPLOAD >> 20} MiB"
            raise _unusable([f"{path.name}: holds more than {most} unpacked; on the server, manage.py takes more"])
    return _check_rows(plan, path) if plan.what == LABELLED else _check_decisions(by, plan, path)


def _unusable(faults: Sequence[str], *, field: str = "file") -> UnusableImport:
    told = [FieldFault(field, fault) for fault in faults[:SHOWN]]
    if len(faults) > SHOWN:
        told.append(FieldFault(field, f"and {len(faults) - SHOWN} more"))
    return UnusableImport("The file cannot be imported. Nothing was imported.", faults=told)


def read_planned_rows(plan: ImportPlan, path: Path, *, keep: int | None = None) -> tuple[RowFile, list[str], list[str]]:
    """The rows, what is left out as the plan allows, and the faults with which nothing is imported. `keep`: how many
    rows, by default all."""
    if plan.leave_out_faulty:
        return read_usable_rows(path, path.name, keep=keep)
    found, faults = read_row_file(path, path.name, keep=keep)
    return found, [], faults


def _check_rows(plan: ImportPlan, path: Path) -> Preview:
    found, left_out, faults = read_planned_rows(plan, path, keep=FIRST)
    if faults:
        raise _unusable(faults)
    first, columns = found.rows[:FIRST], COLUMNS[found.kind]
    if any(row.get("system") for row in first):
        columns = (columns[0], SYSTEM_COLUMN, *columns[1:])
    shown = (tuple(_cell_of(row.get(name)) for name, _ in columns) for row in first)
    kind = "preference" if found.kind == DatasetKind.PREFERENCES else found.kind
    refusals = [*found.refusals, *left_out]
    shown_refusals = tuple(refusals[:SHOWN])
    return Preview(found.total, columns, tuple(shown), kind, refused=len(refusals), refusals=shown_refusals)


def _cell_of(value: Any) -> str:
    if value is None:
        return ""
    return _cell(", ".join(value) if isinstance(value, list) else value)


def _check_decisions(by: Actor, plan: ImportPlan, path: Path) -> Preview:
    format = FORMATS[plan.format]
    reading = Reading(
        name=format.name,
        workspace=str(by.workspace.id),
        now=timezone.now(),
        agent=plan.agent or None,
        observed_at=plan.observed_at,
        policy=plan.policy or None,
    )
    watched = _Watched(by, format)
    try:
        with unpack(path, format.endings) as unpacked:
            for refusal in unpacked.refusals:
                watched.refuse(refusal)
            files = unpacked.find_files(format.endings)
            seen, _, others = survey(watched.read(format.read(files, reading)))
            watched.refusals = [unpacked.named(refusal) for refusal in watched.refusals]
        for slug, count in watched.failed.items():
            seen[slug].decisions -= count
        taken = sum(kinds.decisions for kinds in seen.values())
        others += sum(kinds.episodes for kinds in seen.values())
        ordered = sorted(watched.refusals, key=lambda one: (one.place.file, one.place.line))
        told = [describe_refusal(refusal, path) for refusal in ordered]
        if not taken and not others:
            raise _unusable(told or [f"{path.name}: holds no decisions"])
        missing = sorted(set(seen) - set(find_agents(by, seen)))
        if missing and not plan.create_agents:
            fault = f"{', '.join(missing)}: not an agent here; choose one for all records, or create missing agents"
            raise _unusable([fault], field="create_agents")
        for slug in missing:
            make_setup(slug, seen[slug], fitted=format.fitted)
    except Unusable as error:
        raise _unusable(error.faults) from error
    except UnusableFile as error:
        raise _unusable([str(error).replace(str(path), path.name)]) from error
    return Preview(
        total=taken,
        columns=DECISION_COLUMNS,
        rows=tuple(_decision_cells(one) for one in watched.first),
        agents=tuple((slug, seen[slug].decisions, slug in missing) for slug in sorted(seen) if seen[slug].decisions),
        feedback=others,
        refused=watched.refused,
        refusals=tuple(told[:SHOWN]),
    )


class _Watched:
    """What goes by while a file is read: its first decisions, and all that would be left out."""

    def __init__(self, by: Actor, format: Format) -> None:
        self.by, self.format = by, format
        self.first: list[Imported] = []
        self.refused = 0
        self.refusals: list[Refusal] = []
        self.failed: Counter[str] = Counter()
        """By agent, decisions that it does not take."""

    def read(self, found: Iterable[Found]) -> Iterator[Found]:
        batch: list[Imported] = []
        for item in found:
            if isinstance(item, Imported):
                if len(self.first) < FIRST:
                    self.first.append(item)
                batch.append(item)
                if len(batch) == MOST_DECISIONS:
                    self._check(batch)
                    batch = []
            elif isinstance(item, Refusal):
                self.refuse(item)
            yield item
        if batch:
            self._check(batch)

    def _check(self, batch: Sequence[Imported]) -> None:
        for item, refusals in check_batch(by=self.by, format=self.format, batch=batch):
            self.failed[item.decision.agent] += 1
            for refusal in refusals:
                self.refuse(refusal)

    def refuse(self, refusal: Refusal) -> None:
        self.refused += 1
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(refusal)


def describe_refusal(refusal: Refusal, path: Path) -> str:
    """By the uploaded file's own name, inside a zip with the member's: where it lies on the server is nobody's
    business."""
    inside = refusal.place.file.removeprefix(str(path)).lstrip("/")
    name = inside if refusal.place.file.startswith(f"{path}/") else Path(refusal.place.file).name
    return str(replace(refusal, place=Place(name, refusal.place.line)))


def _decision_cells(one: Imported) -> tuple[str, ...]:
    decision = one.decision
    told = (f"{entry.feedback.metric} {text_of(entry.feedback.value)}" for entry in one.feedback)
    moment = decision.observed_at
    return (
        decision.agent,
        _cell(decision.state),
        _cell(decision.options),
        _cell(decision.action),
        _cell(decision.propensity),
        "" if moment is UNSET else moment.isoformat(),
        _cell(", ".join(told)),
    )


def _cell(value: Any) -> str:
    text = text_of(value)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
