"""Reads for the pages of reward specs: what a version says in words, what it changed, and how far its rewards are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.agents.differences import Difference, compare_texts
from decisions.models import Agent, CreditScheme, RewardDraft, RewardDue, RewardSpec, UnknownParts
from decisions.rewards.components import Component
from decisions.rewards.credit import SCHEMES
from decisions.rewards.queueing import UNDER_WAY, find_calculations
from decisions.rewards.spec_content import ComponentSetup, SpecContent, compare_contents, stored_components
from decisions.rewards.specs import content_of
from jobs.models import Job
from workspaces.http.yaml_text import write_yaml
from workspaces.models import AuditEntry
from workspaces.storage.ids import uuid7_bound

SPECS = 20
DRAFTS = 10
CLOCK = dt.timedelta(minutes=1)
COUNTED = 100_000
"""Decisions that are due are counted up to so many."""
TITLES = {
    "clamp": "Clamp",
    "low": "Raw reward that becomes 0",
    "high": "Raw reward that becomes 1",
    "unknown": "Unknown components",
    "credit": "Credit",
    "discount": "Discount",
    "signal": "Right or wrong",
    "training_low": "Raw reward that is 0 to training",
    "training_high": "Raw reward that is 1 to training",
    "judges": "Judge models",
}
ALL_COUNTS = "All feedback counts"
CREDIT_TITLES: Mapping[str, str] = dict(CreditScheme.choices)
UNKNOWN_TITLES: Mapping[str, str] = dict(UnknownParts.choices)


@dataclass(frozen=True, slots=True)
class ComponentLine:
    """One component of a spec. `known` is None where it is not installed any more; `window` and `parameters` are in
    words, `parameters` those that differ from the defaults."""

    name: str
    weight: float
    known: Component | None
    window: str
    parameters: str


@dataclass(frozen=True, slots=True)
class SpecLine:
    """One version: who made it, and what it changed of the version before it, in words."""

    spec: RewardSpec
    made_by: str
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the rewards by a spec are. `job`: the newest calculation of this agent, or None; `due`: decisions that
    were found and wait, at most COUNTED of them."""

    job: Job | None
    due: int

    @property
    def under_way(self) -> bool:
        return self.job is not None and self.job.state in UNDER_WAY

    @property
    def shown(self) -> str:
        return f"{COUNTED:,}+" if self.due > COUNTED else f"{self.due:,}"


def describe_components(spec: RewardSpec) -> list[ComponentLine]:
    return [_describe(setup) for setup in content_of(spec).components]


def _describe(setup: ComponentSetup) -> ComponentLine:
    known = setup.component
    defaults = known.parameters if known is not None else {}
    differing = {name: value for name, value in setup.parameters.items() if value != defaults.get(name)}
    parameters = ", ".join(f"{name.replace('_', ' ')} {_write(value)}" for name, value in differing.items())
    return ComponentLine(setup.name, setup.weight, known, _tell_window(setup), parameters)


def _tell_window(setup: ComponentSetup) -> str:
    days, missing = setup.window_days, setup.missing
    if not isinstance(days, (int, float)):
        return "No end"
    after = f"{days:g} day{'' if days == 1 else 's'}"
    return f"{after}, then {missing:g}".replace("-", "−") if isinstance(missing, (int, float)) else after


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}".replace("-", "−") if isinstance(value, (int, float)) else str(value)


def compare_specs(old: SpecContent, new: SpecContent) -> list[Difference]:
    """One entry for each component and each other field that differs, as its lines before and now; both complete."""
    changed = list(dict.fromkeys(change.part for change in compare_contents(old, new)))
    before, after = (_lines(content) for content in (old, new))
    return [
        compare_texts(part.replace(".", "-"), tell_part(part), before.get(part, ()), after.get(part, ()))
        for part in changed
    ]


def tell_part(part: str) -> str:
    return TITLES.get(part, part.removeprefix("components."))


def _lines(content: SpecContent) -> dict[str, Sequence[str]]:
    """By part: a component's own fields as YAML, another field's value."""
    lines: dict[str, Sequence[str]] = {}
    for one in stored_components(content):
        told = {key: value for key, value in one.items() if key != "name" and value not in ({}, None)}
        lines[f"components.{one['name']}"] = write_yaml(told).splitlines()
    for name in TITLES:
        value = getattr(content, name)
        if name == "judges":
            lines[name] = [ALL_COUNTS] if value is None else [*value] or ["None counts"]
        else:
            lines[name] = [str(value) if value != "" else "none"]
    return lines


def list_specs(agent: Agent, *, before: int | None = None) -> tuple[list[SpecLine], int | None]:
    """The newest SPECS (with a number below `before`), and the number before which there are more. Two statements."""
    found = agent.reward_specs.order_by("-number")
    if before is not None:
        found = found.filter(number__lt=before)
    specs = list(found[: SPECS + 1])
    targets = [f"reward_spec:{spec.id}" for spec in specs]
    made_by: dict[str, str] = {}
    if specs:
        # An entry is written right after its version: the ids of older ones are not looked at.
        since = uuid7_bound(specs[-1].created_at - CLOCK)
        entries = AuditEntry.objects.filter(workspace=agent.workspace_id, id__gte=since, target__in=targets)
        made_by = dict(entries.filter(action="reward_spec.created").values_list("target", "actor"))
    lines = [
        SpecLine(spec, made_by.get(target, ""), tell_changes(older, spec))
        for spec, target, older in zip(specs, targets, [*specs[1:], None], strict=True)
    ]
    return lines[:SPECS], specs[SPECS - 1].number if len(specs) > SPECS else None


def tell_changes(older: RewardSpec | None, spec: RewardSpec) -> tuple[str, ...]:
    """Components and fields that differ, in words."""
    if older is None:
        return ()
    changes = compare_contents(content_of(older), content_of(spec))
    return tuple(dict.fromkeys(tell_part(change.part) for change in changes))


def list_drafts(agent: Agent) -> list[RewardDraft]:
    """The newest that are neither published nor dropped."""
    drafts = agent.reward_drafts.filter(published=None).select_related("base", "job").defer("result", "content")
    return list(drafts[:DRAFTS])


def find_progress(agent: Agent, spec: RewardSpec) -> Progress:
    """Two statements."""
    job = find_calculations(agent.workspace).filter(payload__agent_id=str(agent.id)).first()
    due = RewardDue.objects.filter(spec=spec)[: COUNTED + 1].count()
    return Progress(job, due)


def tell_credit(spec: RewardSpec) -> tuple[str, str]:
    """The scheme's title, and what it does."""
    return CREDIT_TITLES.get(spec.credit, spec.credit), SCHEMES.get(spec.credit, "")
