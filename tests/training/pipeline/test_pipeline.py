"""The whole loop by one call: a real engine, the job by its handler."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from decisions.models import Reward
from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts.opening import verify_artifact
from models_registry.models import Experiment, GateVerdict
from models_registry.versions.services import get_champion
from tests.engine_task import labelled
from tests.training.ollama_stub import OllamaStub
from tests.work import work_until_over
from tools.factories import OPTIONS, AliasFactory, DecisionFactory, FeedbackFactory, ModelVersionFactory
from training.datasets.snapshots import import_labelled
from training.errors import InvalidPipeline, PipelineFailed
from training.evaluation.suites.services import SuitePlan, create_suite
from training.loops.pipeline import run_full_pipeline
from training.loops.pipeline.deployment import deploy_version
from training.loops.pipeline.services import KIND, cancel_pipeline, end_with_job
from training.models import DatasetSnapshot, ExportJob, TrainingRun
from workspaces.access.actors import system
from workspaces.models import AuditEntry

ROOT = Path(__file__).resolve().parents[3]
NOBODY = "http://127.0.0.1:1"
NEW = "leave it out to start a new one"
QUICK = {
    "optimiser": {"learning_rate": 5e-3, "epochs": 2, "batch_size": 32},
    "lora": {"r": 4, "alpha": 8},
    "threads": 1,
}


@pytest.fixture
def ollama(tmp_path: Path) -> Iterator[OllamaStub]:
    stub = OllamaStub(tmp_path)
    yield stub
    stub.close()


def decide(agent: Any, rows: list[dict[str, Any]], **fields: Any) -> None:
    """On each row a decision for every option, with a verdict: what groups are made of."""
    for row in rows:
        for option in OPTIONS:
            state = {"text": row["prompt"]}
            decision = DecisionFactory(agent=agent, state=state, action=option, propensity=1 / 3, **fields)
            FeedbackFactory(decision=decision, value="confirmed" if option == row["answer"] else "corrected")


def ask(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("pipeline", "--agent", "filer", *arguments, "--json", stdout=out, stderr=io.StringIO())
    told: dict[str, Any] = json.loads(out.getvalue())
    return told


def refused(*arguments: str) -> tuple[int, str]:
    said = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("pipeline", "--agent", "filer", *arguments, stdout=io.StringIO(), stderr=said)
    return int(str(ended.value.code)), said.getvalue()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_one_call_leads_from_decisions_to_an_exported_version(
    agent: Any, by: Any, base_version: Any, admin: Any, page_client: Any, ollama: OllamaStub
) -> None:
    """Cancelled on the way, and resumed from Python, which waits while a worker works. It ends in Ollama, which is away
    when it comes there first."""
    decide(agent, labelled(16, 3))
    heldout = import_labelled(by=by, agent=agent, name="held-out rows", rows=labelled(30, 2))
    suite = create_suite(by=by, agent=agent, plan=SuitePlan("fixed", heldout))
    # A quantisation without a bound: of so few rows one near a tie is too many for the others.
    into_ollama = ("--deploy-ollama", "--ollama-host", ollama.url, "--quantization", "Q3_K_M")
    plan = ("--method", "grpo", "--set", json.dumps(QUICK), *into_ollama, "--detach")
    told = ask(*plan)
    job = Job.objects.get(id=told["job"])
    assert ask(*plan) == told  # it is under way
    for _ in range(200):
        work_a_little()
        if TrainingRun.objects.exists():
            break
    run = TrainingRun.objects.get()
    assert (run.state, run.tags, run.dataset.name) == ("queued", [told["pipeline"]], told["pipeline"])
    assert Reward.objects.count() == 48
    cancel_pipeline(by=by, job=job)
    job.refresh_from_db()
    run.refresh_from_db()
    assert (job.state, run.state) == ("cancelled", "cancelled")

    again = ask("--resume", "--detach")
    assert again["pipeline"] == told["pipeline"] and again["job"] != told["job"]
    ollama.refuses = "no space left on device"
    ended = work_until_over(Job.objects.get(id=again["job"]))
    assert ended.state == JobState.DEAD and "filer:2 is not in Ollama" in ended.error and ollama.refuses in ended.error
    assert ollama.models == {} and AuditEntry.objects.filter(action="export.started").count() == 2
    ollama.refuses = ""
    ended = work_until_over(Job.objects.get(id=ask("--resume", "--detach")["job"]))
    assert ended.state == JobState.SUCCEEDED, ended.error
    report = ended.result
    version = TrainingRun.objects.get(state="succeeded").produced_version
    assert (report["version"], report["dataset"]["rows"], report["agent"]) == (str(version), 48, "filer")
    assert DatasetSnapshot.objects.filter(kind="logged").count() == 1  # the same rows
    assert report["evaluation"]["rows"] == 30 and {"base", "trained"} == report["evaluation"]["scores"].keys()
    (scored,) = report["suites"]
    assert (scored["suite"], scored["against"]) == (suite.name, str(base_version)) and scored["difference"]
    assert {verdict["kind"] for verdict in report["gate"]["verdicts"]} == {"held_out", "off_policy"}
    assert verify_artifact(report["export"]["digest"])["kind"] == "model"
    assert (Path(report["export"]["folder"]) / "config.json").is_file()
    assert (report["deployment"]["asked"], report["deployment"]["done"]) == ("", "")
    assert get_champion(agent.registered_model) == base_version and not Experiment.objects.exists()
    assert refused("--resume") == (2, f"--resume: the newest pipeline of filer is done; expected: {NEW}\n")
    assert AuditEntry.objects.filter(action__startswith="pipeline.").count() == 4
    assert AuditEntry.objects.filter(action="export.started").count() == 2  # neither is made again
    made = ollama.models[report["ollama"]["name"]]
    assert report["ollama"]["name"] == f"{version}-q3_k_m" and made["digest"] == report["ollama"]["digest"]
    client, pages = page_client(admin), agent.workspace.slug
    shown = client.get(reverse("pages:pipeline", args=[pages, told["job"]]), follow=True).content.decode()
    assert all(part in shown for part in (str(version), "48 logged rows", "Filer grpo", "ready", f"at {ollama.url}"))
    assert report["ollama"]["name"] in shown
    own = reverse("pages:run", args=[pages, report["run"]])
    assert told["pipeline"] in client.get(own).content.decode()
    end_with_job(ended)  # nothing is left to cancel
    assert set(ExportJob.objects.values_list("format", "state")) == {("merged", "ready"), ("gguf", "ready")}


def work_a_little() -> None:
    """Every job that is due, once, but for runs."""
    Job.objects.filter(state=JobState.QUEUED).update(run_after=timezone.now())
    for due in Job.objects.filter(state=JobState.QUEUED).exclude(kind="training.supervise_run"):
        run_job(due.id)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_from_a_folder_with_an_adapter_two_rounds_end_in_merged_weights(
    agent: Any, tiny_run: Path, store: Path, settings: Any, tmp_path: Path
) -> None:
    """The first pipeline of an agent without a version, from a base that a person named; the second goes on from it."""
    folder = tmp_path / "models" / "qwen2-shape"
    shutil.copytree(tiny_run / "attempts" / "1" / "model", folder)
    settings.BASE_MODELS = [str(folder.parent)]
    decide(agent, labelled(16, 3))
    first = ("--method", "posterior", "--set", json.dumps(QUICK), "--model", str(folder), "--detach")
    ended = work_until_over(Job.objects.get(id=ask(*first)["job"]))
    assert ended.state == JobState.SUCCEEDED, ended.error
    run = TrainingRun.objects.get()
    base = run.produced_version.base
    assert base is not None and run.base_version == base and ended.result["version"] == str(run.produced_version)
    assert get_champion(agent.registered_model) == run.produced_version
    assert verify_artifact(ended.result["export"]["digest"])["kind"] == "model"

    decide(agent, labelled(16, 4))
    ended = work_until_over(
        Job.objects.get(id=ask("--method", "posterior", "--set", json.dumps(QUICK), "--only-new", "--detach")["job"])
    )
    assert ended.state == JobState.SUCCEEDED, ended.error
    second = TrainingRun.objects.get(base_version=run.produced_version)
    assert second.produced_version.base is not None
    assert verify_artifact(ended.result["export"]["digest"])["kind"] == "model"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_from_python_it_waits_and_says_why_there_is_no_version(agent: Any, base_version: Any) -> None:
    """All were right: the method has nothing to tell apart, so neither dataset nor run is left."""
    for row in labelled(4, 3):
        FeedbackFactory(decision=DecisionFactory(agent=agent, state={"text": row["prompt"]}), value="confirmed")

    def work() -> None:
        try:
            while not (job := Job.objects.filter(kind=KIND, state=JobState.QUEUED).first()):
                time.sleep(0.02)
            work_until_over(job)
        finally:
            connection.close()

    (worker := threading.Thread(target=work)).start()
    with pytest.raises(PipelineFailed, match="all its rows were right"):
        run_full_pipeline(agent="filer", method="kto")
    worker.join(60)
    (worker := threading.Thread(target=work)).start()
    code, said = refused("--resume")  # by the command, which takes it up again
    worker.join(60)
    assert code == 3 and "ended without a version: " in said and Job.objects.filter(kind=KIND).count() == 2
    assert not DatasetSnapshot.objects.exists() and not TrainingRun.objects.exists()


@pytest.mark.django_db
class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("--method", "astrology"), ["--method: 'astrology' is unknown"]),
            ((), ["--method: '' is unknown"]),
            (("--method", "grpo"), ["--agent: it has no decisions yet"]),
            (
                (
                    "--method",
                    "grpo",
                    "--deploy-ollama",
                    "--ollama-host",
                    NOBODY,
                    "--deploy",
                    "everywhere",
                    "--model",
                    "filer:9",
                    "--rows",
                    "text",
                ),
                [
                    "--deploy: 'everywhere' is unknown",
                    "--model: Model filer has no version 9",
                    "--deploy-ollama: Ollama at http://127.0.0.1:1 does not answer: ConnectionError; expected: an",
                    "--agent: it has no decisions yet",
                ],
            ),
            (
                ("--method", "grpo", "--quantization", "Q8_0"),
                ["--quantization: has no effect without deploy_ollama", "--agent: it has no decisions yet"],
            ),
            (
                ("--method", "reward_model"),
                ["--method: reward_model does not make a policy", "--agent: it has no decisions yet"],
            ),
            (
                ("--method", "dpo", "--rows", "logged", "--model", "/etc"),
                ["--rows: dpo cannot learn from logged rows; expected: preferences"],
            ),
            (
                ("--method", "posterior", "--model", "/etc", "--since", "2026-01-02", "--until", "2026-01-01"),
                ["--until: is not after since", "--model: is not allowed here"],
            ),
            (
                ("--method", "posterior", "--set", '{"optimiser": {"epochs": 0}}'),
                ["--agent: it has no decisions yet", "--set: optimiser.epochs: "],
            ),
            (("--method", "posterior", "--set", "[1]"), ["--set: is not a JSON object"]),
            (("--resume",), ["--resume: filer has had no pipeline"]),
        ],
    )
    def test_every_reason_is_told_and_nothing_starts(
        self, arguments: tuple[str, ...], told: list[str], agent: Any
    ) -> None:
        AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
        before = AuditEntry.objects.count()
        code, said = refused(*arguments)
        lines = said.splitlines()
        assert code == 2 and len(lines) == len(told), said
        assert all(line.startswith(part) for line, part in zip(lines, told, strict=True)), said
        assert not Job.objects.exists() and AuditEntry.objects.count() == before

    def test_what_the_decisions_lack_is_told_before_anything_starts(self, agent: Any) -> None:
        code, said = refused("--method", "posterior")
        assert code == 2 and "--model: filer has no version yet" in said
        AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
        silent = DecisionFactory(agent=agent, propensity=None)
        code, said = refused("--method", "reward_weighted")
        assert code == 2 and "--agent: no decision makes a row: 1 have no verdict yet" in said
        FeedbackFactory(decision=silent, value="confirmed")
        call_command("calculate_rewards", stdout=io.StringIO())
        code, said = refused("--method", "reward_weighted")
        assert code == 2 and "--with-propensity: 1 of its decisions have no propensity" in said
        code, said = refused("--method", "ppo")
        assert code == 2 and "1 of its decisions have no propensity, and only 1 have a reward" in said
        assert not Job.objects.exists()
        assert ask("--method", "posterior", "--detach")["pipeline"].startswith("pipeline-")
        assert Job.objects.get().payload["plan"]["filters"] == {"unjudged": True}

    def test_its_page_cancels_and_resumes_it(self, agent: Any, admin: Any, page_client: Any) -> None:
        AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
        FeedbackFactory(decision=DecisionFactory(agent=agent), value="confirmed")
        client, path = page_client(admin), reverse("pages:pipelines", args=[agent.workspace.slug])
        assert reverse("pages:pipeline-new", args=[agent.workspace.slug]) in client.get(path).content.decode()
        told = ask("--method", "posterior", "--detach")

        def at(name: str, job: object = told["job"]) -> str:
            return reverse(f"pages:{name}", args=[agent.workspace.slug, job])

        shown = client.get(at("pipeline")).content.decode()
        assert told["pipeline"] in shown and "Waiting for a worker" in shown and 'id="cancel"' in shown
        assert client.get(at("pipeline-row")).status_code == 200
        assert client.post(at("pipeline-resume")).status_code == 409
        client.post(at("pipeline-cancel"))
        part = client.get(at("pipeline"), headers={"HX-Request": "true"})
        assert client.get(at("pipeline-row")).status_code == 286
        assert part.status_code == 286 and 'id="resume"' in part.content.decode()
        again = client.post(at("pipeline-resume"))["Location"]
        assert again != at("pipeline") and client.get(at("pipeline"))["Location"] == again
        assert [job.state for job in Job.objects.order_by("id")] == ["cancelled", "queued"]
        (line,) = client.get(path).context["lines"]
        assert (line.name, line.state, line.agent, line.run) == (told["pipeline"], "queued", agent, None)
        newest = client.get(path).content.decode()
        assert again in newest and at("pipeline") not in newest
        assert client.get(path, {"before": line.job.id}).context["lines"] == []

    def test_its_page_starts_what_the_command_starts(self, agent: Any, admin: Any, page_client: Any) -> None:
        client, path = page_client(admin), reverse("pages:pipeline-new", args=[agent.workspace.slug])
        assert "manage.py pipeline" in client.get(path).content.decode()
        sent = {"agent": "filer", "method": "posterior", "model": "", "held_out": "0.2", "deploy": "", "settings": ""}
        refusals = {
            "filer has no version yet": {},
            "is not allowed here": {"model": "elsewhere/model"},
            "Select a valid choice": {"method": "astrology"},
            "Ensure this value is less than or equal to 0.5": {"held_out": "0.6"},
        }
        for says, changed in refusals.items():
            answer = client.post(path, sent | changed)
            assert answer.status_code == 400 and says in answer.content.decode(), says
        AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
        FeedbackFactory(decision=DecisionFactory(agent=agent, propensity=None), value="confirmed")
        call_command("calculate_rewards", stdout=io.StringIO())
        answer = client.post(path, sent | {"settings": '{"optimiser": {"epochs": -1}}'})
        assert answer.status_code == 400
        assert [*answer.context["form"].errors] == ["settings"]
        answer = client.post(path, sent | {"method": "reward_weighted"})
        assert [*answer.context["form"].errors] == ["with_propensity"]
        assert "1 of its decisions have no propensity" in answer.content.decode()
        assert not Job.objects.exists()
        asked = sent | {"only_new": "on", "deploy": "experiment", "settings": '{"optimiser": {"epochs": 1}}'}
        started = client.post(path, asked)
        job = Job.objects.get()
        assert started["Location"] == reverse("pages:pipeline", args=[agent.workspace.slug, job.id])
        plan = job.payload["plan"]
        assert (plan["method"], plan["only_new"], plan["deploy"]) == ("posterior", True, "experiment")
        assert (plan["held_out"], plan["settings"]) == (0.2, {"optimiser": {"epochs": 1}})
        assert client.post(path, asked)["Location"] == started["Location"]  # it is under way
        entry = AuditEntry.objects.get(action="pipeline.started")
        assert (entry.actor, entry.details) == (admin.email, {"agent": "filer", "method": "posterior"})
        assert AuditEntry.objects.filter(action="pipeline.started").count() == 1

    def test_python_is_told_the_same(self, agent: Any) -> None:
        with pytest.raises(InvalidPipeline) as told:
            run_full_pipeline(
                agent="filer", method="astrology", deploy_ollama=True, quantisation="Q9", ollama_host=NOBODY
            )
        assert [fault.field for fault in told.value.faults] == ["method", "model", "quantisation", "deploy_ollama"]
        with pytest.raises(InvalidPipeline, match="cannot start"):
            run_full_pipeline(agent="nobody", method="grpo")
        assert not Job.objects.exists()


def test_it_is_imported_without_django() -> None:
    code = (
        "import sys; from training.loops import pipeline; assert 'django' not in sys.modules; "
        "pipeline.run_full_pipeline"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "estimate", "allowed", "says"),
    [
        ("held_out", 0.2, ["experiment", "champion"], "It passed its gate: +20.0 points [+10.0, +30.0]"),
        ("off_policy", 0.2, ["experiment"], "Logged decisions allow an experiment, and no promotion"),
        ("held_out", -0.2, [], "It did not pass its gate: −20.0 points"),
        ("off_policy", None, ["experiment"], "No gate could judge it. too few rows"),
    ],
)
@pytest.mark.parametrize("wanted", ["", "experiment", "champion"])
def test_only_what_the_evidence_allows_is_deployed(
    kind: str, estimate: float | None, allowed: list[str], says: str, wanted: str, agent: Any
) -> None:
    champion = AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model)).version
    version = ModelVersionFactory(registered_model=agent.registered_model, parent=champion)
    bounds = {"low": estimate - 0.1, "high": estimate + 0.1} if estimate is not None else {}
    GateVerdict.objects.create(
        workspace=agent.workspace, version=version, against=champion, kind=kind, estimate=estimate, **bounds,
        passed=estimate is not None and estimate > 0, refusals=[] if estimate is not None else ["too few rows"],
    )  # fmt: skip
    by = system(agent.workspace)
    found = deploy_version(by=by, version=version, wanted=wanted, name="pipeline-1")
    done = wanted if wanted in allowed else ""
    assert (found.done, list(found.allowed)) == (done, allowed) and says in found.because
    assert get_champion(agent.registered_model) == (version if done == "champion" else champion)
    assert Experiment.objects.count() == (done == "experiment")
    assert deploy_version(by=by, version=version, wanted=wanted, name="pipeline-1").done == done  # asked again
    assert Experiment.objects.count() == (done == "experiment")
