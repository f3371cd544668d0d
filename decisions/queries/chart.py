"""The chart above the list of decisions: counts of each verdict over time."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass

from decisions.models import Verdict
from decisions.queries.browse import LOOK, NO_VERDICT, VERDICTS, Filters, NewestDecisions, Page, Search
from workspaces.models import Workspace

MOST_BARS, FEWEST_BARS = 48, 12


@dataclass(frozen=True, slots=True)
class Part:
    """A verdict's share of a bar, in percent of the chart's height from its top."""

    verdict: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Bar:
    """x and width in percent; `says` is for the tooltip and the table."""

    start: dt.datetime
    x: str
    width: str
    parts: tuple[Part, ...]
    counts: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True)
class Chart:
    """Decisions by time and verdict. `step` is a bar's width; not `complete`: only the newest were counted."""

    bars: tuple[Bar, ...]
    totals: tuple[tuple[str, int], ...]
    step: dt.timedelta
    complete: bool

    @property
    def total(self) -> int:
        return sum(count for _, count in self.totals)

    @property
    def shown(self) -> int:
        """How many the bars hold: fewer than the total under a filter by verdict."""
        return sum(bar.total for bar in self.bars)

    @property
    def highest(self) -> int:
        return max(bar.total for bar in self.bars)

    @property
    def by(self) -> str:
        minutes = round(self.step.total_seconds() / 60)
        words = {60: "hour", 1440: "day", 10080: "week"}
        if minutes in words:
            return words[minutes]
        hours, days = minutes // 60, minutes // 1440
        return f"{days} days" if days else f"{hours} hours" if hours else f"{minutes} minutes"

    @property
    def ends(self) -> dt.datetime:
        return self.bars[-1].start + self.step


# The first 48 bits of a uuid7 are milliseconds; PostgreSQL before 17 has no function for it.
_TIME = "to_timestamp(('x' || substr(replace(d.id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)"
_STEPS = tuple(dt.timedelta(minutes=minutes) for minutes in (5, 15, 60, 180, 360, 1440, 2880, 10080))
_STACK = (Verdict.CONFIRMED, Verdict.CORRECTED, Verdict.OVERRIDDEN, Verdict.IGNORED, NO_VERDICT)
EPOCH = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)  # a Monday


def count_by_time(
    workspace: Workspace, filters: Filters, *, search: Search | None = None, found: Page | None = None
) -> Chart | None:
    """The newest LOOK decisions of the filter, the verdict's apart, in at most MOST_BARS bars. One statement.

    `found` is the list's first page: where the look that it is from found no more, these are what is counted, and
    nothing is looked through a second time.
    """
    look = NewestDecisions(workspace, filters.without("verdict", "order"), most=LOOK, search=search)
    if look.among and found is not None and found.older is None and not (filters.verdict or filters.order):
        look = NewestDecisions(workspace, Filters(), most=LOOK)
        look.put("id = ANY(%(found)s)", found=list(found.ids))
    look.values["epoch"] = EPOCH
    rows = look.run(
        f"date_bin('5 minutes', {_TIME}, %(epoch)s), judged.verdict, count(*)", "GROUP BY 1, 2", judged=True
    )
    counted = [(moment, verdict if verdict in VERDICTS else NO_VERDICT, count) for moment, verdict, count in rows]
    if not counted:
        return None
    if filters.verdict:
        # The others stay in the legend, so that one sees what the filter leaves out.
        shown = [row for row in counted if row[1] == filters.verdict]
    else:
        shown = counted
    first, last = min(row[0] for row in counted), max(row[0] for row in counted)
    step = _step(last - first)
    end = EPOCH + (last - EPOCH) // step * step
    # A single hour is drawn as a narrow bar.
    start = min(EPOCH + (first - EPOCH) // step * step, end - (FEWEST_BARS - 1) * step)
    totals = tuple((verdict, sum(row[2] for row in counted if row[1] == verdict)) for verdict in _STACK)
    walked = sum(row[2] for row in counted)
    bars = _bars(shown, start, (end - start) // step + 1, step)
    return Chart(bars, totals, step, complete=walked < LOOK and not look.more)


def _step(span: dt.timedelta) -> dt.timedelta:
    for step in _STEPS:
        if span / step <= MOST_BARS - 1:
            return step
    return dt.timedelta(weeks=math.ceil(span / dt.timedelta(weeks=1) / (MOST_BARS - 1)))


def _bars(
    rows: Iterable[tuple[dt.datetime, str, int]], start: dt.datetime, number: int, step: dt.timedelta
) -> tuple[Bar, ...]:
    bins: list[dict[str, int]] = [{} for _ in range(number)]
    for moment, verdict, count in rows:
        bin_ = bins[(moment - start) // step]
        bin_[verdict] = bin_.get(verdict, 0) + count
    highest = max(max(sum(bin_.values()) for bin_ in bins), 1)
    made = []
    for index, bin_ in enumerate(bins):
        top = 100.0
        parts = []
        for verdict in _STACK:
            if count := bin_.get(verdict, 0):
                height = 100.0 * count / highest
                top -= height
                parts.append(Part(verdict, f"{max(top, 0):.2f}%", f"{height:.2f}%"))
        made.append(
            Bar(
                start=start + index * step,
                x=f"{100 * (index + 0.1) / number:.3f}%",
                width=f"{80 / number:.3f}%",
                parts=tuple(parts),
                counts=tuple((verdict, bin_[verdict]) for verdict in _STACK if verdict in bin_),
            )
        )
    return tuple(made)
