"""Champion against challenger: which version answers, which one is tried against it, and how that stands."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models_registry.experiments.variants import name_variants
from models_registry.models import Alias, Arm, Experiment, ExperimentState, ModelVersion, Variant
from project.pages.registry.verdicts import Headline, write_headline
from training.evaluation.measures import find_scores
from training.models import Evaluation

CURVE = 12
TRIED = {ExperimentState.RUNNING: "Challenger", ExperimentState.ROLLED_BACK: "Rolled back"}
"""What a treatment that is not the champion is called; after any other end, "Not promoted"."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One version on held-out inputs: accuracy and reward in [0, 1], their 95% intervals."""

    number: int
    accuracy: Mapping[str, float]
    reward: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Side:
    """`units` with an outcome; None outside an experiment. `setup`: the version of the agent, where one is tried."""

    title: str
    version: ModelVersion
    measured: Measured | None
    units: int | None = None
    setup: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One side without an experiment, two with one; none where no version answers yet. `curve`: the measured versions
    of the model, oldest first."""

    sides: tuple[Side, ...] = ()
    curve: tuple[Measured, ...] = ()
    experiment: Experiment | None = None
    headline: Headline | None = None

    @property
    def accuracies(self) -> list[float]:
        return [one.accuracy["mean"] for one in self.curve] if len(self.curve) > 1 else []

    @property
    def reach(self) -> float:
        """The axis of the interval goes from minus this to this."""
        ends = (self.experiment.low, self.experiment.high) if self.experiment else ()
        return 1.2 * max((abs(end) for end in ends if end is not None), default=0.0) or 1.0

    @property
    def reach_below(self) -> float:
        return -self.reach


def compare(champions: Sequence[Alias], experiments: Sequence[Any]) -> Comparison:
    """Of the experiment that runs, or of the one that ended last while one of its versions is a champion, else of the
    champion that changed last. Three statements at most."""
    if not experiments:
        return _of_champion(champions)
    experiment = experiments[0]
    variants = _find_variants(experiment)
    arms = {arm: variant.version for arm, variant in variants.items()}
    names = name_variants(variants.values())
    serving = {alias.version_id for alias in champions}
    running = experiment.state == ExperimentState.RUNNING
    if len(arms) < len(Arm) or not (running or serving & {version.id for version in arms.values()}):
        return _of_champion(champions)
    one_version = len({version.id for version in arms.values()}) == 1
    won = experiment.state == ExperimentState.PROMOTED if one_version else arms[Arm.TREATMENT].id in serving
    if won:
        titles = {Arm.CONTROL: "Champion before", Arm.TREATMENT: "Champion"}
    else:
        tried = TRIED.get(ExperimentState(experiment.state), "Not promoted")
        titles = {Arm.CONTROL: "Champion", Arm.TREATMENT: tried}
    curve = _measure(experiment.registered_model_id)
    units = {Arm.CONTROL: experiment.units_control, Arm.TREATMENT: experiment.units_treatment}
    return Comparison(
        sides=tuple(
            Side(title, arms[arm], curve.get(arms[arm].number), units[arm], variants[arm].setup)
            for arm, title in titles.items()
        ),
        curve=tuple(curve.values()),
        experiment=experiment,
        headline=write_headline(experiment, names[Arm.TREATMENT], names[Arm.CONTROL]),
    )


def _of_champion(champions: Sequence[Alias]) -> Comparison:
    if not champions:
        return Comparison()
    champion = champions[0].version
    curve = _measure(champion.registered_model_id)
    return Comparison((Side("Champion", champion, curve.get(champion.number)),), tuple(curve.values()))


def _find_variants(experiment: Experiment) -> dict[str, Variant]:
    found = Variant.objects.filter(experiment=experiment).select_related("version__registered_model")
    return {variant.arm: variant for variant in found}


def _measure(model: uuid.UUID) -> dict[int, Measured]:
    """The newest CURVE measured versions of a model by their number, oldest first."""
    found = (
        Evaluation.objects.filter(version__registered_model=model)
        .order_by("-version__number")
        .values_list("version_id", "version__number", "against_id", "against__number")[:CURVE]
    )
    numbers: dict[uuid.UUID, int] = {}
    for version, number, against, against_number in found:
        numbers |= {version: number} | ({} if against is None else {against: against_number})
    scores = find_scores(numbers)
    return {
        number: Measured(number, scores[version]["accuracy"], scores[version]["reward"])
        for version, number in sorted(numbers.items(), key=lambda pair: pair[1])
        if {"accuracy", "reward"} <= scores.get(version, {}).keys()
    }
