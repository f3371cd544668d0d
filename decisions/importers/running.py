"""Runs an import: survey the files, make the agents, write batch by batch.

Files are read twice, so that what would stop the import (an unknown agent, nothing usable) is known before anything is
written. A batch is one transaction with its decisions, steps and feedback. Ids follow from the content, so an
interrupted import continues when it is run again.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone
from msgspec import UnsetType

from decisions.agents.current import find_agents
from decisions.agents.replies import is_calls
from decisions.agents.services import AgentSetup, create_agent
from decisions.importers.archives import Unpacked, unpack
from decisions.importers.formats import Format
from decisions.importers.records import (
    EARLIEST,
    Found,
    Imported,
    ImportedEpisode,
    ImportedFeedback,
    Place,
    Reading,
    Refusal,
    Repeat,
    canonical,
    ignore_bytes,
    text_of,
)
from decisions.ingest.decisions import check_decisions, record_decisions
from decisions.ingest.episode_facts import record_episodes
from decisions.ingest.episodes import find_erased_episodes
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import DecisionIn, FeedbackIn
from decisions.ingest.step_schemas import EpisodeIn, StepIn
from decisions.ingest.steps import record_steps
from decisions.models import CHATTING, ActionSpaceKind, Agent, Episode, ErasedName
from workspaces.access.actors import Actor
from workspaces.storage.ids import uuid7_of

MOST_DECISIONS = 1000
MOST_BYTES = 8 << 20
MOST_KEYS = 12
MOST_NAMED, MOST_REASONS = 100, 5
TEMPLATE_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
LONG_PROMPT, LONG_COMPLETION = 4096, 1024
SHORT = 512, 16


Written = Imported | ImportedEpisode | ImportedFeedback
"""What of a file goes into the ledger."""


class Unusable(ValueError):
    """Nothing was written. `faults` are whole sentences."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@dataclass(slots=True)
class SeenDecisions:
    """What the survey saw of one agent: kinds of actions, the fields that every state had, and system prompts.
    `episodes` counts those in which nothing was decided."""

    decisions: int = 0
    episodes: int = 0
    actions: set[str] = field(default_factory=set)
    keys: list[str] | None = None
    systems: set[str] = field(default_factory=set)


@dataclass(slots=True)
class FileCounts:
    """What one file held: records that were usable, repeats of others in the files, and refusals, of which `reasons`
    has the first MOST_REASONS."""

    records: int = 0
    repeated: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.records or self.repeated or self.refused)


@dataclass(slots=True)
class Report:
    """What an import did. `repeated` counts records that were in the ledger, or twice in the files. `files`: by the
    name of each file that was read; of a batch that the ledger refused in part, its refusals are counted too."""

    decisions: int = 0
    steps: int = 0
    feedback: int = 0
    repeated: int = 0
    refused: int = 0
    agents: list[str] = field(default_factory=list)
    files: dict[str, FileCounts] = field(default_factory=dict)

    def as_plain(self, *, root: str = "") -> dict[str, Any]:
        """Without single files, but where there are several: how many, and which had a fault or held nothing, by their
        names without `root` before them."""
        told = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "files"}
        if len(self.files) > 1:
            named = {name.removeprefix(root): counts for name, counts in self.files.items()}
            faulty = [name for name, counts in named.items() if counts.refused]
            empty = [name for name, counts in named.items() if counts.is_empty]
            told["files"] = {"read": len(self.files), "refused": faulty[:MOST_NAMED], "empty": empty[:MOST_NAMED]}
        return told

    @property
    def kept(self) -> int:
        return self.decisions + self.steps + self.feedback


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What is asked: see the flags of `manage.py import_decisions`."""

    format: Format
    path: Path
    agent: str | None = None
    observed_at: dt.datetime | None = None
    policy: str | None = None
    create_agents: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """Who follows the import: told the bytes read in each of the two turns, every refusal, and each written batch."""

    advance: Callable[[int], None] = ignore_bytes
    refuse: Callable[[Refusal], None] = lambda refusal: None
    wrote: Callable[[Report], None] = lambda report: None


def import_decisions(*, by: Actor, order: ImportOptions, watch: ImportProgress, report: Report | None = None) -> Report:
    """Raises Unusable or UnusableFile before anything is written. `report` is filled as the import goes on."""
    report = report if report is not None else Report()
    reading = Reading(
        name=order.format.name,
        workspace=str(by.workspace.id),
        now=timezone.now(),
        agent=order.agent,
        observed_at=order.observed_at,
        policy=order.policy,
        advance=watch.advance,
    )
    with unpack(order.path, order.format.endings) as unpacked:
        _import_files(by, order, unpacked, reading, watch, report)
    return report


def _import_files(
    by: Actor, order: ImportOptions, unpacked: Unpacked, reading: Reading, watch: ImportProgress, report: Report
) -> None:
    files = unpacked.find_files(order.format.endings)
    seen, refusals, others = survey(order.format.read(files, reading))
    if not seen and not others:
        named = [str(unpacked.named(refusal)) for refusal in (*unpacked.refusals, *refusals)]
        raise Unusable(named or [f"{order.path}: holds no decisions"])
    agents = find_agents(by, seen)
    missing = sorted(set(seen) - set(agents))
    if missing and not order.create_agents:
        named_agents = ", ".join(f"{slug} ({seen[slug].decisions})" for slug in missing)
        raise Unusable([f"unknown agents: {named_agents}; create them, or use --agent or --create-agents"])
    setups = {slug: make_setup(slug, seen[slug], fitted=order.format.fitted) for slug in missing}

    def refuse(refusal: Refusal) -> None:
        named = unpacked.named(refusal)
        report.refused += 1
        counts = report.files.setdefault(named.place.file, FileCounts())
        counts.refused += 1
        if len(counts.reasons) < MOST_REASONS:
            counts.reasons.append(f"{named.field}: {named.reason}" if named.field else named.reason)
        watch.refuse(named)

    def read() -> Iterator[Found]:
        """Counts what each file holds as it goes by."""
        places = {str(file): unpacked.named(Refusal(Place(str(file), 1), "", "")).place.file for file in files}
        report.files |= {name: FileCounts() for name in places.values()}
        yield from unpacked.refusals
        for item in order.format.read(files, reading):
            if not isinstance(item, Refusal):
                counts = report.files.setdefault(places.get(item.place.file, item.place.file), FileCounts())
                if isinstance(item, Repeat):
                    counts.repeated += 1
                else:
                    counts.records += 1
            yield item

    if order.dry_run:
        with transaction.atomic():
            _write(by, order, setups, read(), refuse, watch, report)
            transaction.set_rollback(True)
    else:
        _write(by, order, setups, read(), refuse, watch, report)


def survey(found: Iterable[Found]) -> tuple[dict[str, SeenDecisions], list[Refusal], int]:
    """Agents by slug with what their decisions look like, the first refusals, and how much feedback stands alone."""
    seen: dict[str, SeenDecisions] = {}
    refusals: list[Refusal] = []
    others = 0
    for item in found:
        if isinstance(item, Imported):
            kinds = seen.setdefault(item.decision.agent, SeenDecisions())
            kinds.decisions += 1
            kinds.actions.add(action_kind(item.decision))
            kinds.systems.add(item.system)
            keys = [key for key in item.decision.state if TEMPLATE_KEY.match(key)][:MOST_KEYS]
            kinds.keys = keys if kinds.keys is None else [key for key in kinds.keys if key in item.decision.state]
        elif isinstance(item, ImportedFeedback):
            others += 1
        elif isinstance(item, ImportedEpisode):
            seen.setdefault(item.facts.agent, SeenDecisions()).episodes += 1
        elif isinstance(item, Refusal) and len(refusals) < MOST_DECISIONS:
            refusals.append(item)
    return seen, refusals, others


def action_kind(decision: DecisionIn) -> str:
    """The action space that this one decision would fit."""
    action = decision.action
    if isinstance(action, str):
        return ActionSpaceKind.CHOICE if decision.options else ActionSpaceKind.TEXT
    if isinstance(action, list):
        calls = all(isinstance(call, dict) and "name" in call and "arguments" in call for call in action)
        if calls and (action or decision.completion):  # without calls, an answer in words
            return ActionSpaceKind.TOOL_CALLS
        if decision.options:
            return ActionSpaceKind.RANKING
    return ActionSpaceKind.STRUCTURED


def make_setup(slug: str, kinds: SeenDecisions, *, fitted: bool) -> AgentSetup:
    """A first version for an agent that only files know, with the system prompt on which they agree. Raises Unusable
    where its actions are of several kinds."""
    actions = set(kinds.actions) or {ActionSpaceKind.TEXT.value}
    if len(actions) > 1 and (fitted or actions <= CHATTING):
        actions = {ActionSpaceKind.TOOL_CALLS} if ActionSpaceKind.TOOL_CALLS in actions else {ActionSpaceKind.TEXT}
    if len(actions) > 1:
        raise Unusable(
            [f"agent {slug}: it has actions of several kinds ({', '.join(sorted(actions))}); create it first"]
        )
    space = actions.pop()
    template = "\n".join(f"{key}: {{{{ {key} }}}}" for key in kinds.keys or []) or "Decide."
    prompt, completion = (LONG_PROMPT, LONG_COMPLETION) if space == ActionSpaceKind.STRUCTURED else SHORT
    return AgentSetup(
        prompt_template=template,
        action_space=space,
        action_schema={} if space == ActionSpaceKind.STRUCTURED else None,
        max_prompt_tokens=None if space in CHATTING else prompt,
        max_completion_tokens=None if space in CHATTING else completion,
        system_prompt=next(iter(kinds.systems)) if len(kinds.systems) == 1 else "",
    )


def fit_action(decision: DecisionIn, space: str) -> DecisionIn:
    """Another system's output as an action of the agent's space. Agents that chat keep calls as calls and words as
    words, as those of the gateway do; all else is text to them."""
    action = decision.action
    if space not in CHATTING or isinstance(action, str) or is_calls(action):
        return decision
    if space == ActionSpaceKind.TOOL_CALLS and isinstance(action, list):
        return decision  # of calls that are not whole, which are refused
    return msgspec.structs.replace(decision, action=text_of(action))


def _write(
    by: Actor,
    order: ImportOptions,
    setups: dict[str, AgentSetup],
    found: Iterable[Found],
    refuse: Callable[[Refusal], None],
    watch: ImportProgress,
    report: Report,
) -> None:
    for slug, setup in setups.items():
        create_agent(by=by, slug=slug, name=slug, setup=setup, preset=order.format.preset)
        report.agents.append(slug)
    spaces: dict[str, str] = {}
    for batch in _batches(found, report, refuse):
        if order.format.fitted:
            batch = _fitted(by, batch, spaces)
        tally, refusals = write_batch(by=by, batch=batch)
        report.decisions += tally.decisions
        report.steps += tally.steps
        report.feedback += tally.feedback
        report.repeated += tally.repeated
        for refusal in refusals:
            refuse(refusal)
        watch.wrote(report)


def _batches(found: Iterable[Found], report: Report, refuse: Callable[[Refusal], None]) -> Iterator[list[Written]]:
    """Up to MOST_DECISIONS items or about MOST_BYTES, whichever comes first."""
    batch: list[Written] = []
    size = count = 0
    for item in found:
        if isinstance(item, Refusal):
            refuse(item)
        elif isinstance(item, Repeat):
            report.repeated += 1
        else:
            batch.append(item)
            count += 1
            if isinstance(item, Imported | ImportedEpisode):
                size += item.size
                count += len(item.steps)
            if isinstance(item, Imported):
                count += len(item.feedback)
            if count >= MOST_DECISIONS or size >= MOST_BYTES:
                yield batch
                batch, size, count = [], 0, 0
    if batch:
        yield batch


def _fitted(by: Actor, batch: list[Written], spaces: dict[str, str]) -> list[Written]:
    slugs = {item.decision.agent for item in batch if isinstance(item, Imported)}
    spaces |= {slug: current.version.action_space for slug, current in find_agents(by, slugs - set(spaces)).items()}
    return [
        replace(item, decision=fit_action(item.decision, spaces.get(item.decision.agent, "")))
        if isinstance(item, Imported)
        else item
        for item in batch
    ]


def check_batch(*, by: Actor, format: Format, batch: Sequence[Imported]) -> list[tuple[Imported, tuple[Refusal, ...]]]:
    """The decisions that their agents would not take, each with its reasons. Nothing is known of agents that are not
    there, and nothing is written."""
    known = find_agents(by, {item.decision.agent for item in batch})
    there = [item for item in batch if item.decision.agent in known]
    decisions = [item.decision for item in there]
    if format.fitted:
        decisions = [fit_action(one, known[one.agent].version.action_space) for one in decisions]
    errors = check_decisions(by=by, items=list(enumerate(decisions)), since=EARLIEST)
    return [
        (item := there[error.index], tuple(Refusal(item.place, fault.field, fault.reason) for fault in error.faults))
        for error in errors
    ]


@transaction.atomic
def write_batch(*, by: Actor, batch: Sequence[Written]) -> tuple[Report, list[Refusal]]:
    """One transaction: decisions, then what belongs to those that were kept."""
    tally, refusals = Report(), []
    imported = [item for item in batch if isinstance(item, Imported)]
    outcome = record_decisions(by=by, items=[(i, item.decision) for i, item in enumerate(imported)], since=EARLIEST)
    for error in outcome.errors:
        for fault in error.faults:
            refusals.append(Refusal(imported[error.index].place, fault.field, fault.reason))
    kept = [imported[one.index] for one in outcome.kept]
    tally.decisions = sum(not one.duplicate for one in outcome.kept)
    tally.repeated = len(kept) - tally.decisions
    alone = [item for item in batch if isinstance(item, ImportedEpisode)]
    _write_episodes(by, [*kept, *alone], refusals)
    _write_steps(by, [*kept, *alone], tally, refusals)
    feedback = [one for item in kept for one in item.feedback]
    feedback += [item for item in batch if isinstance(item, ImportedFeedback)]
    _write_feedback(by, feedback, tally, refusals)
    return tally, refusals


def _write_episodes(by: Actor, items: Sequence[Imported | ImportedEpisode], refusals: list[Refusal]) -> None:
    told = [(index, facts) for index, item in enumerate(items) if (facts := _facts_of(item)) is not None]
    outcome = record_episodes(by=by, items=told)
    for error in outcome.errors:
        refusals += [
            Refusal(items[error.index].place, f"episode.{fault.field}", fault.reason) for fault in error.faults
        ]


def _facts_of(item: Imported | ImportedEpisode) -> EpisodeIn | None:
    return item.facts if isinstance(item, ImportedEpisode) else item.episode


def _write_steps(
    by: Actor, items: Sequence[Imported | ImportedEpisode], tally: Report, refusals: list[Refusal]
) -> None:
    """A step's id follows from its decision or episode, its time and its number there."""
    ready: list[tuple[int, StepIn]] = []
    places: list[Place] = []
    for item in items:
        of: dict[str, Any]
        if isinstance(item, Imported):
            of, owner = {"decision_id": item.decision.id}, [str(item.decision.id)]
        else:
            of = {"agent": item.facts.agent, "episode": item.facts.episode}
            owner = list(of.values())
        for number, step in enumerate(item.steps):
            assert not isinstance(step.started_at, UnsetType)
            name = canonical([str(by.workspace.id), *owner, number])
            step_id = uuid7_of(step.started_at, name.encode())
            ready.append((len(places), msgspec.structs.replace(step, id=step_id, number=number, **of)))
            places.append(item.place)
    outcome = record_steps(by=by, items=ready, since=EARLIEST)
    for error in outcome.errors:
        refusals += [Refusal(places[error.index], f"steps.{fault.field}", fault.reason) for fault in error.faults]
    tally.steps += sum(not one.duplicate for one in outcome.kept)
    tally.repeated += sum(one.duplicate for one in outcome.kept)


def _write_feedback(by: Actor, items: Sequence[ImportedFeedback], tally: Report, refusals: list[Refusal]) -> None:
    names = {item.episode for item in items if item.episode is not None}
    known: dict[str, list[uuid.UUID]] = {}
    for name, row in (
        Episode.objects.for_workspace(by.workspace).filter(external_id__in=names).values_list("external_id", "id")
    ):
        known.setdefault(name, []).append(row)
    gone = _find_erased(by, names - set(known))
    ready: list[tuple[int, FeedbackIn]] = []
    for index, item in enumerate(items):
        if item.episode in gone:
            refusals.append(Refusal(item.place, "episode", "was erased"))
            continue
        found = known.get(item.episode, []) if item.episode is not None else []
        # Other systems' episodes may span several agents; ours belong to one agent, so each part gets the feedback.
        ready += [(index, _on_episode(item.feedback, episode)) for episode in found]
        if not found and (item.episode is None or item.episode_first):
            ready.append((index, item.feedback))
        elif not found:
            refusals.append(Refusal(item.place, "episode", f"{item.episode!r} has no decision that was recorded"))
    outcome = record_feedback(by=by, items=ready, since=EARLIEST)
    for error in outcome.errors:
        for fault in error.faults:
            refusals.append(Refusal(items[error.index].place, f"feedback.{fault.field}".rstrip("."), fault.reason))
    tally.feedback += sum(not one.duplicate for one in outcome.kept)
    tally.repeated += sum(one.duplicate for one in outcome.kept)


def _find_erased(by: Actor, names: Collection[str]) -> set[str]:
    """Those of the names that an erased episode had, at whichever agent."""
    if not names or not ErasedName.objects.for_workspace(by.workspace).exists():
        return set()
    agents = Agent.objects.for_workspace(by.workspace).values_list("id", flat=True)
    found = find_erased_episodes(by=by, named={(agent, name) for agent in agents for name in names})
    return {name for _, name in found}


def _on_episode(feedback: FeedbackIn, episode: uuid.UUID) -> FeedbackIn:
    """An id of its own for each episode that it is put on."""
    assert not isinstance(feedback.observed_at, UnsetType)
    own = uuid7_of(feedback.observed_at, f"{feedback.id}{episode}".encode())
    return msgspec.structs.replace(feedback, id=own, decision_id=None, episode_id=episode)
