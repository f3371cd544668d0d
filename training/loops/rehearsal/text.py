"""A rehearsal's report as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from training.loops.rehearsal.plan import Plan, split_rows
from training.loops.rehearsal.report import describe_kinds
from training.loops.rehearsal.shown import describe_plain
from training.loops.rehearsal.source import Source
from workspaces.templatetags.show import percent, points, reward


def print_split(console: Console, source: Source, plan: Plan) -> None:
    """What plays which part, before anything begins."""
    split = split_rows(source, plan, 0)
    left_out = [
        f"{count:,} {what}"
        for count, what in (
            (source.unusable, "without text or label"),
            (source.repeated, "repeated"),
            (source.contradicted, "repeated with another label"),
        )
        if count
    ]
    console.print(f"{source.name}: {len(source.examples):,} usable records, {len(source.labels)} labels")
    if left_out:
        console.print(f"Left out     {', '.join(left_out)}")
    share = len(split.seed_rows) / len(source.examples)
    console.print(f"Seed labels  {len(split.seed_rows):,} ({share:.1%}) train the base model only")
    console.print(f"Decisions    {len(split.stream):,} in {plan.rounds} rounds, feedback on the chosen option only")
    console.print(f"Gate log     {len(split.gate):,} more by the version before the last, for the off-policy estimates")
    console.print(f"Held out     {len(split.heldout):,}, used only for evaluation")


def print_report(console: Console, report: Mapping[str, Any]) -> None:
    """A line per seed, then all of them, the off-policy estimates and the data needed."""
    about = report["about"]
    table = Table(title=f"{about['file']}: held-out accuracy with 95 % intervals")
    for name in ("seed", "base", "trained", "trained − base, paired", "ceiling", "of the ceiling", "gap closed"):
        table.add_column(name, justify="right")
    for seed in report["seeds"]:
        table.add_row(
            str(seed["seed"]),
            _cell(seed["base"]),
            _cell(seed["final"]),
            _cell(seed["difference"], points),
            _cell(seed["ceiling"]),
            percent(seed["of_ceiling"]),
            percent(seed["gap_closed"]),
        )
    console.print(table)
    seeds = len(report["seeds"])
    rounds = [
        [seed["rounds"][place]["accuracy"]["mean"] for seed in report["seeds"]]
        for place in range(len(report["seeds"][0]["rounds"]))
    ]
    ends = [entry["decisions"] for entry in report["seeds"][0]["rounds"]]
    curve = ", ".join(f"{percent(sum(r) / len(r))} after {n:,}" for n, r in zip(ends, rounds, strict=True))
    console.print(f"Decisions    {curve}")
    console.print(f"Of ceiling   {_spread(report['of_ceiling'])} over {seeds} {_plural(seeds, 'seed')}")
    verdict = "better" if report["better"] else "not shown to be better"
    console.print(f"Verdict      {verdict}: {report['better_seeds']} of {seeds} with the whole interval above 0")
    if plain := describe_plain(report):
        console.print(f"Words        {plain}", soft_wrap=True)
    if kinds := describe_kinds(report):
        console.print(f"Kinds        {kinds}", soft_wrap=True)
    for seed in report["seeds"]:
        console.print(f"Off-policy   seed {seed['seed']}: {_off_policy(seed['off_policy'])}")
    for entry in report["needed"]:
        console.print(f"Data needed  {_needed(entry)} for {percent(entry['share'])} of the ceiling")
    units = report["experiment_units"]
    needed_units = "more than 20,000 units" if units is None else f"about {units['mean']:,.0f} units"
    console.print(f"Experiment   {needed_units} until an experiment with an even split promotes it")


def _off_policy(found: Mapping[str, Any]) -> str:
    estimate = found["doubly_robust"]
    said = f"doubly robust {_cell(estimate, reward)}, true value {reward(found['truth'])}"
    gate = found["gate"]
    if gate["refusals"]:
        return f"{said}; the gate gives no verdict: {' '.join(gate['refusals'])}"
    return f"{said}; the gate {'passes' if gate['passed'] else 'does not pass'}"


def _needed(entry: Mapping[str, Any]) -> str:
    if entry["decisions"] is None:
        return "more than ten times these decisions"
    return f"{entry['decisions']:,} decisions{' (extrapolated)' if entry['extrapolated'] else ''}"


def _cell(interval: Mapping[str, Any], write: Callable[[Any], str] = percent) -> str:
    if interval["low"] is None:
        return write(interval["mean"])
    return f"{write(interval['mean'])} [{write(interval['low'])}, {write(interval['high'])}]"


def _spread(values: Mapping[str, float]) -> str:
    return f"{percent(values['mean'])} ({percent(values['low'])} to {percent(values['high'])})"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
