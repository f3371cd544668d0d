"""Matured unit outcomes: from rewards to the observations that experiments consume.

A unit matures when its exposure window and its phase's attribution window have passed, by the server's clock. Its
outcome is the mean reward of its decisions in the exposure window, by the feedback recorded until it matured: later
feedback goes to training and rewrites nothing here.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import defaultdict
from dataclasses import dataclass

from django.utils import timezone

from decisions.models import Agent, Decision
from decisions.rewards.reckoning import rewards_as_of
from decisions.services import current_reward_spec
from models_registry.errors import NoExperiment
from models_registry.experiments import MaturedUnit, consume_observations
from models_registry.models import Experiment, ExperimentState, Exposure

BATCH = 5000


@dataclass(frozen=True, slots=True)
class Matured:
    """How many units of an experiment matured, and what the promotion rule said: promote, roll_back or continue."""

    experiment_id: uuid.UUID
    units: int
    action: str


def mature_outcomes(now: dt.datetime | None = None) -> list[Matured]:
    """For every running experiment: consume what has matured and act on the verdict."""
    moment = now or timezone.now()
    done = []
    for experiment in Experiment.objects.filter(state=ExperimentState.RUNNING).select_related("workspace"):
        try:
            done.append(_mature(experiment, moment))
        except NoExperiment:
            continue  # someone stopped it in between: nothing to consume
    return done


def _mature(experiment: Experiment, now: dt.datetime) -> Matured:
    window = dt.timedelta(seconds=experiment.exposure_window_seconds)
    exposures = list(
        Exposure.objects.filter(experiment=experiment, observation__isnull=True)
        .select_related("phase")
        .order_by("exposed_at", "id")[:BATCH]
    )
    ripe = []
    for exposure in exposures:
        attribution = dt.timedelta(seconds=exposure.phase.attribution_window_seconds)
        matures_at = exposure.exposed_at + window + attribution
        if matures_at > now:
            break  # consumed in exposure order: a later one must not overtake
        ripe.append((exposure, matures_at))
    outcomes = _mean_rewards(experiment, ripe, window)
    units = [MaturedUnit(exposure, outcomes.get(exposure.id), matures_at) for exposure, matures_at in ripe]
    verdict = consume_observations(experiment=experiment, matured=units)
    return Matured(experiment.id, len(units), verdict.action)


def _mean_rewards(
    experiment: Experiment, ripe: list[tuple[Exposure, dt.datetime]], window: dt.timedelta
) -> dict[uuid.UUID, float]:
    """Mean reward in [0, 1] by exposure; exposures without any rewarded decision are left out."""
    if not ripe:
        return {}
    matures = {exposure.id: (exposure.exposed_at + window, matures_at) for exposure, matures_at in ripe}
    decisions = Decision.objects.filter(exposure__in=matures).values_list(
        "id", "exposure_id", "recorded_at", "agent_id"
    )
    moments: dict[uuid.UUID, dict[uuid.UUID, dt.datetime]] = defaultdict(dict)
    unit_of: dict[uuid.UUID, uuid.UUID] = {}
    for decision_id, exposure_id, recorded_at, agent_id in decisions:
        until, matures_at = matures[exposure_id]
        if recorded_at <= until:
            moments[agent_id][decision_id] = matures_at
            unit_of[decision_id] = exposure_id
    values: dict[uuid.UUID, list[float]] = defaultdict(list)
    for agent in Agent.objects.filter(id__in=moments):
        for decision_id, value in rewards_as_of(current_reward_spec(agent), moments[agent.id]).items():
            values[unit_of[decision_id]].append(value)
    return {exposure: sum(found) / len(found) for exposure, found in values.items()}
