"""Runs before any engine is started: the state table, what may start, what is frozen; and scores from predictions."""

import itertools
import json
from pathlib import Path

import pytest
from django.db import IntegrityError, transaction

from decisions.gateway.exploration import acting_policy
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.components import VERDICT_VALUES
from decisions.rewards.specs import ComponentSetup, SpecContent, create_reward_spec, current_reward_spec
from jobs.context import JobContext
from jobs.errors import StaleFence
from jobs.models import Job
from jobs.runner import claim_job, run_job
from models_registry.artifacts import opening as artifacts
from tests.engine_task import labelled
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    ArtifactFactory,
    DatasetItemFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    ExportJobFactory,
    FeedbackFactory,
    ModelVersionFactory,
    RewardSpecFactory,
    RunEventFactory,
    RunMetricFactory,
    TrainingRunFactory,
)
from training.datasets.freezing import freeze_dataset
from training.datasets.snapshots import import_labelled, snapshot_ledger
from training.engine.spec.result import RunResult
from training.errors import EmptyDataset, InvalidRun, RunOver
from training.evaluation.scores import gate_version, score_predictions
from training.exports.services import end_with_job as end_export
from training.exports.services import start_export
from training.loops.best import start_requested_best
from training.models import DatasetItem, DatasetSnapshot, TrainingRun
from training.rows.reward_scale import reward_if, training_scale
from training.run_states import TERMINAL_STATES, TRANSITIONS, InvalidTransition, RunState, check_transition
from training.runs.services import RunPlan, cancel_run, check_plan, end_with_job, move_run, start_run
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


class TestStates:
    def test_the_table_knows_every_state_and_its_ends(self):
        assert set(TRANSITIONS) == set(RunState)
        assert set(TERMINAL_STATES) == {"succeeded", "failed", "cancelled"}
        reached = {new for following in TRANSITIONS.values() for new in following}
        assert reached == set(RunState) - {RunState.QUEUED}  # where a run begins

    @pytest.mark.parametrize(("old", "new"), list(itertools.product(RunState, RunState)), ids=str)
    def test_a_move_outside_the_table_is_refused(self, old, new):
        if new in TRANSITIONS[old]:
            check_transition(old, new)
        else:
            with pytest.raises(InvalidTransition, match=f"from {old} to {new}"):
                check_transition(old, new)

    def test_a_move_leaves_an_event_and_sets_its_times(self):
        run = TrainingRunFactory()
        move_run(run, RunState.RUNNING)
        assert (run.started_at is not None, run.finished_at) == (True, None)
        started = run.started_at
        move_run(run, RunState.RUNNING)
        move_run(run, RunState.FAILED, error="the reason")
        assert (run.state, run.started_at, run.finished_at is not None) == ("failed", started, True)
        assert list(run.events.order_by("sequence").values_list("attempt", "sequence", "kind", "details")) == [
            (0, 0, "running", {}),
            (0, 1, "running", {}),
            (0, 2, "failed", {"error": "the reason"}),
        ]

    def test_who_comes_second_changes_nothing(self):
        run = TrainingRunFactory()
        seen = TrainingRun.objects.get(id=run.id)
        move_run(run, RunState.RUNNING)
        with pytest.raises(RunOver):
            move_run(seen, RunState.CANCELLED)
        run.refresh_from_db()
        assert run.state == "running"
        assert run.events.count() == 1

    @pytest.mark.parametrize(
        "wrong",
        [
            {"state": "asleep"},
            {"state": "failed"},
            {"finished_at": "2026-01-01T00:00:00Z"},
            {"state": "succeeded", "finished_at": "2026-01-01T00:00:00Z"},
            {"base_model": ""},
            {"progress": 1.1},
        ],
        ids=str,
    )
    def test_the_database_refuses_an_impossible_run(self, wrong):
        run = TrainingRunFactory()
        with pytest.raises(IntegrityError), transaction.atomic():
            TrainingRun.objects.filter(id=run.id).update(**wrong)

    @pytest.mark.parametrize(
        ("factory", "fields"),
        [
            (DatasetSnapshotFactory, {"kind": "rumours"}),
            (DatasetSnapshotFactory, {"kind": "logged"}),
            (ExportJobFactory, {"state": "ready"}),
        ],
    )
    def test_the_database_refuses_an_impossible_dataset_or_export(self, factory, fields):
        with pytest.raises(IntegrityError), transaction.atomic():
            factory(**fields)

    @pytest.mark.parametrize(
        ("factory", "again"),
        [
            (DatasetItemFactory, ("dataset", "decision")),
            (RunEventFactory, ("run", "attempt", "sequence")),
            (RunMetricFactory, ("run", "attempt", "name", "step")),
            (ExportJobFactory, ("version", "format")),
        ],
    )
    def test_what_is_unique_is_there_once(self, factory, again):
        first = factory()
        with pytest.raises(IntegrityError), transaction.atomic():
            factory(**{name: getattr(first, name) for name in again})


class TestStarting:
    @pytest.fixture
    def plan(self, agent):
        dataset = DatasetSnapshotFactory(agent=agent)
        return lambda **fields: RunPlan(**({"method": "pretrain", "dataset": dataset, "base_model": "tiny"} | fields))

    def test_a_run_is_queued_with_its_job(self, agent, by, plan):
        run = start_run(by=by, agent=agent, plan=plan(settings={"seed": 5}))
        assert (run.state, run.requested_by) == ("queued", "system")
        assert run.spec.items() >= {"method": "pretrain", "seed": 5}.items()
        assert (run.job.kind, run.job.queue, run.job.payload) == (
            "training.supervise_run",
            "training",
            {"run_id": str(run.id)},
        )
        assert run.events.get().kind == "queued"
        assert AuditEntry.objects.filter(action="run.started", target=f"run:{run.id}").count() == 1

    def test_every_fault_is_told_at_once(self, agent, plan, other_workspace):
        wrong = plan(
            method="posterior",
            base_model="",
            dataset=DatasetSnapshotFactory(agent__workspace=other_workspace),
            heldout=DatasetSnapshotFactory(agent=agent, kind="preferences"),
            replay=DatasetSnapshotFactory(agent__workspace=other_workspace),
            settings={"run_id": "mine", "data": {}, "base": {"path": "/etc"}},
        )
        with pytest.raises(InvalidRun) as refused:
            start_run(by=None, agent=agent, plan=wrong)
        assert [fault.field for fault in refused.value.faults] == [
            "base_version",
            "dataset",
            "heldout",
            "dataset",
            "replay",
            "settings.data",
            "settings.run_id",
            "settings.base",
        ]
        assert not TrainingRun.objects.exists()
        assert not Job.objects.exists()

    @pytest.mark.parametrize(
        ("settings", "field"),
        [
            ({"optimiser": {"epochs": 0}}, "optimiser.epochs"),
            ({"optimiser": {"learning_rate": "fast"}}, "optimiser.learning_rate"),
            ({"optimiser": {"momentum": 1}}, "optimiser.momentum"),
            ({"trust_remote_code": True}, "trust_remote_code"),
            ({"base": {"tiny": {"hidden": 33}}}, "base.tiny"),
            ({"base": 3}, "settings.base"),
            ({"evaluate": {}}, ""),
            ({"lora": {}}, ""),
            ({"method": "evaluate"}, "settings.method"),
        ],
        ids=str,
    )
    def test_settings_are_checked_as_the_engine_will_check_them(self, agent, plan, settings, field):
        with pytest.raises(InvalidRun) as refused:
            check_plan(agent, plan(settings=settings))
        assert field in {fault.field for fault in refused.value.faults}

    def test_a_reward_that_cannot_be_calculated_is_refused_before_anything_is_queued(self, agent, plan, by):
        version = ModelVersionFactory(registered_model=agent.registered_model)
        rule = {"text": "1 if action == 'a' else", "low": 0, "high": 1}
        for reward, told in (({"name": "praise"}, "unknown component"), ({"name": "rule.x", "rule": rule}, "column")):
            given = plan(method="grpo", base_model="", base_version=version, settings={"reward": [reward]})
            with pytest.raises(InvalidRun) as refused:
                start_run(by=by, agent=agent, plan=given)
            [fault] = refused.value.faults
            assert fault.field == "settings.reward" and told in fault.reason
        assert not TrainingRun.objects.exists() and not Job.objects.exists()

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"method": "astrology"}, "method"),
            ({"method": "posterior"}, "dataset"),
            ({"method": "grpo"}, "base_model"),
        ],
    )
    def test_a_method_has_its_needs(self, agent, plan, fields, field):
        with pytest.raises(InvalidRun) as refused:
            check_plan(agent, plan(**fields))
        assert field in {fault.field for fault in refused.value.faults}

    @pytest.mark.parametrize("method", ["kto", "grpo"])
    def test_rewards_that_are_all_the_same_are_refused_where_they_teach_nothing(self, agent, plan, by, method):
        spec = RewardSpecFactory(agent=agent)
        logs = DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=spec, statistics={"mean_reward": 1.0})
        version = ModelVersionFactory(registered_model=agent.registered_model)
        with pytest.raises(InvalidRun) as refused:
            start_run(by=by, agent=agent, plan=plan(method=method, dataset=logs, base_model="", base_version=version))
        told = {"kto": "all its rows were right", "grpo": "no prompt in it has different rewards"}[method]
        assert [(fault.field, fault.reason) for fault in refused.value.faults] == [("dataset", told)]
        assert not TrainingRun.objects.exists() and not Job.objects.exists()
        logs.statistics = {"mean_reward": 0.5}
        assert check_plan(agent, plan(method=method, dataset=logs, base_model="", base_version=version))

    def test_only_allowed_models_are_begun_with(self, agent, plan, settings, tmp_path, by):
        root, link = tmp_path / "models", tmp_path / "models" / "link"
        for folder in (root / "small", tmp_path / "modelsx", settings.VAR / "models", Path(settings.ARTIFACTS)):
            folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "model.safetensors"):
            (root / "small" / name).write_text("{}")
        link.symlink_to("/etc")
        settings.BASE_MODELS = [str(root), "some/model", str(settings.VAR), str(Path(settings.ARTIFACTS).parent)]
        for name in (str(root / "small"), "some/model", "tiny"):
            assert check_plan(agent, plan(base_model=name))
        own = (f"{settings.VAR}/models", f"{settings.ARTIFACTS}/sha256/ab")
        outside = ("/etc", f"{root}/../modelsx", f"{tmp_path}/modelsx", str(link))
        for name in (*own, *outside, "models/small", "other/model", "../x", "some/model/../.."):
            with pytest.raises(InvalidRun) as refused:
                start_run(by=by, agent=agent, plan=plan(base_model=name))
            assert refused.value.faults[0].field == "base_model", name
        assert not TrainingRun.objects.exists()
        run = start_run(by=by, agent=agent, plan=plan(base_model="some/model"))
        settings.BASE_MODELS = []
        assert run_job(run.job_id) == "dead"  # before an engine is started
        assert "no longer among the allowed" in Job.objects.get(id=run.job_id).error

    def test_an_adapter_over_no_version_is_no_base(self, agent, plan):
        adapter = ModelVersionFactory(
            registered_model=agent.registered_model,
            artifact=ArtifactFactory(workspace=agent.workspace, kind="adapter"),
        )
        with pytest.raises(InvalidRun, match="cannot start"):
            check_plan(agent, plan(base_model="", base_version=adapter))

    def test_a_queued_run_is_cancelled_at_once(self, agent, by, plan):
        run = start_run(by=by, agent=agent, plan=plan())
        assert cancel_run(by=by, run=run).state == "cancelled"
        run.job.refresh_from_db()
        assert run.job.state == "cancelled"
        with pytest.raises(RunOver):
            cancel_run(by=by, run=run)
        assert AuditEntry.objects.filter(action="run.cancelled").count() == 1

    def test_a_running_run_is_told_to_stop(self, agent, by, plan):
        run = start_run(by=by, agent=agent, plan=plan())
        claim_job(run.job_id)
        move_run(run, RunState.RUNNING)
        assert cancel_run(by=by, run=run).state == "stopping"
        run.job.refresh_from_db()
        assert (run.job.state, run.job.cancel_requested) == ("running", True)
        assert cancel_run(by=by, run=run).state == "stopping"  # asking twice does no harm

    @pytest.mark.parametrize(("job_state", "run_state"), [("dead", "failed"), ("cancelled", "cancelled")])
    @pytest.mark.parametrize("before", ["queued", "running", "stopping"])
    def test_the_end_of_the_job_is_the_end_of_the_run(self, agent, by, plan, job_state, run_state, before):
        run = start_run(by=by, agent=agent, plan=plan())
        TrainingRun.objects.filter(id=run.id).update(state=before)
        run.job.state, run.job.error = job_state, "its worker was lost 3 times"
        end_with_job(run.job)
        run.refresh_from_db()
        assert (run.state, run.error) == (run_state, "its worker was lost 3 times")
        end_with_job(run.job)  # a second time: nothing
        assert run.events.filter(kind=run_state).count() == 1


class TestDatasets:
    def test_only_rewarded_decisions_are_learned_from(self, agent, by, store):
        spec = create_reward_spec(
            by=by, agent=agent, content=SpecContent([ComponentSetup("verdict"), ComponentSetup("calibration", 0.1)])
        )
        good = DecisionFactory(agent=agent, unit="ann", state={"text": "a flight"}, action="travel", propensity=0.25)
        poor = DecisionFactory(agent=agent, unit=None)
        silent = DecisionFactory(agent=agent)
        unknown = DecisionFactory(agent=agent, propensity=None)
        failed = DecisionFactory(agent=agent)
        other = DecisionFactory(agent=AgentFactory(workspace=agent.workspace))
        FeedbackFactory(decision=poor, value="corrected")
        FeedbackFactory(decision=failed, value="liked")  # no verdict that a component knows
        for decision in (good, unknown, other):
            FeedbackFactory(decision=decision, value="confirmed")
        assert silent.feedback.count() == 0
        calculate_rewards(spec)
        dataset = snapshot_ledger(by=by, agent=agent, name="monday")

        lines = (artifacts.artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
        rows = {row["id"]: row for row in map(json.loads, lines)}
        assert set(rows) == {str(good.id), str(poor.id), str(unknown.id)}
        assert rows[str(good.id)] == {
            "id": str(good.id),
            "prompt": "a flight",
            "options": ["finance", "travel", "health"],
            "action": "travel",
            "propensity": 0.25,
            "reward": pytest.approx(0.9666667, abs=1e-6),
            "raw": 0.95,
            "right": 1.0,
            "group": "ann",
        }
        assert rows[str(poor.id)]["reward"] == 0.0
        assert "group" not in rows[str(poor.id)]
        assert (dataset.rows, dataset.kind, dataset.reward_spec) == (3, "logged", spec)
        assert rows[str(unknown.id)]["propensity"] is None
        assert set(DatasetItem.objects.values_list("dataset", "decision", "reward_version")) == {
            (dataset.id, good.id, 1),
            (dataset.id, poor.id, 1),
            (dataset.id, unknown.id, 1),
        }
        assert dataset.statistics["confirmed_share"] == pytest.approx(2 / 3)
        artifacts.verify_artifact(dataset.artifact.digest)

    def test_a_row_says_what_the_deciding_model_thought_where_it_is_known(self, agent, by, store):
        acting = acting_policy([0.6, 0.3, 0.1], temperature=0.5, epsilon=0.1)
        options = ["finance", "travel", "health"]
        told = [{"action": option, "probability": p} for option, p in zip(options, acting, strict=True)]
        known = DecisionFactory(agent=agent, alternatives=told[::-1], temperature=0.5, epsilon=0.1)
        partly = DecisionFactory(agent=agent, alternatives=told[:2], temperature=0.5, epsilon=0.1)
        outside = DecisionFactory(agent=agent, alternatives=told, temperature=None, epsilon=None)
        for decision in (known, partly, outside):
            FeedbackFactory(decision=decision, value="confirmed")
        calculate_rewards(current_reward_spec(agent))
        dataset = snapshot_ledger(by=by, agent=agent, name="told")
        lines = (artifacts.artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
        rows = {row["id"]: row for row in map(json.loads, lines)}
        assert rows[str(known.id)]["probabilities"] == pytest.approx([0.6, 0.3, 0.1])
        assert "probabilities" not in rows[str(partly.id)] | rows[str(outside.id)]

    def test_a_snapshot_does_not_change_when_the_ledger_does(self, agent, by, store):
        spec = current_reward_spec(agent)
        decision = DecisionFactory(agent=agent)
        FeedbackFactory(decision=decision, value="confirmed")
        calculate_rewards(spec)
        first = snapshot_ledger(by=by, agent=agent, name="before")
        FeedbackFactory(decision=decision, value="overridden")
        calculate_rewards(spec)
        second = snapshot_ledger(by=by, agent=agent, name="after")
        assert [d.items.get().reward_version for d in (first, second)] == [1, 2]
        read = [
            json.loads((artifacts.artifact_path(d.artifact.digest) / "rows.jsonl").read_text())["reward"]
            for d in (first, second)
        ]
        assert read == [1.0, 0.0]

    def test_nothing_rewarded_is_nothing_to_learn_from(self, agent, by, store, api):
        with pytest.raises(EmptyDataset):
            snapshot_ledger(by=by, agent=agent, name="empty")
        client = api("admin")
        asked = client.post("datasets", {"agent": "filer", "name": "empty"})
        assert asked.status_code == 202
        assert run_job(asked.json()["id"]) == "dead"  # at its first attempt
        told = client.get(f"datasets/freezings/{asked.json()['id']}").json()
        assert (told["state"], told["dataset"]) == ("dead", None) and "no rows to train on" in told["error"]

    @pytest.mark.django_db(transaction=True)
    def test_a_request_queues_the_walk_and_the_job_freezes_once(
        self, agent, by, store, api, monkeypatch, django_assert_max_num_queries
    ):
        decision = DecisionFactory(agent=agent, propensity=0.5)
        FeedbackFactory(decision=decision, value="confirmed")
        calculate_rewards(current_reward_spec(agent))
        client = api("admin")
        with django_assert_max_num_queries(20) as asked:
            answer = client.post("datasets", {"agent": "filer", "name": "monday"})
        assert (answer.status_code, answer.json()["state"]) == (202, "queued")
        # A prepared statement, such as the key's, is captured without its text.
        assert not [query for query in asked if "decisions_decision" in (query["sql"] or "")]
        assert not DatasetSnapshot.objects.exists()
        # An attempt that has lost its job makes nothing; the next one does.
        job, told = claim_job(answer.json()["id"]), []
        context = JobContext(job)
        monkeypatch.setattr("training.datasets.snapshots.FETCH", 1)
        monkeypatch.setattr(context, "note_progress", lambda *said: told.append(said))
        Job.objects.update(fence=job.fence + 1)
        with pytest.raises(StaleFence):
            freeze_dataset(context, start_runs=start_requested_best)
        assert not DatasetSnapshot.objects.exists() and not DatasetItem.objects.exists()
        assert told and 0 <= told[0][0] <= 1 and told[0][1] == "1 rows"
        Job.objects.update(state="queued", lease_until=None)
        assert run_job(job.id) == "succeeded"
        told = client.get(f"datasets/freezings/{job.id}").json()
        dataset = DatasetSnapshot.objects.get()
        assert (told["state"], told["progress"], told["dataset"]) == ("succeeded", 1.0, str(dataset.id))
        assert (dataset.name, dataset.rows) == ("monday", 1)
        assert AuditEntry.objects.get(action="dataset.created").actor.startswith("key:")

    def test_labelled_rows_are_kept_as_they_are(self, agent, by, store):
        rows = labelled(5, 1)
        rows[2]["prompt"] = "one two three four five"
        AgentVersionFactory(agent=agent, max_prompt_tokens=4)
        dataset = import_labelled(by=by, agent=agent, name="gold", rows=iter(rows))
        assert (dataset.statistics["cut"], dataset.statistics["prompt_tokens"]) == (1, 4)
        kept = (artifacts.artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in kept] == rows
        assert (dataset.rows, dataset.kind) == (5, "labelled")
        with pytest.raises(EmptyDataset):
            import_labelled(by=by, agent=agent, name="none", rows=[])

    def test_the_training_scale_runs_from_corrected_to_confirmed(self, agent, by):
        spec = current_reward_spec(agent)
        assert [reward_if(spec, v) for v in ("confirmed", "ignored", "corrected", "overridden")] == [
            0.75, 0.5, 0.375, 0.3,
        ]  # fmt: skip
        assert [training_scale(spec, VERDICT_VALUES[v]) for v in ("confirmed", "corrected", "overridden")] == [1, 0, 0]
        assert training_scale(spec, VERDICT_VALUES["ignored"]) == pytest.approx(1 / 3)
        without = create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup("calibration")]))
        assert (without.signal, training_scale(without, -0.4)) == ("", pytest.approx(0.6))


class TestScores:
    def result(self, valid=None):
        score = {"rows": 4, "accuracy": 0.5, "probability_of_right": 0.5, "valid_share": valid}
        return RunResult.model_validate(
            {"run_id": "r", "method": "posterior", "attempt": 1, "scores": {"base": score, "trained": score}}
        )

    def predictions(self, tmp_path, base, trained):
        path = tmp_path / "predictions.jsonl"
        lines = [
            {"id": str(n), "group": f"g{n // 2}", "model": model, "correct": bool(hit), "expected_right": float(hit)}
            for model, hits in (("base", base), ("trained", trained))
            for n, hit in enumerate(hits)
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def test_means_differences_and_clusters(self, agent, tmp_path):
        path = self.predictions(tmp_path, [1, 0, 0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0])
        scored = score_predictions(path, self.result(), spec=current_reward_spec(agent), free_rows=0)
        assert scored.rows == 8
        for model, accuracy in (("base", 0.25), ("trained", 0.75)):
            found = scored.scores[model]["accuracy"]
            assert (found["mean"], found["n"], found["clusters"]) == (accuracy, 8, 4)
            assert found["low"] < accuracy < found["high"]
            # What the spec gives to a right (0.75) and to a wrong (0.375) action.
            assert scored.scores[model]["reward"]["mean"] == pytest.approx(0.375 + 0.375 * accuracy)
        assert scored.differences["accuracy"]["mean"] == 0.5
        assert scored.differences["reward"]["mean"] == pytest.approx(0.1875)

    def test_the_share_of_valid_generations_has_the_rows_that_were_asked(self, agent, tmp_path):
        path = self.predictions(tmp_path, [1, 0, 0, 1], [1, 0, 1, 1])
        scored = score_predictions(path, self.result(valid=0.5), spec=current_reward_spec(agent), free_rows=300)
        assert (scored.scores["base"]["valid_share"]["mean"], scored.scores["base"]["valid_share"]["n"]) == (0.5, 4)

    @pytest.mark.parametrize(
        ("trained", "passed"),
        [([1] * 40, True), ([0, 1] * 20, False), ([0] * 40, False)],
        ids=["better", "same", "worse"],
    )
    def test_only_a_clear_gain_passes_the_gate(self, agent, tmp_path, trained, passed):
        path = self.predictions(tmp_path, [0, 1] * 20, trained)
        scored = score_predictions(path, self.result(), spec=current_reward_spec(agent), free_rows=0)
        base, version = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
        verdict = gate_version(version=version, against=base, scored=scored)
        assert verdict.passed is passed
        assert verdict.low <= verdict.estimate <= verdict.high


class TestExports:
    def test_a_version_has_one_export_under_way_or_done(self, by, agent):
        version = ModelVersionFactory(registered_model=agent.registered_model)
        first = start_export(by=by, version=version)
        assert start_export(by=by, version=version) == first
        assert (first.job.kind, first.state) == ("training.export_version", "queued")

    def test_a_failed_one_may_be_tried_again(self, by, agent):
        version = ModelVersionFactory(registered_model=agent.registered_model)
        first = start_export(by=by, version=version)
        first.job.error = "no space left"
        end_export(first.job)
        first.refresh_from_db()
        assert (first.state, first.error, first.finished_at is not None) == ("failed", "no space left", True)
        assert start_export(by=by, version=version) != first
