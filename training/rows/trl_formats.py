"""A dataset's rows in the formats that TRL's trainers take (docs/runs.md lists them). PURE.

Each format reads the rows of one file, of any kind, and says what it cannot make of them. The file is read again rather
than kept, so that a large one fits into memory.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from training.engine.rows.texts import from_people
from training.engine.rows.types import normalise_prompt
from training.engine.spec.right_from import RIGHT_FROM

Row = dict[str, Any]
Read = Callable[[], Iterator[Row]]
"""Reads the rows from the first to the last, each time it is called."""

ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}


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


def as_prompt(row: Row) -> Row:
    """Only the prompt, and the known answer where there is one, for a reward function."""
    return {name: row[name] for name in ("id", "prompt", "system", "answer", "group") if name in row}


def as_completion(row: Row) -> Row:
    """With a `completion` beside the prompt; preference pairs have `chosen` and `rejected`, as they are."""
    return row if "chosen" in row else row | {"completion": completion_of(row)}


def as_chat(row: Row) -> Row:
    """As `as_completion`, with each text as the messages of a chat: the prompt is the user's, after the system prompt,
    the rest the model's."""
    told = as_completion(row)
    chats = {name: [{"role": role, "content": told[name]}] for name, role in ROLES.items() if name in told}
    if "system" in told:
        chats["prompt"] = [{"role": "system", "content": told["system"]}, *chats["prompt"]]
        told = {name: value for name, value in told.items() if name != "system"}
    return told | chats


def as_messages(row: Row) -> Row:
    """System prompt, prompt and completion as the turns of one chat."""
    system = [{"role": "system", "content": row["system"]}] if "system" in row else []
    turns = [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": completion_of(row)}]
    return {"id": row["id"], "messages": [*system, *turns]}


def as_preference(row: Row) -> Row:
    """Prompt, chosen and rejected. Raises CannotFormat for rows that are no pairs."""
    if "chosen" not in row:
        raise CannotFormat("only preference pairs have a chosen and a rejected text")
    return _asked(row) | {"chosen": row["chosen"], "rejected": row["rejected"]} | _mark(row)


def _asked(row: Row) -> Row:
    """`system` where there is a system prompt. The trainers of TRL read it in chats alone."""
    return {name: row[name] for name in ("id", "prompt", "system") if name in row}


def each(shape: Callable[[Row], Row]) -> Callable[[Read], Iterator[Row]]:
    """A format that makes one row of each. Its first row is made at once, so that what cannot be made is refused
    before anything is sent."""

    def make(read: Read) -> Iterator[Row]:
        for row in read():
            shape(row)
            break
        return map(shape, read())

    return make


def make_kto(read: Read) -> Iterator[Row]:
    """Prompt, completion and label: true for right ones, false for wrong ones. Of the larger class a sample stays, as
    large as the smaller one. Of a preference pair, one text is right and the other wrong. Raises CannotFormat where all
    are right, or all wrong."""
    classes: dict[bool, list[int]] = {True: [], False: []}
    for number, row in enumerate(_judged(read)):
        classes[row["label"]].append(number)
    count = min(map(len, classes.values()))
    if not count:
        known = "all are right" if classes[True] else "all are wrong" if classes[False] else "nothing is known of any"
        raise CannotFormat(f"KTO needs right and wrong completions, and {known}")
    rng = random.Random(0)  # noqa: S311 - the same sample each time
    kept = {number for found in classes.values() for number in rng.sample(found, count)}
    return (row for number, row in enumerate(_judged(read)) if number in kept)


def _judged(read: Read) -> Iterator[Row]:
    for row in read():
        if "chosen" in row:
            for name in ("chosen", "rejected"):
                told = _asked(row) | {"completion": row[name], "label": name == "chosen"}
                yield told | (_mark(row) if name == "rejected" else {})
        elif (label := is_right(row)) is not None:
            told = _asked(row) | {"completion": completion_of(row), "label": label}
            yield told | _mark(row)


def _mark(row: Row) -> Row:
    """A negative that was made up stays marked."""
    return {"synthetic": True} if row.get("synthetic") else {}


def make_groups(read: Read) -> Iterator[Row]:
    """For each prompt with two rewarded completions at least: all of them, as `texts`, with their `rewards`.
    Prompts are the same where they differ in case and white space alone. Raises CannotFormat where there is none."""
    sizes = Counter(normalise_prompt(row["prompt"], row.get("system")) for row in _rewarded(read))
    if max(sizes.values(), default=0) < 2:
        raise CannotFormat("no prompt has two rewarded completions")
    return _grouped(read, sizes)


def _grouped(read: Read, sizes: Mapping[str, int]) -> Iterator[Row]:
    begun: dict[str, Row] = {}
    for row in _rewarded(read):
        key = normalise_prompt(row["prompt"], row.get("system"))
        if sizes[key] < 2:
            continue
        group = begun.setdefault(key, _asked(row) | {"texts": [], "rewards": []})
        group["texts"].append(completion_of(row))
        group["rewards"].append(row["reward"])
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
            told = _asked(row) | {"completion": completion_of(row), "logprob": logprob}
            end = row.get("done", True)
            yield told | {"reward": row["reward"], "next_state": row.get("next_state"), "done": end}


def _rewarded(read: Read) -> Iterator[Row]:
    return (row for row in read() if row.get("reward") is not None)


FORMATS: Mapping[str, Callable[[Read], Iterator[Row]]] = {
    "prompt": each(as_prompt),
    "completion": each(as_completion),
    "chat": each(as_chat),
    "messages": each(as_messages),
    "preference": each(as_preference),
    "kto": make_kto,
    "groups": make_groups,
    "ppo": make_ppo,
}
