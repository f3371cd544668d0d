"""The demo's experiment through the product's own Router and maturing job, on a database of its own.

`benchmarks.statistics` calls it. Units, actions and verdicts are drawn as in `benchmarks.demo_experiment`; assignment,
exposures, windows, rewards, likelihoods, guardrails and the verdict are the product's.
"""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.demo_experiment import UNANSWERED, WRONG, World, load_world
from benchmarks.own_database import own_database

LATE = 0.10
SECONDS_A_UNIT = 0.02
LOOKS = 12


def measure_matured(runs: int, units: int) -> dict[str, float | None]:
    """Shares of `runs` experiments of `units` that are promoted: the trained model, and another of the base's value."""
    logging.getLogger("models_registry.experiments.promotion").setLevel(
        logging.ERROR
    )  # no model server has to load anything here
    with own_database():
        world = load_world()
        ends = {name: [_run(world, name, units, seed) for seed in range(runs)] for name in ("trained", "equal")}
    met = [found.units for found in ends["trained"] if found.promoted]
    return {
        "ledger_runs": float(runs),
        "ledger_promoted": float(np.mean([found.promoted for found in ends["trained"]])),
        "ledger_median_units": float(np.median(met)) if met else None,
        "ledger_equal_promoted": float(np.mean([found.promoted for found in ends["equal"]])),
        "ledger_conditioned": float(np.mean([found.conditioned for found in ends["trained"] + ends["equal"]])),
    }


class _End:
    """How an experiment ended: `units` matured, and the share of the rewarded ones that was conditioned."""

    def __init__(self, experiment: Any) -> None:
        self.promoted = experiment.state == "promoted"
        self.units = experiment.observations.count()
        self.conditioned = experiment.units_conditioned / max(1, experiment.units_control + experiment.units_treatment)


def _run(world: World, treatment: str, units: int, seed: int) -> _End:
    from decisions.models import Decision, Feedback
    from decisions.rewards.maturing import mature_outcomes
    from models_registry.experiments.services import start_experiment
    from models_registry.models import Exposure
    from models_registry.routing.router import Router
    from project.demo.loop import EXPERIMENT_PLAN
    from tools.factories import (
        AgentFactory,
        AgentVersionFactory,
        AliasFactory,
        DecisionFactory,
        FeedbackFactory,
        ModelVersionFactory,
        RewardSpecFactory,
    )
    from workspaces.access.actors import system

    rng = np.random.default_rng(seed)
    agent = AgentFactory()
    version = AgentVersionFactory(agent=agent)
    RewardSpecFactory(agent=agent)
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    tried = ModelVersionFactory(registered_model=agent.registered_model)
    plan = replace(EXPERIMENT_PLAN, min_seconds=0.0)
    experiment = start_experiment(by=system(agent.workspace), treatment=tried, plan=plan, reason="a better one")
    router = Router(agent.registered_model)
    matures_after = plan.exposure_window_seconds + plan.attribution_window_seconds
    began = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=units * SECONDS_A_UNIT + matures_after + 1)
    exposures, decisions, feedback = [], [], []
    policies = {"control": world.base, "treatment": getattr(world, treatment)}
    for number in range(units):
        moment = began + dt.timedelta(seconds=number * SECONDS_A_UNIT)
        route = router.route(f"{seed}-{number}")
        passage = rng.integers(len(world.right))
        own, other = (policies[arm][passage] for arm in _order(route.arm))
        action = int((own.cumsum() > rng.random()).argmax())
        exposures.append(
            Exposure(
                workspace=agent.workspace, experiment=experiment, phase=route.phase, unit=f"{seed}-{number}",
                arm=route.arm, served_arm=route.arm, assignment_probability=route.assignment_probability,
                version=route.version, exposed_at=moment,
            )
        )  # fmt: skip
        decisions.append(
            DecisionFactory.build(
                agent=agent, workspace=agent.workspace, agent_version=version, unit=f"{seed}-{number}",
                action=f"topic {action}", propensity=float(own[action]), other_arm_propensity=float(other[action]),
                policy_name=None, model_version=route.version, exposure=exposures[-1], latency_ms=20.0,
                observed_at=moment,
            )
        )  # fmt: skip
        timing = rng.random()
        if timing >= UNANSWERED - LATE:
            right = (action == world.right[passage]) ^ (rng.random() < WRONG)
            lag = matures_after + 60 if timing < UNANSWERED else 0.5
            feedback.append(
                FeedbackFactory.build(
                    workspace=agent.workspace, decision=decisions[-1], value="confirmed" if right else "corrected",
                    observed_at=moment + dt.timedelta(seconds=lag),
                )
            )  # fmt: skip
    Exposure.objects.bulk_create(exposures)
    Decision.objects.bulk_create(decisions)
    Feedback.objects.bulk_create(feedback)
    for look in range(1, LOOKS + 1):
        now = began + dt.timedelta(seconds=units * SECONDS_A_UNIT * look / LOOKS + matures_after)
        done = {one.experiment_id: one.action for one in mature_outcomes(now)}
        if done.get(experiment.id) != "continue":
            break
    experiment.refresh_from_db()
    if experiment.state == "running":
        from models_registry.experiments.promotion import stop_experiment

        experiment = stop_experiment(by=system(agent.workspace), experiment=experiment, reason="enough")
    return _End(experiment)


def _order(arm: str | None) -> tuple[str, str]:
    return ("treatment", "control") if arm == "treatment" else ("control", "treatment")
