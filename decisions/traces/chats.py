"""Finds the chat of a model call in its span: messages in, messages out and tools, in any of the ways of writing them.
PURE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from decisions.traces import names
from decisions.traces.bodies import read_answer, read_ending, read_request, read_tools, tools_of_request
from decisions.traces.messages import Message, parse_text, read_messages, unflatten
from decisions.traces.spans import Span


def messages_in(span: Span) -> list[Message]:
    found = _written(span, "messages_in", names.FLAT_MESSAGES_IN)
    if not found:
        found = [
            message
            for event in span.events
            if event.name in names.MESSAGE_EVENTS
            for message in read_messages([{"role": names.MESSAGE_EVENTS[event.name], **event.attributes}])
        ] or _from_content(span, names.PROMPT_EVENT, "gen_ai.prompt")
    if not found:
        found = read_request(names.find_value(span.attributes, "input"))
    instructions = names.find_value(span.attributes, "system_instructions")
    if instructions is not None:
        found = [*read_messages([{"role": "system", "content": instructions}]), *found]
    return found


def messages_out(span: Span) -> list[Message]:
    found = _written(span, "messages_out", names.FLAT_MESSAGES_OUT)
    if found:
        return found
    choices = [
        {
            "role": "assistant",
            **(inner if isinstance(inner := parse_text(event.attributes.get("message")), dict) else {}),
        }
        | ({"content": event.attributes["content"]} if "content" in event.attributes else {})
        for event in span.events
        if event.name == names.CHOICE_EVENT
    ]
    found = read_messages(choices) or _from_content(span, names.COMPLETION_EVENT, "gen_ai.completion")
    return found or read_answer(names.find_value(span.attributes, "output"))


def find_ending(span: Span) -> Any:
    """The word for why the first answer ended, where it stands in the answer, its event or its body; None where it does
    not."""
    answers = _find_written(span, "messages_out", names.FLAT_MESSAGES_OUT)
    if not answers:
        answers = [event.attributes for event in span.events if event.name == names.CHOICE_EVENT]
    said = answers[0].get("finish_reason") if answers and isinstance(answers[0], Mapping) else None
    return said or read_ending(names.find_value(span.attributes, "output"))


def _written(span: Span, wanted: str, prefixes: Iterable[str]) -> list[Message]:
    return read_messages(_find_written(span, wanted, prefixes))


def _find_written(span: Span, wanted: str, prefixes: Iterable[str]) -> list[Any]:
    """Messages as the span has them, or the event that instrumentations use when the span would become too large."""
    for attributes in (span.attributes, *(e.attributes for e in span.events if e.name == names.DETAILS_EVENT)):
        given = parse_text(names.find_value(attributes, wanted))
        if isinstance(given, list):
            return given
    for prefix in prefixes:
        if isinstance(given := unflatten(span.attributes, prefix), list):
            return given
    return []


def _from_content(span: Span, event_name: str, attribute: str) -> list[Message]:
    for event in span.events:
        if event.name == event_name:
            given = event.attributes.get(attribute)
            inner = parse_text(given)
            if isinstance(inner, list) and inner and all(isinstance(one, dict) and "role" in one for one in inner):
                return read_messages(inner)
            role = "user" if event_name == names.PROMPT_EVENT else "assistant"
            return read_messages([{"role": role, "content": given}])
    return []


def tools_of(span: Span) -> Any:
    """The tools on offer, as the span writes them; None where it names none."""
    if (found := parse_text(names.find_value(span.attributes, "tools"))) is not None:
        return read_tools(found)
    for prefix in names.FLAT_TOOLS:
        if (found := unflatten(span.attributes, prefix)) is not None:
            return found
    return tools_of_request(names.find_value(span.attributes, "input"))
