"""Chats of files, cut into the assistant's turns. PURE.

`models_registry.backends.chat_reading` reads each message and the tools; here stands what makes a chat of them: who
answers whom, which call a result belongs to, and which tools are on offer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from models_registry.backends.chat_reading import is_silent, read_message, read_tools
from models_registry.backends.chat_rows import Message

MOST_MESSAGES = 2_000
MOST_REPEATED = 32 * 1024 * 1024
"""Characters that the turns of one chat may have together: each repeats all that was said before it."""


class Turn(NamedTuple):
    """One reply of the assistant's, and all messages before it."""

    before: tuple[Message, ...]
    reply: Message


def split_turns(messages: Sequence[Any], tools: Sequence[Any] = ()) -> list[Turn]:
    """Every turn of the assistant's, in order, in the form of rows. Turns of `weight` 0, as in OpenAI's files for
    fine-tuning, are context and no turns. With `tools`, a call of a function that is not among them is refused. Raises
    ValueError, naming the place, for what is no chat, and for a chat that ends with the user: it asks for a reply that
    the file does not have."""
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ValueError("messages: must be a list")
    if len(messages) > MOST_MESSAGES:
        raise ValueError(f"messages: {len(messages):,} are more than {MOST_MESSAGES:,}")
    read = read_placed(messages)
    offered = {tool["function"]["name"] for tool in read_tools(tools, strict=True)}
    if not any(message["role"] == "assistant" for _, message in read):
        raise ValueError("messages: none is the assistant's, so there is nothing to learn")
    if read[-1][1]["role"] in ("user", "system"):
        raise ValueError(f"messages: end with the {read[-1][1]['role']}'s; the assistant's reply to it is missing")
    turns, said, repeated = [], 0, 0
    for at, (place, message) in enumerate(read):
        before_it, said = said, said + len(message["content"]) + len(str(message.get("tool_calls", "")))
        if message["role"] != "assistant":
            continue
        for call in message.get("tool_calls") or ():
            if offered and (name := call["function"]["name"]) not in offered:
                raise ValueError(f"messages[{place}].tool_calls: {name!r} is not among the tools")
        if not any(before["role"] in ("user", "tool") for _, before in read[:at]):
            continue  # a greeting: nobody has asked anything
        if messages[place].get("weight") != 0:
            repeated += before_it
            if repeated > MOST_REPEATED:
                raise ValueError(
                    f"messages: the turns up to messages[{place}] repeat more than {MOST_REPEATED:,} characters of "
                    "what was said before them; cut the chat into several"
                )
            turns.append(Turn(tuple(before for _, before in read[:at]), message))
    if not turns:
        raise ValueError("messages: no turn of the assistant's answers anything that is learnt from")
    return turns


def served_turn(messages: Sequence[Any]) -> Turn:
    """The last message, a decision's answer, after the messages that were served: those stay as they are, with calls
    without ids and of tools that are no longer on offer. Raises ValueError for what is no chat, and for an answer that
    answers nobody."""
    *before, reply = [message for _, _, message in _read_each(messages)] or [{"role": ""}]
    if reply["role"] != "assistant":
        raise ValueError("messages: end without an answer of the assistant's")
    if not any(message["role"] in ("user", "tool") for message in before):
        raise ValueError("messages: nobody asks anything before the answer")
    if before[-1]["role"] == "assistant":
        raise ValueError("messages: the answer follows the assistant's own message, not the user's")
    return Turn(tuple(before), reply)


def read_placed(messages: Sequence[Any]) -> list[tuple[int, Message]]:
    """The messages in the form of rows, each with its place in the file's list, and calls and results with an id.
    Successive ones of the assistant's are one turn, since no template has two. Raises ValueError."""
    read: list[tuple[int, Message]] = []
    unanswered: list[str] = []
    for index, written, message in _read_each(messages):
        if message["role"] == "assistant":
            _name_calls(message, index)
            unanswered = [call["id"] for call in message.get("tool_calls", ())]
        elif message["role"] == "tool":
            _name_result(message, written, f"messages[{index}]", unanswered)
        if message["role"] == "assistant" and read and read[-1][1]["role"] == "assistant":
            read[-1] = (index, _join(read[-1][1], message))
        else:
            read.append((index, message))
    return read


def _read_each(messages: Sequence[Any]) -> Iterator[tuple[int, Any, Message]]:
    """Each message's place, as it is written and as it is read, but the assistant's that say nothing."""
    for index, written in enumerate(messages):
        message = read_message(written, f"messages[{index}]", strict=True)
        if not is_silent(message):
            yield index, written, message


def _name_calls(message: Message, index: int) -> None:
    if calls := message.get("tool_calls"):
        message["tool_calls"] = [{"id": f"call_{index}_{number}", **call} for number, call in enumerate(calls)]


def _name_result(message: Message, written: Mapping[str, Any], place: str, unanswered: list[str]) -> None:
    """`unanswered` holds the ids of the calls without a result, which results without an id answer in order."""
    if own := message.get("tool_call_id"):
        unanswered[:] = [call for call in unanswered if call != own]
    elif unanswered:
        message["tool_call_id"] = unanswered.pop(0)
    else:
        raise ValueError(f"{place}.tool_call_id: is missing, and no call before it waits for a result")
    if isinstance(written.get("name"), str):
        message["name"] = written["name"]


def _join(first: Message, second: Message) -> Message:
    """Two messages of the assistant's without anybody between them."""
    joined: Message = {
        "role": "assistant",
        "content": "\n\n".join(part for part in (first["content"], second["content"]) if part),
    }
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    return joined | ({"tool_calls": calls} if calls else {})
