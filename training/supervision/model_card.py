"""The card of a version, from the facts in the database: its page shows it, and an export carries it in its README.

Nobody writes it by hand, so it cannot say more than what was stored. Every figure has its interval and its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.queries.agents import find_agent_version
from models_registry.models import ArtifactKind, GateVerdict, ModelVersion
from models_registry.versions.gates import read_gate
from training.engine.spec.methods import METHODS
from training.evaluation.measures import MEASURES, titles_for
from training.evaluation.suites.shown import MEASURES as SUITE_MEASURES
from training.models import DatasetSnapshot, Evaluation, SuiteScore, TrainingRun
from training.runs.base_models import TINY
from training.supervision.figures import say_payment
from workspaces.templatetags.show import percent, points, reward, signed

# Of the bases that are allowed by default, as their own cards say.
LICENCES = {"Qwen/Qwen2.5-0.5B-Instruct": "Apache-2.0", "HuggingFaceTB/SmolLM2-135M-Instruct": "Apache-2.0"}
TITLES = {name: title for name, title, _ in MEASURES}
SUITE_TITLES = {name: title for name, title, _ in SUITE_MEASURES}
SHARES = frozenset({name for name, _, kind in MEASURES if kind == "share"} | {"error_rate"})
FEW_ROWS = 200
ANCESTORS = 50
# Said elsewhere on the card, or of no interest to who uses the version.
NO_SETTINGS = frozenset({"method", "checkpoint_every_seconds"})


@dataclass(frozen=True, slots=True)
class Section:
    """`facts`: a name and what is known of it, for people."""

    title: str
    facts: Sequence[tuple[str, str]]


def write_card(version: ModelVersion) -> list[Section]:
    """Sections without facts are left out. A dozen queries, and one for each ancestor."""
    run = (
        TrainingRun.objects.filter(produced_version=version)
        .select_related("agent", "dataset__artifact", "heldout__artifact", "replay__artifact")
        .first()
    )
    evaluation = Evaluation.objects.filter(version=version).select_related("dataset__artifact", "against").first()
    verdicts = list(version.gate_verdicts.select_related("against__registered_model").order_by("id"))
    sections = [
        Section("Model", list(_say_model(version))),
        Section("Prompt", list(_say_prompt(version))),
        Section("Training", list(_say_training(version, run))),
        Section("Data", list(_say_data(run, evaluation))),
        Section("Measured", list(_say_measured(version, evaluation))),
        Section("Gate", [(say_gate(verdict), say_verdict(verdict)) for verdict in verdicts]),
        Section("Limits", [("", limit) for limit in find_limits(version, run, evaluation)]),
    ]
    return [section for section in sections if section.facts]


def card_lines(version: ModelVersion) -> list[str]:
    """The card as Markdown, headings of the second level."""
    lines = []
    for section in write_card(version):
        lines += [f"## {section.title}", ""]
        told = (f"{name}: {value}" if name else value for name, value in section.facts)
        lines += ["- " + one.replace("\n", "\n  ") for one in told]
        lines.append("")
    return lines


def _say_model(version: ModelVersion) -> Iterator[tuple[str, str]]:
    yield "Kind", version.kind_name
    base = version.base_model
    if base == TINY:
        yield "Base model", "a tiny model that was made here"
    elif base:
        yield "Base model", base
        yield "Licence of the base", LICENCES.get(base, "unknown; its own terms apply")
    if version.artifact is not None:
        yield "Digest", version.artifact.digest
    line = " ← ".join(str(one) for one in find_line(version))
    if version.parent is not None:
        yield "Lineage", line


def find_line(version: ModelVersion) -> list[ModelVersion]:
    """The version, what it was trained from, and so on to the first."""
    line, one = [version], version.parent
    while one is not None and len(line) < ANCESTORS:
        line.append(one)
        one = one.parent
    return line


def _say_prompt(version: ModelVersion) -> Iterator[tuple[str, str]]:
    """Under which system prompt it decides."""
    asks = find_agent_version(version.registered_model)
    if asks is not None and asks.system_prompt:
        yield f"System prompt of {asks}", asks.system_prompt


def _say_training(version: ModelVersion, run: TrainingRun | None) -> Iterator[tuple[str, str]]:
    method = METHODS.get(version.method)
    yield "Method", f"{version.method}: {method.does}" if method is not None else version.method
    if run is None:
        return
    settings = "; ".join(_flatten(run.spec))
    if settings:
        yield "Settings", settings
    if payment := say_payment(run.metrics):
        yield "Acted afresh, paid by", payment
    if run.finished_at is not None:
        yield "Trained", f"{run.finished_at:%-d %B %Y}, by {run.requested_by}"


def _flatten(settings: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """`optimiser.steps 100` for {"optimiser": {"steps": 100}}."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{before}{name}.")
        elif f"{before}{name}" not in NO_SETTINGS and value is not None:
            yield f"{before}{name} {value}"


def _say_data(run: TrainingRun | None, evaluation: Evaluation | None) -> Iterator[tuple[str, str]]:
    if run is None:
        return
    if run.dataset.environment:
        yield "Environment", run.dataset.environment
    yield "Trained on", _say_dataset(run.dataset)
    counts = run.dataset.statistics.get("actions")
    if isinstance(counts, Mapping) and counts:
        yield (
            "Rows by action",
            ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda one: -one[1])),
        )
    if run.replay is not None:
        yield "Mixed in", _say_dataset(run.replay)
    heldout = evaluation.dataset if evaluation is not None else run.heldout
    if heldout is not None:
        yield "Held out", _say_dataset(heldout)


def _say_dataset(dataset: DatasetSnapshot) -> str:
    return f"{dataset}, SHA-256 {dataset.artifact.digest}"


def _say_measured(version: ModelVersion, evaluation: Evaluation | None) -> Iterator[tuple[str, str]]:
    if evaluation is not None:
        of_tasks, titles = evaluation.dataset.is_of_tasks, titles_for(evaluation.dataset)
        yield "Rows", f"{evaluation.rows:,} held-out {'tasks acted on' if of_tasks else 'rows answered'}"
        yield from say_scores(evaluation.scores.get("trained", {}), titles)
        if of_tasks:
            before = dict(say_scores(evaluation.scores.get("base", {}), titles))
            yield from ((f"{name}, before", value) for name, value in before.items())
        for name, interval in evaluation.differences.items():
            if "mean" in interval:  # not by domain
                title = titles.get(name) or _name(name)
                yield f"{title}, difference to {evaluation.against or 'its base'}", _say_difference(name, interval)
    scores = SuiteScore.objects.filter(version=version).select_related("suite").order_by("suite__name")
    for score in scores:
        flattered = "; it learnt from some of these rows, which flatters it" if score.learnt else ""
        for name, value in say_scores(score.scores, SUITE_TITLES):
            yield f"{name} on the suite {score.suite.name}", f"{value}, {score.rows:,} rows{flattered}"


def say_scores(scores: Mapping[str, Any], titles: Mapping[str, str] = TITLES) -> Iterator[tuple[str, str]]:
    """Those that have an interval, named and written as pages do."""
    for name, interval in scores.items():
        if isinstance(interval, Mapping) and {"mean", "low", "high"} <= interval.keys():
            yield titles.get(name) or _name(name), _write(interval, percent if name in SHARES else reward)


def _say_difference(name: str, interval: Mapping[str, Any]) -> str:
    return _write(interval, points, " points") if name in SHARES else _write(interval, signed)


def _write(interval: Mapping[str, Any], form: Callable[[Any], str], unit: str = "") -> str:
    return f"{form(interval['mean'])}{unit} [{form(interval['low'])}, {form(interval['high'])}]"


def _name(measure: str) -> str:
    return TITLES.get(measure) or measure.replace("_", " ").capitalize()


def say_gate(verdict: GateVerdict) -> str:
    return f"{verdict.get_kind_display()}, against {verdict.against or 'what acted'}"


def say_verdict(verdict: GateVerdict) -> str:
    if verdict.refusals:
        return "could not answer: " + " ".join(verdict.refusals)
    said = "passed" if verdict.passed else "not passed"
    if verdict.estimate is None:
        return said
    interval = {"mean": verdict.estimate, "low": verdict.low, "high": verdict.high}
    return f"{said}, difference {_write(interval, points, ' points')}"


def find_limits(version: ModelVersion, run: TrainingRun | None, evaluation: Evaluation | None) -> Iterator[str]:
    """What should keep people from trusting it further than was measured, a sentence each."""
    if version.is_remote:
        yield "Others keep its weights, and may change them under the same name."
    if version.marked_at is not None:
        yield "Rows that it, or a version before it, learnt from were erased since."
    if evaluation is None:
        yield "It was not measured on held-out rows."
    else:
        if evaluation.rows < FEW_ROWS:
            yield f"It was measured on {evaluation.rows} rows: small differences do not show."
        if evaluation.unanswered or evaluation.without_feedback:
            left = evaluation.unanswered + evaluation.without_feedback
            yield f"{left:,} held-out rows were left out, as their right answer is not known."
    gate = read_gate(version)
    if version.is_policy and not gate.passed:
        yield "It did not pass its gate." if gate.blocks else "No gate could judge it."
    method = METHODS.get(version.method)
    if method is not None and method.weak:
        yield f"Its method is weak {method.weak}."
    if version.is_reward_model:
        yield "It scores texts for training and is not a policy."
    if version.is_adapter:
        yield f"It needs the weights of {version.base}."
    if run is not None and run.dataset.kind == "logged" and run.dataset.statistics.get("without_propensity"):
        count = run.dataset.statistics["without_propensity"]
        yield f"{count:,} of its training rows have no propensity, so they could not be weighted."
    if version.kind in (ArtifactKind.MODEL, ArtifactKind.ADAPTER):
        yield "Figures hold for inputs like those of its data, and for the options that it was given there."
