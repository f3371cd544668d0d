"""A dataset's rows in the formats that TRL's trainers take (docs/runs.md lists them). PURE.

Each format reads the rows of one file, of any kind, and says what it cannot make of them. The file is read again rather
than kept, so that a large one fits into memory.

Rows of chats are conversations, with `tools` and the `tool_calls` of answers, and so is then every row of the file: a
column has one type. `completion` and `ppo` have texts alone.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from training.engine.rows.texts import from_people
from training.engine.rows.types import normalise_prompt
from training.engine.spec.right_from import RIGHT_FROM

Row = dict[str, Any]
Read = Callable[[], Iterator[Row]]
"""Reads the rows from the first to the last, each time it is called."""

REPLIES = {"completion": "reply", "chosen": "chosen_reply", "rejected": "rejected_reply"}
"""Where the assistant's message stands, by the column of the same as text."""
OF_CHATS = frozenset({"system", "messages", "tools", *REPLIES.values()})


class CannotFormat(ValueError):
    """The rows do not hold what the format needs; the message says what is missing."""


def completion_of(row: Row) -> str:
    """The right action of labelled rows, the action of logged ones, the text of texts. Raises CannotFormat."""
    for name in ("completion", "answer", "action"):
        if row.get(name) is not None:
            return str(row[name])
    raise CannotFormat("preference pairs have no completion; ask for preference")


def is_right(row: Row) -> bool | None:
    """What a person said of the completion, or else its reward; None where nobody knows."""
    if "answer" in row:
        return True
    known = row.get("right") if row.get("right") is not None else row.get("reward")
    if known is None:
        return True if from_people(row.get("source")) else None
    return bool(known >= RIGHT_FROM)


@dataclass(frozen=True, slots=True)
class Style:
    """How a file's rows say what was asked, the columns from id to tools, and what was answered, by the column's
    name."""

    ask: Callable[[Row], Row]
    answer: Callable[[Row, str], Any]


def _ask_in_text(row: Row) -> Row:
    """`system` where there is a system prompt. The trainers of TRL read it in chats alone."""
    return {name: row[name] for name in ("id", "prompt", "system") if name in row}


def _answer_in_text(row: Row, name: str) -> Any:
    return completion_of(row) if name == "completion" else row[name]


def _ask_in_chat(row: Row) -> Row:
    return {"id": row["id"], "prompt": _messages_of(row), **_tools_of(row)}


def _answer_in_chat(row: Row, name: str) -> Any:
    return [row.get(REPLIES[name]) or {"role": "assistant", "content": _answer_in_text(row, name)}]


TEXTS = Style(_ask_in_text, _answer_in_text)
CHATS = Style(_ask_in_chat, _answer_in_chat)


def find_style(read: Read) -> Style:
    """Finds how the file's rows are written: as conversations where any of them is a chat."""
    return CHATS if any(row.get("messages") for row in read()) else TEXTS


def _messages_of(row: Row) -> list[Any]:
    """What was asked, as a chat."""
    if row.get("messages"):
        return list(row["messages"])
    system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    return [*system, {"role": "user", "content": row["prompt"]}]


def _tools_of(row: Row) -> Row:
    return {"tools": row["tools"]} if row.get("tools") else {}


def as_prompt(row: Row, style: Style) -> Row:
    """Only the prompt, and the known answer where there is one, for a reward function."""
    return style.ask(row) | {name: row[name] for name in ("answer", "group") if name in row}


def as_completion(row: Row) -> Row:
    """With a `completion` beside the prompt; preference pairs have `chosen` and `rejected`, as they are."""
    told = {name: value for name, value in row.items() if name == "system" or name not in OF_CHATS}
    return told if "chosen" in row else told | {"completion": completion_of(row)}


def as_chat(row: Row) -> Row:
    """As `as_completion`, with each text as the messages of a chat: the prompt is the user's, after the system prompt,
    the rest the model's."""
    told = {name: value for name, value in as_completion(row).items() if name != "system"}
    return told | _ask_in_chat(row) | {name: _answer_in_chat(row, name) for name in REPLIES if name in told}


def as_messages(row: Row) -> Row:
    """System prompt, prompt and completion as the turns of one chat."""
    turns = [*_messages_of(row), *_answer_in_chat(row, "completion")]
    return {"id": row["id"], "messages": turns, **_tools_of(row)}


def make_messages(read: Read) -> Iterator[Row]:
    """Each row as one chat, to be imitated: without those that are known to be wrong. Raises CannotFormat where none is
    left."""
    first = next(_not_wrong(read), None)
    if first is None:
        raise CannotFormat("messages are what a model imitates, and every completion is known to be wrong")
    as_messages(first)
    return map(as_messages, _not_wrong(read))


def _not_wrong(read: Read) -> Iterator[Row]:
    return (row for row in read() if is_right(row) is not False)


def as_preference(row: Row, style: Style) -> Row:
    """Prompt, chosen and rejected. Raises CannotFormat for rows that are no pairs."""
    if "chosen" not in row:
        raise CannotFormat("only preference pairs have a chosen and a rejected text")
    return style.ask(row) | {name: style.answer(row, name) for name in ("chosen", "rejected")} | _mark(row)


def each(shape: Callable[[Row], Row]) -> Callable[[Read], Iterator[Row]]:
    """A format that makes one row of each. Its first row is made at once, so that what cannot be made is refused
    before anything is sent."""

    def make(read: Read) -> Iterator[Row]:
        for row in read():
            shape(row)
            break
        return map(shape, read())

    return make


def each_in_style(shape: Callable[[Row, Style], Row]) -> Callable[[Read], Iterator[Row]]:
    """Does what `each` does, for a shape that depends on the file's style."""

    def make(read: Read) -> Iterator[Row]:
        style = find_style(read)
        return each(lambda row: shape(row, style))(read)

    return make


def make_kto(read: Read) -> Iterator[Row]:
    """Prompt, completion and label: true for right ones, false for wrong ones. Of the larger class a sample stays, as
    large as the smaller one. Of a preference pair, one text is right and the other wrong. Raises CannotFormat where all
    are right, or all wrong."""
    style = find_style(read)
    classes: dict[bool, list[int]] = {True: [], False: []}
    for number, row in enumerate(_judged(read, style)):
        classes[row["label"]].append(number)
    count = min(map(len, classes.values()))
    if not count:
        known = "all are right" if classes[True] else "all are wrong" if classes[False] else "nothing is known of any"
        raise CannotFormat(f"KTO needs right and wrong completions, and {known}")
    rng = random.Random(0)  # noqa: S311 - the same sample each time
    kept = {number for found in classes.values() for number in rng.sample(found, count)}
    return (row for number, row in enumerate(_judged(read, style)) if number in kept)


def _judged(read: Read, style: Style) -> Iterator[Row]:
    for row in read():
        if "chosen" in row:
            for name in ("chosen", "rejected"):
                told = style.ask(row) | {"completion": style.answer(row, name), "label": name == "chosen"}
                yield told | (_mark(row) if name == "rejected" else {})
        elif (label := is_right(row)) is not None:
            told = style.ask(row) | {"completion": style.answer(row, "completion"), "label": label}
            yield told | _mark(row)


def _mark(row: Row) -> Row:
    """A negative that was made up stays marked."""
    return {"synthetic": True} if row.get("synthetic") else {}


def make_groups(read: Read) -> Iterator[Row]:
    """For each prompt with two rewarded completions at least: all of them, as `texts`, with their `rewards`, and of
    conversations the assistant's messages as `replies`. Prompts are the same where they differ in case and white space
    alone, chats where all of their messages and tools are. Raises CannotFormat where there is none."""
    sizes = Counter(map(_question_of, _rewarded(read)))
    if max(sizes.values(), default=0) < 2:
        raise CannotFormat("no prompt has two rewarded completions")
    return _grouped(read, sizes, find_style(read))


def _question_of(row: Row) -> str:
    return normalise_prompt(row["prompt"], row.get("system"), row.get("messages"), row.get("tools"))


def _grouped(read: Read, sizes: Mapping[str, int], style: Style) -> Iterator[Row]:
    begun: dict[str, Row] = {}
    for row in _rewarded(read):
        key = _question_of(row)
        if sizes[key] < 2:
            continue
        replies: Row = {"replies": []} if style is CHATS else {}
        group = begun.setdefault(key, style.ask(row) | {"texts": [], "rewards": [], **replies})
        group["texts"].append(completion_of(row))
        group["rewards"].append(row["reward"])
        if style is CHATS:
            group["replies"] += _answer_in_chat(row, "completion")
        if len(group["rewards"]) == sizes[key]:
            yield begun.pop(key)


def make_ppo(read: Read) -> Iterator[Row]:
    """For each rewarded action whose probability is known: prompt, completion, `logprob` (the natural logarithm of the
    probability with which it was taken or written), `reward` in [0, 1], `next_state` (null where nobody told it) and
    `done`: whether no decision of its episode came later, true without an episode. Raises CannotFormat where there is
    none."""
    if next(_tuples(read), None) is None:
        raise CannotFormat("PPO needs rewarded actions with their probability, but there are none")
    return _tuples(read)


def _tuples(read: Read) -> Iterator[Row]:
    for row in _rewarded(read):
        propensity = row.get("propensity")
        logprob = math.log(propensity) if propensity else row.get("log_p")
        if logprob is not None:
            told = _ask_in_text(row) | {"completion": completion_of(row), "logprob": logprob}
            end = row.get("done", True)
            yield told | {"reward": row["reward"], "next_state": row.get("next_state"), "done": end}


def _rewarded(read: Read) -> Iterator[Row]:
    return (row for row in read() if row.get("reward") is not None)


FORMATS: Mapping[str, Callable[[Read], Iterator[Row]]] = {
    "prompt": each_in_style(as_prompt),
    "completion": each(as_completion),
    "chat": each(as_chat),
    "messages": make_messages,
    "preference": each_in_style(as_preference),
    "kto": make_kto,
    "groups": make_groups,
    "ppo": make_ppo,
}
