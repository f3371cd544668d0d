"""Pages of datasets: what one would hold before it is made, making it, the list, and one of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.models.tombstones import ERASED_HASH
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DatasetItemFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    FeedbackFactory,
    JobFactory,
    RewardFactory,
    RewardSpecFactory,
    TrainingRunFactory,
)
from training.datasets import preview as dataset_preview
from training.datasets.preview import preview_datasets
from training.models import DatasetSnapshot
from workspaces.models import AuditEntry


def at(name: str, workspace: Any, *arguments: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug, *arguments])


@pytest.fixture
def ledger(agent: Any) -> dict[str, Any]:
    """A decision for every reason to be left out, and three to be taken: two for travel, one of them corrected."""
    spec = current_reward_spec(agent)
    kept = [DecisionFactory(agent=agent, action=action) for action in ("travel", "finance", "travel")]
    made = {"erased": DecisionFactory(agent=agent, content_hash=ERASED_HASH)}
    for decision in (*kept[:2], *made.values()):
        FeedbackFactory(decision=decision, value="confirmed")
    FeedbackFactory(decision=kept[2], value="corrected")
    calculate_rewards(spec)
    made["feedback"] = DecisionFactory(agent=agent)
    FeedbackFactory(decision=made["feedback"], metric="clicks", value=3)
    made["calculation"] = FeedbackFactory(decision=DecisionFactory(agent=agent)).decision
    made["reward"] = DecisionFactory(agent=agent)
    RewardFactory(decision=made["reward"], spec=spec, value=None, raw=None)
    free = AgentVersionFactory(agent=agent, number=8, options=None)
    writing = AgentVersionFactory(agent=agent, number=9, options=None, action_space="text")
    made["options"] = DecisionFactory(agent=agent, agent_version=free, options=None)
    made["shape"] = DecisionFactory(agent=agent, agent_version=writing, options=None)
    return {**made, "kept": kept}


def test_the_preview_counts_what_is_taken_and_says_why_the_rest_is_not(
    ledger: dict[str, Any], agent: Any, workspace: Any, admin: Any, page_client: Any, store: Any
) -> None:
    client, path = page_client(admin), at("dataset-make", workspace)
    answer = client.get(path)
    preview = answer.context["preview"]
    assert (preview.rows, preview.looked_at) == (3, 9)
    assert preview.actions == (("travel", 2), ("finance", 1))
    assert preview.verdicts == (("confirmed", 2), ("corrected", 1))
    assert dict(preview.left_out) == dict.fromkeys(
        ["shape", "options", "erased", "feedback", "calculation", "reward"], 1
    )
    assert preview.examples == tuple(decision.id for decision in reversed(ledger["kept"]))
    text = answer.content.decode()
    assert "have a verdict but no reward yet" in text and at("rewards", workspace) in text
    assert "There is no held-out data" in text and ledger["kept"][0].state["text"] in text
    # What was counted is what the job takes.
    sent = client.post(path, {"agent": agent.slug, "name": "monday", "which": "all", "version": ""})
    job = Job.objects.get(kind="training.freeze_dataset")
    assert sent["Location"] == at("dataset-making", workspace, job.id)
    assert AuditEntry.objects.filter(action="dataset.requested", actor=admin.email).count() == 1
    run_job(job.id)
    dataset = DatasetSnapshot.objects.get()
    assert (dataset.name, dataset.rows) == ("monday", 3)
    assert {item.decision_id for item in dataset.items.all()} == {decision.id for decision in ledger["kept"]}
    assert client.get(sent["Location"])["Location"] == at("dataset", workspace, dataset.id)
    shown = client.get(at("dataset", workspace, dataset.id)).content.decode()
    assert "monday" in shown and f"?dataset={dataset.id}" in shown


def test_what_a_run_has_learnt_from_and_other_versions_can_be_left_out(
    ledger: dict[str, Any], agent: Any, workspace: Any, admin: Any, page_client: Any, api: Any, store: Any
) -> None:
    spec = current_reward_spec(agent)
    used = DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=spec)
    DatasetItemFactory(dataset=used, decision=ledger["kept"][0])
    run = TrainingRunFactory(agent=agent, dataset=used)
    second = AgentVersionFactory(agent=agent, number=2)
    RewardFactory(decision=DecisionFactory(agent=agent, agent_version=second), spec=spec)
    client, path = page_client(admin), at("dataset-make", workspace)

    def look(query: str) -> Any:
        return client.get(f"{path}?{query}").context["preview"]

    assert (look("").rows, look("which=new").rows) == (4, 3)
    assert look("which=new").counts("used") == 1
    assert (look("version=2").rows, look("version=2").counts("version")) == (1, 8)
    for only_new, rows in ((True, 3), (False, 4)):  # the API's call is the same
        asked = api().post("datasets", {"agent": agent.slug, "name": "n", "only_new": only_new}).json()
        run_job(asked["id"])
        assert api().get(f"datasets/freezings/{asked['id']}").json()["dataset"]
        assert DatasetSnapshot.objects.latest("id").rows == rows
    type(run).objects.update(state="cancelled", finished_at=timezone.now())
    assert look("which=new").rows == 4
    assert client.get(f"{path}?version=7").status_code == client.get(f"{path}?agent=nobody").status_code == 404


def test_the_look_is_bounded_and_its_statements_do_not_grow(
    ledger: dict[str, Any], agent: Any, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    statement = dataset_preview._PREVIEW
    monkeypatch.setattr(dataset_preview, "LOOK", 4)
    monkeypatch.setattr(dataset_preview, "_PREVIEW", statement.replace(f"LIMIT {10_000}", "LIMIT 4"))
    with django_assert_num_queries(2):
        preview = preview_datasets([agent])[agent.id]
    assert (preview.looked_at, preview.look_ended, preview.rows) == (4, True, 0)


def test_a_decision_without_a_prompt_is_left_out_and_what_is_too_long_is_counted(
    agent: Any, workspace: Any, admin: Any, page_client: Any, store: Any
) -> None:
    """Recorded elsewhere, its state lacks the field that the template names: it must not stop the others."""
    AgentVersionFactory(agent=agent, system_prompt="File notes.")
    bare = DecisionFactory(agent=agent, state={"subject": "x"})
    whole = DecisionFactory(agent=agent, state={"text": "word " * 70})
    for decision in (bare, whole):
        FeedbackFactory(decision=decision)
    calculate_rewards(current_reward_spec(agent))
    client = page_client(admin)
    shown = client.get(at("dataset-make", workspace)).content.decode()
    assert "lack a field of the prompt" in shown and "subject" not in shown  # no row, so no example
    assert "System prompt:</span> File notes." in shown
    client.post(at("dataset-make", workspace), {"agent": agent.slug, "name": "n"})
    run_job(Job.objects.get(kind="training.freeze_dataset").id)
    dataset = DatasetSnapshot.objects.get()
    (line,) = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    assert json.loads(line)["id"] == str(whole.id) and dataset.statistics["left_out"] == {"prompt": 1}
    shown = client.get(at("dataset", workspace, dataset.id)).content.decode()
    assert "lack a field of the prompt" in shown and "their middle is cut" in shown


@pytest.mark.parametrize("space", ["text", "tool_calls"])
def test_the_form_of_an_agent_that_chats_starts_at_texts(
    space: str, agent: Any, workspace: Any, admin: Any, page_client: Any
) -> None:
    helper = AgentFactory(workspace=workspace, slug="helper")
    AgentVersionFactory(agent=helper, action_space=space, options=None)
    client, make = page_client(admin), at("dataset-make", workspace)

    def kind(**asked: str) -> str:
        return str(client.get(make, asked).context["kind"])

    assert (kind(agent="helper"), kind(agent=agent.slug)) == ("text", "logged")
    assert kind(agent="helper", kind="logged", shown_agent="helper") == "logged"  # chosen
    # Another agent was picked in the form.
    assert kind(agent="helper", kind="logged", shown_agent=agent.slug) == "text"
    assert kind(agent=agent.slug, kind="text", shown_agent="helper") == "logged"
    assert kind(agent="helper", kind="labelled", shown_agent=agent.slug) == "labelled"


def test_a_name_that_is_missing_or_too_long_is_refused(
    ledger: dict[str, Any], agent: Any, workspace: Any, admin: Any, page_client: Any
) -> None:
    for name in ("", "  ", "x" * 201):
        answer = page_client(admin).post(at("dataset-make", workspace), {"agent": agent.slug, "name": name})
        assert answer.status_code == 400 and "The dataset was not made" in answer.content.decode()
    assert not Job.objects.exists()


def test_a_job_that_found_nothing_says_so(agent: Any, workspace: Any, admin: Any, page_client: Any) -> None:
    client = page_client(admin)
    sent = client.post(at("dataset-make", workspace), {"agent": agent.slug, "name": "empty"})
    run_job(Job.objects.get().id)
    text = client.get(sent["Location"]).content.decode()
    assert "no rows to train on" in text and "every 2s" not in text and not DatasetSnapshot.objects.exists()


def test_the_list_follows_the_cursor_by_few_queries(
    agent: Any, workspace: Any, viewer: Any, page_client: Any, django_assert_max_num_queries: Any
) -> None:
    client, path = page_client(viewer), at("datasets", workspace)
    assert "No datasets yet" in client.get(path).content.decode()
    made = DatasetSnapshotFactory.create_batch(30, agent=agent)
    for dataset in made[-3:]:
        TrainingRunFactory(agent=agent, dataset=dataset)
    DatasetSnapshotFactory(name="of elsewhere")
    with django_assert_max_num_queries(5):
        first = client.get(path)
    second = client.get(f"{path}?{first.context['older']}")
    shown = [dataset for page in (first, second) for dataset in page.context["datasets"]]
    assert [one.id for one in shown] == sorted((one.id for one in made), reverse=True)
    assert [one.used for one in shown[:4]] == [1, 1, 1, 0]
    assert client.get(f"{path}?before=x").status_code == 400
    with django_assert_max_num_queries(7):
        client.get(at("dataset", workspace, made[-1].id))


def test_rows_to_evaluate_on_are_named_by_the_form_s_own_field(
    ledger: dict[str, Any], workspace: Any, admin: Any, page_client: Any
) -> None:
    client, path = page_client(admin), at("dataset-make", workspace)
    without = client.get(path).content.decode()
    assert "Fill in <em>Held out, percent</em>" in without and f'href="{at("import-new", workspace)}"' in without
    filled = client.get(f"{path}?held_out=20").content.decode()
    assert "no held-out data" not in filled and "percent of its rows that are held out" in filled


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({"kind": "text"}, "This page opens the dataset when it is ready."),
        ({"kind": "labelled"}, "This page opens the dataset when it is ready."),
        ({}, "This page opens the dataset when it is ready."),
        ({"run": {"method": "posterior"}}, "Several kinds of policy then learn from the dataset"),
        ({"kind": "text", "run": True, "tag": "first-model-1"}, "One run makes the first model"),
        ({"run": True, "tag": "first-model-1"}, "Two runs make the first model"),
    ],
)
def test_the_page_of_a_dataset_in_the_making_says_what_comes_of_it(
    payload: dict[str, Any], says: str, agent: Any, workspace: Any, admin: Any, page_client: Any
) -> None:
    made = {"name": "n", "agent": agent.slug, **payload}
    job = JobFactory(workspace=workspace, kind="training.freeze_dataset", payload=made)
    text = page_client(admin).get(at("dataset-making", workspace, job.id)).content.decode()
    ends = ("This page opens the dataset", "Several kinds of policy", "One run makes", "Two runs make")
    assert says in text and sum(end in text for end in ends) == 1


@pytest.mark.parametrize(
    ("space", "wrong", "right", "title"),
    [
        ("text", "logged", "text", "Rewarded texts"),
        ("tool_calls", "logged", "text", "Rewarded texts"),
        ("choice", "text", "logged", "Rewarded decisions"),
    ],
)
def test_a_kind_of_rows_that_the_agent_never_makes_is_refused_and_the_other_is_named(
    space: str, wrong: str, right: str, title: str, workspace: Any, admin: Any, page_client: Any, api: Any, store: Any
) -> None:
    agent = AgentFactory(workspace=workspace, slug="helper")
    options = ["travel", "finance"] if space == "choice" else None
    version = AgentVersionFactory(agent=agent, action_space=space, options=options)
    RewardSpecFactory(agent=agent)
    DecisionFactory(agent=agent, agent_version=version, options=options, action="travel")
    answer = api().post("datasets", {"agent": agent.slug, "name": "n", "kind": wrong})
    [fault] = answer.json()["error"]["fields"]
    assert (answer.status_code, fault["field"], fault["expected"]) == (400, "kind", right)
    assert not Job.objects.exists()
    client, path = page_client(admin), at("dataset-make", workspace)
    text = client.get(f"{path}?agent=helper&kind={wrong}").content.decode()
    assert f'choose <a href="{path}?agent=helper&amp;kind={right}">{title}</a>' in text
    refused = client.post(path, {"agent": "helper", "name": "n", "kind": wrong})
    assert refused.status_code == 400 and not Job.objects.exists()
    assert api().post("datasets", {"agent": agent.slug, "name": "n", "kind": right}).status_code == 202


PAGES = ("datasets", "dataset-make", "dataset", "dataset-making")


@pytest.mark.parametrize("name", PAGES)
def test_who_sees_what_and_makes_nothing(
    name: str,
    agent: Any,
    workspace: Any,
    other_workspace: Any,
    viewer: Any,
    labeller: Any,
    outsider: Any,
    page_client: Any,
) -> None:
    of = {
        "dataset": lambda: [DatasetSnapshotFactory(agent=agent).id],
        "dataset-making": lambda: [
            JobFactory(workspace=workspace, kind="training.freeze_dataset", payload={"name": "n", "agent": "filer"}).id
        ],
    }.get(name, list)()
    jobs = Job.objects.count()
    path = at(name, workspace, *of)
    expected = 403 if name == "dataset-make" else 200
    for person in (viewer, labeller):
        assert page_client(person).get(path).status_code == expected
        assert page_client(person).post(path, {"name": "x"}).status_code in {403, 405}
    assert page_client(outsider).get(path).status_code == 404
    if of:
        assert page_client(outsider).get(at(name, other_workspace, *of)).status_code == 404
    assert page_client().get(path).status_code == 302
    assert Job.objects.count() == jobs
