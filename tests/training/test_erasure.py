"""A person's erasure from end to end: ledger, datasets, runs, versions, files; who may ask; and what is cut off."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command

from decisions.erasure.erasing import Person
from decisions.models import Decision
from decisions.models.tombstones import ERASED_HASH
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path, local_root, remove_folder
from models_registry.models import Artifact, ModelVersion
from tests.architecture.test_api_matrix import state_of_everything
from tests.decisions.erasure.test_erased_decisions import texts_of
from tools.factories import (
    DatasetSnapshotFactory,
    DecisionFactory,
    FeedbackFactory,
    JobFactory,
    KeptAnswerFactory,
    ModelVersionFactory,
    TrainingRunFactory,
    uuid7,
)
from training.datasets.freezing import start_rebuild
from training.datasets.snapshots import snapshot_ledger
from training.errors import InvalidRun
from training.lineage import erasure as erasures
from training.lineage.erasure import preview_erasure, start_erasure
from training.models import DatasetSnapshot, Erasure, TrainingRun
from training.run_states import RunState
from training.runs.services import RunPlan, move_run, start_run
from workspaces.errors import Conflict
from workspaces.models import AuditEntry, KeptAnswer

# A job that completes itself in its last transaction hears of it on commit.
pytestmark = pytest.mark.django_db(transaction=True)
ANN = Person("unit", "ann")
WORD = "xylophone"  # what ann's data say, and nobody else's


@pytest.fixture
def log(agent, store):
    """Three rewarded decisions of ann and two of bob."""
    made = []
    for number, unit in enumerate(["ann", "bob", "ann", "bob", "ann"]):
        text = WORD if unit == "ann" else "a bill"
        decision = DecisionFactory(agent=agent, unit=unit, user_ref=f"u-{unit}", state={"text": f"{text} {number}"})
        FeedbackFactory(decision=decision)
        made.append(decision)
    calculate_rewards(current_reward_spec(agent))
    return made


@pytest.fixture
def dataset(by, agent, log):
    return snapshot_ledger(by=by, agent=agent, name="first")


def run_over(dataset, agent, **fields):
    job = JobFactory(workspace=agent.workspace, kind="training.supervise_run")
    return TrainingRunFactory(agent=agent, dataset=dataset, method="posterior", job=job, **fields)


def succeed(run, version):
    move_run(run, RunState.RUNNING)
    return move_run(run, RunState.SUCCEEDED, produced_version=version)


def erase(by, person=ANN):
    erasure = start_erasure(by=by, person=person)
    assert run_job(erasure.job_id) == "succeeded", Job.objects.get(id=erasure.job_id).error
    erasure.refresh_from_db()
    return erasure


class TestWholeWay:
    def test_datasets_versions_and_files(self, by, agent, dataset, settings):
        before = DatasetSnapshotFactory(agent=agent, name="labelled")
        model = agent.registered_model
        base, made, child, grandchild, other = (ModelVersionFactory(registered_model=model) for _ in range(5))
        succeed(run_over(dataset, agent, base_model="", base_version=base), made)
        ModelVersion.objects.filter(id=child.id).update(parent=made)
        ModelVersion.objects.filter(id=grandchild.id).update(base=child)
        run_dir = settings.RUNS / str(TrainingRun.objects.get().id) / "data"
        run_dir.mkdir(parents=True)
        (run_dir / "train.jsonl").write_text(WORD)
        (run_dir / "heldout.jsonl").write_text("others")
        assert preview_erasure(workspace=by.workspace, person=ANN)["datasets"] == 1

        erasure = erase(by)
        dataset.refresh_from_db()
        assert (dataset.erased_rows, dataset.marked_at is not None, dataset.rows) == (3, True, 5)
        before.refresh_from_db()
        assert before.marked_at is None
        marked = set(ModelVersion.objects.filter(marked_at__isnull=False))
        assert marked == {made, child, grandchild}
        assert other not in marked
        assert not artifact_path(dataset.artifact.digest).exists()
        assert Artifact.objects.get(id=dataset.artifact_id).removed_at is not None
        assert not (run_dir / "train.jsonl").exists()
        assert (run_dir / "heldout.jsonl").exists()
        held = [path for path in local_root().rglob("*") if path.is_file() and WORD in path.read_text(errors="replace")]
        assert held == []
        assert texts_of(WORD) == []
        counts = {"decisions": 3, "feedback": 3, "dataset_rows": 3, "datasets": 1, "versions": 3}
        assert {name: erasure.counts[name] for name in counts} == counts

    def test_rows_that_a_run_was_measured_on_go_too(self, by, agent, dataset, settings):
        run = run_over(DatasetSnapshotFactory(agent=agent, name="clean"), agent, heldout=dataset)
        folder = settings.RUNS / str(run.id)
        files = {name: folder / name for name in ("data/train.jsonl", "data/heldout.jsonl")}
        ended = ("predictions.jsonl", "samples.json", "result.json")
        files |= {name: folder / "attempts/1" / name for name in ended}
        for path in files.values():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(WORD)
        erase(by)
        assert [name for name, path in files.items() if path.exists()] == ["data/train.jsonl", "result.json"]

    def test_it_forgets_whom_it_erased(self, by, log):
        asked = start_erasure(by=by, person=ANN)
        assert asked.subject == "ann"
        assert run_job(asked.job_id) == "succeeded"
        erasure = Erasure.objects.get()
        assert (erasure.subject, erasure.secret, erasure.state) == (None, None, "succeeded")
        assert texts_of("ann") == []
        started, finished = AuditEntry.objects.filter(action__startswith="erasure.").order_by("id")
        assert started.details == {"kind": "unit", "fingerprint": erasure.fingerprint}
        assert finished.details == erasure.counts

    def test_everyone_else_is_left_alone(self, by, agent, log, other_workspace):
        others = [row.id for row in log if row.unit == "bob"] + [
            DecisionFactory(agent__workspace=other_workspace, unit="ann").id
        ]
        before = list(Decision.objects.filter(id__in=others).order_by("id").values())
        erase(by)
        assert list(Decision.objects.filter(id__in=others).order_by("id").values()) == before

    def test_in_batches_with_progress(self, by, log, dataset, monkeypatch):
        monkeypatch.setattr(erasures, "BATCH", 2)
        erasure = erase(by, Person("user", "u-ann"))
        assert (erasure.counts["decisions"], erasure.counts["dataset_rows"]) == (3, 3)
        assert texts_of(WORD) == []

    def test_one_that_was_cut_off_goes_on(self, by, log, dataset, monkeypatch):
        monkeypatch.setattr(erasures, "BATCH", 1)
        real, calls = erasures.mark_datasets, []

        def fail_once(**given):
            calls.append(given)
            if len(calls) == 2:
                raise OSError("the power went")
            return real(**given)

        monkeypatch.setattr(erasures, "mark_datasets", fail_once)
        asked = start_erasure(by=by, person=ANN)
        assert run_job(asked.job_id) == "queued"
        assert Decision.objects.filter(content_hash=ERASED_HASH).count() == 1
        assert run_job(asked.job_id) == "succeeded"
        dataset.refresh_from_db()
        assert dataset.erased_rows == 3
        assert Erasure.objects.get().counts["decisions"] == 3
        assert len(set(Decision.objects.filter(content_hash=ERASED_HASH).values_list("unit", flat=True))) == 1

    def test_one_that_died_is_taken_up_again(self, by, log, monkeypatch):
        asked = start_erasure(by=by, person=ANN)
        Job.objects.filter(id=asked.job_id).update(max_attempts=1)
        monkeypatch.setattr(erasures, "find_decisions", lambda **_: 1 / 0)
        assert run_job(asked.job_id) == "dead"
        monkeypatch.undo()
        assert Erasure.objects.get().state == "dead"
        again = start_erasure(by=by, person=ANN)
        assert (again.id, again.job_id != asked.job_id) == (asked.id, True)
        assert run_job(again.job_id) == "succeeded"

    def test_asking_twice_makes_one_and_afterwards_a_new_one_that_finds_nothing(self, by, log):
        first, second = start_erasure(by=by, person=ANN), start_erasure(by=by, person=ANN)
        assert (first.id, first.job_id) == (second.id, second.job_id)
        run_job(first.job_id)
        third = erase(by)
        assert third.id != first.id
        assert third.fingerprint == first.fingerprint
        assert third.counts == {}

    def test_kept_answers_say_nothing_any_more_and_their_requests_still_do_nothing_twice(self, api, by, log, agent):
        client = api("decisions:write", "feedback:write")
        sent = {"agent": "filer", "state": {"text": WORD}, "action": "travel", "policy_name": "p", "unit": "ann"}
        quoting = {"Idempotency-Key": "quotes"}
        refused = client.post("decisions", [sent, sent | {"action": WORD}], **quoting)
        assert (refused.status_code, WORD in refused.content.decode()) == (207, True)
        plain = client.post("decisions", [sent, sent], **{"Idempotency-Key": "ids"})
        assert plain.status_code == 201
        erased = erase(by)
        assert erased.counts["answers"] == 1
        assert not any(WORD.encode() in bytes(kept.body) for kept in KeptAnswer.objects.all())
        before = Decision.objects.count()
        again = client.post("decisions", [sent, sent | {"action": WORD}], **quoting)
        assert (again.status_code, again.json()["error"]["code"]) == (410, "erased")
        assert again["Idempotent-Replayed"] == "true"
        # Ids are nobody's words: that answer is given again.
        assert client.post("decisions", [sent, sent], **{"Idempotency-Key": "ids"}).content == plain.content
        assert Decision.objects.count() == before
        assert texts_of(WORD) == []
        assert "answers" not in erase(by).counts

    @pytest.mark.parametrize(
        ("body", "stays"),
        [
            (b"", True),
            (b"{}", True),
            (b'{"kept":[],"errors":[]}', True),
            (b'{"kept":[{"index":0,"id":"0198f6c2-0000-7000-8000-000000000000","duplicate":false}],"errors":[]}', True),
            (b'{"kept":[{"index":0,"id":"xylophone","duplicate":false}],"errors":[]}', False),
            (b'{"kept":[],"errors":[{"index":0}]}', False),
            (b'{"decisions":[{"action":"xylophone"}]}', False),
            ("\x00\xff\\ xylophone".encode("latin-1"), False),
        ],
    )
    @pytest.mark.quick_cases(3)
    def test_which_kept_answers_stay(self, by, log, other_workspace, body, stays):
        mine = KeptAnswerFactory(workspace=by.workspace, body=body)
        theirs = KeptAnswerFactory(workspace=other_workspace, body=body)
        erase(by)
        mine.refresh_from_db()
        theirs.refresh_from_db()
        assert (mine.status == 201, bytes(mine.body) == body) == (stays, stays)
        assert (theirs.status, bytes(theirs.body)) == (201, body)

    def test_files_of_a_removal_that_was_killed_go_with_the_next(self, by, dataset):
        digest = dataset.artifact.digest
        left = local_root() / "incoming" / f"removed-{digest}"
        left.parent.mkdir(exist_ok=True)
        artifact_path(digest).rename(left)  # renamed, then killed
        assert remove_folder(digest) is False
        assert not left.exists()


class TestTraining:
    def test_nothing_is_trained_from_a_marked_dataset(self, by, agent, dataset):
        version = ModelVersionFactory(registered_model=agent.registered_model)
        plan = RunPlan(method="posterior", dataset=dataset, base_version=version)
        queued = start_run(by=by, agent=agent, plan=plan)
        erase(by)
        queued.refresh_from_db()
        assert queued.state == "cancelled"
        dataset.refresh_from_db()
        with pytest.raises(InvalidRun) as refused:
            start_run(by=by, agent=agent, plan=RunPlan(method="posterior", dataset=dataset, base_version=version))
        (fault,) = refused.value.faults
        assert (fault.field, fault.reason) == ("dataset", "3 of its rows were erased")
        assert TrainingRun.objects.count() == 1

    def test_a_run_that_was_queued_meanwhile_does_not_begin(self, by, agent, dataset):
        version = ModelVersionFactory(registered_model=agent.registered_model)
        erase(by)
        # Checked before the mark, stored behind it: as a request that was under way.
        DatasetSnapshot.objects.filter(id=dataset.id).update(erased_rows=0, marked_at=None)
        dataset.refresh_from_db()
        plan = RunPlan(method="posterior", dataset=dataset, base_version=version)
        run = start_run(by=by, agent=agent, plan=plan)
        DatasetSnapshot.objects.filter(id=dataset.id).update(erased_rows=3, marked_at=run.created_at)
        assert run_job(run.job_id) == "dead"
        run.refresh_from_db()
        assert (run.state, "were erased" in run.error) == ("failed", True)

    def test_rebuilding_asks_the_ledger_anew(self, api, by, agent, dataset):
        erase(by)
        answer = api("admin").post(f"datasets/{dataset.id}/rebuild")
        assert answer.status_code == 202, answer.content
        assert run_job(answer.json()["id"]) == "succeeded"
        fresh = DatasetSnapshot.objects.get(id=Job.objects.get(id=answer.json()["id"]).result["dataset"])
        assert (fresh.name, fresh.rows, fresh.marked_at) == ("first (rebuilt)", 2, None)
        assert fresh.reward_spec == dataset.reward_spec
        rows = (artifact_path(fresh.artifact.digest) / "rows.jsonl").read_text()
        assert WORD not in rows
        assert {json.loads(line)["group"] for line in rows.splitlines()} == {"bob"}
        version = ModelVersionFactory(registered_model=agent.registered_model)
        assert start_run(by=by, agent=agent, plan=RunPlan(method="posterior", dataset=fresh, base_version=version)).pk

    def test_what_cannot_be_rebuilt_says_why(self, by, agent, dataset):
        with pytest.raises(Conflict, match="imported"):
            start_rebuild(by=by, dataset=DatasetSnapshotFactory(agent=agent))
        erase(by)
        erase(by, Person("unit", "bob"))
        assert run_job(start_rebuild(by=by, dataset=dataset).id) == "dead"


class TestWhoMay:
    @pytest.mark.parametrize("role", ["viewer", "labeller"])
    def test_only_an_admin(self, api, request, page_client, log, role):
        person = request.getfixturevalue(role)
        session, page = api.person(person), page_client(person)
        key = api("feedback:write", "export:read", "decisions:write")
        before = state_of_everything()
        for body in ({"unit": "ann"}, {"unit": "ann", "dry_run": True}):
            assert session.post("erasures", body).status_code == 403
            assert key.post("erasures", body).status_code == 403
        for form in ({"kind": "unit", "name": "ann"}, {"kind": "unit", "name": "ann", "confirmed": "1"}):
            assert page.post("/w/acme/erasures/", form).status_code == 403
        assert state_of_everything() == before

    def test_an_outsider_erases_nothing_here(self, api, outsider, page_client, log, other_workspace):
        ledger = list(Decision.objects.order_by("id").values())
        assert page_client(outsider).post("/w/acme/erasures/", {"kind": "unit", "name": "ann"}).status_code == 404
        answer = api.person(outsider).post("erasures", {"unit": "ann"})  # in their own workspace
        assert answer.status_code == 201
        erasure = Erasure.objects.get()
        assert erasure.workspace == other_workspace
        assert run_job(erasure.job_id) == "succeeded"
        assert list(Decision.objects.order_by("id").values()) == ledger

    def test_a_dry_run_counts_and_changes_nothing(self, api, dataset):
        client = api("admin")
        before = state_of_everything()
        answer = client.post("erasures", {"user": "u-ann", "dry_run": True})
        assert (answer.status_code, answer.json()["dry_run"]) == (200, True)
        counts = {"decisions": 3, "feedback": 3, "rewards": 3, "datasets": 1, "labels": 0}
        assert {name: answer.json()["counts"][name] for name in counts} == counts
        assert state_of_everything() == before

    @pytest.mark.parametrize("body", [{}, {"unit": "a", "user": "b"}, {"unit": ""}, {"unit": "x" * 201}, {"name": "a"}])
    def test_exactly_one_name(self, api, body):
        client = api("admin")
        assert client.post("erasures", body).status_code == 400
        assert not Erasure.objects.exists()

    def test_how_far_it_is(self, api, by, log):
        client = api("admin")
        made = client.post("erasures", {"unit": "ann"}).json()
        assert (made["state"], made["progress"], made["finished_at"]) == ("queued", 0.0, None)
        assert "ann" not in json.dumps(made)
        run_job(Erasure.objects.get().job_id)
        shown = client.get(f"erasures/{made['id']}").json()
        assert (shown["state"], shown["progress"], shown["counts"]["decisions"]) == ("succeeded", 1.0, 3)
        assert [one["id"] for one in client.get("erasures").json()["results"]] == [made["id"]]
        assert client.get(f"erasures/{uuid7()}").status_code == 404


class TestPages:
    def test_counts_first_then_erases(self, page_client, owner, dataset):
        page = page_client(owner)
        assert page.get("/w/acme/erasures/").status_code == 200
        counted = page.post("/w/acme/erasures/", {"kind": "unit", "name": "ann"})
        assert counted.status_code == 200
        assert "Erase permanently" in counted.content.decode()
        assert not Erasure.objects.exists()
        begun = page.post("/w/acme/erasures/", {"kind": "unit", "name": "ann", "confirmed": "1"})
        assert (begun.status_code, begun.headers["Location"]) == (302, "/w/acme/erasures/")
        erasure = Erasure.objects.get()
        assert run_job(erasure.job_id) == "succeeded"
        shown = page.get("/w/acme/erasures/").content.decode()
        assert erasure.fingerprint in shown
        nobody = page.post("/w/acme/erasures/", {"kind": "unit", "name": "nobody"}).content.decode()
        assert "No data found for the unit" in nobody
        assert "Erase permanently" not in nobody
        assert page.post("/w/acme/erasures/", {"kind": "cook", "name": "ann"}).status_code == 400

    def test_runs_and_versions_say_what_they_learnt_from(self, by, page_client, viewer, agent, dataset):
        base, made = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
        run = succeed(run_over(dataset, agent, base_model="", base_version=base), made)
        page = page_client(viewer)
        paths = [f"/w/acme/runs/{run.id}", f"/w/acme/models/versions/{made.id}"]
        assert not any("were erased" in page.get(path).content.decode() for path in paths)
        erase(by)
        assert all("were erased" in page.get(path).content.decode() for path in paths)


class TestCommand:
    def run(self, *arguments):
        out, err = StringIO(), StringIO()
        try:
            call_command("erase_person", *arguments, stdout=out, stderr=err)
            code = 0
        except SystemExit as exit:
            code = exit.code
        return code, out.getvalue(), err.getvalue()

    def test_erases(self, log, dataset):
        code, out, _ = self.run("--unit", "ann", "--json")
        report = json.loads(out)
        assert (code, report["state"], report["counts"]["decisions"]) == (0, "succeeded", 3)
        assert texts_of(WORD) == []

    def test_counts_only(self, log):
        code, out, _ = self.run("--user", "u-ann", "--workspace", "acme", "--dry-run")
        assert code == 0
        assert "decisions 3" in out
        assert not Erasure.objects.exists()

    @pytest.mark.parametrize("wrong", [(), ("--unit", "a", "--user", "b"), ("--unit", "a", "--workspace", "nowhere")])
    def test_what_is_not_usable_is_refused(self, log, wrong):
        code, out, err = self.run(*wrong)
        assert (code, out) == (2, "")
        assert err
        assert not Erasure.objects.exists()

    def test_one_that_fails_says_so(self, log, monkeypatch):
        monkeypatch.setattr(erasures, "find_decisions", lambda **_: 1 / 0)
        code, out, err = self.run("--unit", "ann", "--json")
        assert (code, json.loads(out)["state"]) == (1, "dead")
        assert "ZeroDivisionError" in err
