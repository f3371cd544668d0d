"""Files that `export_training_data` writes, chats or prompts with completions, as rows: of decisions that chose or
ranked the logged rows that stand in their lines, of all others texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from decisions.rewards.components import VERDICT_VALUES
from decisions.rewards.valuing import normalise
from training.engine.rows.types import Labelled, Logged, find_answers
from training.engine.spec.methods import RowKind
from training.imports.row_lines import read_row_lines

LOW, HIGH = -2.0, 2.0
"""Raw rewards that count as 0 and 1, as in the notes app: an exported text does not say by which spec it was valued."""
RIGHT = {verdict.upper(): float(value > 0) for verdict, value in VERDICT_VALUES.items() if value}
ANSWER = "answer"
"""What a row of a line has besides: the right option, where a person's verdict says it."""
NO_ROW = "the action is not among the options, or leaves a field open"


class Message(msgspec.Struct):
    role: str
    content: str


class About(msgspec.Struct):
    """`metadata`, as far as it is read. systemPrompt: whether a chat's system message is what the model was asked
    under; our exports say a word of their own where there was no system prompt."""

    decisionId: str | None = None  # noqa: N815 - the app's own names
    userFeedback: str | None = None  # noqa: N815
    systemPrompt: bool = True  # noqa: N815
    agentType: str = ""  # noqa: N815
    agent: str = ""


class ExportedLine(msgspec.Struct):
    """A chat, or a prompt with its completion, and `system` where it was decided under a system prompt, which of a chat
    is its system message. `reward` is raw. `rows`: of a decision that chose or ranked, what it is to a model that does
    (training.rows.exported); none where nothing can be learnt from it."""

    messages: list[Message] = []
    system: str | None = None
    prompt: str | None = None
    completion: str | None = None
    reward: float | None = None
    metadata: About = msgspec.field(default_factory=About)
    rows: list[dict[str, Any]] | UnsetType = UNSET

    def as_text(self, number: int) -> dict[str, Any]:
        """The row of a text (training.engine.rows.types). Of a chat, the prompt is the last message of the user's.
        Raises ValueError."""
        said = {message.role: message.content for message in self.messages}
        prompt = self.prompt if self.prompt is not None else said.get("user")
        completion = self.completion if self.completion is not None else said.get("assistant")
        if prompt is None or not completion:
            raise ValueError("has neither a prompt with a completion nor messages of user and assistant")
        row: dict[str, Any] = {"id": self.metadata.decisionId or str(number), "prompt": prompt}
        told = said.get("system") if self.metadata.systemPrompt else None
        row |= {"system": system} if (system := self.system or told) else {}
        row |= {"completion": completion}
        if self.reward is not None:
            row |= {"reward": normalise(self.reward, low=LOW, high=HIGH), "raw": self.reward}
        if (right := RIGHT.get(self.metadata.userFeedback or "")) is not None:
            row["right"] = right
        return row


@dataclass(slots=True)
class ExportedFile:
    """`rows` as the engine reads them, logged ones where any line has some, else texts. `answers`: the right option of
    logged rows by id, where it is known. `left_out`: lines that make no such row. `kinds` and `agents` of the
    decisions, as far as the lines name them."""

    kind: RowKind = RowKind.TEXT
    rows: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    kinds: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)


def read_export(path: Path, name: str = "") -> tuple[ExportedFile, list[str]]:
    """The file, and every fault as `name:line: reason`; the name is the path's unless another is given."""
    name = name or str(path)
    content, faults = read_row_lines(path, name)
    lines: dict[int, ExportedLine] = {}
    for number, line in content.items():
        try:
            lines[number] = msgspec.json.decode(line, type=ExportedLine)
        except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors, too
            faults.append(f"{name}:{number}: {error}")
    if not lines and not faults:
        faults.append(f"{name}: no rows")
    chose = any(line.rows is not UNSET for line in lines.values())
    found = _read_choices(lines, name, faults) if chose else _read_texts(lines, name, faults)
    found.kinds = {line.metadata.agentType for line in lines.values() if line.metadata.agentType}
    found.agents = {line.metadata.agent for line in lines.values() if line.metadata.agent}
    if chose and not found.rows and not faults:
        faults.append(f"{name}: none of its {len(lines)} decisions makes a row: {NO_ROW}")
    return found, sorted(faults, key=_line_of)


def label_choices(rows: Sequence[Mapping[str, Any]], answers: Mapping[str, str]) -> list[Labelled]:
    """Of the logged rows those of which the right option is known: the one of `answers`, else the one that the row's
    reward tells."""
    logged = msgspec.convert(rows, list[Logged])
    found = {row.id: row for row in find_answers(logged)[0]}
    for row in logged:
        if (answer := answers.get(row.id)) is not None:
            found[row.id] = Labelled(
                row.id, row.prompt, row.options, answer, row.group, slate=row.slate, system=row.system
            )
    return [found[row.id] for row in logged if row.id in found]


def _read_texts(lines: Mapping[int, ExportedLine], name: str, faults: list[str]) -> ExportedFile:
    rows: dict[str, dict[str, Any]] = {}
    for number, line in lines.items():
        try:
            row = line.as_text(number)
        except ValueError as error:
            faults.append(f"{name}:{number}: {error}")
            continue
        if row["id"] in rows:
            faults.append(f"{name}:{number}: id {row['id']!r} appears twice")
        rows[row["id"]] = row
    return ExportedFile(RowKind.TEXT, list(rows.values()))


def _read_choices(lines: Mapping[int, ExportedLine], name: str, faults: list[str]) -> ExportedFile:
    found = ExportedFile(RowKind.LOGGED)
    seen: set[str] = set()
    for number, line in lines.items():
        if line.rows is UNSET or not line.rows:
            found.left_out += 1
            continue
        for row in line.rows:
            answer = row.pop(ANSWER, None)
            try:
                logged = msgspec.convert(row, Logged)
            except msgspec.ValidationError as error:
                faults.append(f"{name}:{number}: rows: {error}")
                continue
            faults.extend(f"{name}:{number}: rows: {fault}" for fault in _find_faults(logged, answer, seen))
            seen.add(logged.id)
            found.rows.append(row)
            if answer is not None:
                found.answers[logged.id] = answer
    return found


def _find_faults(row: Logged, answer: Any, seen: set[str]) -> Iterator[str]:
    yield from row.faults()
    if answer is not None and answer not in row.options:
        yield f"{ANSWER} {answer!r} is not among the options"
    if row.id in seen:
        yield f"id {row.id!r} appears twice"


def _line_of(fault: str) -> int:
    """By which faults are told in the order of the lines; those of the whole file first."""
    number = fault.split(": ", 1)[0].rpartition(":")[2]
    return int(number) if number.isdecimal() else 0
