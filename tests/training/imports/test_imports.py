"""Imports over page and API: what is checked first, what a job writes, and that nothing of a refused file stays."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from decisions.erasure.erasing import Person, PersonKind
from decisions.models import Agent, Decision, Feedback
from decisions.queries.first_labels import LEAST
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path, remove_incoming
from tools.factories import (
    IMPORT_PAYLOAD,
    AliasFactory,
    DecisionFactory,
    FeedbackFactory,
    JobFactory,
    ModelVersionFactory,
)
from training.errors import UnusableImport
from training.imports import services, uploads
from training.imports.checking import check_file
from training.imports.plan import ImportPlan
from training.lineage.erasure import start_erasure
from training.models import DatasetSnapshot
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db

ROW = {"id": "1", "prompt": "a graph", "options": ["graphs", "web"], "answer": "graphs", "group": "module"}
DECISION = {
    "agent": "filer",
    "state": {"text": "A flight to Oslo"},
    "action": "travel",
    "propensity": 0.9,
    "policy_name": "rules-7",
    "observed_at": "2025-11-02T10:00:00Z",
    "feedback": [{"metric": "verdict", "value": "confirmed"}],
}


def text(*lines: Any) -> str:
    return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)


def upload(*lines: Any, name: str = "rows.jsonl") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, text(*lines).encode())


def rows_body(*lines: Any, **fields: Any) -> dict[str, Any]:
    told = {"what": "labelled", "agent": "filer", "name": "gold", "file": "rows.jsonl", "content": text(*lines)}
    return told | fields


def decisions_body(*lines: Any, **fields: Any) -> dict[str, Any]:
    return {"what": "decisions", "file": "decisions.jsonl", "content": text(*lines)} | fields


def kept(store: Path) -> list[str]:
    """Uploads that wait."""
    incoming = store / "incoming"
    return [folder.name for folder in incoming.iterdir()] if incoming.is_dir() else []


def written() -> dict[str, int]:
    return {model.__name__: model.objects.count() for model in (DatasetSnapshot, Decision, Feedback, Job, Agent)}


def run(job: Any) -> str:
    """Runs it; how it ended. Its last transaction is inside the test's, so that its commit is not seen."""
    run_job(job)
    return Job.objects.get(id=job).state


@pytest.fixture(autouse=True)
def own_store(store: Path) -> Path:
    return store


class TestOverTheApi:
    def test_labelled_rows_become_a_dataset(self, api: Any, agent: Any, store: Path) -> None:
        client = api()
        under = ROW | {"id": "2", "system": "Sort."}
        asked = client.post("imports", rows_body(ROW, under))
        assert asked.status_code == 202, asked.content
        path = f"imports/{asked.json()['id']}"
        assert client.get(path).json()["state"] == "queued" and len(kept(store)) == 1
        assert run(asked.json()["id"]) == "succeeded"
        told = client.get(path).json()
        dataset = DatasetSnapshot.objects.get(id=told["dataset"])
        assert (dataset.kind, dataset.name, dataset.rows, told["counts"]) == ("labelled", "gold", 2, {"rows": 2})
        stored = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in stored] == [ROW, under]
        assert not [name for name in kept(store) if name.startswith("upload-")]
        assert AuditEntry.objects.filter(action="import.started").count() == 1

    def test_an_export_of_decisions_that_chose_becomes_a_dataset_of_them(self, api: Any, agent: Any) -> None:
        decision = DecisionFactory(agent=agent, action="finance")
        FeedbackFactory(decision=decision, value="confirmed")
        calculate_rewards(current_reward_spec(agent))
        client = api()
        exported = b"".join(client.get("decisions/export?agent=filer").streaming_content).decode()
        body = rows_body() | {"content": exported}
        asked = client.post("imports", body)
        assert asked.status_code == 202, asked.content
        assert run(asked.json()["id"]) == "succeeded"
        dataset = DatasetSnapshot.objects.get(id=client.get(f"imports/{asked.json()['id']}").json()["dataset"])
        assert (dataset.kind, dataset.rows, dataset.can_teach, dataset.is_imported) == ("logged", 1, True, True)
        [row] = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
        assert (json.loads(row)["action"], json.loads(row)["reward"]) == ("finance", 1.0)
        before = written()
        lines = json.loads(exported)
        lines["rows"][0]["action"] = "elsewhere"
        refused = client.post("imports", body | {"content": json.dumps(lines)})
        assert refused.status_code == 400 and "'elsewhere' is not among the options" in refused.content.decode()
        assert written() == before

    def test_decisions_come_in_with_what_was_said_and_a_repeat_changes_nothing(self, api: Any, agent: Any) -> None:
        client = api()
        wrong = DECISION | {"action": "garden", "observed_at": "2025-11-02T10:01:00Z"}
        body = decisions_body(DECISION, "{broken", wrong)
        for number, counts in enumerate(({"decisions": 1, "feedback": 1, "repeated": 0}, {"decisions": 0})):
            asked = client.post("imports", body)
            assert asked.status_code == 202, asked.content
            assert run(asked.json()["id"]) == "succeeded"
            told = client.get(f"imports/{asked.json()['id']}").json()
            assert {name: told["counts"][name] for name in counts} == counts, number
            assert told["counts"]["refused"] == 2
            assert [line.split(":")[:2] for line in told["refusals"]] == [
                ["decisions.jsonl", "2"],
                ["decisions.jsonl", "3"],
            ]
        decision = Decision.objects.get()
        assert (decision.action, decision.policy_name) == ("travel", "rules-7")
        assert Feedback.objects.get().value == "confirmed"

    def test_a_file_comes_by_multipart_too_and_agents_are_made_when_that_is_asked(self, api: Any, store: Path) -> None:
        key = api()
        form = {"what": "decisions", "format": "csv", "create_agents": "true"}
        header = b"agent,state,options,action,policy_name,observed_at\n"
        line = b'sorter,"{""text"": ""x""}","[""a"", ""b""]",a,rules,2025-11-02T10:00:00Z\n'
        sent = form | {"file": SimpleUploadedFile("table.csv", header + line)}
        headers = {"Authorization": f"Bearer {key.token}"}
        asked = Client().post("/api/v1/imports", sent, headers=headers)
        assert asked.status_code == 202, asked.content
        assert run(asked.json()["id"]) == "succeeded"
        assert Decision.objects.get().agent.slug == "sorter"

    @pytest.mark.parametrize(
        ("body", "status", "field", "says"),
        [
            (rows_body(ROW, ROW), 400, "file", "rows.jsonl:2: id '1' appears twice"),
            (rows_body(ROW, {"id": "2"}), 400, "file", "rows.jsonl:2: Object missing required field"),
            (rows_body(), 400, "content", "blank"),
            (rows_body(ROW, file="rows.txt"), 400, "file", "rows.txt: ends in .txt"),
            (rows_body(ROW, file=".."), 400, "file", "Give a file's name"),
            (rows_body(ROW, agent="nobody"), 404, "", ""),
            ({"what": "labelled", "file": "rows.jsonl", "content": "{}"}, 400, "agent", "is required"),
            (decisions_body(DECISION | {"agent": "nobody"}), 400, "create_agents", "nobody: not an agent here"),
            (decisions_body("{", "[]"), 400, "file", "decisions.jsonl:1: "),
            (
                decisions_body(DECISION | {"action": "garden"}),
                400,
                "file",
                "action: 'garden' is not one of the options",
            ),
            (decisions_body(DECISION, format="parquet"), 400, "format", "not a valid choice"),
            (decisions_body(DECISION, what="songs"), 400, "what", "not a valid choice"),
        ],
    )
    def test_what_is_not_usable_is_named_and_nothing_is_kept(
        self, api: Any, agent: Any, store: Path, body: Any, status: int, field: str, says: str
    ) -> None:
        before = written()
        answer = api().post("imports", body)
        assert answer.status_code == status, answer.content
        faults = {fault["field"]: fault["reason"] for fault in answer.json()["error"]["fields"]}
        assert says in faults.get(field, ""), faults
        assert written() == before and kept(store) == []

    def test_a_file_that_is_too_large_is_413(self, api: Any, agent: Any, store: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(uploads, "LARGEST_UPLOAD", 10)
        answer = api().post("imports", rows_body(ROW))
        assert answer.status_code == 413 and kept(store) == []


def test_an_erasure_forgets_what_was_said_of_records_that_were_left_out(api: Any, agent: Any, by: Any) -> None:
    job = api().post("imports", decisions_body(DECISION, DECISION | {"action": "Ann's own words"})).json()["id"]
    assert run(job) == "succeeded" and "own words" in str(api().get(f"imports/{job}").json()["refusals"])
    erasure = start_erasure(by=by, person=Person(PersonKind.UNIT, "ann"))
    assert run(erasure.job_id) == "succeeded"
    told = api().get(f"imports/{job}").json()
    assert told["refusals"] == [] and told["counts"]["refused"] == 1


class TestTheJob:
    @pytest.fixture
    def asked(self, api: Any, agent: Any) -> Job:
        return Job.objects.get(id=api().post("imports", rows_body(ROW)).json()["id"])

    def test_an_attempt_that_was_cut_off_is_made_again_and_makes_one_dataset(
        self, asked: Job, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def cut(*_: Any, **__: Any) -> None:
            raise OSError("the disk is away")

        with monkeypatch.context() as patched:
            patched.setattr(services, "import_rows", cut)
            assert run(asked.id) == "queued"
        assert not DatasetSnapshot.objects.exists() and len(kept(store)) == 1
        Job.objects.filter(id=asked.id).update(run_after=asked.created_at)
        assert run(asked.id) == "succeeded"
        assert DatasetSnapshot.objects.count() == 1

    def test_a_file_that_is_gone_ends_it_with_its_reason(self, asked: Job) -> None:
        uploads.drop_kept(asked.payload["upload"])
        assert run(asked.id) == "dead"
        asked.refresh_from_db()
        assert "Upload it again" in asked.error and not DatasetSnapshot.objects.exists()

    def test_one_that_is_told_to_stop_stops_between_batches_and_keeps_no_file(
        self, api: Any, agent: Any, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = [DECISION | {"observed_at": f"2025-11-02T10:{number:02}:00Z", "feedback": []} for number in range(4)]
        job = Job.objects.get(id=api().post("imports", decisions_body(*lines)).json()["id"])
        monkeypatch.setattr("decisions.importers.running.MOST_DECISIONS", 2)
        told = services.JobContext.progress

        def stop(self: Any, *given: Any) -> None:
            told(self, *given)
            Job.objects.filter(id=job.id).update(cancel_requested=True)

        monkeypatch.setattr(services.JobContext, "progress", stop)
        assert run(job.id) == "cancelled"
        assert Decision.objects.count() == 4 and kept(store) == []


class TestPages:
    def at(self, name: str, workspace: Any, *more: Any) -> str:
        return reverse(f"pages:{name}", args=[workspace.slug, *more])

    def test_a_file_is_looked_at_then_imported(
        self, agent: Any, workspace: Any, owner: Any, viewer: Any, page_client: Any, store: Path
    ) -> None:
        client = page_client(owner)
        new = self.at("import-new", workspace)
        under = ROW | {"system": "Sort into topics."}
        sent = client.post(f"{new}?what=labelled", {"file": upload(under), "agent": "filer", "name": "gold"})
        assert sent.status_code == 302, sent.context["form"].errors
        page = client.get(sent["Location"]).content.decode()
        assert "The system prompt" in page and "Sort into topics." in page
        assert "1 labelled row" in page and "The right option" in page and "a graph" in page
        assert not Job.objects.exists()
        started = [client.post(sent["Location"])["Location"] for _ in range(2)]
        assert started[0] == started[1]
        job = Job.objects.get()
        assert run(job.id) == "succeeded"
        seen = page_client(viewer).get(started[0]).content.decode()
        assert "gold" in seen and "succeeded" in seen
        assert page_client(viewer).get(self.at("import-status", workspace, job.id)).status_code == 286
        assert "rows.jsonl" in page_client(viewer).get(self.at("imports", workspace)).content.decode()
        assert client.get(sent["Location"]).status_code == 404

    def test_decisions_show_which_field_is_what_and_who_would_be_made(
        self, agent: Any, workspace: Any, owner: Any, page_client: Any
    ) -> None:
        client = page_client(owner)
        new = f"{self.at('import-new', workspace)}?what=decisions"
        wrong = DECISION | {"action": "garden"}
        sorted_one = DECISION | {"agent": "sorter", "options": ["travel"]}
        file = upload(DECISION, wrong, sorted_one, "{", name="decisions.jsonl")
        sent = client.post(new, {"file": file, "agent": "", "format": "jsonl", "create_agents": "on"})
        assert sent.status_code == 302, sent.context["form"].errors
        page = client.get(sent["Location"])
        text = page.content.decode()
        assert "2 decisions" in text and "How likely that was" in text and "verdict confirmed" in text
        assert page.context["preview"].agents == (("filer", 1, False), ("sorter", 1, True))
        assert "2 records are" in text and Decision.objects.count() == 0
        assert [line.split(": ", 1)[0] for line in page.context["preview"].refusals] == [
            "decisions.jsonl:2",
            "decisions.jsonl:4",
        ]

    def test_imported_decisions_lead_on_to_rewards_and_then_to_training(
        self, api: Any, agent: Any, workspace: Any, owner: Any, viewer: Any, page_client: Any, store: Path
    ) -> None:
        job = api().post("imports", decisions_body(DECISION | {"propensity": 0.5})).json()["id"]
        assert run(job) == "succeeded"
        AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
        page, train = self.at("import", workspace, job), self.at("train-new", workspace)
        first = page_client(owner).get(page).content.decode()
        assert f'action="{train}"' not in first and "Calculate rewards" in first
        calculate_rewards(current_reward_spec(agent))
        assert f'action="{train}"' in page_client(owner).get(page).content.decode()
        assert train not in page_client(viewer).get(page).content.decode()

    def test_imported_verdicts_lead_on_to_the_first_model(
        self, api: Any, agent: Any, workspace: Any, owner: Any, page_client: Any, store: Path
    ) -> None:
        options = agent.versions.get().options
        lines = [DECISION | {"external_id": f"n{n}", "action": options[n % 2]} for n in range(LEAST)]
        few = api().post("imports", decisions_body(*lines[1:])).json()["id"]
        assert run(few) == "succeeded"
        page, train = self.at("import", workspace, few), self.at("train-new", workspace)
        assert f'action="{train}"' not in page_client(owner).get(page).content.decode()
        assert run(api().post("imports", decisions_body(lines[0])).json()["id"]) == "succeeded"
        assert f'action="{train}"' in page_client(owner).get(page).content.decode()

    def test_a_refused_file_is_told_line_by_line_and_not_kept(
        self, agent: Any, workspace: Any, owner: Any, page_client: Any, store: Path
    ) -> None:
        form = {"file": upload(ROW, ROW, "{"), "agent": "filer", "name": "gold"}
        answer = page_client(owner).post(self.at("import-new", workspace), form)
        text = answer.content.decode()
        assert answer.status_code == 400 and "rows.jsonl:2: id" in text and "rows.jsonl:3: " in text
        assert "Nothing was stored" in text and kept(store) == [] and not Job.objects.exists()

    def test_what_was_looked_at_can_be_discarded_and_is_nobody_elses(
        self, agent: Any, workspace: Any, other_workspace: Any, owner: Any, outsider: Any, page_client: Any, store: Path
    ) -> None:
        client = page_client(owner)
        form = {"file": upload(ROW), "agent": "filer", "name": "gold"}
        check = client.post(self.at("import-new", workspace), form)["Location"]
        theirs = check.replace(workspace.slug, other_workspace.slug, 1)
        assert page_client(outsider).get(theirs).status_code == page_client(outsider).get(check).status_code == 404
        assert page_client(outsider).post(theirs, {"discard": "1"}).status_code == 404
        assert len(kept(store)) == 1
        assert client.post(check, {"discard": "1"}).status_code == 302
        assert kept(store) == [] and not Job.objects.exists()

    def test_a_file_that_nobody_takes_goes_in_time(
        self, agent: Any, workspace: Any, owner: Any, page_client: Any, store: Path
    ) -> None:
        form = {"file": upload(ROW), "agent": "filer", "name": "gold"}
        check = page_client(owner).post(self.at("import-new", workspace), form)["Location"]
        now = timezone.now()
        assert list(remove_incoming(now - dt.timedelta(days=1))) == [] and len(kept(store)) == 1
        assert list(remove_incoming(now + dt.timedelta(days=1))) == [1] and kept(store) == []
        assert page_client(owner).post(check).status_code == 404 and not Job.objects.exists()

    def test_it_is_cancelled_on_its_page_and_over_the_api(
        self, api: Any, agent: Any, workspace: Any, owner: Any, page_client: Any, store: Path,
        django_capture_on_commit_callbacks: Any,
    ) -> None:  # fmt: skip
        job = api().post("imports", rows_body(ROW)).json()["id"]
        client, path = page_client(owner), self.at("import-cancel", workspace, job)
        assert "Import the same file again to resume." in client.get(path).content.decode()
        with django_capture_on_commit_callbacks(execute=True):
            assert client.post(path).status_code == 302
        assert Job.objects.get(id=job).state == "cancelled" and kept(store) == []
        assert client.post(path).status_code == 409
        answer = api().post(f"imports/{job}/cancel")
        assert answer.status_code == 409 and answer.json()["error"]["code"] == "already_finished"
        other = api().post("imports", rows_body(ROW)).json()["id"]
        assert api().post(f"imports/{other}/cancel").json()["state"] == "cancelled" and run_job(other) is None

    def test_everyone_reads_and_admins_import(
        self, agent: Any, workspace: Any, owner: Any, labeller: Any, viewer: Any, outsider: Any, page_client: Any
    ) -> None:
        job = JobFactory(workspace=workspace, kind=services.KIND, payload=IMPORT_PAYLOAD)
        people = (owner, labeller, viewer, outsider)
        expected = {
            self.at("imports", workspace): [200, 200, 200, 404],
            self.at("import", workspace, job.id): [200, 200, 200, 404],
            self.at("import-status", workspace, job.id): [200, 200, 200, 404],
            self.at("import-new", workspace): [200, 403, 403, 404],
            self.at("import-cancel", workspace, job.id): [200, 403, 403, 404],
            self.at("import-check", workspace, job.id): [404, 403, 403, 404],
        }
        found = {path: [page_client(person).get(path).status_code for person in people] for path in expected}
        assert found == expected
        for person in (labeller, viewer, outsider):
            page_client(person).post(self.at("import-cancel", workspace, job.id))
        job.refresh_from_db()
        assert job.state == "queued"

    def test_the_list_costs_the_same_for_any_number(self, workspace: Any, viewer: Any, page_client: Any) -> None:
        client, path = page_client(viewer), self.at("imports", workspace)
        JobFactory(workspace=workspace, kind=services.KIND, payload=IMPORT_PAYLOAD)
        client.get(path)
        with CaptureQueriesContext(connection) as few:
            client.get(path)
        JobFactory.create_batch(25, workspace=workspace, kind=services.KIND, payload=IMPORT_PAYLOAD)
        with CaptureQueriesContext(connection) as many:
            page = client.get(path)
        assert len(page.context["lines"]) == 25 and page.context["older"]
        assert len(many) == len(few)


def test_rows_of_other_programs_become_datasets_of_their_kind(api: Any, agent: Any, store: Path) -> None:
    user, reply = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}
    chat = {"messages": [user, reply, user, reply]}
    pair = {"prompt": "Q", "chosen": "A", "rejected": "B"}
    for lines, kind, count in (([chat], "text", 2), ([pair, pair], "preferences", 2)):
        asked = api().post("imports", rows_body(*lines))
        assert asked.status_code == 202, asked.content
        assert run(asked.json()["id"]) == "succeeded"
        dataset = DatasetSnapshot.objects.get(id=api().get(f"imports/{asked.json()['id']}").json()["dataset"])
        assert (dataset.kind, dataset.rows) == (kind, count)
    before = written()
    refused = api().post("imports", rows_body({"messages": [user, reply, user]}))
    assert refused.status_code == 400 and "end with the user's" in refused.content.decode() and written() == before


def test_the_page_shows_pairs_and_a_packed_file(
    agent: Any, workspace: Any, owner: Any, page_client: Any, store: Path
) -> None:
    client = page_client(owner)
    new = f"{reverse('pages:import-new', args=[workspace.slug])}?what=labelled"
    pair = {"prompt": "Which?", "chosen": "this one", "rejected": "that one"}
    file = SimpleUploadedFile("pairs.jsonl.gz", gzip.compress(text(pair).encode("utf-16")))
    sent = client.post(new, {"file": file, "agent": "filer", "name": "pairs"})
    assert sent.status_code == 302, sent.context["form"].errors
    page = client.get(sent["Location"]).content.decode()
    assert "1 preference row" in page and "The better text" in page and "that one" in page


def test_a_small_file_that_unpacks_to_a_large_one_is_refused_before_it_is_read(
    agent: Any, by: Any, tmp_path: Path
) -> None:
    """The web process reads a file whole: 80 kB packed were 1 GB of memory."""
    path = tmp_path / "pairs.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"prompt": "Q"}\n' * (1 + uploads.LARGEST_UPLOAD // 16)))
    with pytest.raises(UnusableImport) as refused:
        check_file(by=by, plan=ImportPlan(what="labelled", agent="filer"), path=path)
    assert "holds more than 32 MiB unpacked" in refused.value.faults[0].reason


def test_faulty_lines_are_left_out_where_that_is_asked(api: Any, agent: Any, store: Path) -> None:
    pair = {"prompt": "Q", "chosen": "A", "rejected": "B"}
    body = rows_body(pair, pair | {"rejected": "A"}, "{", pair)
    assert api().post("imports", body).status_code == 400
    asked = api().post("imports", body | {"leave_out_faulty": True})
    assert asked.status_code == 202, asked.content
    assert run(asked.json()["id"]) == "succeeded"
    told = api().get(f"imports/{asked.json()['id']}").json()
    assert told["counts"] == {"rows": 2, "refused": 2}
    assert told["refusals"] == [
        "rows.jsonl:2: preference pair: rejected: is the same as the chosen text",
        "rows.jsonl:3: Input data was truncated",
    ]
    dataset = DatasetSnapshot.objects.get(id=told["dataset"])
    rows = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    assert [json.loads(row)["id"] for row in rows] == ["1", "4"]
    none = api().post("imports", rows_body("{", "{") | {"leave_out_faulty": True})
    assert none.status_code == 400 and DatasetSnapshot.objects.count() == 1


def test_without_an_agent_the_page_says_where_to_create_one(workspace: Any, owner: Any, page_client: Any) -> None:
    new = reverse("pages:import-new", args=[workspace.slug])
    assert reverse("pages:agent-new", args=[workspace.slug]) in page_client(owner).get(new).content.decode()
