"""Pages of runs and of one version."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import msgspec
import pytest
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from tools.factories import (
    AliasFactory,
    DatasetSnapshotFactory,
    EvaluationFactory,
    ExportJobFactory,
    GateVerdictFactory,
    JobFactory,
    ModelVersionFactory,
    RunEventFactory,
    RunMetricFactory,
    TrainingRunFactory,
)
from training.engine.spec.result import RewardSpread, RunResult
from training.engine.spec.samples import Asked, Look, Reply, Samples
from training.models import DatasetSnapshot, ExportJob, TrainingRun
from training.runs.services import RunPlan, start_run
from training.runs.shown.curves import estimate_left
from training.supervision.figures import keep_metrics
from workspaces.access.actors import person

DIFFERENCE = {"mean": 0.123, "low": 0.081, "high": 0.165, "n": 100, "clusters": 20}


@pytest.fixture
def run(agent: Any, by: Any) -> TrainingRun:
    """Queued, with its job."""
    dataset = DatasetSnapshotFactory(agent=agent)
    return start_run(by=by, agent=agent, plan=RunPlan(method="pretrain", dataset=dataset, base_model="tiny"))


def finish(run: TrainingRun, difference: dict[str, Any] = DIFFERENCE) -> Any:
    version = ModelVersionFactory(registered_model=run.agent.registered_model)
    TrainingRun.objects.filter(id=run.id).update(
        state="succeeded", produced_version=version, finished_at=timezone.now(), progress=1.0
    )
    run.refresh_from_db()
    differences = {"accuracy": difference, "reward": difference}
    EvaluationFactory(run=run, version=version, differences=differences)
    return version


PLAIN = {
    "accuracy": {"mean": 0.741, "low": 0.7, "high": 0.78, "n": 400, "clusters": 400},
    "difference": {"mean": -0.041, "low": -0.06, "high": -0.022, "n": 400, "clusters": 400},
    "rows": 1_850,
}


def at(name: str, row: Any, slug: str | None = None) -> str:
    return reverse(f"pages:{name}", args=[slug or row.workspace.slug, row.pk])


class TestRuns:
    @pytest.fixture
    def path(self, workspace: Any) -> str:
        return reverse("pages:runs", args=[workspace.slug])

    def test_no_run_says_what_to_do(self, viewer: Any, admin: Any, path: str, page_client: Any) -> None:
        shown = page_client(viewer).get(path).content.decode()
        assert "No runs yet" in shown and "Start a run" not in shown
        assert "Start a run" in page_client(admin).get(path).content.decode()

    def test_it_says_what_each_run_gained(self, run: TrainingRun, viewer: Any, path: str, page_client: Any) -> None:
        version = finish(run)
        text = page_client(viewer).get(path).content.decode()
        assert "succeeded" in text and "+12.3 pts" in text and "[+8.1, +16.5]" in text
        assert str(version) in text and f"{run.dataset.rows} {run.dataset.kind}" in text

    def test_two_of_one_minute_have_different_names(self, run: TrainingRun) -> None:
        run.created_at = dt.datetime(2026, 11, 22, 14, 5, 9, tzinfo=dt.UTC)
        other = TrainingRun(agent=run.agent, method=run.method, created_at=run.created_at + dt.timedelta(seconds=1))
        assert "14:05:09" in run.name and run.name != other.name

    def test_every_difference_stands_on_one_axis(
        self, run: TrainingRun, agent: Any, viewer: Any, path: str, page_client: Any
    ) -> None:
        finish(run)
        other = TrainingRunFactory(agent=agent)
        wide = {"mean": -0.4, "low": -0.5, "high": -0.3, "n": 10, "clusters": 10}
        finish(other, wide)
        lines = page_client(viewer).get(path).context["lines"]
        assert [(line["tone"], line["reach"]) for line in lines] == [("bad", 0.5 * 1.15), ("ok", 0.5 * 1.15)]

    def test_the_sparkline_is_the_loss_in_the_database(
        self, run: TrainingRun, viewer: Any, path: str, page_client: Any
    ) -> None:
        """70 steps in 32 buckets: the first 6 hold three steps, the others two."""
        for step in range(1, 71):
            RunMetricFactory(run=run, step=step, name="loss", value=float(step))
            RunMetricFactory(run=run, step=step, name="reward", value=-1.0)
        (line,) = page_client(viewer).get(path).context["lines"]
        threes = [3 * bucket + 2.0 for bucket in range(6)]
        assert line["loss"] == threes + [18 + 2 * bucket + 1.5 for bucket in range(26)]

    def test_it_is_narrowed_by_agent_method_and_state(
        self, agent: Any, run: TrainingRun, viewer: Any, path: str, page_client: Any
    ) -> None:
        other = TrainingRunFactory(agent__workspace=agent.workspace, method="posterior")
        client = page_client(viewer)
        assert client.get(f"{path}?agent={agent.slug}").context["runs"] == [run]
        assert client.get(f"{path}?method=posterior").context["runs"] == [other]
        assert "No runs match these filters" in client.get(f"{path}?state=failed").content.decode()

    def test_pages_follow_the_cursor_by_few_queries(
        self, agent: Any, viewer: Any, path: str, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        dataset = DatasetSnapshotFactory(agent=agent)
        made = [run.id for run in TrainingRunFactory.create_batch(30, agent=agent, dataset=dataset)]
        client = page_client(viewer)
        with django_assert_max_num_queries(8):
            first = client.get(path)
        second = client.get(f"{path}?{first.context['older']}")
        seen = [run.id for page in (first, second) for run in page.context["runs"]]
        assert seen == sorted(made, reverse=True) and second.context["older"] == ""
        assert client.get(f"{path}?before=x").status_code == 400

    def test_a_row_is_polled_until_its_run_is_over(self, run: TrainingRun, viewer: Any, page_client: Any) -> None:
        client = page_client(viewer)
        busy = client.get(at("run-row", run))
        assert busy.status_code == 200 and "hx-trigger" in busy.content.decode()
        finish(run)
        over = client.get(at("run-row", run))
        assert over.status_code == 286 and "hx-trigger" not in over.content.decode()


class TestCompare:
    @pytest.fixture
    def others(self, agent: Any) -> list[TrainingRun]:
        return TrainingRunFactory.create_batch(3, agent=agent)

    def ask(self, client: Any, runs: list[TrainingRun]) -> Any:
        path = reverse("pages:runs", args=[runs[0].workspace.slug])
        return client.get(f"{path}?compare={','.join(str(run.id) for run in runs)}")

    def test_it_sets_curves_settings_and_scores_beside_each_other(
        self, run: TrainingRun, others: list[TrainingRun], viewer: Any, page_client: Any
    ) -> None:
        finish(run)
        TrainingRun.objects.filter(id=others[0].id).update(spec={"method": "pretrain", "optimiser": {"epochs": 9}})
        for step, value in ((1, 3.0), (2, 2.0)):
            RunMetricFactory(run=run, step=step, name="loss", value=value)
        RunMetricFactory(run=others[0], step=2, name="loss", value=1.0)
        found = self.ask(page_client(viewer), [others[0], run])
        (figure,) = found.context["curves"]["figures"]
        assert figure["x"]["values"] == [1, 2]
        assert [series["values"] for series in figure["series"]] == [[None, 1.0], [3.0, 2.0]]
        differs = {one.name: one.values for one in found.context["differences"]}
        assert differs["optimiser.epochs"] == ["9", "–"] and "method" not in differs
        accuracy = found.context["scores"][0]
        assert accuracy.scores[0] == (None, None, "") and accuracy.scores[1][1] == DIFFERENCE
        assert "+12.3 pts" in found.content.decode()

    def test_models_are_paired_on_the_rows_that_both_were_measured_on(
        self, run: TrainingRun, others: list[TrainingRun], viewer: Any, page_client: Any, store: Any
    ) -> None:
        compared = [run, *others[:2]]
        for one, skill in zip(compared, (10, 15, 15), strict=True):
            attempt = store.parent / "runs" / str(one.id) / "attempts" / "1"
            attempt.mkdir(parents=True)
            ids = range(20) if one is not others[1] else range(21)
            lines = [{"id": str(at), "model": "trained", "correct": at < skill} for at in ids]
            (attempt / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            result = {"run_id": str(one.id), "method": one.method, "attempt": 1, "predictions": "predictions.jsonl"}
            (attempt / "result.json").write_text(json.dumps(result))
        found = self.ask(page_client(viewer), compared)
        first, second, third = found.context["paired"].differences
        assert first is None and third is None  # the third was measured on another row, too
        assert second["mean"] == pytest.approx(0.25) and 0 < second["low"] < 0.25 < second["high"]
        assert "+25.0 pts" in found.content.decode()

    def test_the_list_keeps_what_was_compared_also_under_a_filter_that_hides_it(
        self, run: TrainingRun, others: list[TrainingRun], viewer: Any, page_client: Any
    ) -> None:
        client = page_client(viewer)
        runs = reverse("pages:runs", args=[run.workspace.slug])
        back = f"{runs}?picked={run.id}&amp;picked={others[0].id}"
        assert back in self.ask(client, [run, others[0]]).content.decode()
        assert f"{runs}?picked={run.id}" in client.get(at("run", run)).content.decode()
        found = client.get(back.replace("&amp;", "&")).content.decode()
        assert found.count(" checked hx-preserve") == 2
        elsewhere = TrainingRunFactory()
        hidden = client.get(f"{runs}?picked={run.id},{elsewhere.id}&state=cancelled")
        assert hidden.context["picked_elsewhere"] == [run] and str(elsewhere.id) not in hidden.content.decode()

    @pytest.mark.parametrize("count", [1, 4])
    def test_one_or_four_are_refused(
        self, count: int, run: TrainingRun, others: list[TrainingRun], viewer: Any, page_client: Any
    ) -> None:
        answer = self.ask(page_client(viewer), [run, *others][:count])
        assert answer.status_code == 400 and "two or three" in answer.content.decode()

    def test_a_run_of_elsewhere_is_not_there(self, run: TrainingRun, viewer: Any, page_client: Any) -> None:
        elsewhere = TrainingRunFactory()
        assert self.ask(page_client(viewer), [run, elsewhere]).status_code == 404


class TestRun:
    def test_the_curves_hold_the_newest_attempt_of_each_step(
        self, run: TrainingRun, viewer: Any, page_client: Any
    ) -> None:
        for attempt, step, value in ((1, 1, 3.0), (1, 2, 2.5), (2, 2, 2.0), (2, 3, 1.5)):
            RunMetricFactory(run=run, attempt=attempt, step=step, name="loss", value=value)
        RunMetricFactory(run=run, attempt=1, step=1, name="rate", value=0.1)
        found = page_client(viewer).get(at("run-curves", run)).json()
        assert found["terminal"] is False
        assert found["curves"] == [
            {"name": "loss", "x": [1, 2, 3], "y": [3.0, 2.0, 1.5]},
            {"name": "rate", "x": [1], "y": [0.1]},
        ]
        assert found["attempts"] == [{"attempt": 1, "step": 1}, {"attempt": 2, "step": 2}]

    def test_only_what_is_new_is_answered(self, run: TrainingRun, viewer: Any, page_client: Any) -> None:
        client = page_client(viewer)
        RunMetricFactory(run=run, step=1, name="loss", value=3.0)
        first = client.get(at("run-curves", run)).json()
        RunMetricFactory(run=run, step=2, name="loss", value=2.0)
        second = client.get(f"{at('run-curves', run)}?after={first['after']}").json()
        assert second["curves"] == [{"name": "loss", "x": [2], "y": [2.0]}]
        third = client.get(f"{at('run-curves', run)}?after={second['after']}").json()
        assert third["curves"] == [] and third["after"] == second["after"]
        assert client.get(f"{at('run-curves', run)}?after=-1").status_code == 400

    def test_a_long_curve_is_thinned_and_keeps_its_end(
        self, run: TrainingRun, viewer: Any, page_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("training.runs.shown.curves.CURVE_POINTS", 4)
        for step in range(1, 11):
            RunMetricFactory(run=run, step=step, name="loss", value=1 / step)
        (curve,) = page_client(viewer).get(at("run-curves", run)).json()["curves"]
        assert curve["x"] == [1, 4, 7, 10]

    def test_the_time_left_is_that_of_the_pace(self, run: TrainingRun) -> None:
        """From 20% to 50% in 30 seconds: the other half takes 50. The 90% before are of another count."""
        now = timezone.now()
        TrainingRun.objects.filter(id=run.id).update(state="running", started_at=now)
        run.refresh_from_db()
        assert estimate_left(run) is None
        for sequence, (fraction, seconds) in enumerate([(0.9, 0), (0.2, 10), (0.3, 20), (0.5, 40)]):
            moment = now + dt.timedelta(seconds=seconds)
            RunEventFactory(run=run, sequence=sequence, at=moment, details={"fraction": fraction})
        left = estimate_left(run)
        assert left is not None and left.total_seconds() == pytest.approx(50)

    def test_the_status_is_polled_until_the_run_is_over(self, run: TrainingRun, viewer: Any, page_client: Any) -> None:
        RunEventFactory(run=run, kind="checkpoint", details={"step": 120})
        client = page_client(viewer)
        busy = client.get(at("run-status", run))
        assert (
            busy.status_code == 200 and "hx-trigger" in busy.content.decode() and "checkpoint" in busy.content.decode()
        )
        finish(run)
        over = client.get(at("run-status", run))
        assert over.status_code == 286 and "every 2s" not in over.content.decode()
        assert "+12.3 pts" in over.content.decode()
        assert client.get(at("run-curves", run)).json()["terminal"] is True

    def test_its_figures_are_those_that_were_kept_when_it_ended(
        self, run: TrainingRun, viewer: Any, page_client: Any, api: Any
    ) -> None:
        assert page_client(viewer).get(at("run", run)).context["figures"] is None
        rewards = RewardSpread(
            rows=8, mean=0.75, deviation=0.4, minimum=0, median=1, maximum=1, counts=[2, *[0] * 8, 6]
        )
        result = RunResult(
            run_id=str(run.id), method="reward_weighted", attempt=1, steps=40, rows=8, rewards=rewards,
            trainable_parameters=250, total_parameters=1_000, metrics={"loss_at_start": 2.0, "loss_at_end": 0.5},
        )  # fmt: skip
        TrainingRun.objects.filter(id=run.id).update(metrics=keep_metrics(result))
        text = page_client(viewer).get(at("run-status", run)).content.decode()
        assert "250 of 1,000 (25.0%)" in text and "2.000 → 0.500" in text and "75.0%" in text
        assert "Reward distribution" in text and "0.9 to 1.0" in text and "standard deviation 0.400" in text
        told = api("export:read").get(f"runs/{run.pk}").json()["metrics"]
        assert (told["loss_reduction"], told["rewards"]["counts"][-1]) == (0.75, 6)
        assert "loss_reduction" not in keep_metrics(result.model_copy(update={"method": "grpo"}))
        assert "Acted afresh" not in text

    def test_it_says_what_paid_for_fresh_decisions_on_a_log_without_propensities(
        self, run: TrainingRun, viewer: Any, page_client: Any
    ) -> None:
        auc = {"reward_model_auc": 0.71, "reward_model_auc_low": 0.64, "reward_model_auc_high": 0.78}
        told = {"without_propensity": 1234.0, "reward_model_folds": 5.0, "reward_model_correlation": 0.34}
        kept = {"total_parameters": 1_000, "trainable_parameters": 250, "starting_model_auc": 0.6, **auc, **told}
        TrainingRun.objects.filter(id=run.id).update(metrics=kept)
        text = page_client(viewer).get(at("run-status", run)).content.decode()
        assert "Acted afresh, paid by" in text and "as 1,234 decisions had no propensity" in text
        assert "AUC 0.71 (95 % interval 0.64 to 0.78; a constant has 0.50), correlation 0.34" in text

    def test_sample_answers_stand_beside_those_from_before_until_their_rows_are_erased(
        self, run: TrainingRun, viewer: Any, page_client: Any, api: Any, store: Any
    ) -> None:
        path, none = f"runs/{run.pk}/samples", {"held_out": False, "step": None, "rows": []}
        assert api("export:read").get(path).json() == none
        client, folder = page_client(viewer), store.parent / "runs" / str(run.id) / "attempts"
        assert "Sample answers" not in client.get(at("run", run)).content.decode()
        row = Asked("1", "Where does <this> go?", "travel", system="File <notes>.")
        before, now = Reply("finance", 0.41, False, "fin"), Reply("travel", 0.87, True, "travel", True)
        for attempt, replies in ((1, [before]), (2, [now])):
            (folder / str(attempt)).mkdir(parents=True)
            samples = Samples("heldout", [row], Look(0, [before]), Look(40, replies))
            (folder / str(attempt) / "samples.json").write_bytes(msgspec.json.encode(samples))
        text = client.get(at("run-status", run)).content.decode()
        assert "Where does &lt;this&gt; go?" in text and "41.0%" in text and "87.0%" in text
        assert "File &lt;notes&gt;." in text
        assert "writes freely" in text and text.count("writes freely") == 1
        shown = client.get(at("run", run)).context["samples"]
        assert (shown.step, shown.right, shown.lines) == (40, (0, 1), [(row, before, now)])
        told = api("export:read").get(path).json()
        assert (told["held_out"], told["step"]) == (True, 40)
        asked, replies = msgspec.to_builtins(row), {"before": before, "now": now}
        assert told["rows"] == [asked | msgspec.to_builtins(replies)]
        DatasetSnapshot.objects.filter(id=run.dataset_id).update(marked_at=timezone.now(), erased_rows=1)
        assert "Sample answers" not in client.get(at("run", run)).content.decode()
        assert api("export:read").get(path).json() == none

    def test_the_queries_do_not_grow_with_the_events(
        self, run: TrainingRun, viewer: Any, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        finish(run)
        for sequence in range(20):
            RunEventFactory(run=run, kind="checkpoint", sequence=sequence, details={"step": sequence})
            RunMetricFactory(run=run, step=sequence)
        client = page_client(viewer)
        with django_assert_max_num_queries(11):
            client.get(at("run", run))
        with django_assert_max_num_queries(6):
            client.get(at("run-curves", run))

    def test_the_curves_are_files_of_every_point_where_the_newest_attempt_counts(
        self, run: TrainingRun, viewer: Any, page_client: Any, api: Any
    ) -> None:
        for attempt, step, value in ((1, 1, 0.9), (1, 2, 0.8), (2, 2, 0.5), (2, 3, 0.4)):
            RunMetricFactory(run=run, attempt=attempt, step=step, name="loss", value=value)
        answers = (
            page_client(viewer).get(at("run-curves-csv", run)),
            api("export:read").get(f"runs/{run.pk}/curves"),
        )
        for answer in answers:
            assert answer["Content-Type"].startswith("text/csv") and f"curves-{run.pk}.csv" in str(answer.headers)
            lines = b"".join(answer.streaming_content).decode().splitlines()
            assert lines == ["curve,step,value", "loss,1,0.9", "loss,2,0.5", "loss,3,0.4"]

    def test_an_experiment_is_started_from_a_finished_run_where_its_gate_allows_it(
        self, run: TrainingRun, admin: Any, viewer: Any, page_client: Any
    ) -> None:
        version, champion = finish(run), ModelVersionFactory(registered_model=run.agent.registered_model)
        client, start = page_client(admin), at("version-try", version)

        def look(who: Any = None) -> str:
            return (page_client(who) if who else client).get(at("run-status", run)).content.decode()

        AliasFactory(version=champion)
        assert "No gate could judge it" in look() and start in look()
        verdict = GateVerdictFactory(version=version, against=champion, estimate=0.1, low=0.05, high=0.15)
        assert f"The gate passed: +10.0 points [+5.0, +15.0] better than {champion}" in look() and start in look()
        assert "The gate passed" in look(viewer) and start not in look(viewer)
        type(verdict).objects.update(passed=False, low=-0.05)
        assert "It cannot be tried on live traffic" in look() and start not in look()
        type(verdict).objects.update(passed=True)
        experiment = start_experiment(
            by=person(admin, run.workspace, "admin"), treatment=version, plan=ExperimentPlan(), reason="a better one"
        )
        assert experiment.name in look() and start not in look()

    @pytest.mark.parametrize(
        "name", ["run", "run-row", "run-status", "run-curves", "run-curves-csv", "run-predictions", "run-cancel"]
    )
    @pytest.mark.quick_cases(2)
    def test_an_outsider_finds_nothing(
        self, name: str, run: TrainingRun, outsider: Any, other_workspace: Any, page_client: Any
    ) -> None:
        client = page_client(outsider)
        assert client.get(at(name, run)).status_code == 404
        assert client.get(at(name, run, other_workspace.slug)).status_code == 404

    def test_an_admin_cancels_it_once(self, run: TrainingRun, admin: Any, page_client: Any) -> None:
        client = page_client(admin)
        assert client.get(at("run-cancel", run)).status_code == 200
        run.refresh_from_db()
        assert run.state == "queued"
        assert client.post(at("run-cancel", run))["Location"] == at("run", run)
        run.refresh_from_db()
        assert run.state == "cancelled"
        again = client.post(at("run-cancel", run))
        assert again.status_code == 409 and "already" in again.content.decode()

    @pytest.mark.parametrize("persona", ["viewer", "labeller"])
    def test_lower_roles_see_no_button_and_are_refused(
        self, persona: str, run: TrainingRun, page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        shown = client.get(at("run", run)).content.decode()
        assert 'id="cancel"' not in shown and "Run again" not in shown
        assert client.post(at("run-cancel", run)).status_code == 403
        run.refresh_from_db()
        assert run.state == "queued" and not Job.objects.get(id=run.job_id).cancel_requested


class TestVersion:
    @pytest.fixture
    def version(self, run: TrainingRun) -> Any:
        return finish(run)

    def test_it_shows_run_evaluation_and_digest(
        self, version: Any, run: TrainingRun, viewer: Any, page_client: Any
    ) -> None:
        text = page_client(viewer).get(at("version", version)).content.decode()
        assert f'href="{at("run", run)}"' in text and "+12.3 pts" in text and version.artifact.digest in text

    def test_it_says_where_a_plain_classifier_is_better(self, version: Any, viewer: Any, page_client: Any) -> None:
        client, evaluation = page_client(viewer), version.evaluations.get()
        paths = [at("version", version), at("run", evaluation.run)]
        assert not any("plain classifier" in client.get(path).content.decode() for path in paths)
        evaluation.plain = PLAIN
        evaluation.save()
        for path in paths:
            text = client.get(path).content.decode()
            assert "A plain classifier of words is better" in text and "74.1%" in text and "−4.1 pts" in text
        evaluation.plain = {**PLAIN, "difference": {**PLAIN["difference"], "high": 0.01}}
        evaluation.save()
        text = client.get(paths[0]).content.decode()
        assert "A plain classifier of words reaches" in text and "is better" not in text

    def test_page_and_api_say_how_many_held_out_decisions_are_left_out(
        self, version: Any, viewer: Any, page_client: Any, api: Any
    ) -> None:
        client, evaluation = page_client(viewer), version.evaluations.get()
        paths = [at("version", version), at("run", evaluation.run)]
        assert not any("Left out" in client.get(path).content.decode() for path in paths)
        evaluation.unanswered, evaluation.without_feedback = 3, 1
        evaluation.save()
        for path in paths:
            text = client.get(path).content.decode()
            assert "Left out: 3 that were wrong and do not name the right action" in text
            assert "Left out: 1 that nobody judged" in text
        told = api("admin").get(f"/api/v1/runs/{evaluation.run_id}").json()["scores"]
        assert (told["rows"], told["unanswered"], told["without_feedback"]) == (10, 3, 1)

    def test_it_says_where_it_serves_by_few_queries(
        self, version: Any, run: TrainingRun, viewer: Any, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        client = page_client(viewer)
        assert "This version serves no traffic" in client.get(at("version", version)).content.decode()
        AliasFactory(version=version)
        with django_assert_max_num_queries(20):
            text = client.get(at("version", version)).content.decode()
        assert "100.0%" in text and f"of the units of {run.agent.name}" in text

    def test_an_admin_exports_it_once(self, version: Any, admin: Any, page_client: Any) -> None:
        client = page_client(admin)
        for _ in range(2):
            assert client.post(at("version-export", version))["Location"] == at("version", version)
        assert ExportJob.objects.filter(version=version).count() == 1
        page = client.get(at("version", version)).content.decode()
        assert 'hx-trigger="every 2s"' in page
        Job.objects.update(state="running", lease_until=timezone.now() + dt.timedelta(minutes=1))
        part = client.get(at("version-exports", version)).content.decode()
        assert ">running<" in part and "queued" not in part

    def test_a_ready_export_shows_its_digest_and_is_polled_no_more(
        self, version: Any, viewer: Any, page_client: Any
    ) -> None:
        ExportJobFactory(version=version, job=JobFactory(), state="ready", artifact=version.artifact)
        answer = page_client(viewer).get(at("version-exports", version))
        assert answer.status_code == 286 and version.artifact.digest in answer.content.decode()

    @pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
    def test_others_export_nothing(
        self, persona: str, status: int, version: Any, page_client: Any, request: Any
    ) -> None:
        client = page_client(request.getfixturevalue(persona))
        assert client.post(at("version-export", version)).status_code == status
        assert not ExportJob.objects.exists()
