"""Who decides for a unit: the champion, or an arm of a running experiment. The gateway asks for each unit."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models_registry.models import (
    Arm,
    Experiment,
    ExperimentState,
    Holdout,
    ModelVersion,
    Phase,
    RegisteredModel,
    Variant,
)
from models_registry.routing import lanes as routing
from models_registry.versions.services import get_serving


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers one unit: the version, and why. `other`, the version of the arm that the unit was not assigned, and
    `phase` are None outside experiments. `fallback` is asked where neither of them answers, of a unit that is held out
    the champion; None where the model has none."""

    version: ModelVersion
    other: ModelVersion | None = None
    fallback: ModelVersion | None = None
    phase: Phase | None = None
    arm: str | None = None
    assignment_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """A running experiment in its open phase. `versions` by arm. `has_setups`: it is on versions of one agent, and says
    nothing of the model's other agents."""

    phase: Phase
    versions: Mapping[str, ModelVersion]
    has_setups: bool

    @property
    def experiment(self) -> Experiment:
        return self.phase.experiment

    def takes(self, unit: str) -> bool:
        """Whether the unit is in the experiment's lane; without a group, every unit is."""
        one, group = self.experiment, self.experiment.group
        return group is None or routing.is_in_lane(group.salt, str(group.id), unit, one.lane_low, one.lane_high)


class Router:
    """Routes many units of one model by one reading of the registry: five queries, however many units. `running`: its
    experiments, of which a unit meets one at most; and none where `holdout` holds it."""

    def __init__(self, model: RegisteredModel) -> None:
        self.champion, self.fallback = get_serving(model)
        phases = list(
            Phase.objects.select_related("experiment__group")
            .filter(
                experiment__registered_model=model, experiment__state=ExperimentState.RUNNING, ended_at__isnull=True
            )
            .order_by("experiment__lane_low")
        )
        variants: dict[uuid.UUID, list[Variant]] = {phase.experiment_id: [] for phase in phases}
        for variant in Variant.objects.filter(experiment__in=variants).select_related(
            "version__artifact", "version__base__artifact", "version__registered_model"
        ):
            variants[variant.experiment_id].append(variant)
        holdouts = Holdout.objects.filter(registered_model=model, ended_at__isnull=True)
        self.holdout = holdouts.select_related(
            "version__artifact", "version__base__artifact", "version__registered_model"
        ).first()
        self.running = [_read_running(phase, variants[phase.experiment_id]) for phase in phases]

    @property
    def versions(self) -> list[ModelVersion]:
        """Every version that a unit may meet."""
        known = [self.champion, *([self.fallback] if self.fallback else [])]
        known += [self.holdout.version] if self.holdout is not None else []
        return [*known, *(version for one in self.running for version in one.versions.values())]

    def find_running(self, unit: str) -> Running | None:
        """The experiment that the unit is in."""
        return next((one for one in self.running if one.takes(unit)), None)

    def route_outside(self, unit: str) -> Route:
        """Of a unit that no experiment asks about: the champion's, unless it is held out."""
        if (held := self._find_held(unit)) is not None:
            return Route(version=held, fallback=self.champion)
        return Route(version=self.champion, fallback=self.fallback)

    def route(self, unit: str) -> Route:
        running = self.find_running(unit)
        if running is None or self._find_held(unit) is not None:
            return self.route_outside(unit)
        experiment, share = running.experiment, running.phase.treatment_share
        given = routing.assign(experiment.salt, str(experiment.id), unit, share)
        other = Arm.CONTROL if given.arm == "treatment" else Arm.TREATMENT
        versions = running.versions
        return Route(versions[given.arm], versions[other], self.fallback, running.phase, given.arm, given.probability)

    def _find_held(self, unit: str) -> ModelVersion | None:
        one = self.holdout
        held = one is not None and routing.is_in_lane(one.salt, str(one.id), unit, 0.0, one.share)
        return one.version if one is not None and held else None


def _read_running(phase: Phase, variants: Sequence[Variant]) -> Running:
    versions = {variant.arm: variant.version for variant in variants}
    return Running(phase, versions, any(variant.setup for variant in variants))
