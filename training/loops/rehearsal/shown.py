"""A rehearsal's report for its page: the verdict in words, figures for the charts, lines on shared axes. PURE.

Only means over seeds and positions on an axis are calculated here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Report = Mapping[str, Any]

AROUND = 0.03
"""Room on either side of what shares an axis."""
ESTIMATES = (
    ("logged", "Logged reward", "mean reward of the logged decisions"),
    ("ips", "IPS", "rewards weighted by how much more likely the new version chooses the action"),
    ("snips", "SNIPS", "IPS divided by the sum of its weights"),
    ("direct", "Direct", "rewards predicted by the new model"),
    ("doubly_robust", "Doubly robust", "direct estimate, corrected by the logged rewards"),
)
PARTS = (
    ("seed_labels", "Seed labels", "train the base model only"),
    ("decisions", "Decisions", "get feedback on the chosen option only"),
    ("gate_log", "Gate log", "decided by the version before the last, never used for training"),
    ("held_out", "Held out", "used only for evaluation"),
)
SETTINGS = (
    ("seed_share", "Seed share", "share"),
    ("rounds", "Rounds", "number"),
    ("seeds", "Seeds", "number"),
    ("noise", "Wrong feedback", "share"),
    ("late", "Late feedback", "share"),
    ("missing", "Missing feedback", "share"),
    ("temperature", "Temperature", "number"),
    ("epsilon", "Exploration", "share"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence with a tone ("ok" or "warn"), and the sentences that hold it up."""

    says: str
    because: str
    tone: str
    icon: str


def describe_verdict(report: Report, *, complete: bool) -> Verdict:
    """`complete`: all seeds are done; else it speaks of those that are."""
    seeds = report["seeds"]
    many = len(seeds) > 1
    held_out = seeds[0]["rows"]["held_out"]
    decisions = seeds[0]["rows"]["decisions"]
    gain = report["difference"]["mean"]
    so_far = "" if complete else "So far: "
    intervals = "; ".join(
        f"{'seed ' + str(seed['seed']) + ' ' if many else ''}{_points(seed['difference']['mean'])} "
        f"[{_points(seed['difference']['low'])}, {_points(seed['difference']['high'])}]"
        for seed in seeds[:3]
    )
    rest = f"; and {len(seeds) - 3} more below" if len(seeds) > 3 else ""
    missing = report["plan"]["seeds"] - len(seeds)
    counted = (
        f"In {report['better_seeds']} of {len(seeds)} {'seeds' if many else 'seed'} the whole interval is above 0"
        f"{'.' if complete else f'; {missing} not done yet.'}"
    )
    because = (
        f"After {decisions:,} decisions, on {held_out:,} held-out rows{' in each seed' if many else ''}: "
        f"{intervals}{rest} points, paired, 95% intervals. {counted}"
    )
    if report["better"]:
        average = " on average" if many else ""
        says = f"{so_far}{abs(gain) * 100:.1f} points better than the base{average}."
        return Verdict(_first_large(says), because, "ok", "trending-up")
    return Verdict(_first_large(f"{so_far}not shown to be better than the base."), because, "warn", "minus")


def describe_plain(report: Report) -> str | None:
    """What a plain classifier of words reaches on the same feedback, and whether it wins; None for a report that is
    older than the comparison."""
    plain = report.get("plain")
    if plain is None:
        return None
    seeds = len(report["seeds"])
    reached, words = report["final"]["mean"] * 100, plain["accuracy"]["mean"] * 100
    compared = f"A plain classifier of words reaches {words:.1f}% on the same feedback; this model {reached:.1f}%."
    if plain["better_seeds"] == 0:
        return compared
    where = "" if seeds == 1 else f" in {plain['better_seeds']} of {seeds} seeds"
    return f"{compared} The classifier is better{where}, with the whole interval of the difference."


def _points(value: float) -> str:
    return f"{value * 100:+.1f}".replace("-", "−")


def _first_large(text: str) -> str:
    return text[0].upper() + text[1:]


def draw_learning(report: Report) -> dict[str, Any]:
    """Held-out accuracy in percent over decisions, the base at 0. One seed has its 95 % interval as band; of several
    each is a line, and their mean has the least and most as band."""
    seeds = report["seeds"]
    ends = [0, *(entry["decisions"] for entry in seeds[0]["rounds"])]
    curves = [[seed["base"], *(entry["accuracy"] for entry in seed["rounds"])] for seed in seeds]
    if len(seeds) == 1:
        low, high = ([_percent(point[end]) for point in curves[0]] for end in ("low", "high"))
        series = [_series("accuracy", [_percent(point["mean"]) for point in curves[0]], low, high)]
    else:
        means = [[_percent(point["mean"]) for point in curve] for curve in curves]
        places = list(zip(*means, strict=True))
        mean = [sum(place) / len(place) for place in places]
        series = [
            _series("mean", mean, [min(place) for place in places], [max(place) for place in places]),
            *(
                {"label": f"seed {seed['seed']}", "values": values, "tone": "muted", "dash": True}
                for seed, values in zip(seeds, means, strict=True)
            ),
        ]
    return {
        "title": "Held-out accuracy, %",
        "height": 260,
        "x": {"label": "decisions", "values": ends},
        "y": {"decimals": 1, "unit": "%"},
        "series": series,
        "lines": [{"label": "ceiling", "y": _percent(report["ceiling"]["mean"]), "tone": "ok"}],
    }


def draw_rounds(report: Report) -> dict[str, Any]:
    """Share of right decisions in each round in percent; over several seeds the mean, with the least and most."""
    rounds = [[_percent(entry["right_share"]) for entry in seed["rounds"]] for seed in report["seeds"]]
    places = list(zip(*rounds, strict=True))
    mean = [sum(place) / len(place) for place in places]
    bounds = ([min(place) for place in places], [max(place) for place in places]) if len(rounds) > 1 else ()
    return {
        "title": "Right decisions, %",
        "says": "Right decisions by round: " + ", ".join(f"{number}: {value:.1f}%" for number, value in _counted(mean)),
        "height": 260,
        "x": {"label": "round", "values": [number for number, _ in _counted(mean)], "whole": True},
        "y": {"min": 0, "decimals": 1, "unit": "%"},
        "series": [{**_series("right", mean, *bounds), "kind": "bars"}],
    }


def _counted(values: Sequence[float]) -> Iterator[tuple[int, float]]:
    return enumerate(values, start=1)


def _series(label: str, values: list[float], *bounds: list[float]) -> dict[str, Any]:
    return {"label": label, "values": values, **dict(zip(("low", "high"), bounds, strict=False))}


def _percent(share: float) -> float:
    return share * 100


@dataclass(frozen=True, slots=True)
class Span:
    """Base, after and ceiling on one axis, as places in percent of its width; the numbers beside it are shares."""

    base: float
    after: float
    ceiling: float
    base_at: str
    after_at: str
    ceiling_at: str


def place_span(report: Report) -> Span:
    """On an axis from 0 to 1, so that rows of a list compare."""
    base, after, ceiling = (report[name]["mean"] for name in ("base", "final", "ceiling"))
    return Span(base, after, ceiling, _at(base, 0, 1), _at(after, 0, 1), _at(ceiling, 0, 1))


@dataclass(frozen=True, slots=True)
class Axis:
    """Where an axis begins and ends."""

    left: float
    right: float


def accuracy_axis(report: Report) -> Axis:
    """Holds every accuracy of every seed."""
    measured = [seed[name] for seed in report["seeds"] for name in ("base", "final", "ceiling")]
    return _axis([point[end] for point in measured for end in ("mean", "low", "high")])


def _axis(values: Sequence[float | None]) -> Axis:
    known = [value for value in values if value is not None]
    return Axis(max(0.0, min(known, default=0.0) - AROUND), min(1.0, max(known, default=1.0) + AROUND))


@dataclass(frozen=True, slots=True)
class Estimate:
    """One estimate beside the truth: places on the axis in percent of its width, None where it has no such bound."""

    name: str
    says: str
    mean: float | None
    low: float | None
    high: float | None
    mean_at: str | None
    low_at: str | None
    high_at: str | None
    holds_truth: bool | None
    """None of the log's own value, which is not an estimate of the new version's."""


@dataclass(frozen=True, slots=True)
class LogAlone:
    """What a log says of a version that never acted in it, for one seed."""

    seed: int
    rows: int
    truth: float
    truth_at: str
    estimates: list[Estimate]
    effective_sample_size: float
    tone: str
    says: str
    refusals: list[str]


def describe_log(seed: Mapping[str, Any]) -> LogAlone:
    found, gate = seed["off_policy"], seed["off_policy"]["gate"]
    ends = [found[name][end] for name, *_ in ESTIMATES for end in ("mean", "low", "high")]
    known = [end for end in (*ends, found["truth"]) if end is not None]
    # Intervals may leave [0, 1] here, so the axis does too.
    axis = Axis(min(known) - AROUND, max(known) + AROUND)
    if gate["refusals"]:
        tone, says = "warn", "The gate gives no verdict: the log does not allow an estimate."
    elif gate["passed"]:
        tone, says = "ok", f"The gate passes: the estimated gain is at least {_points(gate['lower'])} points."
    else:
        tone, says = "bad", f"The gate does not pass: the gain may be as low as {_points(gate['lower'])} points."
    return LogAlone(
        seed=seed["seed"],
        rows=found["rows"],
        truth=found["truth"],
        truth_at=_at(found["truth"], axis.left, axis.right),
        estimates=[_estimate(found, axis, *named) for named in ESTIMATES],
        effective_sample_size=found["effective_sample_size"],
        tone=tone,
        says=says,
        refusals=list(gate["refusals"]),
    )


def _estimate(found: Mapping[str, Any], axis: Axis, key: str, name: str, says: str) -> Estimate:
    def place(value: float | None) -> str | None:
        return None if value is None else _at(value, axis.left, axis.right)

    mean, low, high = (found[key][end] for end in ("mean", "low", "high"))
    bounded = key != "logged" and low is not None and high is not None
    holds_truth = low <= found["truth"] <= high if bounded else None
    return Estimate(name, says, mean, low, high, place(mean), place(low), place(high), holds_truth)


def _at(value: float, left: float, right: float) -> str:
    """A place on the axis, as SVG has it."""
    return f"{min(1.0, max(0.0, (value - left) / (right - left))) * 100:.2f}%"


@dataclass(frozen=True, slots=True)
class Part:
    """What some rows of the file were for; `share` of the usable ones."""

    title: str
    says: str
    rows: int
    share: float


def list_parts(about: Mapping[str, Any], rows: Mapping[str, int]) -> list[Part]:
    """In the order in which they play, and what was left over."""
    parts = [Part(title, says, rows[key], rows[key] / about["rows"]) for key, title, says in PARTS]
    unused = about["rows"] - sum(rows[key] for key, *_ in PARTS)
    return [*parts, Part("Not used", "beyond the requested decisions", unused, unused / about["rows"])][
        : 4 + bool(unused)
    ]


def list_left_out(about: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Records of the file that are not among the usable rows, and why."""
    reasons = (
        ("unusable", "without text or label"),
        ("repeated", "repeated"),
        ("contradicted", "repeated with another label"),
    )
    return [(about[key], says) for key, says in reasons if about.get(key)]


def list_settings(plan: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(title, kind, value) of what was asked; kind is "share", "number" or "name"."""
    told = [(title, kind, plan[key]) for key, title, kind in SETTINGS]
    if plan.get("labels"):
        told.append(("Labels of a reviewer", "number", plan["labels"]))
    if plan.get("base"):
        told.append(("Base model", "name", f"{plan['base']}, by LoRA" if plan.get("lora") else plan["base"]))
    return told
