"""A workspace in the middle of the loop, as pages show it: for the browser tests and for the pictures of the README."""

from __future__ import annotations

import datetime as dt
import math
import random
import shutil
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from decisions.models import Decision
from models_registry.models import Exposure
from tools import factories
from tools.factories import uuid7_at
from tools.rehearsals import make_rehearsal
from training.models import RunMetric

LAUNCH = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOPICS = ["machine learning", "symbolic maths", "tables", "graphs", "web", "queues", "terminals", "packaging"]
PASSAGES = [
    "Read rows into a frame: return the columns as arrays, and name the index after the first of them.",
    "Return the shortest path between two nodes of a weighted graph, or raise when there is none.",
    "Expand a polynomial and collect the terms by powers of the symbol.",
    "Acknowledge a message after its handler has returned; a lost worker gives it back to the queue.",
    "Render the prompt with its completions below the cursor and redraw on resize.",
]


def find_chromium() -> str | None:
    """Path of the Chromium that the machine has: its headless shell before the whole browser, which is much slower."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((found for found in map(shutil.which, names) if found), None)


@dataclass(frozen=True)
class Scene:
    agent: Any
    decisions: list[Any]  # newest first
    running: Any
    finished: Any
    version: Any
    experiment: Any
    rehearsal: Any


def make_scene(*, by: Any) -> Scene:
    """Rows of the actor's workspace; nothing of it is random between two calls but the ids."""
    from decisions.agents.services import AgentSetup, create_agent

    setup = AgentSetup(prompt_template="{{ text }}", options=TOPICS, temperature=0.5, epsilon=0.05)
    agent = create_agent(by=by, slug="filer", name="Filer", kind="FILER", setup=setup)
    base, trained = _versions(agent, by)
    running, finished = _runs(agent, base, trained)
    experiment = _experiment(by, trained)
    rehearsal = make_rehearsal(workspace=agent.workspace)
    return Scene(agent, _decisions(agent, base, experiment), running, finished, trained, experiment, rehearsal)


def _versions(agent: Any, by: Any) -> list[Any]:
    from models_registry.versions.services import NewVersion, register_version

    made = []
    for method in ("pretrain", "posterior"):
        artifact = factories.ArtifactFactory(workspace=agent.workspace, size_bytes=2_640_000)
        new = NewVersion(artifact=artifact, method=method, parent=made[0] if made else None, metrics={"loss": 0.5321})
        made.append(register_version(by=by, model=agent.registered_model, new=new))
    return made


def _runs(agent: Any, base: Any, trained: Any) -> tuple[Any, Any]:
    dataset = factories.DatasetSnapshotFactory(
        agent=agent, name="ledger of Filer", rows=4812, kind="logged", reward_spec=agent.reward_specs.first()
    )
    heldout = factories.DatasetSnapshotFactory(agent=agent, name="held-out passages", rows=2400)
    now = timezone.now()
    common = {
        "agent": agent,
        "dataset": dataset,
        "heldout": heldout,
        "base_version": base,
        "base_model": "",
        "method": "posterior",
        "spec": {"method": "posterior", "optimiser": {"learning_rate": 0.002}, "seed": 7},
        "requested_by": "owner@example.org",
    }
    finished = factories.TrainingRunFactory(
        **common,
        state="succeeded",
        produced_version=trained,
        progress=1.0,
        message="filer:2",
        started_at=now - dt.timedelta(minutes=3),
        finished_at=now - dt.timedelta(minutes=1),
    )
    factories.EvaluationFactory(
        run=finished,
        version=trained,
        against=base,
        dataset=heldout,
        rows=2400,
        scores={
            "base": {"accuracy": _interval(0.562), "reward": _interval(0.551), "valid_share": _interval(1.0, 0.0)},
            "trained": {"accuracy": _interval(0.781), "reward": _interval(0.748), "valid_share": _interval(1.0, 0.0)},
        },
        differences={"accuracy": _interval(0.219), "reward": _interval(0.197)},
    )
    factories.GateVerdictFactory(version=trained, against=base, estimate=0.219, low=0.198, high=0.24)
    factories.GateVerdictFactory(version=trained, against=base, kind="off_policy", **_short_log(base))
    running = factories.TrainingRunFactory(
        **common, state="running", progress=0.37, message="round 2 of 4", started_at=now - dt.timedelta(seconds=41)
    )
    for run, steps in ((running, 60), (finished, 160)):
        for sequence, (kind, details) in enumerate(
            [("started", {"device": "cpu", "threads": 2, "resumed_from": None}), ("checkpoint", {"step": 40})]
        ):
            factories.RunEventFactory(run=run, sequence=sequence, kind=kind, details=details)
        curves = {
            "loss": lambda step: 2.1 * math.exp(-step / 50) + 0.4 + 0.05 * math.sin(step * step),
            "heldout_accuracy": lambda step: 0.82 - 0.6 * math.exp(-step / 40) + 0.01 * math.sin(step * step),
            "kl": lambda step: 0.3 - 0.3 * math.exp(-step / 60),
            "entropy": lambda step: 0.5 + 1.2 * math.exp(-step / 45),
            "learning_rate": lambda step: 0.002 * math.sin(step / 55),
            "tokens_per_second": lambda step: 2150 + 90 * math.sin(step * step),
            "peak_memory_gb": lambda step: 1.31 if step < 20 else 1.38,
        }
        RunMetric.objects.bulk_create(
            RunMetric(run=run, attempt=1, step=step, name=name, value=value(step))
            for name, value in curves.items()
            for step in range(1, steps)
        )
    return running, finished


def _short_log(base: Any) -> dict[str, Any]:
    """What the gate by the log says of too few decisions."""
    names = ("logged", "doubly_robust", "snips", "ips", "direct")
    return {
        "passed": False,
        "refusals": ["The 312 decisions are worth 148 of the new policy's own; at least 200 are needed."],
        "estimate": 0.17,
        "low": 0.08,
        "high": 0.26,
        "details": {
            "measure": "reward",
            "rows": 312,
            "acted": {str(base): 312},
            "lower": 0.094,
            "effective_sample_size": 148.2,
            "largest_weight_share": 0.02,
            "mean_weight": 1.01,
            "estimates": {name: _interval(0.56 + 0.04 * n, 0.05) for n, name in enumerate(names)},
        },
    }


def _interval(mean: float, half: float = 0.02) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": min(1.0, mean + half), "n": 2400, "clusters": 310}


def _experiment(by: Any, trained: Any) -> Any:
    """Really consumed, so that every number on its page is the one that its rows give."""
    from models_registry.experiments.looks import MaturedUnit, RequestCounts, consume_observations
    from models_registry.experiments.plan import ExperimentPlan
    from models_registry.experiments.services import start_experiment

    plan = ExperimentPlan(min_units_per_arm=200, min_seconds=60.0)
    experiment = start_experiment(
        by=by, treatment=trained, plan=plan, reason="a better one", name="posterior against the base"
    )
    phase = experiment.phases.get()
    began = timezone.now() - dt.timedelta(hours=3)
    type(experiment).objects.filter(id=experiment.id).update(started_at=began)
    type(phase).objects.filter(id=phase.id).update(started_at=began)
    beside = random.Random(5)
    rng, matured, chances = random.Random(3), [], {"control": 0.55, "treatment": 0.66}
    exposures = []
    for number in range(160):
        arm = "treatment" if rng.random() < 0.5 else "control"
        met = began + dt.timedelta(minutes=number)
        exposure = factories.ExposureFactory.build(phase=phase, version=trained, arm=arm, exposed_at=met)
        exposures.append(exposure)
        right = rng.random() < chances[arm]
        log_l = tuple(math.log(chance if right else 1 - chance) for chance in chances.values())
        measures = {"error_rate": 0.0, "latency": float(rng.random() < 0.02), "missing_feedback": 0.0}
        secondary = {"latency_ms": 20 + 5 * beside.random(), "confidence": 0.6 + 0.3 * beside.random()}
        outcome, ripe = 0.75 if right else 0.375, met + dt.timedelta(minutes=5)
        matured.append(MaturedUnit(exposure, outcome, ripe, measures, log_l, secondary))
    Exposure.objects.bulk_create(exposures)
    requests = RequestCounts(control=312, failed_control=1, treatment=298, failed_treatment=2)
    for begin in range(0, len(matured), 20):
        consume_observations(experiment=experiment, matured=matured[begin : begin + 20], requests=requests)
    experiment.refresh_from_db()
    return experiment


def _decisions(agent: Any, base: Any, experiment: Any) -> list[Any]:
    rng, now = random.Random(11), timezone.now()
    exposures = list(experiment.exposures.all()[:30])
    version = agent.versions.get()
    made = []
    for number in range(30):
        weights = [rng.random() ** 3 for _ in TOPICS]
        shares = [weight / sum(weights) for weight in weights]
        action = max(range(len(TOPICS)), key=shares.__getitem__)
        moment = now - dt.timedelta(minutes=number)
        made.append(
            factories.DecisionFactory.build(
                id=uuid7_at(moment),
                agent=agent,
                agent_version=version,
                state={"text": PASSAGES[number % len(PASSAGES)]},
                options=TOPICS,
                action=TOPICS[action],
                propensity=shares[action],
                confidence=shares[action],
                alternatives=[{"action": o, "probability": p} for o, p in zip(TOPICS, shares, strict=True)],
                temperature=0.5,
                epsilon=0.05,
                policy_name=None,
                model_version=base,
                exposure=exposures[number],
                latency_ms=8.31,
                observed_at=moment,
            )
        )
    Decision.objects.bulk_create(made)
    for number, decision in enumerate(made[3:12]):
        verdict = "confirmed" if number % 3 else "corrected"
        factories.FeedbackFactory(decision=decision, value=verdict, source="human")
        value = {"confirmed": 0.75, "corrected": 0.25}[verdict]
        factories.RewardFactory(
            decision=decision, value=value, components={"verdict": {"value": 1.0 if value > 0.5 else -1.0}}
        )
    return made


def make_busy_job(*, workspace: Any) -> Any:
    """A job under way, as the overview shows one."""
    now = timezone.now()
    return factories.JobFactory(
        workspace=workspace,
        kind="project.demo_loop",
        state="running",
        lease_until=now + dt.timedelta(minutes=1),
        started_at=now - dt.timedelta(seconds=72),
        progress=0.42,
        message="training on 4,812 decisions",
    )
