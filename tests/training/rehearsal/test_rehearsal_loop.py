"""A whole rehearsal on a small made-up file: real engine, real model server, the job by its handler."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.utils import timezone

from decisions.models import Agent, Decision, Feedback, Label, Reward
from jobs.errors import Permanent
from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.backends.outbound import close_clients
from models_registry.versions.services import get_champion
from tests.training.engine.engine_world import labelled
from tests.work import work_until_over
from tools.model_server import running_model_server
from training.loops.rehearsal import services
from training.loops.rehearsal.loop import GATE_LOG, HELDOUT, SeedLoop, round_name
from training.loops.rehearsal.plan import Plan, split_rows
from training.loops.rehearsal.services import cancel_rehearsal, read_stored_source, start_rehearsal
from training.loops.rehearsal.source import Source, read_source
from training.models import Rehearsal, TrainingRun
from training.run_states import RunState
from training.runs.defaults import recipes
from workspaces.access.actors import system
from workspaces.models import AuditEntry, Membership, Workspace

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
ASKED = ("--text-field", "body", "--label-field", "folder", "--seed-share", "0.08", "--rounds", "2")
ASKED += ("--noise", "0.03", "--late", "0.1", "--missing", "0.1", "--labels", "40")
PLAN = Plan(seed_share=0.08, rounds=2, noise=0.03, late=0.1, missing=0.1, labels=40)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.jsonl"
    rows = [{"body": row["prompt"], "folder": row["answer"]} for row in labelled(700, seed=7)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


@pytest.fixture
def source(notes: Path) -> Source:
    return read_source(notes, text_field="body", label_field="folder")


@pytest.fixture
def served(settings: Any, store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model server, and passes that are short enough for a test."""

    def passes(count: int) -> Callable[..., dict[str, Any]]:
        return lambda *_, **__: {"optimiser": {"learning_rate": 3e-3, "epochs": count, "batch_size": 32}, "threads": 1}

    monkeypatch.setattr(recipes, "base_settings", passes(8))
    monkeypatch.setattr(recipes, "round_settings", passes(5))
    monkeypatch.setattr(recipes, "FREE_ROWS", 10)
    with running_model_server(store, settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        yield address
        close_clients()


def start(source: Source, **changes: Any) -> Rehearsal:
    asked = {"source": source, "plan": PLAN, "text_field": "body", "label_field": "folder", "owners": []}
    return start_rehearsal(**{**asked, "requested_by": "test", "again": False, **changes})


def test_a_rehearsal_tells_what_the_loop_would_do(
    served: str, notes: Path, source: Source, owner: Any, capsys: Any
) -> None:
    call_command("rehearse", str(notes), *ASKED, "--owner", owner.email, "--detach", "--json", stdout=io.StringIO())
    rehearsal = Rehearsal.objects.get()
    job = work_until_over(rehearsal.job)
    assert job.state == JobState.SUCCEEDED, job.error
    rehearsal.refresh_from_db()
    report = rehearsal.report
    (seed,) = report["seeds"]
    # Better than the base by a clear margin, below what every label gives.
    assert report["better"] and seed["difference"]["low"] > 0
    assert 0 < seed["gap_closed"] < 1.3 and seed["final"]["mean"] > seed["base"]["mean"]
    assert [entry["decisions"] for entry in seed["rounds"]] == split_rows(source, PLAN, 0).round_ends(2)
    # A plain classifier of words learnt from the confirmed decisions and the seed labels.
    plain = seed["plain"]
    assert plain["rows"] < seed["rows"]["seed_labels"] + 40 + seed["rounds"][-1]["rewarded"]
    assert plain["difference"]["mean"] == pytest.approx(seed["final"]["mean"] - plain["accuracy"]["mean"])
    assert report["plain"]["accuracy"]["mean"] == plain["accuracy"]["mean"]
    # In a workspace of its own, that only its owner sees.
    assert Membership.objects.get(workspace=rehearsal.workspace).user == owner
    assert rehearsal.workspace.slug == "rehearsal-notes"
    agent = Agent.objects.get(workspace=rehearsal.workspace)
    split = split_rows(source, PLAN, 0)
    decided = Decision.objects.filter(agent=agent)
    assert decided.count() == len(split.stream) + len(split.gate)
    # Decisions carry what a live system knows; feedback comes from most of them, and none was decided twice.
    assert {tuple(decision.state) for decision in decided} == {("text",)}
    assert decided.values("external_id").distinct().count() == decided.count()
    share = Feedback.objects.filter(decision__in=decided).count() / decided.count()
    assert 0.8 < share < 0.97
    # What comes late in the last round comes after its training, and seeds, gate and held-out rows stay apart.
    loop = SeedLoop(None, rehearsal, read_stored_source(rehearsal), 0)  # type: ignore[arg-type]
    last = loop.dataset(round_name(2))
    assert last is not None and last.rows == len(split.stream)  # of those that nobody judged posterior learns, too
    assert last.rows - last.statistics["unjudged"] == seed["rounds"][-1]["rewarded"] < len(split.stream) * 0.95
    trained_on = set(last.items.values_list("decision__external_id", flat=True))
    assert trained_on <= {row.id for row in split.stream}
    assert loop.dataset(HELDOUT).rows == len(split.heldout)
    assert loop.dataset(GATE_LOG).rows <= len(split.gate)
    # Of each round a reviewer labelled the rejected decisions first, and what the label says counts.
    replayed = loop.run_on(round_name(2)).replay
    assert (replayed.name, replayed.rows) == ("labels until round 2", len(split.seed_rows) + 40)
    reviewed = Label.objects.filter(decision__in=decided)
    assert reviewed.count() == 40
    answer = {row.id: row.label for row in split.stream}
    for label in reviewed.select_related("decision"):
        right = label.decision.action == answer[label.decision.external_id]
        assert (label.verdict == "confirmed") is right
        assert (Reward.objects.get(decision=label.decision).value > 0.5) is right
    first = decided.filter(external_id__in=[row.id for row in split.stream[: split.round_ends(2)[0]]])
    labelled = first.filter(labels__isnull=False)
    verdicts = Feedback.objects.filter(decision__in=labelled, idempotency_key__startswith="person:")
    assert labelled.count() == round(40 / 9) == len(verdicts)
    assert {verdict.value for verdict in verdicts} == {"corrected"}
    # The estimate from the log stands beside the truth.
    found = seed["off_policy"]
    assert abs(found["doubly_robust"]["mean"] - found["truth"]) < 0.2
    assert found["gate"]["refusals"] == [] or not found["gate"]["passed"]
    assert get_champion(agent.registered_model) == loop.final_version()
    # A run that is refused ends the rehearsal at once, with the reasons.
    refused = {"method": "posterior", "dataset": last, "recipe": {"optimiser": {"epochs": 0}}}
    with pytest.raises(Permanent, match=r"cannot start with these settings. optimiser.epochs: "):
        loop.start_best(**refused, base_version=loop.language_model_of(round_name(1)))
    # Asked for again it is the kept one, as text and as JSON; nothing is done twice.
    runs = TrainingRun.objects.count()
    code, told, _ = run_command(capsys, str(notes), *ASKED, "--json")
    kept = json.loads(told)
    assert code == 0 and kept["workspace"] == "rehearsal-notes" and kept["seeds"] == report["seeds"]
    code, text, _ = run_command(capsys, str(notes), *ASKED)
    assert code == 0
    for word in (
        "held-out accuracy",
        "Of ceiling",
        "plain classifier of words",
        "After the last round: a classifier of words",
        "No sentence encoder is at hand",
        "Off-policy",
        "Data needed",
        "Experiment",
        "rehearsal-notes",
    ):
        assert word in text
    assert (Rehearsal.objects.count(), TrainingRun.objects.count()) == (1, runs)


def test_a_cancelled_rehearsal_goes_on_where_it_was(served: str, source: Source) -> None:
    rehearsal = start(source, plan=replace(PLAN, seeds=3))
    for _ in range(200):
        run_job(rehearsal.job.id)
        base = TrainingRun.objects.filter(workspace=rehearsal.workspace).first()
        if base is not None:
            break
    assert base is not None and base.state == RunState.QUEUED
    rehearsal.job.refresh_from_db()
    assert 0 < rehearsal.job.progress < 0.2 / 3  # of all three seeds
    cancel_rehearsal(by=system(rehearsal.workspace), rehearsal=rehearsal)
    base.refresh_from_db()
    assert base.state == RunState.CANCELLED
    assert AuditEntry.objects.filter(action="rehearsal.cancelled").count() == 1
    again = start(source, plan=replace(PLAN, seeds=3))
    assert again.id == rehearsal.id and again.job_id != rehearsal.job_id
    for _ in range(200):
        Job.objects.filter(id=again.job.id).update(run_after=timezone.now())
        run_job(again.job.id)
        if TrainingRun.objects.count() == 2:
            break
    # The base is taught anew, from the same rows; nothing else was made a second time.
    assert len(set(TrainingRun.objects.values_list("dataset", flat=True))) == 1
    assert (Agent.objects.count(), Workspace.objects.filter(slug__startswith="rehearsal").count()) == (1, 1)


def test_a_run_that_fails_ends_the_rehearsal_with_its_reason(
    served: str, source: Source, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"cut off")
    settings.BASE_MODELS = [str(tmp_path)]
    monkeypatch.setattr(services, "SeedLoop", BrokenBase)
    job = work_until_over(start(source).job)
    assert job.state == JobState.DEAD and "seed 0: teaching the base: Seed 0 pretrain" in job.error
    assert Rehearsal.objects.get().report is None


class BrokenBase(SeedLoop):
    """Its first run is told to start from a folder whose weights are damaged."""

    def start_best(self, **plan: Any) -> None:
        super().start_best(**{**plan, "base_model": django_settings.BASE_MODELS[0]})


def test_another_plan_or_file_is_another_rehearsal(source: Source, store: Path) -> None:
    first, other = start(source), start(source, plan=Plan(rounds=3))
    assert first.id != other.id and other.workspace.slug == "rehearsal-notes-2"
    assert start(source).id == first.id
    assert start(source, again=True).id not in {first.id, other.id}
    longest = start(replace(source, name="n" * 251 + ".csv"), again=True)
    assert longest.name.startswith("Rehearsal of nnn") and len(longest.workspace.slug) <= 63


def run_command(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    with pytest.raises(SystemExit) as ended:
        call_command("rehearse", *arguments, stdout=(out := io.StringIO()), stderr=(err := io.StringIO()))
    return int(str(ended.value.code)), out.getvalue() + capsys.readouterr().out, err.getvalue()


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["--text-field", "subject", "--label-field", "folder"], "text field 'subject'"),
            (["--text-field", "body", "--label-field", "folder", "--rounds", "0"], "rounds: 0"),
            (["--text-field", "body", "--label-field", "folder", "--decisions", "9999"], "decisions: 9999"),
            (["--text-field", "body", "--label-field", "folder", "--owner", "x@y.org"], "owner: there is no user"),
            ([*ASKED, "--base", "/a/model"], "base: /a/model is not allowed"),
            ([*ASKED, "--lora"], "lora: the tiny base is trained whole"),
        ],
    )
    def test_what_cannot_be_rehearsed_writes_nothing(
        self, capsys: Any, notes: Path, arguments: list[str], told: str
    ) -> None:
        before = Workspace.objects.count()
        code, out, err = run_command(capsys, str(notes), *arguments, "--json")
        assert code == 2 and told in err
        assert any(told in fault for fault in json.loads(out)["faults"])
        assert (Workspace.objects.count(), Rehearsal.objects.count()) == (before, 0)

    def test_a_pretrained_base_is_measured_before_anything_starts(
        self, served: str, capsys: Any, notes: Path, tiny_run: Path, tmp_path: Path, settings: Any, owner: Any
    ) -> None:
        base = tmp_path / "some-base"
        shutil.copytree(tiny_run / "attempts/1/model", base)
        settings.BASE_MODELS = [str(base)]
        call_command("rehearse", str(notes), *ASKED, "--base", str(base), "--lora", "--detach", "--json")
        told = capsys.readouterr().err
        assert f"{base}, by LoRA" in told and "minutes:" in told and "rows a second in training" in told
        rehearsal = Rehearsal.objects.get()
        run_job(rehearsal.job.id)
        assert TrainingRun.objects.get(method="pretrain").base_model == rehearsal.plan["base"] == str(base)
        assert TrainingRun.objects.get(method="classifier").base_model == "words"
        # What is no model is refused before that.
        (base / "config.json").unlink()
        code, _, err = run_command(capsys, str(notes), *ASKED, "--base", str(base), "--seeds", "2")
        assert code == 2 and "is not a model" in err and Rehearsal.objects.count() == 1

    def test_without_an_instance_it_says_what_to_start(self, capsys: Any, notes: Path, settings: Any) -> None:
        settings.MODEL_SERVER_URL = "http://127.0.0.1:9"
        code, _, err = run_command(capsys, str(notes), "--text-field", "body", "--label-field", "folder")
        assert code == 3 and "make run" in err and not Rehearsal.objects.exists()

    def test_an_interrupt_cancels_it_and_the_same_command_would_go_on(
        self, served: str, capsys: Any, notes: Path, owner: Any
    ) -> None:
        before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.setitimer(signal.ITIMER_REAL, 2.0)
        try:
            code, out, _ = run_command(capsys, str(notes), *ASKED, "--owner", owner.email, "--json")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert (code, json.loads(out)) == (130, {"error": "Cancelled. Run the same command again to resume."})
        assert Rehearsal.objects.get().job.state == JobState.CANCELLED
