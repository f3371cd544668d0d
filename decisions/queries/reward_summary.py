"""What an agent's rewards look like over time: means by stretch, parts by component, what is open or failed, and how
long verdicts take. The page of rewards and the API read it."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from django.db import connection

from decisions.models import Agent, RewardSpec
from decisions.queries.component_states import ENDS, Entry, State, adds, find_share, find_state, read_entries
from decisions.queries.reward_sample import Looked, Range, look_at_decisions
from models_registry.models import Phase
from models_registry.statistics.intervals import clustered_mean
from models_registry.statistics.survival import Share, SurvivalCurve, kaplan_meier

MOST_DUE = 10_000
"""Decisions that are due are counted up to so many."""
MOST_FAILURES, EXAMPLES = 10, 3
FEWEST_GROUPS = 5
"""With fewer units, or without any spread between them, a stretch has no interval: it would say too much."""
ORDER = ("immediate", "delayed", "strategic", "")
LAGS: Mapping[str, float] = {"1 minute": 60, "1 hour": 3_600, "1 day": 86_400, "7 days": 604_800, "30 days": 2_592_000}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Decisions of an hour, a day or a week. `mean` in [0, 1] is of the `rewarded` ones, None without any; low and high
    are its 95% interval, None where it is not known. `full`: there may be more than the `looked_at`."""

    start: dt.datetime
    looked_at: int
    rewarded: int
    full: bool
    mean: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ComponentSummary:
    """`mean`: what it adds to the raw sum of a rewarded decision, on average; `means` by stretch. None without any.
    `states` of all decisions that were looked at; `queued`: of the unmeasured, those for which a job waits."""

    entry: Entry
    mean: float | None
    means: Sequence[float | None]
    states: Mapping[State, int]
    queued: int


@dataclass(frozen=True, slots=True)
class HorizonSummary:
    """The sum of its components' parts."""

    horizon: str
    mean: float | None
    means: Sequence[float | None]
    components: Sequence[ComponentSummary]


@dataclass(frozen=True, slots=True)
class Failure:
    """Decisions on which a component failed for one reason; `examples` are ids of some of them."""

    component: str
    reason: str
    count: int
    examples: Sequence[uuid.UUID]


@dataclass(frozen=True, slots=True)
class Window:
    """A time since the decision, and the share of decisions whose first verdict arrives within it; None where no
    decision is that old."""

    name: str
    seconds: float
    share: Share | None


@dataclass(frozen=True, slots=True)
class Lag:
    """How long after a decision its first verdict arrives, in seconds by the server's clock."""

    curve: SurvivalCurve
    windows: Sequence[Window]
    """Those that the reward spec and running experiments have."""
    usual: Sequence[Window]

    @property
    def all_windows(self) -> list[Window]:
        return [*self.windows, *self.usual]

    @property
    def median(self) -> float | None:
        return self.curve.median


@dataclass(frozen=True, slots=True)
class Progress:
    """`due` decisions are marked and not calculated, more than that with `more`. By the server's clock."""

    due: int
    more: bool
    searched_until: dt.datetime | None
    calculated_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class RewardSummary:
    """`mean` is of all rewarded decisions that were looked at, which are not all decisions where `partial`."""

    spec: RewardSpec
    time: Range
    stretches: Sequence[Stretch]
    looked_at: int
    rewarded: int
    failed: int
    mean: float | None
    horizons: Sequence[HorizonSummary]
    failures: Sequence[Failure]
    lag: Lag | None
    progress: Progress

    @property
    def partial(self) -> bool:
        return any(stretch.full for stretch in self.stretches)

    @property
    def components(self) -> list[ComponentSummary]:
        return [component for horizon in self.horizons for component in horizon.components]


def summarise_rewards(agent: Agent, spec: RewardSpec, time: Range, *, now: dt.datetime) -> RewardSummary:
    """By one reward spec. Three statements, over at most LOOK decisions."""
    entries = read_entries(spec)
    measured = [entry.name for entry in entries if entry.measured]
    looked = look_at_decisions(agent, spec, time, now=now, measured=measured)
    stretches = _stretches(looked, time, now)
    rewarded = [one for one in looked if one.value is not None]
    failed = [one for one in looked if any(_reason(stored) for stored in one.components.values())]
    return RewardSummary(
        spec=spec,
        time=time,
        stretches=stretches,
        looked_at=len(looked),
        rewarded=len(rewarded),
        failed=len(failed),
        mean=_mean([one.value for one in rewarded if one.value is not None]),
        horizons=_horizons(spec, entries, looked, stretches, now),
        failures=_failures(failed),
        lag=_lag(agent, entries, looked, now),
        progress=_progress(spec),
    )


def _stretches(looked: Sequence[Looked], time: Range, now: dt.datetime) -> list[Stretch]:
    by_place: dict[int, list[Looked]] = defaultdict(list)
    for one in looked:
        by_place[one.stretch].append(one)
    return [_stretch(start, by_place[place], time.most) for place, start in enumerate(time.starts(now))]


def _stretch(start: dt.datetime, found: Sequence[Looked], most: int) -> Stretch:
    rewarded = [(one.value, one.group) for one in found if one.value is not None]
    full = len(found) == most
    if not rewarded:
        return Stretch(start, len(found), 0, full)
    interval = clustered_mean([value for value, _ in rewarded], [group for _, group in rewarded])
    if interval.clusters < FEWEST_GROUPS or interval.low == interval.high:
        return Stretch(start, len(found), interval.n, full, interval.mean)
    low, high = max(0.0, interval.low), min(1.0, interval.high)
    return Stretch(start, len(found), interval.n, full, interval.mean, low, high)


@dataclass(slots=True)
class _Sums:
    """What is added up of one component."""

    parts: list[float]
    states: Counter[State] = field(default_factory=Counter)
    queued: int = 0

    @property
    def known(self) -> bool:
        """Whether any decision has a part of it."""
        return any(self.states[state] for state in ENDS)


def _horizons(
    spec: RewardSpec, entries: Sequence[Entry], looked: Sequence[Looked], stretches: Sequence[Stretch], now: dt.datetime
) -> list[HorizonSummary]:
    sums = {entry.name: _Sums([0.0] * len(stretches)) for entry in entries}
    counts = [stretch.rewarded for stretch in stretches]
    unknown = [0] * len(stretches)
    for one in looked:
        share = find_share(spec, entries, one.components)
        for entry in entries:
            stored, own = one.components.get(entry.name), sums[entry.name]
            own.states[find_state(entry, stored, one.recorded_at, now)] += 1
            own.queued += entry.name in one.queued
            if one.value is not None:
                own.parts[one.stretch] += (adds(entry, stored) or 0.0) * share
    made: dict[str, list[ComponentSummary]] = defaultdict(list)
    for entry in entries:
        own = sums[entry.name]
        mean, means = _shares(own.parts, counts if own.known else unknown)
        made[entry.horizon].append(ComponentSummary(entry, mean, means, dict(own.states), own.queued))
    horizons = []
    for horizon in sorted(made, key=ORDER.index):
        components = made[horizon]
        own_sums = [sums[one.entry.name] for one in components]
        together = [sum(parts) for parts in zip(*(own.parts for own in own_sums), strict=True)]
        mean, means = _shares(together, counts if any(own.known for own in own_sums) else unknown)
        horizons.append(HorizonSummary(horizon, mean, means, components))
    return horizons


def _shares(parts: Sequence[float], counts: Sequence[int]) -> tuple[float | None, list[float | None]]:
    means = [part / count if count else None for part, count in zip(parts, counts, strict=True)]
    return (sum(parts) / sum(counts) if sum(counts) else None), means


def _failures(failed: Iterable[Looked]) -> list[Failure]:
    """The most frequent first."""
    found: dict[tuple[str, str], list[uuid.UUID]] = defaultdict(list)
    for one in failed:
        for name, stored in one.components.items():
            if reason := _reason(stored):
                found[name, reason].append(one.id)
    often = sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:MOST_FAILURES]
    return [Failure(name, reason, len(ids), sorted(ids, reverse=True)[:EXAMPLES]) for (name, reason), ids in often]


def _reason(stored: object) -> str:
    return str(stored.get("error") or "") if isinstance(stored, Mapping) else ""


def _lag(agent: Agent, entries: Sequence[Entry], looked: Sequence[Looked], now: dt.datetime) -> Lag | None:
    if not looked:
        return None
    until = [one.verdict_at or now for one in looked]
    seconds = [(end - one.recorded_at).total_seconds() for end, one in zip(until, looked, strict=True)]
    # A verdict may arrive before its decision does.
    curve = kaplan_meier(np.maximum(seconds, 0.0), [one.verdict_at is not None for one in looked])
    windows = {f"window of {one.name}": one.window.total_seconds() for one in entries if one.verdict and one.window}
    phases = Phase.objects.filter(experiment__registered_model=agent.registered_model_id, ended_at=None)
    for name, window in phases.values_list("experiment__name", "attribution_window_seconds"):
        windows[f"attribution window of {name}"] = window
    chosen, usual = (
        [Window(name, size, curve.happened_by(size)) for name, size in named.items()] for named in (windows, LAGS)
    )
    return Lag(curve, chosen, usual)


_PROGRESS = """
SELECT (SELECT count(*) FROM (SELECT 1 FROM decisions_rewarddue WHERE spec_id = %(spec)s LIMIT %(most)s) due),
       (SELECT searched_until FROM decisions_rewardprogress WHERE spec_id = %(spec)s),
       (SELECT computed_at FROM decisions_reward WHERE spec_id = %(spec)s ORDER BY computed_at DESC LIMIT 1)
"""


def _progress(spec: RewardSpec) -> Progress:
    with connection.cursor() as cursor:
        cursor.execute(_PROGRESS, {"spec": spec.id, "most": MOST_DUE + 1})
        due, searched, calculated = cursor.fetchone()
    return Progress(min(due, MOST_DUE), due > MOST_DUE, searched, calculated)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
