"""Pages of rehearsals: the report's own numbers in plain words, progress, and who may start, cancel and go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job, JobState
from models_registry.backends.outbound import close_clients
from tools import factories
from tools.model_server import running_model_server
from tools.rehearsals import REFUSAL, make_rehearsal, read_report
from training.errors import RehearsalUnderWay
from training.imports import uploads
from training.loops.rehearsal.loop import SEED_LABELS, round_name
from training.loops.rehearsal.services import KIND, cancel_rehearsal, resume_rehearsal
from training.loops.rehearsal.shown import (
    describe_log,
    describe_plain,
    describe_verdict,
    draw_learning,
    draw_rounds,
    list_parts,
)
from training.models import Rehearsal, TrainingRun
from workspaces.access.actors import system
from workspaces.models import AuditEntry, Membership, Workspace


def at(name: str, rehearsal: Any, workspace: Any = None) -> str:
    return reverse(f"pages:{name}", args=[(workspace or rehearsal.workspace).slug, rehearsal.pk])


def page(name: str, workspace: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug])


def percent(share: float) -> str:
    return f"{share * 100:.1f}%"


@pytest.fixture
def own(owner: Any) -> Workspace:
    """A rehearsal's workspace, as the services make it."""
    made = factories.WorkspaceFactory(slug="rehearsal-clinc", name="Rehearsal of clinc.csv")
    factories.MembershipFactory(workspace=made, user=owner, role="admin")
    found: Workspace = made
    return found


@pytest.fixture
def onlooker(own: Any, viewer: Any) -> Any:
    """A viewer in the rehearsal's workspace, too."""
    factories.MembershipFactory(workspace=own, user=viewer, role="viewer")
    return viewer


@pytest.fixture
def working(own: Any) -> Any:
    """Its second seed is being done."""
    job = factories.JobFactory(
        workspace=own,
        kind=KIND,
        state=JobState.RUNNING,
        lease_until=timezone.now(),
        started_at=timezone.now(),
        progress=0.62,
        message="seed 1: round 2: training (round 2)",
    )
    return make_rehearsal(workspace=own, seeds=3, done=1, job=job)


class TestList:
    def test_it_shows_what_a_person_may_see_newest_first(
        self, own: Any, workspace: Any, other_workspace: Any, owner: Any, page_client: Any
    ) -> None:
        old = make_rehearsal(workspace=own)
        new = make_rehearsal(workspace=workspace, seeds=3)
        make_rehearsal(workspace=other_workspace)
        answer = page_client(owner).get(page("rehearsals", workspace))
        assert [line["rehearsal"] for line in answer.context["lines"]] == [new, old]
        text = answer.content.decode()
        report = read_report()
        for name in ("base", "final", "ceiling", "of_ceiling"):
            assert percent(report[name]["mean"]) in text
        assert at("rehearsal", old) in text and at("rehearsal", new) in text
        assert "not shown to be better" in text and ">better<" in text

    def test_one_that_works_says_how_far(self, working: Any, workspace: Any, owner: Any, page_client: Any) -> None:
        text = page_client(owner).get(page("rehearsals", workspace)).content.decode()
        assert "running" in text and "62.0%" in text and "1 of 3" in text

    def test_an_empty_list_says_what_is_needed(self, workspace: Any, owner: Any, viewer: Any, page_client: Any) -> None:
        shown = page_client(viewer).get(page("rehearsals", workspace)).content.decode()
        assert "manage.py rehearse FILE --text-field TEXT --label-field LABEL" in shown and "200 records" in shown
        start = page("rehearsal-start", workspace)
        assert start not in shown and start in page_client(owner).get(page("rehearsals", workspace)).content.decode()

    def test_its_pages_are_read_by_cursor(self, own: Any, owner: Any, page_client: Any) -> None:
        made = [factories.RehearsalFactory(workspace=own, about=read_report()["about"]) for _ in range(26)]
        visitor = page_client(owner)
        first = visitor.get(page("rehearsals", own))
        assert len(first.context["lines"]) == 25 and f"before={made[1].id}" in first.context["older"]
        second = visitor.get(f"{page('rehearsals', own)}?{first.context['older']}")
        assert [line["rehearsal"] for line in second.context["lines"]] == [made[0]]
        assert visitor.get(f"{page('rehearsals', own)}?before=x").status_code == 400

    def test_the_home_page_of_an_empty_workspace_leads_here(self, workspace: Any, owner: Any, page_client: Any) -> None:
        shown = page_client(owner).get(page("overview", workspace)).content.decode()
        assert "See rehearsals" in shown and page("rehearsals", workspace) in shown

    def test_the_number_of_queries_does_not_grow(
        self, own: Any, viewer: Any, onlooker: Any, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        for _ in range(12):
            make_rehearsal(workspace=own, seeds=2)
        visitor = page_client(viewer)
        with django_assert_max_num_queries(6):
            assert visitor.get(page("rehearsals", own)).status_code == 200


class TestReport:
    def test_the_numbers_are_the_report_s(self, own: Any, onlooker: Any, page_client: Any) -> None:
        rehearsal = make_rehearsal(workspace=own)
        report = rehearsal.report
        (seed,) = report["seeds"]
        answer = page_client(onlooker).get(at("rehearsal", rehearsal))
        text = answer.content.decode()
        for name in ("base", "final", "ceiling"):
            told = [percent(seed[name][end]) for end in ("mean", "low", "high")]
            assert f"[{told[1]}, {told[2]}]" in text and told[0] in text
        assert "33.5 points better than the base." in text
        assert "3,000 held-out rows: +33.5 [+31.7, +35.3] points" in text and "After 10,000 decisions" in text
        found = seed["off_policy"]
        for name in ("logged", "ips", "snips", "direct", "doubly_robust"):
            assert f"{found[name]['mean']:.2f}" in text
            assert f"[{found[name]['low']:.2f}, {found[name]['high']:.2f}]" in text
        assert (
            f"{found['truth']:.2f}" in text and "The gate passes: the estimated gain is at least +42.7 points" in text
        )
        for entry in report["needed"]:
            assert f"<strong>{entry['decisions']:,}</strong> decisions" in text
        assert "extrapolated" not in text and "about <strong>1,807</strong> units" in text
        for count in ("502", "10,000", "2,000", "3,000"):
            assert count in text
        assert "4 repeated, 1 repeated with another label" in text and "22,495 rows, 10 labels" in text
        assert "15.0%" in text and "5.0%" in text

    def test_the_curves_hold_what_was_measured(self) -> None:
        report = read_report()
        (seed,) = report["seeds"]
        figure = draw_learning(report)
        (line,) = figure["series"]
        assert figure["x"]["values"] == [0, 2500, 5000, 7500, 10000]
        points = [seed["base"], *(entry["accuracy"] for entry in seed["rounds"])]
        for key in ("low", "high"):
            assert line[key] == [point[key] * 100 for point in points]
        assert line["values"] == [point["mean"] * 100 for point in points]
        assert figure["lines"] == [{"label": "ceiling", "y": report["ceiling"]["mean"] * 100, "tone": "ok"}]
        (bars,) = draw_rounds(report)["series"]
        assert bars["values"] == [entry["right_share"] * 100 for entry in seed["rounds"]]

    def test_several_seeds_are_lines_and_their_mean_a_band(self) -> None:
        report = read_report(seeds=3)
        mean, *lines = draw_learning(report)["series"]
        assert [line["label"] for line in lines] == ["seed 0", "seed 1", "seed 2"]
        places = list(zip(*(line["values"] for line in lines), strict=True))
        assert mean["low"] == [min(place) for place in places] and mean["high"] == [max(place) for place in places]
        assert mean["values"][-1] == pytest.approx(report["final"]["mean"] * 100)

    def test_it_is_told_when_it_is_not_better_and_why_a_gate_refuses(
        self, own: Any, onlooker: Any, page_client: Any
    ) -> None:
        rehearsal = make_rehearsal(workspace=own, seeds=3)
        text = page_client(onlooker).get(at("rehearsal", rehearsal)).content.decode()
        assert "Not shown to be better than the base." in text
        assert "In 2 of 3 seeds the whole interval is above 0." in text and "seed 1 +1.1 [−0.4, +2.6]" in text
        assert "The gate gives no verdict: the log does not allow an estimate." in text and REFUSAL in text
        assert "doubly robust interval contains the true value in 2 of 3 seeds; gate passed in 2" in text
        assert "extrapolated" not in text  # the median seed got there

    def test_it_says_where_a_plain_classifier_is_better(self, own: Any, onlooker: Any, page_client: Any) -> None:
        report = read_report()
        assert describe_plain(report) is None  # older than the comparison
        reached = f"this model {report['final']['mean'] * 100:.1f}%."
        report["plain"] = {"accuracy": {"mean": 0.9741}, "better_seeds": 0}
        told = f"A plain classifier of words reaches 97.4% on the same feedback; {reached}"
        assert describe_plain(report) == told
        report["plain"]["better_seeds"] = 1
        text = page_client(onlooker).get(at("rehearsal", make_rehearsal(workspace=own, report=report))).content.decode()
        assert f"{told} The classifier is better, with the whole interval of the difference." in text

    def test_a_gate_that_does_not_pass_says_by_how_much(self) -> None:
        (seed,) = read_report()["seeds"]
        seed["off_policy"]["gate"] |= {"passed": False, "lower": -0.0123}
        assert describe_log(seed).says == "The gate does not pass: the gain may be as low as −1.2 points."
        assert [one.holds_truth for one in describe_log(seed).estimates] == [None, False, True, True, True]

    def test_what_was_not_tried_is_marked(self, own: Any, onlooker: Any, page_client: Any) -> None:
        report = read_report()
        report["needed"][1] |= {"decisions": 23_456, "extrapolated": True}
        report["needed"][2] |= {"decisions": None, "extrapolated": True}
        report["needed"][0] |= {"decisions": 0}
        report["experiment_units"] = None
        text = page_client(onlooker).get(at("rehearsal", make_rehearsal(workspace=own, report=report))).content.decode()
        assert text.count("extrapolated") == 1 and "<strong>23,456</strong> decisions" in text
        assert "more than ten times these decisions" in text and "none: the base reaches it" in text
        assert "more than 20,000 units" in text

    def test_what_was_not_used_is_a_part_of_the_file(self) -> None:
        report = read_report()
        parts = list_parts(report["about"], report["seeds"][0]["rows"])
        assert sum(part.rows for part in parts) == report["about"]["rows"]
        assert (parts[-1].title, parts[-1].rows) == ("Not used", 22_495 - 502 - 10_000 - 2_000 - 3_000)
        exact = {**report["about"], "rows": 15_502}
        assert [part.title for part in list_parts(exact, report["seeds"][0]["rows"])][-1] == "Held out"

    def test_while_seeds_are_missing_the_verdict_says_so(self) -> None:
        report = read_report()
        verdict = describe_verdict({**report, "plan": {**report["plan"], "seeds": 3}}, complete=False)
        assert verdict.says == "So far: 33.5 points better than the base."
        assert verdict.because.endswith("In 1 of 1 seed the whole interval is above 0; 2 not done yet.")

    def test_versions_are_linked(self, own: Any, onlooker: Any, page_client: Any) -> None:
        model = factories.RegisteredModelFactory(workspace=own, name="seed-0")
        base, final = (factories.ModelVersionFactory(registered_model=model, number=number) for number in (1, 6))
        text = page_client(onlooker).get(at("rehearsal", make_rehearsal(workspace=own))).content.decode()
        assert all(at("version", version, own) in text for version in (base, final))

    def test_it_is_found_in_its_own_workspace_alone(
        self, own: Any, workspace: Any, owner: Any, outsider: Any, page_client: Any
    ) -> None:
        rehearsal = make_rehearsal(workspace=own)
        for name in ("rehearsal", "rehearsal-status", "rehearsal-cancel"):
            assert page_client(owner).get(at(name, rehearsal, workspace)).status_code == 404
            assert page_client(outsider).get(at(name, rehearsal)).status_code == 404
        assert page_client(owner).get(at("rehearsal", rehearsal)).status_code == 200

    def test_the_number_of_queries_does_not_grow_with_the_seeds(
        self, own: Any, onlooker: Any, page_client: Any, django_assert_max_num_queries: Any
    ) -> None:
        rehearsal = make_rehearsal(workspace=own, seeds=8)
        visitor = page_client(onlooker)
        with django_assert_max_num_queries(7):
            assert visitor.get(at("rehearsal", rehearsal)).status_code == 200


class TestProgress:
    @pytest.fixture
    def rounds(self, working: Any) -> list[TrainingRun]:
        """The second seed's base and first round are trained, the second round works."""
        agent = factories.AgentFactory(workspace=working.workspace, slug="seed-1")
        made = []
        for name, state in ((SEED_LABELS, "succeeded"), (round_name(1), "succeeded"), (round_name(2), "running")):
            dataset = factories.DatasetSnapshotFactory(agent=agent, name=name)
            run = factories.TrainingRunFactory(agent=agent, dataset=dataset, state="queued")
            if state == "succeeded":
                version = factories.ModelVersionFactory(registered_model__workspace=working.workspace)
                TrainingRun.objects.filter(id=run.id).update(
                    state=state, produced_version=version, finished_at=timezone.now()
                )
                accuracy = {"mean": 0.613, "low": 0.601, "high": 0.625, "n": 3000, "clusters": 3000}
                factories.EvaluationFactory(
                    run=run,
                    version=version,
                    scores={"trained": {"accuracy": accuracy}},
                    differences={"accuracy": accuracy},
                )
            else:
                TrainingRun.objects.filter(id=run.id).update(state=state)
            made.append(run)
        return made

    def test_it_tells_the_rounds_so_far_and_the_seeds_that_are_done(
        self, working: Any, rounds: list[TrainingRun], onlooker: Any, page_client: Any
    ) -> None:
        text = page_client(onlooker).get(at("rehearsal", working)).content.decode()
        assert "seed 1: round 2: training" in text and "62.0%" in text and "Seed 1 so far" in text
        assert [at("run", run, working.workspace) in text for run in rounds] == [True] * 3
        assert "61.3%" in text and "So far: 33.5 points better" in text
        assert 'id="cancel"' not in text and "hx-get" in text

    def test_a_look_at_the_progress_is_short(
        self,
        working: Any,
        rounds: list[TrainingRun],
        onlooker: Any,
        page_client: Any,
        django_assert_max_num_queries: Any,
    ) -> None:
        visitor = page_client(onlooker)
        with django_assert_max_num_queries(5):
            answer = visitor.get(f"{at('rehearsal-status', working)}?done=1")
        assert answer.status_code == 200 and "HX-Refresh" not in answer
        assert visitor.get(f"{at('rehearsal-status', working)}?done=0")["HX-Refresh"] == "true"

    def test_polling_stops_with_the_rehearsal(self, own: Any, working: Any, onlooker: Any, page_client: Any) -> None:
        visitor = page_client(onlooker)
        report = read_report(seeds=3)
        Rehearsal.objects.filter(id=working.id).update(report=report, results=report["seeds"])
        answer = visitor.get(f"{at('rehearsal-status', working)}?done=1")
        assert answer.status_code == 286 and answer["HX-Refresh"] == "true"
        Rehearsal.objects.filter(id=working.id).update(report=None, results=[])
        Job.objects.filter(id=working.job.id).update(
            state=JobState.DEAD, lease_until=None, finished_at=timezone.now(), error="seed 0: the run failed: no memory"
        )
        answer = visitor.get(f"{at('rehearsal-status', working)}?done=0")
        assert answer.status_code == 286 and "HX-Refresh" not in answer
        assert "no memory" in answer.content.decode() and 'id="resume"' not in answer.content.decode()


class TestCancelAndGoOn:
    def test_a_viewer_may_do_neither(self, working: Any, onlooker: Any, page_client: Any) -> None:
        visitor = page_client(onlooker)
        before = Job.objects.values_list("id", "state", "cancel_requested")
        known = list(before)
        for name in ("rehearsal-cancel", "rehearsal-resume"):
            assert visitor.post(at(name, working)).status_code == 403
        assert list(before.all()) == known and not AuditEntry.objects.exists()

    def test_an_admin_is_asked_and_cancels(self, working: Any, owner: Any, page_client: Any) -> None:
        visitor = page_client(owner)
        assert 'id="cancel"' in visitor.get(at("rehearsal", working)).content.decode()
        asked = visitor.get(at("rehearsal-cancel", working)).content.decode()
        assert "Cancel the rehearsal of clinc.csv?" in asked and not AuditEntry.objects.exists()
        assert visitor.post(at("rehearsal-cancel", working))["Location"] == at("rehearsal", working)
        working.job.refresh_from_db()
        assert working.job.cancel_requested
        shown = visitor.get(at("rehearsal", working)).content.decode()
        assert "stopping" in shown and 'id="cancel"' not in shown and 'id="resume"' not in shown
        entry = AuditEntry.objects.get()
        assert (entry.action, entry.actor) == ("rehearsal.cancelled", owner.email)

    def test_a_cancelled_one_goes_on_with_a_new_job(self, own: Any, owner: Any, by: Any, page_client: Any) -> None:
        rehearsal = make_rehearsal(
            workspace=own, seeds=3, done=1, job=factories.JobFactory(workspace=own, kind=KIND, state="queued")
        )
        cancel_rehearsal(by=by, rehearsal=rehearsal)
        visitor = page_client(owner)
        assert 'id="resume"' in visitor.get(at("rehearsal", rehearsal)).content.decode()
        assert visitor.post(at("rehearsal-resume", rehearsal))["Location"] == at("rehearsal", rehearsal)
        again = Rehearsal.objects.select_related("job").get()
        assert again.job_id != rehearsal.job_id and again.job.state == JobState.QUEUED
        assert again.job.payload == {"rehearsal_id": str(rehearsal.id)} and again.results == rehearsal.results
        assert AuditEntry.objects.filter(action="rehearsal.resumed", actor=owner.email, workspace=own).count() == 1

    @pytest.mark.parametrize("complete", [True, False])
    def test_one_that_works_or_is_done_is_not_taken_up(
        self, own: Any, working: Any, owner: Any, page_client: Any, complete: bool
    ) -> None:
        rehearsal = make_rehearsal(workspace=own) if complete else working
        jobs = Job.objects.count()
        assert page_client(owner).post(at("rehearsal-resume", rehearsal)).status_code == 409
        assert Job.objects.count() == jobs and not AuditEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_who_go_on_at_once_make_one_job(own: Any, at_once: Any) -> None:
    rehearsal = make_rehearsal(workspace=own, seeds=3, done=1)

    def go_on() -> bool:
        try:
            resume_rehearsal(by=system(own), rehearsal=rehearsal)
        except RehearsalUnderWay:
            return False
        return True

    assert sorted(at_once(4, go_on)) == [False, False, False, True]
    assert Job.objects.count() == 1


def lines(count: int = 240, **odd: Any) -> bytes:
    rows = [{"body": f"note {number}", "folder": "ab"[number % 2]} for number in range(count)]
    return "\n".join(json.dumps(row) for row in [*rows, *([odd] if odd else [])]).encode()


def given(content: bytes = b"", name: str = "notes.jsonl", **changes: str) -> dict[str, Any]:
    file = SimpleUploadedFile(name, content or lines())
    return {"file": file, "text_field": "body", "label_field": "folder", **changes}


class TestStart:
    @pytest.fixture
    def path(self, workspace: Any) -> str:
        return page("rehearsal-start", workspace)

    @pytest.fixture
    def served(self, settings: Any, tmp_path: Path) -> Any:
        with running_model_server(tmp_path, settings.MODEL_SERVER_TOKEN) as address:
            settings.MODEL_SERVER_URL = address
            yield address
            close_clients()

    def test_an_admin_starts_one_and_it_is_theirs(
        self, served: str, store: Path, path: str, owner: Any, labeller: Any, page_client: Any
    ) -> None:
        visitor = page_client(owner)
        answer = visitor.post(path, given(seed_share="0.1", rounds="2", noise="0.05"))
        rehearsal = Rehearsal.objects.select_related("workspace", "job").get()
        assert answer["Location"] == at("rehearsal", rehearsal)
        assert rehearsal.workspace.slug == "rehearsal-notes" and rehearsal.job.state == JobState.QUEUED
        assert (rehearsal.plan["seed_share"], rehearsal.plan["rounds"], rehearsal.plan["noise"]) == (0.1, 2, 0.05)
        assert rehearsal.plan["decisions"] is None and rehearsal.about["rows"] == 240
        members = Membership.objects.filter(workspace=rehearsal.workspace)
        assert [(one.user, one.role) for one in members] == [(owner, "admin")]
        assert AuditEntry.objects.get(action="rehearsal.started").actor == owner.email == rehearsal.requested_by
        # The same rows with the same settings are the same rehearsal.
        again = visitor.post(path, given(seed_share="0.1", rounds="2", noise="0.05"))
        assert again["Location"] == at("rehearsal", rehearsal) and Job.objects.filter(kind=KIND).count() == 1

    @pytest.mark.parametrize(
        ("changes", "field", "says"),
        [
            ({"text_field": "text"}, "text_field", "no record has the text field"),
            ({"label_field": "label"}, "label_field", "no record has the label field"),
            ({"label_field": "body"}, "label_field", "they must differ"),
            ({"name": "notes.txt"}, "file", "the ending &#x27;.txt&#x27; is unknown"),
            ({"content": lines(100)}, "file", "100 usable records"),
            ({"content": b"\xff\xfe"}, "file", "not UTF-8"),
            ({"content": lines(body="odd", folder="c")}, "label_field", "one example only"),
            ({"content": lines().replace(b'"b"', b'"a"')}, "label_field", "alone"),
            ({"content": lines(body=["x"], folder="a")}, "file", "record 241"),
            ({"seed_share": "0.9"}, "seed_share", "is out of range"),
            ({"decisions": "9999"}, "decisions", "9999 requested"),
            ({"rounds": "50"}, "rounds", "enter 1 to 20"),
            ({"seeds": "0"}, "seeds", "enter 1 to 20"),
            ({"noise": "0.5"}, "noise", "is out of range"),
            ({"late": "2"}, "late", "is out of range"),
            ({"missing": "1"}, "missing", "is out of range"),
            ({"missing": "nan"}, "missing", "Enter a number"),
            ({"rounds": "two"}, "rounds", "Enter a whole number"),
            ({"base": "somebody/elses-model"}, "base", "Select a valid choice"),
            ({"lora": "on"}, "lora", "the tiny base is trained whole"),
        ],
    )
    @pytest.mark.quick_cases(4)
    def test_a_fault_stands_beside_its_field_and_nothing_is_written(
        self, path: str, owner: Any, page_client: Any, changes: dict[str, Any], field: str, says: str
    ) -> None:
        spaces = Workspace.objects.count()
        answer = page_client(owner).post(path, given(**changes))
        assert answer.status_code == 400 and list(answer.context["form"].errors) == [field]
        assert says in str(answer.context["form"].errors[field]) and "Nothing was started" in answer.content.decode()
        assert (Workspace.objects.count(), Rehearsal.objects.count(), Job.objects.count()) == (spaces, 0, 0)

    def test_it_says_how_long_a_base_will_take_before_anything_starts(
        self, settings: Any, path: str, owner: Any, page_client: Any
    ) -> None:
        settings.BASE_MODELS = ["Qwen/Qwen2.5-0.5B-Instruct"]
        visitor, seconds = page_client(owner), {}
        for base in ("", "Qwen/Qwen2.5-0.5B-Instruct"):
            shown = visitor.post(path, given(base=base, check="1"))
            assert shown.status_code == 200 and "roughly" in shown.content.decode()
            seconds[base], _ = shown.context["guess"]
        assert 0 < 5 * seconds[""] < seconds["Qwen/Qwen2.5-0.5B-Instruct"]
        assert visitor.post(path, given(check="1", rounds="0")).context["guess"] is None
        assert not Rehearsal.objects.exists() and not Job.objects.exists()

    def test_faults_of_the_file_and_of_the_plan_are_told_at_once(self, path: str, owner: Any, page_client: Any) -> None:
        answer = page_client(owner).post(path, given(text_field="text", label_field="label", rounds="0", noise="1"))
        assert set(answer.context["form"].errors) == {"text_field", "label_field", "rounds", "noise"}

    def test_a_file_that_is_too_large_is_not_read(
        self, path: str, owner: Any, page_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(uploads, "LARGEST_UPLOAD", 1000)
        answer = page_client(owner).post(path, given())
        assert list(answer.context["form"].errors) == ["file"] and not Rehearsal.objects.exists()

    @pytest.mark.parametrize(
        ("sent", "kept"),
        [("ä note (2).csv", "ä note 2.csv"), ("…" * 300 + ".csv", "file.csv"), ("x" * 300 + ".csv", "x" * 40 + ".csv")],
    )
    def test_the_file_is_called_by_a_name_that_can_be_kept(
        self, path: str, owner: Any, page_client: Any, sent: str, kept: str
    ) -> None:
        errors = page_client(owner).post(path, given(lines(100), name=sent)).context["form"].errors
        assert errors["text_field"][0].startswith(f"{kept}: no record has the text field")

    def test_without_a_model_server_it_says_so(self, path: str, owner: Any, page_client: Any, settings: Any) -> None:
        settings.MODEL_SERVER_URL = "http://127.0.0.1:9"
        answer = page_client(owner).post(path, given())
        assert answer.status_code == 503 and "A rehearsal needs the model server" in answer.content.decode()
        assert not Rehearsal.objects.exists() and not Job.objects.exists()

    @pytest.mark.parametrize("role", ["viewer", "labeller"])
    def test_only_an_admin_may(self, path: str, role: str, request: Any, page_client: Any) -> None:
        visitor = page_client(request.getfixturevalue(role))
        assert visitor.get(path).status_code == 403 and visitor.post(path, given()).status_code == 403
        assert not Rehearsal.objects.exists() and not Job.objects.exists()
