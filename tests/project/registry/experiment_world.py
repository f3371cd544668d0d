"""What tests of several pages of experiments share."""

import random
from typing import Any

from django.urls import reverse
from django.utils import timezone

from models_registry.experiments.looks import MaturedUnit, RequestCounts, consume_observations
from models_registry.models import Experiment
from tools.factories import ExposureFactory


def at(name: str, row: Any, slug: str | None = None) -> str:
    return reverse(f"pages:{name}", args=[slug or row.workspace.slug, row.pk])


def consume(experiment: Experiment, count: int) -> None:
    """Really consumed, in turns of the arms, the treatment a little better."""
    phase = experiment.phases.get()
    rng, matured = random.Random(4), []
    for number in range(count):
        arm = ("control", "treatment")[number % 2]
        exposure = ExposureFactory(phase=phase, arm=arm)
        outcome = float(rng.random() < (0.6 if arm == "treatment" else 0.5))
        matured.append(MaturedUnit(exposure, outcome, timezone.now(), {"error_rate": 0.0}))
    requests = RequestCounts(control=20, treatment=20, failed_treatment=1)
    consume_observations(experiment=experiment, matured=matured, requests=requests)
