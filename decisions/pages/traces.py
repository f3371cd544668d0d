"""Page of an agent's traces as files: a zip of dated folders, as ToolBox keeps them."""

from __future__ import annotations

import datetime as dt
import itertools
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

from django import forms
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from decisions.exports.trace_files import TraceChoice, TraceFile, write_traces
from decisions.models import Agent
from decisions.pages.found import get_agent
from workspaces.pages.guard import PageRequest, workspace_page

MOST = 5_000


class TracesForm(forms.Form):
    since = forms.DateField(
        required=False,
        label="From",
        widget=forms.DateInput({"type": "date"}),
        help_text="A day in UTC. Default: the first trace.",
    )
    until = forms.DateField(
        required=False,
        label="Until",
        widget=forms.DateInput({"type": "date"}),
        help_text="The day after the last one, in UTC.",
    )
    labelled = forms.BooleanField(required=False, label="Only traces with a label")

    def choice(self) -> TraceChoice:
        given = self.cleaned_data
        return TraceChoice(_begin(given["since"]), _begin(given["until"]), given["labelled"], MOST)


def _begin(day: dt.date | None) -> dt.datetime | None:
    return None if day is None else dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)


@require_safe
@workspace_page()
def agent_traces(request: PageRequest, agent: str) -> HttpResponseBase:
    """The form; with `download` the zip."""
    found = get_agent(request, agent)
    form = TracesForm(request.GET if "download" in request.GET else None)
    if form.is_bound and form.is_valid():
        packed = _pack(found, form.choice())
        if packed is not None:
            return packed
        form.add_error(None, "No traces match.")
    status = 400 if form.is_bound else 200
    answer: HttpResponse = render(request, "agents/traces.html", _context(found, form), status=status)
    return answer


def _context(agent: Agent, form: TracesForm) -> dict[str, Any]:
    return {"agent": agent, "form": form, "most": MOST}


def _pack(agent: Agent, choice: TraceChoice) -> StreamingHttpResponse | None:
    """None where there is nothing to write."""
    files = write_traces(agent, choice)
    first = next(files, None)
    if first is None:
        return None
    answer = StreamingHttpResponse(_zip(itertools.chain([first], files)), content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="{agent.slug}-traces.zip"'
    return answer


class _Sink:
    """What the archive has written and nobody has taken yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


def _zip(files: Iterable[TraceFile]) -> Iterator[bytes]:
    """File by file, so that memory does not grow with them."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for file in files:
            archive.writestr(file.path, file.body)
            yield sink.take()
    yield sink.take()
