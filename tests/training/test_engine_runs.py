"""Real engine runs under the job runner: from a queued run to a registered version, whatever is killed on the way."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from django.db import connection
from django.utils import timezone

from decisions.models import Decision, Feedback, Reward
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.errors import StaleFence
from jobs.models import Job, JobState
from jobs.runner import claim_job, run_job
from models_registry.artifacts import opening as artifacts
from models_registry.models import Artifact, GateVerdict, ModelVersion
from models_registry.versions.gates import read_gate
from models_registry.versions.services import get_champion
from tests.engine_task import TINY, labelled
from tools.factories import OPTIONS, AgentVersionFactory, DecisionFactory, FeedbackFactory
from tools.warm import stand_in
from training.datasets.snapshots import import_labelled, snapshot_ledger
from training.engine.spec.result import RunResult
from training.exports.services import start_export
from training.models import Evaluation, TrainingRun
from training.run_states import RunState
from training.runs.launcher import Finished
from training.runs.services import RunPlan, cancel_run, move_run, start_run
from training.supervision.publishing import publish
from workspaces.models import AuditEntry

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

LOADS = """
import sys, json, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
ids = tokenizer.apply_chat_template(
    [{"role": "user", "content": "flight hotel"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
)
print(json.dumps({"parameters": model.num_parameters(), "finite": bool(torch.isfinite(model(**ids).logits).all()),
                  "type": type(model).__name__}))
"""


@pytest.fixture
def datasets(agent, by, store):
    return (
        import_labelled(by=by, agent=agent, name="train", rows=labelled(96, 1)),
        import_labelled(by=by, agent=agent, name="heldout", rows=labelled(60, 2)),
    )


def settings_of(**changes):
    merged = {**TINY, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def wait_until(condition, seconds=90):
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.05)
    return found


def engine_processes(run):
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # gone, or a zombie, which has no command line
            if str(run.id) in " ".join(process.cmdline()):
                found.append(process)
    return found


def meanwhile(action):
    """Runs `action` in a thread with a connection of its own; its error, if any, comes out of `.join_checked()`."""
    errors = []

    def work():
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()

    def join_checked():
        thread.join(120)
        if errors:
            raise errors[0]

    return join_checked


def test_a_pretraining_run_ends_as_the_champion(agent, by, datasets, settings):
    train, heldout = datasets
    plan = RunPlan(
        "pretrain", train, base_model="tiny", heldout=heldout, settings=settings_of(evaluate={"free_rows": 10})
    )
    run = start_run(by=by, agent=agent, plan=plan)
    assert run_job(run.job_id) is JobState.SUCCEEDED
    run.refresh_from_db()
    run.job.refresh_from_db()
    version = run.produced_version
    assert (run.state, run.progress, run.error, str(version)) == ("succeeded", 1.0, "", "filer:1")
    assert run.job.result == {"version": "filer:1", "run": str(run.id)}
    assert get_champion(agent.registered_model) == version
    assert (version.artifact.kind, version.base, version.parent) == ("model", None, None)
    manifest = artifacts.verify_artifact(version.artifact.digest)
    assert any(name.endswith(".safetensors") for name in manifest["files"]) and "README.md" in manifest["files"]
    assert version.base_model == "tiny"
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in manifest["files"])

    (verdict,) = version.gate_verdicts.all()
    assert (verdict.kind, verdict.passed, verdict.against, verdict.details["rows"]) == ("off_policy", False, None, 0)

    evaluation = Evaluation.objects.get(run=run)
    trained = evaluation.scores["trained"]
    assert evaluation.rows == trained["accuracy"]["n"] == 60
    assert trained["accuracy"]["clusters"] == 15
    for measure in trained.values():
        assert measure["low"] <= measure["mean"] <= measure["high"]
    assert trained["valid_share"]["n"] == 10
    # Three words of ten tell the folder: what a plain classifier of words learns from 96 labels at once.
    plain = evaluation.plain
    assert (plain["rows"], plain["accuracy"]["n"], plain["accuracy"]["clusters"]) == (96, 60, 15)
    assert plain["accuracy"]["mean"] > 0.9
    gap = trained["accuracy"]["mean"] - plain["accuracy"]["mean"]
    assert plain["difference"]["mean"] == pytest.approx(gap)

    said = list(run.events.filter(attempt=1).order_by("sequence").values_list("kind", flat=True))
    assert (said[0], said[-1]) == ("started", "finished")
    assert list(run.events.filter(attempt=0).order_by("sequence").values_list("kind", flat=True)) == [
        "queued",
        "running",
        "succeeded",
    ]
    assert run.run_metrics.exists()
    assert engine_processes(run) == []
    # The data of the run are those of the snapshot, and the spec holds no more than the engine takes.
    folder = settings.RUNS / str(run.id)
    assert [path for path in folder.rglob("*") if path.stat().st_mode & 0o077] == []  # the engine's files, too
    assert (folder / "data" / "train.jsonl").read_text().count("\n") == 96
    assert run_job(run.job_id) is None


def decide_evenly(agent, setup, version, rows):
    """Decisions that tried every option equally often, each with its reward."""
    made = [
        DecisionFactory.build(
            agent=agent, workspace=agent.workspace, agent_version=setup, state={"text": row["prompt"]},
            action=OPTIONS[number % 3], propensity=1 / 3, epsilon=1.0, policy_name=None, model_version=version,
        )
        for number, row in enumerate(rows)
    ]  # fmt: skip
    Decision.objects.bulk_create(made)
    spec, now = current_reward_spec(agent), timezone.now()
    Reward.objects.bulk_create(
        Reward(
            decision=decision, workspace=agent.workspace, spec=spec, version=1, feedback_until=now, computed_at=now,
            raw=spec.training_high if decision.action == row["answer"] else spec.training_low, value=0.5, components={},
        )
        for decision, row in zip(made, rows, strict=True)
    )  # fmt: skip


def test_a_run_learns_from_the_ledger_and_is_exported(agent, by, base_version, datasets, tmp_path, settings):
    """Logged decisions → snapshot → adapter → gate → merged weights that transformers loads by itself."""
    rows = labelled(150, 3)
    AgentVersionFactory(agent=agent)
    newest = agent.versions.first()
    for number, row in enumerate(rows):
        action = OPTIONS[number % 3]
        decision = DecisionFactory(
            agent=agent, agent_version=newest, state={"text": row["prompt"]}, action=action, propensity=1 / 3,
            policy_name=None, model_version=base_version,
        )  # fmt: skip
        FeedbackFactory(decision=decision, value="confirmed" if action == row["answer"] else "corrected")
    assert (Decision.objects.count(), Feedback.objects.count()) == (150, 150)
    assert calculate_rewards(current_reward_spec(agent)).processed == 150
    dataset = snapshot_ledger(by=by, agent=agent, name="logs")
    decide_evenly(agent, newest, base_version, labelled(700, 4))  # made later: the run does not learn from these
    train, heldout = datasets
    plan = RunPlan(
        "posterior", dataset, base_version=base_version, heldout=heldout, replay=train,
        settings=settings_of(
            base=None, lora={"r": 4, "alpha": 8}, posterior={"folds": 2}, evaluate={"free_rows": 0}
        ),
    )  # fmt: skip
    run = start_run(by=by, agent=agent, plan=plan)
    assert run_job(run.job_id) is JobState.SUCCEEDED, TrainingRun.objects.get(id=run.id).error
    version = ModelVersion.objects.get(registered_model=agent.registered_model, number=2)
    assert (version.artifact.kind, version.base, version.parent) == ("adapter", base_version, base_version)
    assert version.artifact.meta["base"] == base_version.artifact.digest
    assert get_champion(agent.registered_model) == base_version  # a new version serves nobody yet

    evaluation = Evaluation.objects.get(run=run)
    assert set(evaluation.scores) == {"base", "trained"}
    gain = evaluation.differences["accuracy"]
    difference = evaluation.scores["trained"]["accuracy"]["mean"] - evaluation.scores["base"]["accuracy"]["mean"]
    assert gain["mean"] == pytest.approx(difference)
    # The plain classifier learnt from the replayed labels and the confirmed decisions.
    assert evaluation.plain["rows"] == 96 + Feedback.objects.filter(value="confirmed").count()
    verdict = GateVerdict.objects.get(version=version, against=base_version, kind="held_out")
    assert (verdict.passed, verdict.estimate) == (gain["low"] > 0, gain["mean"])
    by_log = GateVerdict.objects.get(version=version, against=base_version, kind="off_policy")
    assert (by_log.passed, by_log.refusals, by_log.details["rows"]) == (True, [], 700)
    assert 0 < by_log.details["lower"] < by_log.estimate < by_log.high
    assert read_gate(version).passed
    assert not (settings.RUNS / str(run.id) / "data" / "log.jsonl").exists()

    # The adapter is trained further, measured against what it was, and lies over the same weights.
    plan = RunPlan("sft", train, base_version=version, heldout=heldout, settings=settings_of(base=None, lora={"r": 4}))
    further = start_run(by=by, agent=agent, plan=plan)
    assert run_job(further.job_id) is JobState.SUCCEEDED, TrainingRun.objects.get(id=further.id).error
    third = ModelVersion.objects.get(registered_model=agent.registered_model, number=3)
    assert (third.artifact.kind, third.base, third.parent) == ("adapter", base_version, version)
    before = Evaluation.objects.get(run=further)
    assert (before.against, before.scores["base"]["accuracy"]) == (version, evaluation.scores["trained"]["accuracy"])
    assert before.scores["trained"]["accuracy"]["mean"] != before.scores["base"]["accuracy"]["mean"]

    export = start_export(by=by, version=version)
    assert run_job(export.job_id) is JobState.SUCCEEDED
    export.refresh_from_db()
    assert (export.state, export.artifact.kind) == ("ready", "model")
    artifacts.verify_artifact(export.artifact.digest)
    assert export.artifact.digest != base_version.artifact.digest
    program = tmp_path / "loads.py"
    program.write_text(LOADS)
    loaded = subprocess.run(
        [
            *stand_in(Path(os.environ["RECKONER_VAR"]), str(program)),
            str(artifacts.artifact_path(export.artifact.digest)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )
    assert loaded.returncode == 0, loaded.stderr
    told = json.loads(loaded.stdout)
    assert told["finite"]
    assert told["parameters"] > 10_000


@pytest.mark.core
def test_a_killed_engine_resumes_from_its_checkpoint_and_ends(agent, by, datasets, settings):
    train, _ = datasets
    long = settings_of(
        optimiser={"learning_rate": 0.001, "epochs": 100, "batch_size": 16}, checkpoint_every_seconds=0.2
    )
    run = start_run(by=by, agent=agent, plan=RunPlan("pretrain", train, base_model="tiny", settings=long))
    checkpoints = settings.RUNS / str(run.id) / "attempts" / "1" / "checkpoints"
    killed = []

    def kill_after_a_checkpoint():
        wait_until(lambda: list(checkpoints.glob("*/COMPLETE")))
        for process in engine_processes(run):
            process.send_signal(signal.SIGKILL)
            killed.append(process.pid)

    join = meanwhile(kill_after_a_checkpoint)
    assert run_job(run.job_id) is JobState.QUEUED
    join()
    assert killed, "the engine had ended before it could be killed"
    job = Job.objects.get(id=run.job_id)
    assert "signal 9" in job.error
    assert not ModelVersion.objects.exists()

    assert run_job(run.job_id) is JobState.SUCCEEDED
    run.refresh_from_db()
    assert (run.state, str(run.produced_version)) == ("succeeded", "filer:1")
    started = run.events.get(attempt=2, kind="started")
    assert started.details["resumed_from"]
    steps = [
        max(run.run_metrics.filter(attempt=attempt).values_list("step", flat=True), default=0) for attempt in (1, 2)
    ]
    assert steps[1] > steps[0]
    assert ModelVersion.objects.count() == 1


def test_a_cancelled_run_leaves_a_checkpoint_and_no_version(agent, by, datasets, settings):
    train, _ = datasets
    endless = settings_of(optimiser={"learning_rate": 0.001, "epochs": 1000, "batch_size": 8})
    run = start_run(by=by, agent=agent, plan=RunPlan("pretrain", train, base_model="tiny", settings=endless))

    def cancel_in_mid_run():
        wait_until(lambda: run.events.filter(attempt=1, kind="progress").exists())
        assert cancel_run(by=by, run=run).state == "stopping"

    join = meanwhile(cancel_in_mid_run)
    assert run_job(run.job_id) is JobState.CANCELLED
    join()
    run.refresh_from_db()
    assert (run.state, run.produced_version) == ("cancelled", None)
    assert list((settings.RUNS / str(run.id) / "attempts" / "1" / "checkpoints").glob("*/COMPLETE"))
    assert run.events.filter(attempt=1).order_by("sequence").last().kind == "stopped"
    assert not ModelVersion.objects.exists()
    assert engine_processes(run) == []
    assert AuditEntry.objects.filter(action="run.cancelled").count() == 1


def test_a_spec_that_the_engine_refuses_is_not_tried_again(agent, by, datasets):
    train, _ = datasets
    run = start_run(by=by, agent=agent, plan=RunPlan("pretrain", train, base_model="tiny", settings=settings_of()))
    TrainingRun.objects.filter(id=run.id).update(spec={"method": "pretrain", "seed": -1})
    assert run_job(run.job_id) is JobState.DEAD
    run.refresh_from_db()
    job = Job.objects.get(id=run.job_id)
    assert (run.state, job.attempts) == ("failed", 1)
    assert "seed" in run.error


def finished(tiny_run: Path) -> Finished:
    folder = tiny_run / "attempts" / "1"
    return Finished(folder, RunResult.model_validate_json((folder / "result.json").read_text()))


class TestPublishing:
    """What comes after the engine, on the result of a run that has ended."""

    @pytest.fixture
    def claimed(self, agent, by, datasets):
        train, heldout = datasets
        plan = RunPlan("pretrain", train, base_model="tiny", heldout=heldout, settings=settings_of(evaluate={}))
        run = start_run(by=by, agent=agent, plan=plan)
        context = JobContext(claim_job(run.job_id))
        move_run(run, RunState.RUNNING)
        return run, context

    def nothing_was_published(self, run):
        run.refresh_from_db()
        return not (
            ModelVersion.objects.exists() or Evaluation.objects.exists() or run.produced_version or run.is_terminal
        )

    def test_a_result_is_published_once(self, claimed, tiny_run):
        run, context = claimed
        publish(context, run, finished(tiny_run))
        with pytest.raises(StaleFence):
            publish(context, run, finished(tiny_run))
        assert ModelVersion.objects.count() == 1

    def test_a_stale_attempt_publishes_nothing(self, claimed, tiny_run):
        run, context = claimed
        Job.objects.filter(id=run.job_id).update(fence=context.fence + 1)
        with pytest.raises(StaleFence):
            publish(context, run, finished(tiny_run))
        assert self.nothing_was_published(run)

    def test_what_fails_on_the_way_leaves_nothing_half(self, claimed, tiny_run, monkeypatch):
        run, context = claimed
        monkeypatch.setattr(
            "training.supervision.publishing.move_run", lambda *a, **k: (_ for _ in ()).throw(RuntimeError("late"))
        )
        with pytest.raises(RuntimeError, match="late"):
            publish(context, run, finished(tiny_run))
        assert self.nothing_was_published(run)

    def test_a_run_that_was_cancelled_meanwhile_publishes_nothing(self, claimed, tiny_run, by, monkeypatch):
        """The engine had just ended when the cancel came: the job ends cancelled, and does not hang in the queue."""
        run, _ = claimed
        Job.objects.filter(id=run.job_id).update(state="queued", lease_until=None)

        def end_as_the_cancel_comes(context, run_dir, *, sink):
            cancel_run(by=by, run=run)
            return finished(tiny_run)

        monkeypatch.setattr("training.supervision.job.run_engine", end_as_the_cancel_comes)
        assert run_job(run.job_id) is JobState.CANCELLED
        run.refresh_from_db()
        assert run.state == "cancelled"
        assert not ModelVersion.objects.exists()

    def test_a_result_of_another_kind_is_an_adapter_over_its_base(self, claimed, tiny_run, base_version):
        run, context = claimed
        TrainingRun.objects.filter(id=run.id).update(base_version=base_version, base_model="")
        run = TrainingRun.objects.get(id=run.id)
        Artifact.objects.filter(id=base_version.artifact_id).update(meta={"base_model": "some/model"})
        folder = finished(tiny_run).folder
        (folder / "adapter").mkdir(exist_ok=True)
        (folder / "adapter" / "adapter_config.json").write_text("{}")
        result = finished(tiny_run).result.model_copy(update={"output": "adapter"})
        publish(context, run, replace(finished(tiny_run), result=result))
        version = ModelVersion.objects.get(number=2)
        assert (version.base, version.artifact.kind) == (base_version, "adapter")
        # The base's own name goes on, though the run names a version only: in the version and in its card.
        assert version.base_model == "some/model"
        card = (artifacts.artifact_path(version.artifact.digest) / "README.md").read_text()
        assert 'base_model: "some/model"' in card and "library_name: peft" in card and str(base_version) in card
        assert version.created_at <= timezone.now()
