"""Who decides for a unit: the champion, or an arm of the running experiment. The gateway asks for each unit."""

from __future__ import annotations

from dataclasses import dataclass

from models_registry import routing
from models_registry.models import Arm, ExperimentState, ModelVersion, Phase, RegisteredModel, Variant
from models_registry.services import get_serving


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers one unit: the version, and why. `other`, the version of the arm that the unit was not assigned, and
    `phase` are None outside experiments. `fallback` is asked where neither of them answers; None where the model has
    none."""

    version: ModelVersion
    other: ModelVersion | None = None
    fallback: ModelVersion | None = None
    phase: Phase | None = None
    arm: str | None = None
    assignment_probability: float | None = None


class Router:
    """Routes many units of one model by one reading of the registry: four queries, however many units. `has_setups`:
    the running experiment is on versions of one agent, and says nothing of the model's other agents."""

    def __init__(self, model: RegisteredModel) -> None:
        self.champion, self.fallback = get_serving(model)
        self.phase = (
            Phase.objects.select_related("experiment")
            .filter(
                experiment__registered_model=model, experiment__state=ExperimentState.RUNNING, ended_at__isnull=True
            )
            .first()
        )
        self.versions: dict[str, ModelVersion] = {}
        self.has_setups = False
        if self.phase is not None:
            variants = list(
                Variant.objects.filter(experiment=self.phase.experiment).select_related(
                    "version__artifact", "version__base__artifact", "version__registered_model"
                )
            )
            self.versions = {variant.arm: variant.version for variant in variants}
            self.has_setups = any(variant.setup for variant in variants)

    def route_outside(self) -> Route:
        """Of a unit that no experiment asks about: the champion's."""
        return Route(version=self.champion, fallback=self.fallback)

    def route(self, unit: str) -> Route:
        if self.phase is None:
            return self.route_outside()
        experiment = self.phase.experiment
        given = routing.assign(experiment.salt, str(experiment.id), unit, self.phase.treatment_share)
        other = Arm.CONTROL if given.arm == "treatment" else Arm.TREATMENT
        return Route(
            self.versions[given.arm], self.versions[other], self.fallback, self.phase, given.arm, given.probability
        )
