"""The body of a chat request in OpenAI's shape, and its translation for the model thread.

As in OpenAI's servers, unknown parameters are ignored; known ones that would change the answer and are not supported
are refused by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from training.engine.serving.chat import ChatRequest
from training.engine.serving.constraints import grammar_of_schema
from training.engine.serving.faults import Fault
from training.engine.serving.sampling import Sampling
from training.engine.serving.tools import Choice, Tool, Toolbox, offer_tools

MOST_ANSWERS = 16
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Part(Struct):
    type: str
    text: str | None = None


class CalledFunction(Struct):
    name: str
    arguments: str = "{}"


class ToolCall(Struct):
    function: CalledFunction
    id: str | None = None
    type: Literal["function"] = "function"


class Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class JsonSchema(Struct):
    name: str | None = None
    json_schema: dict[str, Any] | None = field(default=None, name="schema")


class ResponseFormat(Struct):
    type: str
    json_schema: JsonSchema | None = None


class Function(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class OfferedTool(Struct):
    type: str
    function: Function | None = None


class NamedFunction(Struct):
    name: str


class NamedTool(Struct):
    type: str
    function: NamedFunction | None = None


class StructuredOutputs(Struct):
    choice: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=4096)] | None = None
    json: dict[str, Any] | str | None = None
    json_object: bool | None = None
    regex: str | None = None
    grammar: str | None = None
    structural_tag: Any = None


class StreamOptions(Struct):
    include_usage: bool | None = None


class ChatBody(Struct):
    model: str
    messages: Annotated[list[Message], Meta(min_length=1, max_length=1024)]
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_ANSWERS)] | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[list[OfferedTool], Meta(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    max_prompt_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    # Known, and refused where they are not at the value that changes nothing.
    functions: list[Any] | None = None
    function_call: Any = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    best_of: int | None = None
    echo: bool | None = None
    prediction: Any = None
    audio: Any = None
    modalities: list[str] | None = None


READ_CHAT = msgspec.json.Decoder(ChatBody)


UNCHANGED: dict[str, tuple[Any, ...]] = {
    "functions": ([],),
    "function_call": ("none",),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "best_of": (1,),
    "echo": (False,),
    "prediction": (),
    "audio": (),
    "modalities": (["text"],),
}
"""Parameters that this server does not support, with the values beside null that ask for nothing."""


def chat_request_of(body: ChatBody) -> ChatRequest:
    """Raises Fault unsupported_parameter or invalid_request."""
    for name, harmless in UNCHANGED.items():
        asked = getattr(body, name)
        if asked is not None and asked not in harmless:
            raise Fault("unsupported_parameter", f"this server does not support {name}; leave it out", name)
    stops = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    toolbox = _toolbox(body)
    grammar, choices = _form(body)
    request = ChatRequest(
        model=body.model,
        messages=tuple(_message(index, message) for index, message in enumerate(body.messages)),
        sampling=Sampling(
            1.0 if body.temperature is None else body.temperature,
            1.0 if body.top_p is None else body.top_p,
            _bias(body.logit_bias or {}),
        ),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        seed=body.seed,
        stop=tuple(stop for stop in stops if stop),
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        count=body.n or 1,
        grammar=grammar,
        choices=choices,
        toolbox=toolbox,
        max_prompt_tokens=body.max_prompt_tokens,
    )
    _refuse_contradictions(request)
    return request


def _refuse_contradictions(request: ChatRequest) -> None:
    """What would break the promise of a form, or has no meaning beside it."""
    forced = request.toolbox is not None and request.toolbox.forced
    formed = request.grammar is not None or bool(request.choices)
    if forced and formed:
        raise Fault("invalid_request", "a tool call that is required cannot have another form as well", "tool_choice")
    if request.stop and (forced or formed):
        raise Fault("invalid_request", "a stop string could cut an answer that must have a form", "stop")
    if request.choices and request.top_logprobs is not None:
        raise Fault("unsupported_parameter", "choices have probabilities instead of logprobs; leave it out", "logprobs")
    if request.choices and request.sampling.bias:
        raise Fault("unsupported_parameter", "logit_bias does not work on choices; leave it out", "logit_bias")


def _bias(given: Mapping[str, float]) -> tuple[tuple[int, float], ...]:
    for token in given:
        if not (token.isascii() and token.isdigit()):
            raise Fault("invalid_request", f"logit_bias: {token[:40]!r} is not a token id", "logit_bias")
    return tuple((int(token), bias) for token, bias in given.items())


def _form(body: ChatBody) -> tuple[str | None, tuple[str, ...]]:
    """The grammar and the choices that the answer is held to."""
    asked = [_response_format(body.response_format), *_structured(body.structured_outputs)]
    given = [one for one in asked if one is not None]
    if len(given) > 1:
        raise Fault("invalid_request", "ask for one form of the answer only", "structured_outputs")
    if not given:
        return None, ()
    field, form = given[0]
    if isinstance(form, tuple):
        if len(set(form)) < len(form):
            raise Fault("invalid_request", f"{field} holds the same choice twice", field)
        return None, form
    return grammar_of_schema(form, field), ()


Form = tuple[str, Mapping[str, Any] | tuple[str, ...]]
"""The field that asks, and a schema or choices."""


def _response_format(given: ResponseFormat | None) -> Form | None:
    if given is None or given.type == "text":
        return None
    if given.type == "json_object":
        return "response_format", {"type": "object"}
    if given.type != "json_schema":
        raise Fault(
            "unsupported_parameter", "response_format.type may be text, json_object or json_schema", "response_format"
        )
    if given.json_schema is None or given.json_schema.json_schema is None:
        place = "response_format.json_schema.schema"
        raise Fault("invalid_request", f"{place} is missing", place)
    return "response_format.json_schema.schema", given.json_schema.json_schema


def _structured(given: StructuredOutputs | None) -> list[Form | None]:
    """vLLM's extension, as far as it is supported."""
    if given is None:
        return []
    for name in ("regex", "grammar", "structural_tag"):
        if getattr(given, name) is not None:
            place = f"structured_outputs.{name}"
            raise Fault("unsupported_parameter", f"this server does not support {place}; leave it out", place)
    schema = given.json
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise Fault("invalid_request", "structured_outputs.json is not JSON", "structured_outputs.json") from error
    if schema is not None and not isinstance(schema, dict):
        raise Fault("invalid_request", "structured_outputs.json is not a schema", "structured_outputs.json")
    return [
        None if given.choice is None else ("structured_outputs.choice", tuple(given.choice)),
        None if schema is None else ("structured_outputs.json", schema),
        ("structured_outputs.json_object", {"type": "object"}) if given.json_object else None,
    ]


def _toolbox(body: ChatBody) -> Toolbox | None:
    if not body.tools:
        if body.tool_choice not in (None, "none", "auto"):
            raise Fault("invalid_request", "tool_choice asks for a tool, and there are no tools", "tool_choice")
        return None
    tools: list[Tool] = []
    for index, offered in enumerate(body.tools):
        place = f"tools[{index}]"
        if offered.type != "function" or offered.function is None:
            raise Fault("unsupported_parameter", f"{place} may be of type function only", place)
        function = offered.function
        if not TOOL_NAME.fullmatch(function.name):
            raise Fault("invalid_request", f"{place}.function.name may hold letters, digits, _ and - only", place)
        if function.name in {tool.name for tool in tools}:
            raise Fault("invalid_request", f"two of the tools are named {function.name}", place)
        tools.append(Tool(function.name, function.description, function.parameters))
    choice: Choice = "auto"
    named = None
    if isinstance(body.tool_choice, NamedTool):
        if body.tool_choice.type != "function" or body.tool_choice.function is None:
            raise Fault("unsupported_parameter", "tool_choice may be none, auto, required or a function", "tool_choice")
        choice, named = "required", body.tool_choice.function.name
        if named not in {tool.name for tool in tools}:
            raise Fault("invalid_request", f"tool_choice: {named[:80]!r} is not one of the tools", "tool_choice")
    elif body.tool_choice is not None:
        choice = body.tool_choice
    return offer_tools(tools, choice, named, parallel=body.parallel_tool_calls is not False)


def _message(index: int, message: Message) -> dict[str, Any]:
    """Text parts are joined; `developer` is what newer clients call the system's role."""
    place = f"messages[{index}]"
    role = "system" if message.role == "developer" else message.role
    read: dict[str, Any] = {"role": role, "content": _text(f"{place}.content", message)}
    if message.tool_calls:
        if role != "assistant":
            raise Fault("invalid_request", f"{place}.tool_calls belongs to the assistant", f"{place}.tool_calls")
        read["tool_calls"] = [
            _earlier_call(f"{place}.tool_calls[{number}].function.arguments", call)
            for number, call in enumerate(message.tool_calls)
        ]
    if role == "tool" and message.tool_call_id is not None:
        read["tool_call_id"] = message.tool_call_id
    return read


def _text(place: str, message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    if message.content is None:
        if message.tool_calls:
            return ""
        raise Fault("invalid_request", f"{place} is empty", place)
    if any(part.type != "text" or part.text is None for part in message.content):
        raise Fault("unsupported_parameter", f"{place} may hold parts of type text only", place)
    return "".join(part.text or "" for part in message.content)


def _earlier_call(place: str, call: ToolCall) -> dict[str, Any]:
    """As chat templates read it: the arguments as an object."""
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise Fault("invalid_request", f"{place} is not JSON", place) from error
    if not isinstance(arguments, dict):
        raise Fault("invalid_request", f"{place} is not an object", place)
    return {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}}
