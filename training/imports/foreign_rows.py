"""Rows for training as other programs write them, by their forms. PURE.

`FORMS` is the table: by which fields a form is told, of which kind its rows are, and who reads it. A line of no form is
refused by what it lacks, or by what it is. docs/importing/rows.md shows a line of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models_registry.backends.chat_reading import read_tools
from models_registry.backends.chat_rows import Message
from training.engine.spec.methods import RowKind
from training.imports.chat_turns import Turn, read_placed, split_turns
from training.imports.foreign_chats import from_dialogue, from_history, from_sharegpt, is_dialogue
from training.imports.turn_rows import pair_row, text_row

Line = Mapping[str, Any]
Row = dict[str, Any]
CONVERSATIONS = ("conversations", "conversation")
QUESTIONS = ("instruction", "question", "query", "input")
ANSWERS = ("output", "response", "completion", "answer")
CONTEXTS = ("input", "context")
LABELS = ("label", "kto_tag")
"""Other names of the same field, the first one that a line has counts."""


@dataclass(frozen=True, slots=True)
class Form:
    """`told_by`: a line that has one field of each group is of this form."""

    name: str
    kind: RowKind
    told_by: tuple[tuple[str, ...], ...]
    read: Callable[[Line], list[Row]]

    def lacks(self, line: Line) -> list[str]:
        """The fields that are missing; of other names of the same field, the first."""
        return [names[0] for names in self.told_by if all(line.get(name) is None for name in names)]


def find_form(line: Line) -> Form:
    """Raises ValueError, which says what the line is or lacks."""
    for form in FORMS:
        if not form.lacks(line):
            return form
    for fields, reason in KNOWN:
        if all(line.get(field) is not None for field in fields):
            raise ValueError(reason)
    begun = [form for form in FORMS if len(form.lacks(line)) < len(form.told_by)]
    if begun:
        form = min(begun, key=lambda form: len(form.lacks(line)))
        raise ValueError(f"{form.name}: {' and '.join(form.lacks(line))} is missing")
    names = ", ".join(list(line)[:8]) or "no fields"
    raise ValueError(f"is of no known form: it has {names}; the forms are {', '.join(form.name for form in FORMS)}")


def read_chat(line: Line) -> list[Row]:
    return _rows(line, split_turns(line["messages"], _tools(line)))


def read_sharegpt(line: Line) -> list[Row]:
    return _rows(line, split_turns(_conversation(line), _tools(line)))


def read_completion(line: Line) -> list[Row]:
    """A prompt with its completion, each a text or messages."""
    prompt = _prompt(line)
    before = len(read_placed(prompt))
    turns = split_turns([*prompt, *_messages(line["completion"], "assistant", "completion")], _tools(line))
    if not (own := [turn for turn in turns if len(turn.before) >= before]):
        raise ValueError("completion: holds no reply of the assistant's to the prompt, or the prompt ends with one")
    return _rows(line, own)


def read_labelled_completion(line: Line) -> list[Row]:
    """KTO's: whether the completion is good."""
    if _label(line) is None:
        raise ValueError(f"label: {_first(line, LABELS)!r} must be true or false")
    return read_completion(line)


def read_pair(line: Line) -> list[Row]:
    """Two replies, to a prompt of their own or to what both begin with."""
    tools = _tools(line)
    chosen, rejected = (_reply(line, name) for name in ("chosen", "rejected"))
    asked = _asked_of_pair(line, chosen)
    whole = [[message for _, message in read_placed([*asked, *reply])] for reply in (chosen, rejected)]
    shared = 0
    while shared < min(map(len, whole)) - 1 and whole[0][shared] == whole[1][shared]:
        shared += 1
    if not any(message["role"] == "user" for message in whole[0][:shared]):
        raise ValueError("prompt is missing, and chosen and rejected do not begin with the same messages")
    for name, messages in zip(("chosen", "rejected"), whole, strict=True):
        if [message["role"] for message in messages[shared:]] != ["assistant"]:
            raise ValueError(f"{name}: must end with one reply of the assistant's to the same messages as the other")
    return [pair_row(whole[0][:shared], whole[0][-1], whole[1][-1], tools)]


def read_preferred_output(line: Line) -> list[Row]:
    """OpenAI's: the chat with its tools, and two outputs."""
    asked = line["input"]
    if not isinstance(asked, Mapping) or not isinstance(asked.get("messages"), list):
        raise ValueError("input.messages: is missing")
    outputs = {"chosen": line["preferred_output"], "rejected": line["non_preferred_output"]}
    return read_pair({"prompt": asked["messages"], "tools": asked.get("tools"), **outputs})


def read_instruction(line: Line) -> list[Row]:
    """Alpaca's and its kin: a question, with more to it where there is `input` or `context`, and its answer."""
    answer = {"role": "assistant", "content": _first(line, ANSWERS)}
    return _rows(line, split_turns([*_question(line), answer], _tools(line)))


def _question(line: Line) -> list[Message]:
    name = next(name for name in QUESTIONS if line.get(name) is not None)
    parts = [line[name], *(line.get(other) for other in CONTEXTS if other != name)]
    if any(not isinstance(part or "", str) for part in parts):
        raise ValueError(f"{name}: must be a text")
    content = "\n\n".join(part for part in parts if part)
    return [*_system(line), *from_history(line.get("history")), {"role": "user", "content": content}]


def _conversation(line: Line) -> list[Message]:
    name = next(name for name in CONVERSATIONS if line.get(name) is not None)
    messages = from_sharegpt(line[name], name)
    try:
        read_placed(messages)
    except ValueError as error:
        raise ValueError(str(error).replace("messages", name, 1)) from error
    return [*_system(line), *messages]


def _asked_of_pair(line: Line, chosen: Sequence[Message]) -> list[Message]:
    """What comes before both replies, as far as a field of its own says it. Replies that begin with the user hold the
    whole chat already."""
    if any(isinstance(one, Mapping) and one.get("role") == "user" for one in chosen):
        return _system(line)
    if any(line.get(name) is not None for name in CONVERSATIONS):
        return _conversation(line)
    if line.get("prompt") is not None:
        return _prompt(line)
    if any(line.get(name) is not None for name in QUESTIONS):
        return _question(line)
    raise ValueError("prompt is missing: chosen and rejected are texts that do not name it")


def _reply(line: Line, name: str) -> list[Message]:
    value = line[name]
    if is_dialogue(value):
        return from_dialogue(value, name)
    if isinstance(value, Mapping) and "from" in value:
        return from_sharegpt([value], name)
    return _messages(value, "assistant", name)


def _prompt(line: Line) -> list[Message]:
    if is_dialogue(line["prompt"]):
        return [*_system(line), *from_dialogue(line["prompt"], "prompt")]
    return [*_system(line), *_messages(line["prompt"], "user", "prompt")]


def _messages(value: Any, role: str, field: str) -> list[Any]:
    """A text as one message of this role; one message or several as they are."""
    if isinstance(value, str):
        return [{"role": role, "content": value.strip() if role == "assistant" and not value.strip() else value}]
    if isinstance(value, Mapping):
        return [value]
    if not isinstance(value, list):
        raise ValueError(f"{field}: must be a text, or a list of messages")
    return value


def _system(line: Line) -> list[Message]:
    system = line.get("system")
    if not isinstance(system or "", str):
        raise ValueError("system: must be a text")
    return [{"role": "system", "content": system}] if system else []


def _tools(line: Line) -> list[Message]:
    return read_tools(line.get("tools") or line.get("functions"), strict=True)


def _first(line: Line, names: Sequence[str]) -> Any:
    return next((line[name] for name in names if line.get(name) is not None), None)


def _label(line: Line) -> bool | None:
    value = _first(line, LABELS)
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


def _rows(line: Line, turns: Sequence[Turn]) -> list[Row]:
    """A row a turn; a label is of the last one alone, and in [0, 1] the reward, too."""
    tools = _tools(line)
    label, reward = _label(line), line.get("reward")
    if label is not None:
        right = float(label)
        return [text_row(turns[-1], tools) | {"reward": right, "right": right}]
    if reward is None:
        return [text_row(turn, tools) for turn in turns]
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not 0 <= reward <= 1:
        raise ValueError(f"reward: {reward!r} must be from 0 to 1")
    return [text_row(turns[-1], tools) | {"reward": float(reward)}]


FORMS = (
    Form("preference pair", RowKind.PREFERENCES, (("chosen",), ("rejected",)), read_pair),
    Form(
        "OpenAI's preference",
        RowKind.PREFERENCES,
        (("preferred_output",), ("non_preferred_output",), ("input",)),
        read_preferred_output,
    ),
    Form("chat", RowKind.TEXT, (("messages",),), read_chat),
    Form("ShareGPT", RowKind.TEXT, (CONVERSATIONS,), read_sharegpt),
    Form("KTO", RowKind.TEXT, (("prompt",), ("completion",), LABELS), read_labelled_completion),
    Form("prompt and completion", RowKind.TEXT, (("prompt",), ("completion",)), read_completion),
    Form("Alpaca", RowKind.TEXT, (QUESTIONS, ANSWERS), read_instruction),
)
KNOWN: Sequence[tuple[tuple[str, ...], str]] = (
    (("environment", "facts"), "a task of an environment: draw tasks with draw_tasks, or give them to train --data"),
    (("state", "action"), "a decision: import_decisions reads it, in the format jsonl"),
    (("prompt", "completions", "labels"), "TRL's stepwise supervision, which no method learns from"),
    (("prompt", "texts", "rewards"), "a group of texts: give each text a line of its own, with prompt and completion"),
    (("text",), "a text without a prompt: give prompt and completion"),
)
"""What is refused by what it is: the fields that tell it, and the reason."""
