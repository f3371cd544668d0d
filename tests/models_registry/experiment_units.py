"""A short plan, and matured units with the outcomes that a test wants."""

import datetime as dt
import random

from django.utils import timezone

from models_registry.experiments.looks import MaturedUnit, consume_observations
from models_registry.experiments.plan import ExperimentPlan
from models_registry.models import Exposure
from models_registry.routing.router import Router

SHORT = ExperimentPlan(
    attribution_window_seconds=0, exposure_window_seconds=0, min_units_per_arm=100, min_seconds=0, guardrails=()
)


def matured(experiment, count, rate, seed=0, begin=0, measures=None):
    """`count` fresh units, routed as the gateway does, with one 0/1 outcome each; rate[arm] = P(1), None: no reward. Of
    a group, those of them that are in the experiment's lane.

    measures[name][arm] = P(1) of a guardrail measure.
    """
    rng = random.Random(f"{seed}-{begin}")
    router = Router(experiment.registered_model)
    moment = timezone.now() - dt.timedelta(hours=1)
    exposures = []
    for number in range(begin, begin + count):
        route = router.route(f"unit-{seed}-{number}")
        if route.phase is None or route.phase.experiment_id != experiment.id:
            continue
        exposures.append(
            Exposure(
                workspace=experiment.workspace, experiment=experiment, phase=route.phase, unit=f"unit-{seed}-{number}",
                arm=route.arm, served_arm=route.arm, assignment_probability=route.assignment_probability,
                version=route.version, exposed_at=moment + dt.timedelta(milliseconds=number),
            )
        )  # fmt: skip
    Exposure.objects.bulk_create(exposures)
    return [
        MaturedUnit(
            exposure,
            None if rate[exposure.arm] is None else float(rng.random() < rate[exposure.arm]),
            timezone.now(),
            {name: float(rng.random() < chance[exposure.arm]) for name, chance in (measures or {}).items()},
        )
        for exposure in exposures
    ]


def feed(experiment, rate, *, seed=0, batches=10, size=100, measures=None):
    """Batches until the rule has decided; the last verdict."""
    for batch in range(batches):
        verdict = consume_observations(
            experiment=experiment, matured=matured(experiment, size, rate, seed, batch * size, measures)
        )
        if verdict.action != "continue":
            break
    experiment.refresh_from_db()
    return verdict
