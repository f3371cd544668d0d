"""Suites in service: who may make one, what a version is scored on, pages, comparison, erasure; and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from models_registry.models import Artifact, ModelVersion
from tests.engine_task import TINY, labelled
from tools.factories import (
    OPTIONS,
    AgentFactory,
    ArtifactFactory,
    DatasetSnapshotFactory,
    EvaluationSuiteFactory,
    ModelVersionFactory,
    SuiteScoreFactory,
    TrainingRunFactory,
)
from tools.factories.models_registry import put_files
from tools.factories.training import put_rows
from training.datasets.snapshots import import_labelled, import_rows
from training.engine.spec.result import SuiteAnswers
from training.evaluation.suites.scoring import Answer
from training.evaluation.suites.services import (
    ANSWERS_FILE,
    SuitePlan,
    compare_scores,
    create_suite,
    load_answers,
    make_score,
    save_score,
)
from training.imports.answers import read_answers_file
from training.lineage.marks import remove_marked_files
from training.models import EvaluationSuite, SuiteScore
from training.runs.services import RunPlan, start_run
from workspaces.errors import Conflict, InvalidInput

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows(agent: Any, by: Any, store: Path) -> Any:
    return import_labelled(by=by, agent=agent, name="tickets", rows=labelled(24, 5))


def answers_of(workspace: Any, right: list[bool]) -> Any:
    """An artifact with one answer a row."""
    lines = [
        {"id": str(n), "group": f"g{n}", "slice": "", "answer": "a", "action": "a" if hit else "b", "p": 0.9,
         "reward": float(hit)}
        for n, hit in enumerate(right)
    ]  # fmt: skip
    stored = put_files({ANSWERS_FILE: "".join(json.dumps(line) + "\n" for line in lines)}, kind="dataset")
    known = Artifact.objects.filter(workspace=workspace, digest=stored.digest).first()
    return known or ArtifactFactory(workspace=workspace, kind="dataset", digest=stored.digest)


class TestMaking:
    def test_the_scorer_is_frozen_and_the_champion_is_scored(
        self, agent: Any, by: Any, rows: Any, base_version: ModelVersion
    ) -> None:
        suite = create_suite(by=by, agent=agent, plan=SuitePlan("tickets", rows, "group"))
        assert suite.scorer == {"right": 0.75, "wrong": 0.375}
        job = Job.objects.get(kind="training.score_suite")
        assert job.payload == {"suite": str(suite.id), "version": str(base_version.id)}

    @pytest.mark.parametrize(
        ("plan", "field"),
        [
            ({"name": ""}, "name"),
            ({"slice_by": "colour"}, "slice_by"),
            ({"slice_by": "id"}, None),
            ({"reward": [{"name": "nothing.known"}]}, "reward"),
            ({"reward": [{"name": "verdict"}]}, "reward"),
            ({"reward": [{"name": "matches_answer"}, {"name": "retriever.citations"}]}, "reward"),
        ],
    )
    def test_a_bad_plan_is_refused(self, agent: Any, by: Any, rows: Any, plan: Any, field: str | None) -> None:
        asked = SuitePlan(**{"name": "tickets", "dataset": rows, **plan})
        if field is None:  # 24 ids are few enough for slices
            create_suite(by=by, agent=agent, plan=asked)
            return
        with pytest.raises(InvalidInput) as refused:
            create_suite(by=by, agent=agent, plan=asked)
        assert [fault.field for fault in refused.value.faults] == [field]
        assert not EvaluationSuite.objects.exists()

    def test_slices_are_counted_when_the_dataset_is_made_not_in_the_request(
        self, agent: Any, by: Any, store: Path
    ) -> None:
        rows = [row | {"group": f"g{number // 30}"} for number, row in enumerate(labelled(60, 5))]
        many = import_labelled(by=by, agent=agent, name="many", rows=rows)
        assert {name: many.statistics["values"][name] for name in ("group", "id")} == {"group": 2, "id": 51}
        file = artifact_path(many.artifact.digest) / "rows.jsonl"
        file.chmod(0o644)
        with file.open("w") as lines:  # whoever reads on meets what is no row
            lines.write(json.dumps(rows[0]) + "\nnothing to read")
        assert create_suite(by=by, agent=agent, plan=SuitePlan("g", many, "group")).slice_by == "group"
        with pytest.raises(InvalidInput) as refused:
            create_suite(by=by, agent=agent, plan=SuitePlan("i", many, "id"))
        assert "more than 50 values" in refused.value.faults[0].reason
        # Datasets of earlier releases do not know: their rows are read.
        many.statistics.pop("values")
        with pytest.raises(json.JSONDecodeError):
            create_suite(by=by, agent=agent, plan=SuitePlan("o", many, "group"))
        assert EvaluationSuite.objects.count() == 1

    def test_rows_of_others_and_logged_rows_are_refused_and_a_name_is_taken_once(
        self, agent: Any, by: Any, rows: Any
    ) -> None:
        other = DatasetSnapshotFactory(
            agent=AgentFactory(workspace=agent.workspace), kind="logged", reward_spec=agent.reward_specs.first()
        )
        with pytest.raises(InvalidInput) as refused:
            create_suite(by=by, agent=agent, plan=SuitePlan("x", other))
        assert {fault.reason for fault in refused.value.faults} == {"is another agent's", "has logged rows"}
        create_suite(by=by, agent=agent, plan=SuitePlan("tickets", rows))
        with pytest.raises(InvalidInput, match="cannot be made"):
            create_suite(by=by, agent=agent, plan=SuitePlan("tickets", rows))
        assert EvaluationSuite.objects.count() == 1


def written(**known: Any) -> dict[str, Any]:
    """A row of text; its number is its id."""
    folder = json.dumps({"folder": OPTIONS[known["id"] % 3]})
    return {"prompt": f"note {known['id']}", "completion": folder} | known | {"id": str(known["id"])}


class TestTexts:
    """Two texts are known to be right, one was rejected, and nobody said anything of one."""

    ROWS = (
        written(id=1, reward=1.0),
        written(id=2, source="label", group="g"),
        written(id=3, reward=0.0),
        written(id=4),
    )

    def make(self, agent: Any, by: Any, rows: Any) -> Any:
        return import_rows(by=by, agent=agent, name="letters", kind="text", rows=rows)

    def test_only_right_texts_are_asked_and_the_rest_is_counted(
        self, agent: Any, by: Any, store: Path, base_version: ModelVersion, api: Any, admin: Any, page_client: Any
    ) -> None:
        dataset = self.make(agent, by, self.ROWS)
        body = {"agent": "filer", "name": "letters", "dataset": str(dataset.id), "reward": [{"name": "valid_json"}]}
        made = api("admin").post("/api/v1/suites", body)
        assert made.status_code == 201 and (made.json()["rows"], made.json()["left_out"]) == (2, 2)
        path = reverse("pages:suite", args=[agent.workspace.slug, made.json()["id"]])
        assert "without 2 texts not known to be right" in page_client(admin).get(path).content.decode()
        assert (
            "Create a suite"
            in page_client(admin)
            .get(reverse("pages:dataset", args=[agent.workspace.slug, dataset.id]))
            .content.decode()
        )

    def test_without_a_right_text_and_with_an_unfit_reward_it_is_refused(
        self, agent: Any, by: Any, store: Path, api: Any
    ) -> None:
        dataset = self.make(agent, by, self.ROWS[2:])
        body = {"agent": "filer", "name": "letters", "dataset": str(dataset.id), "reward": [{"name": "storer.edits"}]}
        refused = api("admin").post("/api/v1/suites", body)
        assert refused.status_code == 400
        assert [(fault["field"], fault["reason"]) for fault in refused.json()["error"]["fields"]] == [
            ("dataset", "none of its 2 texts is known to be right"),
            ("reward", "storer.edits reads more than a suite knows about an answer"),
        ]
        assert not EvaluationSuite.objects.exists()

    def test_people_s_texts_are_asked_too_and_pages_show_the_fields(
        self, agent: Any, by: Any, store: Path, base_version: ModelVersion, viewer: Any, page_client: Any
    ) -> None:
        """Labels of decisions that no schema enumerates: labelled rows without options."""
        rows = [written(id=n, source="human", label_id=None, verdict="corrected", group="g") for n in range(3)]
        stored = put_rows(rows)
        artifact = ArtifactFactory(workspace=agent.workspace, kind="dataset", digest=stored.digest)
        dataset = DatasetSnapshotFactory(agent=agent, rows=3, artifact=artifact, statistics={"without_options": 3})
        suite = create_suite(by=by, agent=agent, plan=SuitePlan("letters", dataset))
        assert (suite.rows, suite.left_out) == (3, 0)
        folder = store / "attempt"
        folder.mkdir()
        told = [
            {"id": row["id"], "action": rows[0]["completion"], "p_action": 0.5, "correct": n == 0, "valid": True}
            for n, row in enumerate(rows)
        ]
        (folder / "suite.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told))
        answers = SuiteAnswers(predictions="suite.jsonl", valid_share=1.0, free_rows=3)
        score = save_score(make_score(suite, folder, answers, None), base_version)
        assert score.scores["accuracy"]["mean"] == pytest.approx(1 / 3) and "plain" not in score.scores
        shown = page_client(viewer).get(reverse("pages:suite-score", args=[agent.workspace.slug, score.id]))
        text = shown.content.decode()
        assert "Field of the right answer" in text and "Precision" not in text and "note 1" in text


class TestScores:
    @pytest.fixture
    def suite(self, agent: Any, rows: Any) -> Any:
        return EvaluationSuiteFactory(agent=agent, dataset=rows)

    def score(self, suite: Any, version: Any, right: list[bool], **more: Any) -> SuiteScore:
        made = SuiteScoreFactory.build(suite=suite, workspace=suite.workspace, version=None, answers=None)
        made.answers = answers_of(suite.workspace, right)
        return save_score(made, version, **more)

    def test_a_child_is_compared_with_its_parent_and_forgetting_shows(
        self, suite: Any, viewer: Any, page_client: Any
    ) -> None:
        parent = ModelVersionFactory(registered_model=suite.agent.registered_model)
        child = ModelVersionFactory(registered_model=suite.agent.registered_model, parent=parent)
        self.score(suite, parent, [True] * 40)
        found = self.score(suite, child, [True, False] * 20)
        assert found.against == parent and found.differences["accuracy"]["mean"] == -0.5
        assert self.score(suite, child, [True] * 40) == found  # one score a version
        assert compare_scores(SuiteScore.objects.get(version=parent), found)["accuracy"]["mean"] == 0.5
        shown = page_client(viewer).get(reverse("pages:version", args=[suite.workspace.slug, child.id]))
        assert "forgot" in shown.content.decode()

    def test_what_learnt_from_the_rows_is_marked(self, suite: Any) -> None:
        learner, clean = (ModelVersionFactory(registered_model=suite.agent.registered_model) for _ in range(2))
        for version, dataset in ((learner, suite.dataset), (clean, DatasetSnapshotFactory(agent=suite.agent))):
            run = TrainingRunFactory(agent=suite.agent, dataset=dataset)
            type(run).objects.filter(id=run.id).update(
                state="succeeded", produced_version=version, finished_at=run.created_at
            )
        grandchild = ModelVersionFactory(registered_model=suite.agent.registered_model, parent=learner)
        later = TrainingRunFactory(agent=suite.agent, base_version=learner, base_model="")
        assert self.score(suite, learner, [True]).learnt
        assert not self.score(suite, clean, [True]).learnt
        assert self.score(suite, grandchild, [True], run=later).learnt

    def test_an_erasure_removes_the_answers_and_ends_the_suite(self, suite: Any, agent: Any, by: Any, api: Any) -> None:
        version = ModelVersionFactory(registered_model=agent.registered_model)
        score = self.score(suite, version, [True])
        type(suite.dataset).objects.filter(id=suite.dataset_id).update(erased_rows=1, marked_at=suite.created_at)
        remove_marked_files(agent.workspace)
        assert not artifact_path(score.answers.digest).exists()
        with pytest.raises(Conflict):
            load_answers(score)
        answer = api("admin").post(f"/api/v1/suites/{suite.id}/scores", {"version": str(version.id)})
        assert answer.status_code == 409 and not Job.objects.filter(kind="training.score_suite").exists()

    def test_pages_and_api_show_the_evaluation(
        self, suite: Any, viewer: Any, admin: Any, page_client: Any, api: Any
    ) -> None:
        one, other = (ModelVersionFactory(registered_model=suite.agent.registered_model) for _ in range(2))
        scores = [SuiteScoreFactory(suite=suite, version=version) for version in (one, other)]
        for score, right in zip(scores, ([True] * 30 + [False] * 10, [True] * 40), strict=True):
            score.answers = answers_of(suite.workspace, right)
            score.save()
        slug = suite.workspace.slug
        page = page_client(viewer).get(reverse("pages:suite-score", args=[slug, scores[0].id]) + f"?against={other.id}")
        text = page.content.decode()
        for word in ("Difference, paired", "−25.0 pts", "Calibration", "Sample errors", "travel"):
            assert word in text, word
        ModelVersionFactory(registered_model=suite.agent.registered_model)
        client, path = page_client(admin), reverse("pages:suite", args=[slug, suite.id])
        assert "Score this version" in client.get(path).content.decode()
        assert "Score this version" not in page_client(viewer).get(path).content.decode()
        assert str(suite) in client.get(reverse("pages:suites", args=[slug])).content.decode()
        found = api("admin").get(f"/api/v1/versions/{one.id}/scores?against={other.id}").json()["results"]
        assert (found[0]["against"], found[0]["differences"]["accuracy"]["mean"]) == (str(other), -0.25)
        unknown = api("admin").get(f"/api/v1/versions/{one}/scores?against=x")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_version")

    def test_a_suite_is_made_by_the_form(self, agent: Any, rows: Any, admin: Any, page_client: Any) -> None:
        client, path = page_client(admin), reverse("pages:suite-new", args=[agent.workspace.slug])
        refused = client.post(path, {"dataset": str(rows.id), "name": "t", "slice_by": "colour"})
        assert refused.status_code == 400 and "&#x27;colour&#x27; has 1 value" in refused.content.decode()
        assert not EvaluationSuite.objects.exists()
        made = client.post(path, {"dataset": str(rows.id), "name": "t", "slice_by": "group"})
        assert made.status_code == 302 and EvaluationSuite.objects.get().slice_by == "group"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_new_version_is_scored_on_every_suite_by_its_run_and_an_old_one_by_a_job(
    agent: Any, by: Any, rows: Any, base_version: ModelVersion, settings: Any
) -> None:
    suite = create_suite(by=by, agent=agent, plan=SuitePlan("tickets", rows, "group", [{"name": "matches_answer"}]))
    texts = import_rows(by=by, agent=agent, name="letters", kind="text", rows=TestTexts.ROWS)
    letters = create_suite(by=by, agent=agent, plan=SuitePlan("letters", texts))
    for job in Job.objects.filter(kind="training.score_suite"):
        assert run_job(job.id) is JobState.SUCCEEDED
    of_base = SuiteScore.objects.get(suite=suite, version=base_version)
    assert of_base.rows == 24 and 0.2 < of_base.scores["accuracy"]["mean"] <= 1
    assert of_base.scores["reward"]["mean"] == of_base.scores["accuracy"]["mean"]
    assert len(of_base.scores["slices"]) == 15
    assert not list(settings.RUNS.glob("suite-*"))

    train = import_labelled(by=by, agent=agent, name="train", rows=labelled(48, 1))
    shape = {name: value for name, value in TINY.items() if name != "base"}
    plan = RunPlan("pretrain", train, base_version=base_version, settings=shape)
    run = start_run(by=by, agent=agent, plan=plan)
    assert run_job(run.job_id) is JobState.SUCCEEDED
    run.refresh_from_db()
    score = SuiteScore.objects.get(suite=suite, version=run.produced_version)
    assert (score.run, score.against, score.learnt) == (run, base_version, False)
    gain = score.scores["accuracy"]["mean"] - of_base.scores["accuracy"]["mean"]
    assert score.differences["accuracy"]["mean"] == pytest.approx(gain)
    # The base came from no run, so nobody knows what a plain classifier would have learnt.
    assert "plain" not in of_base.scores and score.scores["plain"]["rows"] == 48
    assert all(isinstance(one, Answer) for one in load_answers(score))
    written = SuiteScore.objects.get(suite=letters, version=run.produced_version)
    assert (written.rows, [one.id for one in load_answers(written)]) == (2, ["1", "2"])
    assert written.against == base_version and set(written.differences) >= {"accuracy", "valid_share", "fields"}


@pytest.mark.slow
def test_the_command_scores_a_version_or_a_folder(
    agent: Any, base_version: ModelVersion, tmp_path: Path, capsys: Any, settings: Any
) -> None:
    data, output = tmp_path / "rows.jsonl", tmp_path / "out.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in labelled(24, 5)))
    asked = ["--test-data", str(data), "--agent-type", "FILER", "--free-rows", "4"]
    call_command("evaluate", "--model", str(base_version), "--output", str(output), *asked)
    told = json.loads(output.read_text())
    assert (told["model"], told["rows"], told["base_model"]) == ("filer:1", 24, None)
    assert told["error_rate"] == pytest.approx(1 - told["accuracy"])
    assert told["average_reward"] == pytest.approx(0.375 + 0.375 * told["accuracy"])
    assert told["scores"]["valid_share"]["n"] == 4
    assert all({"prompt", "answer", "action"} <= set(one) for one in told["sample_errors"])
    call_command("evaluate", "--model", str(artifact_path(base_version.artifact.digest)), *asked)
    assert json.loads(capsys.readouterr().out)["accuracy"] == told["accuracy"]
    assert told["plain"] is None
    # A version of a run has the run's own lessons, while they are there.
    run = TrainingRunFactory(agent=agent)
    times = {"started_at": run.created_at, "finished_at": run.created_at}
    type(run).objects.filter(id=run.id).update(state="succeeded", produced_version=base_version, **times)
    folder = settings.RUNS / str(run.id)
    folder.mkdir(parents=True)
    spec = {"run_id": "r", "method": "pretrain", "base": {"tiny": {}}, "data": {"train": "train.jsonl"}}
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled(60, 1)))
    call_command("evaluate", "--model", f"models:/{str(base_version).replace(':', '/')}", *asked)
    plain = json.loads(capsys.readouterr().out)["plain"]
    assert plain["rows"] == 60 and plain["accuracy"]["mean"] > 0.8
    assert plain["difference"]["mean"] == pytest.approx(told["accuracy"] - plain["accuracy"]["mean"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of transformers' own names
def test_the_command_scores_texts_by_a_lora_folder_over_the_base_that_is_given(
    agent: Any, base_version: ModelVersion, tmp_path: Path, capsys: Any
) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base, lora = str(artifact_path(base_version.artifact.digest)), tmp_path / "lora"
    config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), config).save_pretrained(lora)
    told = json.loads((lora / "adapter_config.json").read_text()) | {"base_model_name_or_path": None}
    (lora / "adapter_config.json").write_text(json.dumps(told))
    data, output = tmp_path / "rows.jsonl", tmp_path / "out.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in TestTexts.ROWS))
    asked = ["--test-data", str(data), "--agent-type", "FILER", "--output", str(output), "--model"]
    with pytest.raises(SystemExit):
        call_command("evaluate", *asked, str(lora))
    assert "--base-model: the LoRA folder does not name its base" in capsys.readouterr().err and not output.exists()

    call_command("evaluate", *asked, str(lora), "--base-model", base)
    adapted = json.loads(output.read_text())
    assert adapted["base_model"] == Path(base).name and (adapted["rows"], adapted["left_out"]) == (2, 2)
    assert adapted["average_reward"] == pytest.approx(0.375 + 0.375 * adapted["accuracy"])
    assert adapted["scores"]["valid_share"]["n"] == 2 and adapted["plain"] is None
    assert [one["name"] for one in adapted["scores"]["fields"]] == ["folder"]
    call_command("evaluate", *asked, base)
    written = json.loads(output.read_text())
    answers = [[one["action"] for one in found["sample_errors"]] for found in (adapted, written)]
    assert answers[0] != answers[1]  # random adapters write something else


@pytest.mark.parametrize(
    ("lines", "left_out", "kept"),
    [
        ([{"id": "1", "prompt": "p", "completion": "a"}, {"id": "2", "prompt": "p", "completion": "b"}], 0, ["1", "2"]),
        ([{"id": "1", "prompt": "p", "completion": "a", "right": 1}, {"id": "2", "prompt": "p", "completion": "b"}], 1,
         ["1"]),
        ([{"prompt": "p", "completion": "a", "reward": 2.0}, {"prompt": "p", "completion": "b", "reward": -0.5}], 1,
         ["1"]),
    ],
    ids=["nothing is said of any", "frozen rows", "an export"],
)  # fmt: skip
def test_files_of_texts_say_which_are_right(tmp_path: Path, lines: Any, left_out: int, kept: list[str]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found, faults = read_answers_file(path)
    assert (faults, found.left_out, [row["id"] for row in found.rows]) == ([], left_out, kept)
    wrong = {"id": "1", "prompt": "p", "completion": "a", "reward": 0}
    path.write_text(json.dumps(wrong) + "\n")
    assert read_answers_file(path)[1] == [f"{path}: none of its texts is known to be right"]
    path.write_text(json.dumps(wrong) + '\n{"id": "1"}\n')
    (fault,) = read_answers_file(path)[1]
    assert fault.startswith(f"{path}:2: ")


def test_the_command_names_the_agents_of_a_kind(agent: Any, tmp_path: Path, capsys: Any) -> None:
    """By its kind the one agent was found above; where there are two, both are named."""
    AgentFactory(workspace=agent.workspace, slug="second-filer", kind="FILER")
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in labelled(2, 1)))
    asked = ["evaluate", "--model", "filer:9", "--test-data", str(data), "--agent-type"]
    with pytest.raises(SystemExit) as ended:
        call_command(*asked, "FILER")
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "2 agents are 'FILER'; name one of: filer, second-filer" in said
    with pytest.raises(SystemExit):  # of the model alone, which is not there
        call_command(*asked, "second-filer")
    assert "--agent-type" not in capsys.readouterr().err


def test_the_command_names_every_fault(agent: Any, tmp_path: Path, capsys: Any) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text('{"id": "1"}\n')
    with pytest.raises(SystemExit) as ended:
        call_command("evaluate", "--model", "filer:9", "--test-data", str(data), "--agent-type", "nobody")
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert (
        "--agent-type: no agents are 'nobody'; name one of: filer" in said
        and "--model: 'filer:9'" in said
        and "1:" in said
    )
