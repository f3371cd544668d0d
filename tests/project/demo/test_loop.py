"""The demo's loop on a small world: every stage by its job, with a real engine and a real model server."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.models import Agent, Decision, Feedback, Reward
from jobs.models import JobState
from jobs.services import enqueue_job
from models_registry.backends.outbound import close_clients
from models_registry.experiments.plan import ExperimentPlan
from models_registry.models import Experiment, GateVerdict, Observation
from models_registry.versions.services import get_champion
from project.demo import loop
from project.demo.passages import Passage, World
from tests.training.engine.engine_world import OPTIONS, labelled
from tests.work import work_until_over
from tools.model_server import running_model_server
from training.loops import agent_loop
from training.loops.agent_loop import SEED_LABELS
from training.loops.person import Person
from training.models import ExportJob, TrainingRun
from training.runs.candidates import Candidates, PolicyKind
from training.runs.defaults import recipes

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
SEED = 3


def passages(count: int, seed: int) -> tuple[Passage, ...]:
    return tuple(
        Passage(id=f"{seed}-{row['id']}", topic=row["answer"], module=f"m{number % 40}", title="", text=row["prompt"])
        for number, row in enumerate(labelled(count, seed=seed))
    )


@pytest.fixture
def world(monkeypatch, settings, store) -> Any:
    """A made-up world in which seconds of training show, and windows that soon pass."""
    small = World(train=passages(1400, 1), heldout=passages(300, 2), topics=OPTIONS)
    monkeypatch.setattr(loop, "load_world", lambda folder, seed: small)
    settings.DEMO_SEED_LABELS, settings.DEMO_DECISIONS, settings.DEMO_EXPERIMENT_UNITS = 40, 700, 580
    monkeypatch.setattr(loop, "MAX_PROMPT_TOKENS", 32)
    monkeypatch.setattr(recipes, "FREE_ROWS", 10)
    told = {"threads": 1, "optimiser": {"learning_rate": 3e-3, "epochs": 10, "batch_size": 32}}
    monkeypatch.setattr(recipes, "for_tiny", lambda *_, **__: told)
    windows = {"attribution_window_seconds": 4, "exposure_window_seconds": 0, "min_seconds": 0}
    monkeypatch.setattr(loop, "EXPERIMENT_PLAN", ExperimentPlan(**windows, min_units_per_arm=60, guardrails=()))
    with running_model_server(store, settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        yield small
        close_clients()


def test_the_loop_goes_round_and_holds_its_promises(world, workspace):
    job = work_until_over(enqueue_job(kind=loop.KIND, workspace=workspace, payload={"seed": SEED}, dedupe_key="demo"))
    assert job.state == JobState.SUCCEEDED, job.error
    report = job.result
    # Trained, measured on what nobody trained on, tried, promoted; exported where that is weights to merge.
    assert report["heldout_rows"] == 300
    assert report["differences"]["accuracy"]["low"] > 0
    assert report["gate_passed"] and report["better"], (report["summary"], report["experiment"])
    assert "is now the champion" in report["summary"]
    assert report["champion"] == report["trained"] == str(get_champion(Agent.objects.get().registered_model))
    export = ExportJob.objects.first()
    assert report["export"] == (export.artifact.digest if export is not None else None)
    assert (export is None) == (report["kind"] == "words")
    # Both kinds learnt the labels and the log, and the better one decided.
    assert [one["kind"] for one in report["candidates"]] == ["words", "language_model"]
    assert TrainingRun.objects.count() == 4 and report["scores"]["base"]["accuracy"]["mean"] >= max(
        run.evaluation.scores["trained"]["accuracy"]["mean"] - 0.005
        for run in TrainingRun.objects.filter(dataset__name=SEED_LABELS)
    )
    # Decisions carry what a live system knows: no answer, no topic, a propensity.
    first = Decision.objects.order_by("id").first()
    assert set(first.state) == {"text"} and 0 < first.propensity <= 1
    assert (first.temperature, first.epsilon) == (loop.TEMPERATURE, loop.EPSILON)
    # The person was prompt, late or silent, as it is made to be; what came late changed no observation.
    topics = {passage.id: passage.topic for passage in world.train}
    person = Person(SEED, missing=loop.MISSING, late=loop.LATE, noise=loop.NOISE)
    reactions = [person.react(d.external_id, right=d.action == topics[d.external_id]) for d in Decision.objects.all()]
    assert Feedback.objects.count() == sum(reaction.when != "never" for reaction in reactions)
    assert Reward.objects.filter(value__isnull=False).count() == Feedback.objects.count()
    assert all(Decision.objects.filter(exposure__isnull=False).values_list("other_arm_propensity", flat=True))
    silent = Observation.objects.filter(outcome__isnull=True).count()
    tried = Experiment.objects.get()
    assert tried.units_conditioned == tried.units_control + tried.units_treatment
    assert silent and tried.units_control + tried.units_treatment + silent == Observation.objects.count()
    # Enqueued again, it is the same job.
    assert enqueue_job(kind=loop.KIND, workspace=workspace, payload={"seed": SEED}, dedupe_key="demo").id == job.id


def test_a_model_that_is_not_shown_to_be_better_meets_no_traffic(world, workspace, monkeypatch, settings):
    standing_still = {"optimiser": {"learning_rate": 1e-9, "epochs": 1}}
    taught = recipes.for_tiny()
    settings.DEMO_DECISIONS = 200
    alone = {PolicyKind.LANGUAGE_MODEL}
    monkeypatch.setattr(agent_loop, "find_candidates", lambda _, plan, **__: Candidates(dict.fromkeys(alone, plan)))
    monkeypatch.setattr(recipes, "for_tiny", lambda *_, **told: standing_still if "epochs" in told else taught)
    job = work_until_over(enqueue_job(kind=loop.KIND, workspace=workspace, payload={"seed": SEED}))
    assert job.state == JobState.SUCCEEDED, job.error
    assert not job.result["better"] and job.result["experiment"] is None
    assert "promotes no version without evidence" in job.result["summary"]
    assert not GateVerdict.objects.get(kind="held_out").passed
    assert job.result["champion"] == job.result["base"]
    assert not Experiment.objects.exists()
