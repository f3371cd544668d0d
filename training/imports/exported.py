"""Files that `export_training_data` writes, chats or prompts with completions, as rows: of decisions that chose or
ranked the logged rows that stand in their lines, of all others texts (training.imports.chat_turns)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from decisions.rewards.components import VERDICT_VALUES
from decisions.rewards.valuing import normalise
from models_registry.backends.chat_reading import read_tools
from models_registry.backends.chat_rows import Message
from training.engine.rows.types import Labelled, Logged, find_answers
from training.engine.spec.methods import RowKind
from training.imports.chat_turns import Turn, served_turn, split_turns
from training.imports.row_lines import read_row_lines
from training.imports.turn_rows import name_rows, text_row

LOW, HIGH = -2.0, 2.0
"""Raw rewards that count as 0 and 1, as in the notes app: an exported text does not say by which spec it was valued."""
RIGHT = {verdict.upper(): float(value > 0) for verdict, value in VERDICT_VALUES.items() if value}
ANSWER = "answer"
"""What a row of a line has besides: the right option, where a person's verdict says it."""
NO_ANSWER = "has no answer"
NO_CHOICE = "the action was written, and those of other lines were chosen"
NO_ROW = "the action is not among the options, or leaves a field open"


class LeftOut(Exception):
    """A decision of an export from which nothing can be learnt; its text says why. Nothing is wrong with the file."""


class About(msgspec.Struct):
    """`metadata`, as far as it is read. systemPrompt: whether a chat's system message is the agent's own system prompt.
    chat: whether the messages are the chat that was served; of other decisions our exports say a word of their own
    where there was no system prompt."""

    decisionId: str | None = None  # noqa: N815 - the app's own names
    userFeedback: str | None = None  # noqa: N815
    systemPrompt: bool = True  # noqa: N815
    chat: bool = False
    agentType: str = ""  # noqa: N815
    agent: str = ""


class ExportedLine(msgspec.Struct):
    """A chat, or a prompt with its completion, and `system` where it was decided under a system prompt, which of a chat
    is its system message. Beside a completion, `messages` are those before it, and `reply` the assistant's that calls
    tools. `reward` is raw. `rows`: of a decision that chose or ranked, what it is to a model that does
    (training.rows.exported); none where nothing can be learnt from it."""

    messages: list[dict[str, Any]] = []
    tools: list[Any] | str | None = None
    reply: dict[str, Any] | None = None
    system: str | None = None
    prompt: str | None = None
    completion: str | None = None
    reward: float | None = None
    metadata: About = msgspec.field(default_factory=About)
    rows: list[dict[str, Any]] | UnsetType = UNSET

    def as_texts(self, number: int) -> list[dict[str, Any]]:
        """The rows of texts (training.engine.rows.types): of a chat one for each of the assistant's turns, of an
        exported decision one. Raises ValueError for what is none, and LeftOut."""
        rows = [row | self._judgement() for row in self._read_turns()]
        return name_rows(rows, self.metadata.decisionId or str(number))

    def _read_turns(self) -> list[dict[str, Any]]:
        if self.prompt is not None and self.completion and not self.messages:
            system = {"system": self.system} if self.system else {}
            return [{"prompt": self.prompt, **system, "completion": self.completion}]
        if self.metadata.decisionId is not None and self.completion == "":
            raise LeftOut(NO_ANSWER)
        if not self.messages:
            raise ValueError("has neither a prompt with a completion nor messages of user and assistant")
        tools = read_tools(self.tools, strict=True)
        return [text_row(turn, tools, as_chat=self._is_chat(turn)) for turn in self._find_turns(tools)]

    def _find_turns(self, tools: Sequence[Message]) -> list[Turn]:
        """Finds the turns; of a decision, and where the completion stands apart, the last one alone."""
        messages = self.messages
        if self.completion:
            messages = [*messages, self.reply or {"role": "assistant", "content": self.completion}]
        if self.metadata.decisionId is None:
            return split_turns(messages, tools)[-1 if self.completion else 0 :]
        try:
            turn = served_turn(messages)
        except ValueError as fault:
            raise LeftOut(str(fault)) from fault
        own_words = not self.completion and not self.metadata.systemPrompt and not self.metadata.chat
        return [turn._replace(before=turn.before[1:]) if own_words and has_system(turn) else turn]

    def _is_chat(self, turn: Turn) -> bool:
        """Whether even one question alone is a chat: after a system message of the client's own."""
        own = self.metadata.chat and not self.metadata.systemPrompt
        return bool(self.completion) or (own and has_system(turn))

    def _judgement(self) -> dict[str, Any]:
        row: dict[str, Any] = {}
        if self.reward is not None:
            row |= {"reward": normalise(self.reward, low=LOW, high=HIGH), "raw": self.reward}
        if (right := RIGHT.get(self.metadata.userFeedback or "")) is not None:
            row["right"] = right
        return row


@dataclass(slots=True)
class ExportedFile:
    """`rows` as the engine reads them, logged ones where any line has some, else texts; `total`: how many the file
    makes, where only the first were kept. `answers`: the right option of logged rows by id, where it is known.
    `refusals`: the decisions that make no such row, each with its line and the reason. `kinds` and `agents` of the
    decisions, as far as the lines name them."""

    kind: RowKind = RowKind.TEXT
    rows: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0
    answers: dict[str, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)

    @property
    def left_out(self) -> int:
        return len(self.refusals)


def has_system(turn: Turn) -> bool:
    return turn.before[0]["role"] == "system"


class ExportedLines(Mapping[int, ExportedLine]):
    """Each line of `numbers` by its number, decoded when it is looked at: decoded ones take many times their bytes."""

    def __init__(self, content: Mapping[int, bytes], numbers: Sequence[int]) -> None:
        self._content, self._numbers = content, numbers

    def __getitem__(self, number: int) -> ExportedLine:
        return msgspec.json.decode(self._content[number], type=ExportedLine)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def read_export(path: Path, name: str = "", *, keep: int | None = None) -> tuple[ExportedFile, list[str]]:
    """The file, and every fault as `name:line: reason`; the name is the path's unless another is given. `keep`: how
    many rows, by default all."""
    name = name or str(path)
    content, faults = read_row_lines(path, name)
    numbers, kinds, agents, chose = array("Q"), set[str](), set[str](), False
    for number, line in content.items():
        try:
            decoded = msgspec.json.decode(line, type=ExportedLine)
        except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors, too
            faults.append(f"{name}:{number}: {error}")
            continue
        numbers.append(number)
        kinds.add(decoded.metadata.agentType or "")
        agents.add(decoded.metadata.agent or "")
        chose = chose or decoded.rows is not UNSET
    if not numbers and not faults:
        faults.append(f"{name}: no rows")
    lines = ExportedLines(content, numbers)
    found = (_read_choices if chose else _read_texts)(lines, name, faults, keep)
    found.kinds, found.agents = kinds - {""}, agents - {""}
    if chose and not found.total and not faults:
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


def _read_texts(lines: Mapping[int, ExportedLine], name: str, faults: list[str], keep: int | None) -> ExportedFile:
    found, seen = ExportedFile(RowKind.TEXT), set[str]()
    for number, line in lines.items():
        try:
            texts = line.as_texts(number)
        except LeftOut as why:
            found.refusals.append(f"{name}:{number}: {why}")
            continue
        except ValueError as error:
            faults.append(f"{name}:{number}: {error}")
            continue
        for row in texts:
            if row["id"] in seen:
                faults.append(f"{name}:{number}: id {row['id']!r} appears twice")
            seen.add(row["id"])
            found.total += 1
            if keep is None or found.total <= keep:
                found.rows.append(row)
    return found


def _read_choices(lines: Mapping[int, ExportedLine], name: str, faults: list[str], keep: int | None) -> ExportedFile:
    found = ExportedFile(RowKind.LOGGED)
    seen: set[str] = set()
    for number, line in lines.items():
        if line.rows is UNSET or not line.rows:
            found.refusals.append(f"{name}:{number}: {NO_CHOICE if line.rows is UNSET else NO_ROW}")
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
            found.total += 1
            if keep is not None and found.total > keep:
                continue
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
