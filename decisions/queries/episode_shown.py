"""An episode as its page shows it: lines nested in what they happened in, with their time as a bar."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.agents.prompts import as_text
from decisions.editors.table import editor_of
from decisions.ingest.schemas import LONGEST_MS
from decisions.models import Decision, Episode, Feedback, Step, StepKind
from decisions.queries.decision_shown import Node, show_value
from decisions.queries.episode_ends import fill_ends
from decisions.queries.episodes import Totals, fill_totals, find_steps, find_time
from decisions.queries.suggestion_shown import ShownSuggestion

MOST_DEPTH = 6
"""Deeper lines are set in no further: a phone has no room."""
NARROWEST = 0.4
"""Percent of the waterfall: what took no time is still seen."""
ICONS = {
    StepKind.TOOL_CALL: "terminal",
    StepKind.LLM_CALL: "message-square",
    StepKind.REASONING: "book-open",
    StepKind.SPAN: "layers",
}
SPAN_ICONS = {"AGENT": "bot", "invoke_agent": "bot", "RETRIEVER": "search", "RERANKER": "list-filter"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the story: a step, a decision, or a step that made a decision. `x` and `width` are percent of the
    episode's time; both are empty for what has no duration."""

    key: str
    kind: str
    icon: str
    title: str
    says: str
    started_at: dt.datetime
    after_ms: float
    duration_ms: float | None
    depth: int
    step: Step | None
    decision: Decision | None
    x: str
    width: str
    failed: bool

    @property
    def parts(self) -> tuple[Node, ...]:
        """What is folded away: arguments, result, and what else the sender said."""
        if self.step is None:
            return ()
        found: list[tuple[str, Any]] = [("arguments", self.step.arguments), ("result", self.step.result)]
        found += [("insights", self.step.insights), ("issues", self.step.issues), ("attributes", self.step.attributes)]
        return tuple(show_value(name, value) for name, value in found if value not in (None, [], {}))

    @property
    def tokens(self) -> int | None:
        one = self.step or self.decision
        counts = [count for count in (one.tokens_in, one.tokens_out) if count is not None] if one else []
        return sum(counts) if counts else None

    @property
    def cost(self) -> Any:
        one = self.step or self.decision
        return one.cost if one else None


@dataclass(frozen=True, slots=True)
class ShownEpisode:
    """The episode with what nobody reported filled in, as counted: see `fill_totals`."""

    episode: Episode
    totals: Totals
    lines: tuple[Line, ...]
    feedback: tuple[Feedback, ...]
    more: bool
    suggestion: ShownSuggestion | None = None

    @property
    def failures(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.failed)


def tell_episodes(episodes: Sequence[Episode], *, most: int, feedback: int = 0) -> list[ShownEpisode]:
    """With at most so many steps, decisions and entries of feedback of each."""
    totals = fill_totals(episodes)
    fill_ends(episodes)
    told = []
    for episode in episodes:
        steps = find_steps(episode, most=most + 1)
        made = Decision.objects.filter(episode=episode, workspace=episode.workspace_id).order_by("id")
        decisions = list(
            made.select_related("agent", "agent_version", "model_version__registered_model").defer(
                "content_hash", "token_ids", "logprobs"
            )[: most + 1]
        )
        said = Feedback.objects.filter(episode=episode, workspace=episode.workspace_id).order_by("observed_at", "id")
        told.append(
            show_episode(
                episode,
                totals=totals[episode.id],
                steps=steps[:most],
                decisions=decisions[:most],
                feedback=list(said[:feedback]),
                more=len(steps) > most or len(decisions) > most,
            )
        )
    return told


def show_episode(
    episode: Episode,
    *,
    totals: Totals,
    steps: Sequence[Step],
    decisions: Sequence[Decision],
    feedback: Sequence[Feedback],
    more: bool,
) -> ShownEpisode:
    """In the order of time, children after what holds them. A step whose parent is unknown stands at the top."""
    by_id = {decision.id: decision for decision in decisions}
    made = {step.decision_id: step for step in reversed(steps) if step.kind == StepKind.LLM_CALL or step.decision_id}
    alone = [decision for decision in decisions if decision.id not in made]
    entries: list[tuple[Any, Step | Decision]] = [(step.place, step) for step in steps]
    entries += [((decision.observed_at, 0.0, decision.step_number or 0, decision.id), decision) for decision in alone]
    entries.sort(key=lambda entry: entry[0])
    ordered = _nested([entry for _, entry in entries])
    starts = [_start(entry) for entry, _ in ordered]
    ends = [_start(entry) + dt.timedelta(milliseconds=_duration(entry) or 0.0) for entry, _ in ordered]
    begin = min(starts, default=episode.started_at)
    span = max((max(ends, default=begin) - begin).total_seconds() * 1000, 1e-3)
    lines = tuple(_line(entry, depth, by_id, made, begin, span) for entry, depth in ordered)
    return ShownEpisode(episode, totals, lines, tuple(feedback), more)


def _start(entry: Step | Decision) -> dt.datetime:
    return entry.started_at if isinstance(entry, Step) else find_time(entry)[0]


def _duration(entry: Step | Decision) -> float | None:
    if isinstance(entry, Decision):
        return find_time(entry)[1]
    if entry.duration_ms is None:
        return None
    return min(entry.duration_ms, LONGEST_MS)  # what was recorded before there was a limit


def _nested(entries: Sequence[Step | Decision]) -> list[tuple[Step | Decision, int]]:
    """Depth first, in the given order. A circle of parents is cut where it is met."""
    known = {name for entry in entries if isinstance(entry, Step) for name in _names(entry)}
    children: dict[str, list[Step | Decision]] = {}
    roots: list[Step | Decision] = []
    for entry in entries:
        parent = entry.parent if isinstance(entry, Step) else None
        if parent in known and parent not in (_names(entry) if isinstance(entry, Step) else ()):
            children.setdefault(str(parent), []).append(entry)
        else:
            roots.append(entry)
    told: list[tuple[Step | Decision, int]] = []
    seen: set[uuid.UUID] = set()

    def tell(start: Step | Decision) -> None:
        waiting = [(start, 0)]
        while waiting:
            entry, depth = waiting.pop()
            if entry.id in seen:
                continue
            seen.add(entry.id)
            told.append((entry, depth))
            if isinstance(entry, Step):
                inner = [child for name in _names(entry) for child in children.get(name, ())]
                waiting += [(child, depth + 1) for child in reversed(inner)]

    for entry in roots:
        tell(entry)
    for entry in entries:  # lines that only a cycle contains
        tell(entry)
    return told


def _names(step: Step) -> tuple[str, ...]:
    """What a child may call it: the sender's name of it, or its id."""
    return (step.external_id, str(step.id)) if step.external_id else (str(step.id),)


def _line(
    entry: Step | Decision,
    depth: int,
    decisions: Mapping[uuid.UUID, Decision],
    made: Mapping[uuid.UUID | None, Step],
    begin: dt.datetime,
    span: float,
) -> Line:
    step = entry if isinstance(entry, Step) else None
    decision = entry if isinstance(entry, Decision) else None
    if step is not None and step.decision_id is not None and made.get(step.decision_id) is step:
        decision = decisions.get(step.decision_id)
    start = _start(entry)
    after, duration = (start - begin).total_seconds() * 1000, _duration(entry)
    width = max(100 * (duration or 0.0) / span, NARROWEST)
    return Line(
        key=f"{'s' if step else 'd'}-{entry.id}",
        kind=StepKind(step.kind).label if step else "Decision",
        icon=_icon(step),
        title=_title(step, decision),
        says=_says(step, decision),
        started_at=start,
        after_ms=after,
        duration_ms=duration,
        depth=min(depth, MOST_DEPTH),
        step=step,
        decision=decision,
        x=f"{min(100 * after / span, 100 - NARROWEST):.3f}%",
        width=f"{width:.3f}%",
        failed=step is not None and step.success is False,
    )


def _icon(step: Step | None) -> str:
    if step is None:
        return "list-checks"
    marks = step.attributes if isinstance(step.attributes, dict) else {}
    return SPAN_ICONS.get(str(marks.get("span_kind") or marks.get("operation")), ICONS[StepKind(step.kind)])


def _title(step: Step | None, decision: Decision | None) -> str:
    if step is None:
        return f"{decision.agent.name} decided" if decision else ""
    return step.name or step.reasoning_type or StepKind(step.kind).label


def _says(step: Step | None, decision: Decision | None) -> str:
    """One line: what was decided, thought, answered."""
    if decision is not None:
        return editor_of(decision).say(decision.action)
    if step is None:
        return ""
    said = step.content if step.kind == StepKind.REASONING else step.result
    return "" if said is None else as_text(said)
