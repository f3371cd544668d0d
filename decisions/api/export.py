"""/api/v1/decisions/export: the ledger as JSON lines, streamed."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from django.http import StreamingHttpResponse
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter, OpenApiTypes, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from decisions.models import AgentKind
from decisions.queries.export import FORMATS, ExportChoice, export_lines
from decisions.queries.left_out import count_left_out, count_unusable
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.parsing import text_parameter
from workspaces.http.permissions import acting
from workspaces.http.queries import refuse_unknown_names
from workspaces.http.rendering import OneFormat
from workspaces.models import Scope, Workspace

T = TypeVar("T")
NDJSON = "application/x-ndjson"
DEFAULT_LIMIT = 1000
MAX_LIMIT = 2**31 - 1
CHUNK = 32_768
PARAMETERS = (
    *("agent", "agent_type", "min_reward", "max_reward", "require_reward", "require_feedback", "since", "until"),
    *("limit", "format"),
)
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _moment(text: str) -> dt.datetime:
    value = parse_datetime(text)
    if value is None or value.tzinfo is None:
        raise ValueError(text)
    try:
        return value.astimezone(dt.UTC)
    except OverflowError as error:
        raise ValueError(text) from error


def _limit(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isascii() or not text.isdecimal() or not 1 <= len(text) <= 10 or not 1 <= int(text) <= MAX_LIMIT:
        raise ValueError(text)
    return int(text)


def in_chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    """A few dozen lines in one write: each goes through the whole server."""
    chunk, size = [], 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size >= CHUNK:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


class _Query:
    """Reads parameters and gathers every fault."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.faults: list[FieldFault] = []

    def read(self, name: str, parse: Callable[[str], T | None], default: T | None, expected: str) -> T | None:
        text = text_parameter(self.request, name)
        if text is None:
            return default
        try:
            return parse(text)
        except (ValueError, KeyError, OverflowError):
            self.faults.append(FieldFault(name, f"{text[:100]!r} is invalid", expected))
            return default


def read_choice(request: Request) -> ExportChoice:
    """Raises InvalidInput with every fault of the query string."""
    refuse_unknown_names(request, PARAMETERS)
    query = _Query(request)
    reward, moment = "a number from -5 to 5", "a time with its offset, such as 2026-11-20T08:00:00Z"
    yes_or_no = "true or false"
    low = query.read("min_reward", _number, None, reward)
    high = query.read("max_reward", _number, None, reward)
    choice = ExportChoice(
        agent=text_parameter(request, "agent"),
        kind=query.read("agent_type", lambda text: AgentKind(text).value, None, ", ".join(AgentKind.values)),
        min_reward=low,
        max_reward=high,
        # A bound implies that a reward is required.
        require_reward=bool(
            query.read("require_reward", BOOLEANS.__getitem__, low is not None or high is not None, yes_or_no)
        ),
        require_feedback=bool(query.read("require_feedback", BOOLEANS.__getitem__, False, yes_or_no)),
        since=query.read("since", _moment, None, moment),
        until=query.read("until", _moment, None, moment),
        limit=query.read("limit", _limit, DEFAULT_LIMIT, "a positive number, or none"),
    )
    if query.faults:
        raise InvalidInput("The query is invalid.", faults=query.faults)
    return choice


LEFT_OUT = "Reckoner-Left-Out"
LEFT_OUT_HEADER = OpenApiParameter(
    LEFT_OUT,
    str,
    OpenApiParameter.HEADER,
    response=[200],
    description="Number of decisions that each limit given left out, such as `limit=120, min_reward=3`; `10000+` where "
    "there may be more. `unusable=2` counts decisions without a line: their state lacks a field of the prompt, or is a "
    "chat that cannot be read. `none` where nothing is counted",
)
MOST_COUNTED = 10_000
"""So many decisions of an export, and so many beyond its limit, are looked at before its first line is sent."""


def stream_export(*, workspace: Workspace, chosen: ExportChoice, format: str, name: str) -> StreamingHttpResponse:
    """The lines as a file of this name; a header says what the limits left out, and how many make no line."""
    lines = export_lines(workspace=workspace, chosen=chosen, format=format)
    left_out = count_left_out(workspace=workspace, chosen=chosen, most=MOST_COUNTED)
    unusable = count_unusable(workspace=workspace, chosen=chosen, format=format, most=MOST_COUNTED)
    left_out = replace(left_out, unusable=unusable)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', LEFT_OUT: left_out.as_header(chosen)}
    return StreamingHttpResponse(in_chunks(lines), content_type=NDJSON, headers=headers)


class DecisionExport(APIView):
    """Streams decisions as JSON lines for training, newest first: chats, or prompts with completions. The header
    Reckoner-Left-Out says how many decisions each limit left out, and how many make no line."""

    scopes = {"GET": Scope.EXPORT_READ}
    content_negotiation_class = OneFormat

    @extend_schema(
        operation_id="export_decisions",
        parameters=[
            OpenApiParameter("format", str, enum=list(FORMATS), default="chat", description="Format of the lines"),
            OpenApiParameter("agent", str, description="Only this agent's decisions, by its slug"),
            OpenApiParameter("agent_type", str, enum=AgentKind.values, description="Only agents of this kind"),
            OpenApiParameter("min_reward", float, description="Smallest raw reward, from -5 to 5"),
            OpenApiParameter("max_reward", float, description="Largest raw reward"),
            OpenApiParameter(
                "require_reward", bool, description="Leave out decisions without a reward; true if a bound is given"
            ),
            OpenApiParameter("require_feedback", bool, default=False, description="Only decisions with a verdict"),
            OpenApiParameter("since", OpenApiTypes.DATETIME, description="Recorded at or after this time"),
            OpenApiParameter("until", OpenApiTypes.DATETIME, description="Recorded before this time"),
            OpenApiParameter(
                "limit",
                str,
                default="1000",
                pattern="^([1-9][0-9]{0,8}|none)$",
                description="Maximum number of rows, or none for all",
            ),
            LEFT_OUT_HEADER,
        ],
        responses={(200, NDJSON): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        format = text_parameter(request, "format") or "chat"
        chosen, workspace = read_choice(request), acting(request).workspace
        return stream_export(workspace=workspace, chosen=chosen, format=format, name=f"decisions-{format}.jsonl")
