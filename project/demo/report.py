"""The demo's result, as plain values and as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from decisions.models import Agent, Decision, Feedback, Reward
from models_registry.models import Experiment, ExperimentState
from models_registry.versions.gates import read_gate
from models_registry.versions.services import get_champion
from training.evaluation.paired_runs import read_hits, subtract_hits
from training.loops.agent_loop import SEED_LABELS
from training.loops.comparison import choose_best
from training.models import Evaluation, ExportFormat, ExportJob, TrainingRun
from training.models.export import ExportState
from training.runs.candidates import PolicyKind, kind_of, order_runs
from workspaces.templatetags import show

LOG = "first decisions"
MEASURES = (("accuracy", "Accuracy"), ("reward", "Reward"), ("valid_share", "Valid actions, free generation"))


def build_report(agent: Agent) -> dict[str, Any]:
    """Read from the ledger alone. `better` is True when the experiment promoted the trained version."""
    base_run, run = (_find_best(agent, dataset) for dataset in (SEED_LABELS, LOG))
    evaluation: Evaluation = run.evaluation
    version = run.produced_version
    assert version is not None and agent.registered_model is not None
    experiment = Experiment.objects.filter(registered_model=agent.registered_model).order_by("id").first()
    exports = ExportJob.objects.filter(version=version, format=ExportFormat.MERGED, state=ExportState.READY)
    export = exports.select_related("artifact").first()
    report = {
        "base": str(base_run.produced_version),
        "trained": str(version),
        "method": run.method,
        "kind": kind_of(run).value,
        "candidates": [_candidate(one) for one in order_runs(_find_runs(agent, LOG))],
        "heldout_rows": evaluation.rows,
        "scores": {"base": base_run.evaluation.scores["trained"], "trained": evaluation.scores["trained"]},
        "differences": evaluation.differences or {"accuracy": subtract_hits(read_hits(run), read_hits(base_run))},
        "decisions": Decision.objects.filter(agent=agent).count(),
        "feedback": Feedback.objects.for_workspace(agent.workspace).count(),
        "rewards": Reward.objects.filter(spec__agent=agent).count(),
        "training_rows": run.dataset.rows,
        "training_seconds": run.metrics.get("seconds"),
        "gate_passed": read_gate(version).passed,
        "experiment": _experiment(experiment),
        "champion": str(get_champion(agent.registered_model)),
        "export": export.artifact.digest if export is not None and export.artifact is not None else None,
        "better": experiment is not None and experiment.state == ExperimentState.PROMOTED,
    }
    return report | {"summary": write_summary(report)}


def _find_runs(agent: Agent, dataset: str) -> list[TrainingRun]:
    runs = TrainingRun.objects.filter(agent=agent, dataset__name=dataset, produced_version__isnull=False)
    return list(runs.select_related("produced_version", "evaluation", "base_version__artifact", "dataset"))


def _find_best(agent: Agent, dataset: str) -> TrainingRun:
    best = choose_best(_find_runs(agent, dataset))
    assert best is not None
    return best


def _candidate(run: TrainingRun) -> dict[str, Any]:
    accuracy = run.evaluation.scores["trained"]["accuracy"]
    return {"kind": kind_of(run).value, "version": str(run.produced_version), "accuracy": accuracy}


def _experiment(experiment: Experiment | None) -> dict[str, Any] | None:
    if experiment is None:
        return None
    return {
        "state": experiment.state,
        "verdict": experiment.verdict,
        "units_control": experiment.units_control,
        "units_treatment": experiment.units_treatment,
        "log_e_plus": experiment.log_e_plus,
        "estimate": experiment.estimate,
        "low": experiment.low,
        "high": experiment.high,
    }


def write_summary(report: Mapping[str, Any]) -> str:
    """What came of it in two or three sentences, for whoever ran the demo for the first time."""
    base, trained, experiment = report["base"], report["trained"], report["experiment"]
    rows, gain = report["heldout_rows"], report["differences"]["accuracy"]
    points = f"{100 * gain['mean']:+.1f} points [{100 * gain['low']:+.1f}, {100 * gain['high']:+.1f}]"
    if experiment is None:
        return (
            f"{trained} is not shown to be better than {base}: {points} on {rows:,} held-out passages, and the "
            f"interval contains 0. {base} stays the champion, because Reckoner promotes no version without evidence. "
            "More feedback helps most: set RECKONER_DEMO_DECISIONS above 4800, or try another RECKONER_DEMO_SEED."
        )
    units = f"{experiment['units_control'] + experiment['units_treatment']:,} units of live traffic"
    if experiment["state"] == ExperimentState.PROMOTED:
        return (
            f"{trained} learnt from feedback on decisions of {base} and is now the champion: {points} on {rows:,} "
            f"held-out passages, confirmed on {units}.{_say_kinds(report)}"
        )
    if experiment["state"] == ExperimentState.ROLLED_BACK:
        return (
            f"{trained} was better on held-out passages ({points}) but not on {units}: {experiment['verdict']}. "
            f"{base} serves all units again."
        )
    if experiment["state"] == ExperimentState.FUTILE:
        return (
            f"{trained} is better on {rows:,} held-out passages ({points}), but on {units} it is "
            f"{experiment['verdict']}. {base} stays the champion."
        )
    return (
        f"{trained} is better on {rows:,} held-out passages ({points}), but {units} were not enough for a verdict: "
        f"{experiment['verdict']}. {base} stays the champion. A larger RECKONER_DEMO_EXPERIMENT_UNITS with a smaller "
        "RECKONER_DEMO_DECISIONS leaves more passages for the experiment."
    )


def _say_kinds(report: Mapping[str, Any]) -> str:
    """What the other kinds of policy reach on the same passages."""
    kinds = {one["kind"]: one["accuracy"]["mean"] for one in report["candidates"]}
    mine = kinds.pop(report["kind"])
    if not kinds:
        return ""
    others = ", ".join(f"a {PolicyKind(kind).says} reaches {show.percent(mean)}" for kind, mean in kinds.items())
    return f" It is a {PolicyKind(report['kind']).says} ({show.percent(mine)}); {others}."


def as_cell(interval: dict[str, Any] | None, write: Callable[[Any], str]) -> str:
    if interval is None:
        return "–"
    return f"{write(interval['mean'])}  [{write(interval['low'])}, {write(interval['high'])}]"


def print_report(console: Console, report: dict[str, Any]) -> None:
    table = Table(title=f"{report['heldout_rows']} held-out passages, 95 % intervals by module")
    table.add_column("")
    for name in (f"base {report['base']}", f"trained {report['trained']}", "trained − base, paired"):
        table.add_column(name, justify="right")
    for measure, title in MEASURES:
        scores = [report["scores"].get(model, {}).get(measure) for model in ("base", "trained")]
        write, compare = (show.reward, show.signed) if measure == "reward" else (show.percent, show.points)
        cells = [as_cell(score, write) for score in scores]
        table.add_row(title, *cells, as_cell(report["differences"].get(measure), compare))
    console.print(table)
    experiment = report["experiment"]
    if experiment is None:
        console.print("Experiment   none: the held-out difference does not show an improvement")
    else:
        units = f"{experiment['units_control']} + {experiment['units_treatment']} units"
        console.print(f"Experiment   {experiment['state'].replace('_', ' ')} after {units}: {experiment['verdict']}")
    console.print(f"Champion     {report['champion']}")
    console.print(f"Export       {report['export'] or 'none: a classifier has no weights to merge'}")
    if report.get("summary"):  # loops of older versions have none
        console.print(f"\n{report['summary']}\n", highlight=False)
