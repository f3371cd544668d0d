"""Compares candidates that learnt from the same rows, and names the best policy for its price.

The most accurate on the held-out rows wins. A kind whose decisions cost less is taken instead where it is at most half
a point less accurate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from models_registry.models import GateKind, GateVerdict
from training.evaluation.paired_runs import read_hits, subtract_hits
from training.models import TrainingRun
from training.run_states import RunState
from training.runs.candidates import DECISION_MILLISECONDS, PolicyKind, kind_of, order_runs
from workspaces.templatetags.show import percent, points

WORTH = 0.005
"""A difference in accuracy below which the cheaper kind is the better choice."""
MEASURES = ("ndcg_10", "accuracy")
"""What candidates are compared by: the first that they have."""


@dataclass(frozen=True, slots=True)
class Line:
    """One candidate. `score`: {mean, low, high, …} of the measure on the held-out rows. `difference`: its accuracy less
    the winner's, paired; None of the winner. `by_log`: {estimate, low, high}, what logged decisions say it would have
    earned beyond what acted there. `seconds`: how long its training took."""

    kind: PolicyKind
    run: TrainingRun
    score: Mapping[str, Any] | None = None
    difference: Mapping[str, Any] | None = None
    by_log: Mapping[str, float | None] | None = None
    milliseconds: float | None = None
    seconds: float | None = None

    @property
    def version(self) -> Any:
        return self.run.produced_version

    @property
    def price(self) -> float | None:
        """Of 1,000 decisions on this machine, which may be far below a cent; None where nobody has said what an hour
        costs."""
        price, seconds_of_1000 = settings.MACHINE_HOUR_PRICE, self.milliseconds
        return float(f"{seconds_of_1000 / 3600 * price:.3g}") if seconds_of_1000 is not None and price else None

    def as_plain(self, *, best: bool) -> dict[str, Any]:
        """For a job's result and the API."""
        return {
            "kind": self.kind.value,
            "run": str(self.run.id),
            "state": self.run.state,
            "error": self.run.error,
            "version": str(self.version) if self.version is not None else None,
            "best": best,
            "score": dict(self.score) if self.score is not None else None,
            "difference": dict(self.difference) if self.difference is not None else None,
            "by_log": dict(self.by_log) if self.by_log is not None else None,
            "milliseconds": self.milliseconds,
            "price_per_1000": self.price,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """`lines`: the winner first, then by score. `left_out`: kinds that were not tried, each with a sentence. `note`:
    what the result says at its end."""

    measure: str
    lines: Sequence[Line]
    winner: Line | None
    left_out: Mapping[PolicyKind, str] = field(default_factory=dict)
    note: str = ""

    def as_plain(self) -> dict[str, Any]:
        """For a job's result and the API."""
        return {
            "measure": self.measure,
            "best": str(self.winner.version) if self.winner is not None else None,
            "says": self.say(),
            "candidates": [line.as_plain(best=line is self.winner) for line in self.lines],
            "left_out": {kind.value: reason for kind, reason in self.left_out.items()},
        }

    def say(self) -> str:
        """The result in a few sentences."""
        return f"{self._say_result()} {self.note}".strip()

    def _say_result(self) -> str:
        if self.winner is None:
            reasons = "; ".join(map(_say_failure, self.lines))
            return f"No candidate has made a version: {reasons}." if reasons else "No candidate has made a version."
        best = self.winner
        if best.score is None:
            return f"{best.version} ({best.kind.says}) was made; without held-out rows nothing was compared."
        rows = f"{best.score['n']:,} held-out rows"
        says = f"{best.version} ({best.kind.says}) is the best for its price: {_say_score(best)} on {rows}"
        others = [line for line in self.lines if line is not best and line.score is not None]
        failed = [_say_failure(line) for line in self.lines if line.version is None]
        without = f" No version was made: {'; '.join(failed)}." if failed else ""
        if not others:
            alone = "" if self.left_out or failed else "; nothing else was tried"
            return f"{says}{alone}.{without}"
        compared = ", ".join(f"{line.kind.says} {_say_score(line)}{_say_difference(line)}" for line in others)
        return f"{says}, against {compared}.{without}"


def compare_candidates(runs: Sequence[TrainingRun], left_out: Mapping[PolicyKind, str] | None = None) -> Comparison:
    """Compares runs that have ended: those that made a version by their scores; the others are shown with their error.
    The runs need `evaluation`, `produced_version`, `base_version` and its artifact selected."""
    measure = _find_measure(runs)
    made = [run for run in order_runs(runs) if run.produced_version is not None]
    verdicts = GateVerdict.objects.filter(version__in=[run.produced_version for run in made], kind=GateKind.OFF_POLICY)
    by_log = {one.version_id: one for one in verdicts if one.estimate is not None}
    lines = {run.id: _measure(run, measure, by_log.get(run.produced_version_id)) for run in order_runs(runs)}
    winner = _choose([lines[run.id] for run in made])
    ordered = sorted(lines.values(), key=lambda line: (line is not winner, -_mean(line)))
    if winner is not None:
        ordered = _pair(ordered, winner)
        winner = ordered[0]
    return Comparison(measure, ordered, winner, left_out or {})


def choose_best(runs: Sequence[TrainingRun]) -> TrainingRun | None:
    """The run whose version is the best for its price, as of `compare_candidates`; None where none has made one."""
    measure = _find_measure(runs)
    best = _choose([_measure(run, measure, None) for run in order_runs(runs) if run.produced_version is not None])
    return best.run if best is not None else None


def _find_measure(runs: Sequence[TrainingRun]) -> str:
    scores = [run.evaluation.scores.get("trained", {}) for run in runs if hasattr(run, "evaluation")]
    return next((name for name in MEASURES if any(name in one for one in scores)), MEASURES[-1])


def _measure(run: TrainingRun, measure: str, verdict: GateVerdict | None) -> Line:
    found = getattr(run, "evaluation", None)
    return Line(
        kind_of(run),
        run,
        score=found.scores.get("trained", {}).get(measure) if found is not None else None,
        by_log={"estimate": verdict.estimate, "low": verdict.low, "high": verdict.high} if verdict else None,
        milliseconds=run.metrics.get(DECISION_MILLISECONDS),
        seconds=run.metrics.get("seconds"),
    )


def _choose(lines: Sequence[Line]) -> Line | None:
    """`lines`: the cheapest kind first. Without scores the dearest kind, which was the default before, is taken."""
    scored = [line for line in lines if line.score is not None]
    if not scored:
        return lines[-1] if lines else None
    highest = max(map(_mean, scored))
    return next(line for line in scored if _mean(line) >= highest - WORTH)


def _mean(line: Line) -> float:
    return float(line.score["mean"]) if line.score is not None else float("-inf")


def _pair(lines: Sequence[Line], winner: Line) -> list[Line]:
    """The lines with their differences to the winner, where both left predictions on the same rows."""
    best = read_hits(winner.run)
    paired = []
    for line in lines:
        hits = read_hits(line.run) if line is not winner and line.score is not None else {}
        comparable = bool(hits) and hits.keys() == best.keys() and line.run.heldout_id == winner.run.heldout_id
        difference = subtract_hits(hits, best) if comparable else None
        paired.append(Line(line.kind, line.run, line.score, difference, line.by_log, line.milliseconds, line.seconds))
    return paired


def _say_failure(line: Line) -> str:
    stopped = line.run.state == RunState.CANCELLED
    return f"{line.kind.says} ({line.run.state if stopped else (line.run.error or line.run.state).rstrip('.')})"


def _say_score(line: Line) -> str:
    assert line.score is not None
    return percent(line.score["mean"])


def _say_difference(line: Line) -> str:
    if line.difference is None:
        return ""
    low, high = points(line.difference["low"]), points(line.difference["high"])
    return f" ({points(line.difference['mean'])} points [{low}, {high}])"
