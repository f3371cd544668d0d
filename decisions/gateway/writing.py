"""Answers that a server writes: text or tool calls, and structured actions that no schema enumerates.

They are written at the version's temperature, without exploration. An answer that does not fit the agent's action is a
failure of the server that wrote it: the next server or version is asked. The probability of a text is not that of the
tokens that were drawn for it, so the propensity stays unknown; the tokens' log-probabilities are recorded where the
server tells them.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from decisions.agents.actions import Schema
from decisions.agents.current import CurrentAgent
from decisions.agents.forms import NothingOffered, form_of, tools_of
from decisions.agents.prompts import PromptError, make_prompt, read_offered_tools
from decisions.gateway.requests import AGENT, DrawnAction, ModelReply, Rendering, WritingPrompt, fault_of
from decisions.ingest.schemas import DecideItem
from decisions.models import CHATTING, ActionSpaceKind
from decisions.models.finish_reasons import read_finish_reason
from models_registry.backends.asking import UnusableAnswer
from models_registry.backends.endpoint import WriteItem, Written
from workspaces.errors import FieldFault
from workspaces.storage.storable import is_storable, read_json

HOTTEST = 2.0
"""The highest temperature that servers write at."""
MOST_REASONS = 3
NO_CALLS = "[]"
"""How a model of ours writes that it calls no tool."""
_FENCE = re.compile(r"\A```(?:json)?[ \t\r]*\n(.*)\n[ \t]*```\Z", re.DOTALL)
"""Matches a text without blanks around it. No two of its parts take line breaks: a model may write thousands of
them."""


def render(current: CurrentAgent, item: DecideItem) -> Rendering:
    """A `ways.Render`."""
    version = current.version
    schema, tools, options, faults = None, [], (), []
    if version.temperature > HOTTEST:
        reason = f"writes its answers, and its version {version.number} has the temperature {version.temperature:g}"
        faults.append(FieldFault(AGENT, reason, f"a version with a temperature up to {HOTTEST:g}"))
    must_call = version.action_space == ActionSpaceKind.TOOL_CALLS
    offered = read_offered_tools(version, item.state)
    if must_call or offered or (version.action_space in CHATTING and version.action_schema):
        tools = offered or tools_of(version, item.options)
        options = tuple(tool["name"] for tool in tools)
        if version.options is not None and item.options not in (None, version.options):
            faults.append(FieldFault("options", "differ from those of the agent's version", "the same, or none"))
        if must_call and not tools:
            expected = "the names of the tools, because the agent's version has neither options nor a schema"
            return Rendering(None, [*faults, FieldFault("options", "is missing", expected)])
    elif item.options is not None:
        faults.append(FieldFault("options", "are given for an action that is written", "none"))
    try:
        if version.action_space == ActionSpaceKind.STRUCTURED:
            schema = form_of(version.action_schema or {}, item.state)
        prompt = make_prompt(version, item.state, options)
    except NothingOffered as nothing:
        return Rendering(None, [*faults, FieldFault("state", f"leaves nothing to answer with: {nothing}")])
    except PromptError as error:
        return Rendering(None, [*faults, fault_of(error)])
    order = WriteItem(
        model="",
        prompt=prompt,
        max_prompt_tokens=version.max_prompt_tokens,
        max_tokens=version.max_completion_tokens,
        temperature=version.temperature,
        schema=schema,
        tools=tuple(tools),
        must_call=must_call,
    )
    return Rendering(WritingPrompt(options, order, functools.partial(read_action, current, item.state, order)), faults)


def read_action(current: CurrentAgent, state: Mapping[str, Any], order: WriteItem, written: Written) -> Any:
    """The action that was written. Raises UnusableAnswer where it is none of the agent's, or cannot be stored."""
    if not (is_storable(written.text) and is_storable(list(written.calls))):
        raise UnusableAnswer("it holds characters or numbers that cannot be stored")
    space = current.version.action_space
    cut = ", and was cut before its end" if written.cut else ""
    if space in CHATTING:
        words = (written.text or "").strip()
        if not written.calls and words and not (order.must_call and words == NO_CALLS):
            return written.text
        if not written.calls and not order.must_call:
            raise UnusableAnswer(f"it is empty{cut}")
        action: Any = list(written.calls)
        names = [tool["name"] for tool in order.tools]
        faults = current.space.action_faults(action, options=names, state=state) or _argument_faults(order, action)
    else:
        action = _read_json(written.text or "", cut)
        faults = current.space.action_faults(action, options=None, state=state)
    if faults:
        shown = "; ".join(f"{fault.field} {fault.reason}" for fault in faults[:MOST_REASONS])
        raise UnusableAnswer(f"it does not fit the agent's action: {shown}{cut}")
    return action


def draw(reply: ModelReply, rng: random.Random) -> DrawnAction:
    """A `ways.Draw`: confidence and reasoning are what a structured action says of itself."""
    written, action = reply.written, reply.action
    assert written is not None
    says = action if isinstance(action, Mapping) else {}
    confidence, reasoning = says.get("confidence"), says.get("reasoning")
    sure = None
    if isinstance(confidence, int | float) and not isinstance(confidence, bool) and 0 <= confidence <= 1:
        sure = float(confidence)
    options = reply.request.prompt.options
    columns = {
        "options": list(options) or None,
        "completion": written.text or None,
        "finish_reason": read_finish_reason(written.finish_reason),
        "reasoning": reasoning if isinstance(reasoning, str) else None,
        "epsilon": 0.0,
        "token_ids": list(written.token_ids) if written.token_ids else None,
        "logprobs": list(written.logprobs) if written.logprobs else None,
    }
    return DrawnAction(reply, action, (), None, sure, columns)


def _read_json(text: str, cut: str) -> Any:
    """The JSON that the text is, inside a fence of Markdown or not."""
    fenced = _FENCE.match(text.strip())
    try:
        found = read_json(fenced[1] if fenced else text)
    except ValueError:
        raise UnusableAnswer(f"{text.strip()[:80]!r} is not JSON{cut}") from None
    if not is_storable(found):
        raise UnusableAnswer("it holds characters or numbers that cannot be stored")
    return found


def _argument_faults(order: WriteItem, calls: Sequence[Mapping[str, Any]]) -> list[FieldFault]:
    """Of arguments that do not fit their tool's parameters."""
    parameters = {tool["name"]: tool["parameters"] for tool in order.tools}
    return [
        fault
        for index, call in enumerate(calls)
        for fault in Schema(parameters[call["name"]], f"action[{index}].arguments").faults(call["arguments"])
    ]
