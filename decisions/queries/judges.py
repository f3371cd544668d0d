"""Reads for the page of an agent's judges: each with its numbers, in words and on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from decisions.judges.assessing import LEAST_LABELS, Assessment
from decisions.judges.calibrating import CALIBRATE_JUDGES, list_judges, read_assessment
from decisions.judges.ledger import JudgeName
from decisions.models import Agent, JudgeCalibration, JudgeVerdict
from jobs.models import Job, JobState
from models_registry.statistics.intervals import Interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """One line of a chart. `clear`: a bias that chance does not explain."""

    title: str
    found: Interval
    says: str = ""
    clear: bool = False

    @property
    def tone(self) -> str:
        return "bad" if self.clear else ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Estimates on one axis from `left` to `right`."""

    lines: tuple[Estimate, ...]
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class JudgePanel:
    """`says`: what is known and what to do, in a sentence or two. The charts are None where there is no number.
    `under_way`: a queued or running job calibrates it."""

    row: JudgeCalibration
    found: Assessment | None
    says: str
    means: Chart | None = None
    biases: Chart | None = None
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class NeverCalibrated:
    judge: JudgeName
    under_way: bool


@dataclass(frozen=True, slots=True)
class JudgesShown:
    panels: tuple[JudgePanel, ...]
    uncalibrated: tuple[NeverCalibrated, ...]
    says: str


def show_judges(agent: Agent) -> JudgesShown:
    """Three statements."""
    rows, uncalibrated = list_judges(agent)
    jobs = Job.objects.filter(
        workspace_id=agent.workspace_id,
        kind=CALIBRATE_JUDGES,
        payload__agent_id=str(agent.id),
        state__in=(JobState.QUEUED, JobState.RUNNING),
    ).values_list("payload", flat=True)
    under_way = {JudgeName(one["metric"], one["source"]) for one in jobs}
    return JudgesShown(
        panels=tuple(replace(_panel(row), under_way=JudgeName(row.metric, row.source) in under_way) for row in rows),
        uncalibrated=tuple(NeverCalibrated(judge, judge in under_way) for judge in uncalibrated),
        says=_summarise(rows, uncalibrated),
    )


def _summarise(rows: Sequence[JudgeCalibration], uncalibrated: Sequence[JudgeName]) -> str:
    if not rows and not uncalibrated:
        return ""
    usable = sum(row.verdict == JudgeVerdict.CALIBRATED for row in rows)
    of = len(rows) + len(uncalibrated)
    if usable:
        return f"{usable} of {of} {'judge' if of == 1 else 'judges'} can be relied on alone."
    return "No judge can be relied on alone yet. Each panel says what is missing."


def _panel(row: JudgeCalibration) -> JudgePanel:
    found = read_assessment(row)
    if found is None:
        return JudgePanel(row, None, _tell_next(row))
    means = (
        Estimate("Corrected by labels", found.corrected, "what people would say of all scored decisions"),
        Estimate("Labels alone", found.labels_only, f"{found.labels:,} labels"),
        Estimate("The judge’s own mean", found.judged, "off by the judge’s bias"),
    )
    biases = [_bias("Everywhere", found.bias, "score minus label")]
    if found.by_length is not None:
        biases.append(_bias("Length", found.by_length, "more for twice the length"))
    if found.by_place is not None:
        biases.append(_bias("Position", found.by_place, "more for the first option"))
    biases += [
        Estimate(f"{one.cut.capitalize()} {one.part}", one.error, f"{one.labels:,} labels", one.differs)
        for one in found.by_slice
    ]
    return JudgePanel(row, found, _tell_worth(row, found), _chart(means), _chart(biases, zero=True))


def _bias(title: str, found: Interval, says: str) -> Estimate:
    return Estimate(title, found, says, clear=not found.low <= 0.0 <= found.high)


def _tell_next(row: JudgeCalibration) -> str:
    if row.labels < LEAST_LABELS:
        needed = LEAST_LABELS - row.labels
        return f"Label {needed:,} more of the decisions that it scored, in random order."
    return "No number is given until this is solved."


def _tell_worth(row: JudgeCalibration, found: Assessment) -> str:
    """How many labels alone would make so narrow an interval: n · (width of labels alone / corrected width)²."""
    width, alone = found.corrected.high - found.corrected.low, found.labels_only.high - found.labels_only.low
    worth = found.labels * (alone / width) ** 2
    gain = f"With it, {found.labels:,} labels say as much of the mean as {worth:,.0f} alone."
    if row.verdict == JudgeVerdict.CALIBRATED:
        return f"It agrees with people and can be relied on alone. {gain}"
    return f"The corrected mean holds, but do not rely on the judge alone. {gain}"


def _chart(lines: Sequence[Estimate], *, zero: bool = False) -> Chart:
    low, high = min(one.found.low for one in lines), max(one.found.high for one in lines)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = (high - low) * 0.05 or 0.05
    return Chart(tuple(lines), low - room, high + room)
