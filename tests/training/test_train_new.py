"""Defaults that start, training on new decisions by one press, and what the pages say where something is missing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from decisions.models import AgentVersion
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    AliasFactory,
    ArtifactFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    FeedbackFactory,
    ModelVersionFactory,
    RewardSpecFactory,
    TrainingRunFactory,
)
from training.datasets.freezing import start_rebuild
from training.models import DatasetSnapshot, TrainingRun
from training.runs.base_models import TINY
from training.runs.defaults.recipes import base_settings, round_settings
from training.runs.defaults.values import MOST_OF_TINY, choose_settings, find_defaults
from workspaces.models import AuditEntry


def at(name: str, workspace: Any, *arguments: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug, *arguments])


def decide(agent: Any, verdict: str = "confirmed", **fields: Any) -> Any:
    """A decision with its verdict and, where it can have one, its reward."""
    decision = DecisionFactory(agent=agent, **fields)
    FeedbackFactory(decision=decision, value=verdict)
    calculate_rewards(current_reward_spec(agent))
    return decision


@pytest.fixture
def heldout(agent: Any) -> Any:
    return DatasetSnapshotFactory(agent=agent, name="held-out rows", rows=40)


@pytest.fixture
def taught(agent: Any, heldout: Any) -> Any:
    return DatasetSnapshotFactory(agent=agent, name="labels of the team", rows=200)


@pytest.fixture
def champion(agent: Any, taught: Any, heldout: Any) -> Any:
    """filer:1, which a run made from the tiny model."""
    version = ModelVersionFactory(registered_model=agent.registered_model, method="pretrain")
    ended = {"state": "succeeded", "finished_at": timezone.now(), "produced_version": version}
    TrainingRunFactory(agent=agent, dataset=taught, heldout=heldout, **ended)
    AliasFactory(version=version)
    return version


def shown_values(answer: Any) -> dict[str, Any]:
    """What a browser would send of the form as it came."""
    form = answer.context["form"]
    return {name: form[name].value() for name in form.fields if form[name].value() is not None}


class TestTheUntouchedForm:
    def test_it_makes_the_first_model_of_the_labels_and_measures_on_the_held_out_rows(
        self, agent: Any, taught: Any, heldout: Any, workspace: Any, admin: Any, page_client: Any
    ) -> None:
        client, path = page_client(admin), at("run-start", workspace)
        assert client.post(path, shown_values(client.get(path))).status_code == 302
        run = TrainingRun.objects.get()
        assert (run.method, run.dataset, run.heldout, run.base_model) == ("pretrain", taught, heldout, "tiny")
        version = agent.versions.get()
        assert run.spec["serving"] == {"temperature": version.temperature, "epsilon": version.epsilon}
        assert run.spec["max_prompt_tokens"] == version.max_prompt_tokens
        assert run.spec["optimiser"] == base_settings("tiny", 200)["optimiser"]

    def test_it_learns_from_decisions_from_the_champion_with_its_labels_as_replay(
        self, agent: Any, champion: Any, taught: Any, heldout: Any, workspace: Any, admin: Any, page_client: Any
    ) -> None:
        spec = agent.reward_specs.get()
        old, new = (DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=spec, rows=800) for _ in range(2))
        DatasetSnapshotFactory(agent=AgentFactory(workspace=workspace, name="Another"), name="held-out of another")
        TrainingRunFactory(agent=agent, dataset=new)
        ModelVersionFactory(registered_model=agent.registered_model)  # newer, and not the champion
        client, path = page_client(admin), at("run-start", workspace)
        client.post(path, shown_values(client.get(path)))
        run = TrainingRun.objects.latest("id")
        assert (run.method, run.dataset, run.base_version) == ("posterior", old, champion)
        assert (run.heldout, run.replay) == (heldout, taught)
        assert run.spec["optimiser"] == round_settings("tiny", 1000)["optimiser"] and "lora" not in run.spec
        client.post(path, shown_values(client.get(f"{path}?dataset={new.id}")))
        assert TrainingRun.objects.latest("id").dataset == new
        pairs = DatasetSnapshotFactory(agent=agent, kind="preferences")
        client.post(path, shown_values(client.get(f"{path}?dataset={pairs.id}")))
        run = TrainingRun.objects.latest("id")
        assert (run.method, run.dataset, run.base_version, run.heldout) == ("dpo", pairs, champion, heldout)

    def test_the_base_is_the_champion_an_adapter_too_and_was_not_made_from_what_was_erased(
        self, agent: Any, champion: Any, workspace: Any, admin: Any, page_client: Any
    ) -> None:
        def base() -> Any:
            return find_defaults(workspace, [agent])[agent.id].base

        artifact = ArtifactFactory(workspace=workspace, kind="adapter")
        adapter = ModelVersionFactory(registered_model=agent.registered_model, artifact=artifact, base=champion)
        type(champion.aliases.get()).objects.update(version=adapter)
        assert base() == adapter
        DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=agent.reward_specs.get(), rows=800)
        client, path = page_client(admin), at("run-start", workspace)
        assert client.post(path, shown_values(client.get(path))).status_code == 302
        assert TrainingRun.objects.latest("id").base_version == adapter
        type(adapter).objects.filter(id=adapter.id).update(marked_at=timezone.now())
        assert base() == champion
        type(adapter).objects.filter(id=adapter.id).update(marked_at=None)
        type(champion).objects.filter(id=champion.id).update(marked_at=timezone.now())
        assert base() is None  # neither it nor what lies over it

    def test_rows_that_were_learnt_from_are_never_measured_on(
        self, agent: Any, champion: Any, heldout: Any, workspace: Any
    ) -> None:
        assert find_defaults(workspace, [agent])[agent.id].heldout == heldout
        TrainingRunFactory(agent=agent, dataset=heldout, state="queued")
        assert find_defaults(workspace, [agent])[agent.id].heldout is None

    def test_where_no_run_can_start_the_page_says_what_to_do_first(
        self, workspace: Any, admin: Any, page_client: Any, by: Any
    ) -> None:
        client, path = page_client(admin), at("run-start", workspace)
        assert at("connect", workspace) in client.get(path).content.decode()
        agent = AgentFactory(workspace=workspace)
        spec = RewardSpecFactory(agent=agent)
        text = client.get(path).content.decode()
        assert "Import labelled rows" in text and "<form" not in text.split("<main")[1].split("</main>")[0]
        logged = DatasetSnapshotFactory(agent=agent, kind="logged", reward_spec=spec)
        assert "Import labelled rows" in client.get(f"{path}?dataset={logged.id}").content.decode()
        DatasetSnapshotFactory(agent=agent)
        assert "Train a first model" in client.get(f"{path}?dataset={logged.id}").content.decode()
        ModelVersionFactory(registered_model=agent.registered_model)
        DatasetSnapshot.objects.all().delete()
        assert at("dataset-make", workspace) in client.get(path).content.decode()
        assert client.get(f"{path}?dataset={DatasetSnapshotFactory().id}").status_code == 404


class TestOnePress:
    def press(self, client: Any, workspace: Any, **form: str) -> Any:
        return client.post(at("train-new", workspace), form)

    def test_it_freezes_what_no_run_has_learnt_from_and_starts_a_run_on_it(
        self,
        agent: Any,
        champion: Any,
        taught: Any,
        heldout: Any,
        workspace: Any,
        admin: Any,
        page_client: Any,
        store: Any,
    ) -> None:
        client, first = page_client(admin), decide(agent)
        silent = DecisionFactory(agent=agent)
        sent = [self.press(client, workspace)["Location"] for _ in range(2)]
        job = Job.objects.get(kind="training.freeze_dataset")
        assert re.fullmatch(rf"New decisions of {agent.name}, .* \d\d:\d\d:\d\d", job.payload["name"])
        assert sent == [at("dataset-making", workspace, job.id)] * 2
        assert "Waiting for a worker" in client.get(sent[0]).content.decode()
        assert AuditEntry.objects.filter(action="run.requested", actor=admin.email).count() == 1
        run_job(job.id)
        run = TrainingRun.objects.latest("id")
        assert (run.method, run.base_version, run.heldout, run.replay) == ("posterior", champion, heldout, taught)
        assert (run.state, run.requested_by) == ("queued", admin.email)
        assert [item.decision_id for item in run.dataset.items.order_by("id")] == [first.id, silent.id]
        assert run.spec["optimiser"] == round_settings("tiny", 202)["optimiser"]
        best = Job.objects.get(kind="training.train_best")
        assert client.get(sent[0])["Location"] == at("best", workspace, best.id)
        polled = client.get(sent[0], headers={"HX-Request": "true"})
        assert polled["HX-Redirect"] == at("best", workspace, best.id)
        words = TrainingRun.objects.get(method="classifier")
        assert (words.dataset, words.base_version, words.heldout) == (run.dataset, champion, heldout)
        # Nothing is new: no second run. A later decision is, and it alone.
        assert self.press(client, workspace)["Location"] == at("train-new", workspace)
        assert "There are no new decisions" in client.get(at("train-new", workspace)).content.decode()
        FeedbackFactory(decision=silent, value="confirmed")  # so it is new, too
        later = decide(agent, "corrected")
        self.press(client, workspace, agent=agent.slug)
        run_job(Job.objects.get(kind="training.freeze_dataset", state="queued").id)
        newest = TrainingRun.objects.latest("id")
        assert [item.decision_id for item in newest.dataset.items.order_by("id")] == [silent.id, later.id]
        # The first question asked again still has its answer; a run that failed has learnt nothing.
        TrainingRun.objects.filter(dataset=newest.dataset).update(state="failed", finished_at=timezone.now())
        assert self.press(client, workspace)["Location"] != at("train-new", workspace)

    def test_a_program_starts_it_by_one_call(self, agent: Any, champion: Any, api: Any, store: Any) -> None:
        decide(agent)
        asked = [api().post("runs/train", {"agent": agent.slug}) for _ in range(2)]
        assert [answer.status_code for answer in asked] == [202, 202]
        job = Job.objects.get(kind="training.freeze_dataset")
        assert [answer.json()["id"] for answer in asked] == [str(job.id)] * 2 and asked[0].json()["run"] is None
        run_job(job.id)
        run, found = TrainingRun.objects.latest("id"), api().get(f"datasets/freezings/{job.id}").json()
        assert (found["run"], found["dataset"]) == (str(run.id), str(run.dataset_id))
        assert (run.method, run.base_version) == ("posterior", champion)
        assert api().post("runs/train", {"agent": "nobody"}).status_code == 404
        assert Job.objects.filter(kind="training.freeze_dataset").count() == 1

    def test_a_rebuild_asks_the_question_of_its_time(
        self, agent: Any, champion: Any, workspace: Any, by: Any, admin: Any, page_client: Any, store: Any
    ) -> None:
        decide(agent)
        self.press(page_client(admin), workspace)
        run_job(Job.objects.get(kind="training.freeze_dataset").id)
        dataset = TrainingRun.objects.latest("id").dataset
        run_job(start_rebuild(by=by, dataset=dataset).id)
        again = DatasetSnapshot.objects.latest("id")
        assert (again.rows, again.name) == (1, f"{dataset.name} (rebuilt)")
        assert TrainingRun.objects.filter(dataset=again).count() == 0

    def test_a_run_that_cannot_start_any_more_leaves_no_dataset(
        self, agent: Any, champion: Any, heldout: Any, workspace: Any, admin: Any, page_client: Any, store: Any
    ) -> None:
        decide(agent)
        client = page_client(admin)
        place = self.press(client, workspace)["Location"]
        runs = TrainingRun.objects.count()
        DatasetSnapshot.objects.filter(id=heldout.id).update(marked_at=timezone.now(), erased_rows=3)
        datasets = DatasetSnapshot.objects.count()
        assert run_job(Job.objects.get(kind="training.freeze_dataset").id) == "dead"
        assert "3 of its rows were erased" in client.get(place).content.decode()
        assert (TrainingRun.objects.count(), DatasetSnapshot.objects.count()) == (runs, datasets)

    def test_without_a_model_it_is_refused_and_the_page_says_why(
        self, agent: Any, workspace: Any, admin: Any, page_client: Any, api: Any
    ) -> None:
        decide(agent)
        FeedbackFactory(decision=DecisionFactory(agent=agent))
        client = page_client(admin)
        answer = self.press(client, workspace, agent=agent.slug)
        assert answer.status_code == 400 and "There is no model to train yet" in answer.content.decode()
        assert self.press(client, workspace)["Location"] == at("train-new", workspace)
        text = client.get(at("train-new", workspace)).content.decode()
        assert "Start the first run" in text and at("rewards", workspace) in text
        assert self.press(client, workspace, agent="nobody").status_code == 404
        assert api().post("runs/train", {"agent": agent.slug}).json()["error"]["fields"][0]["field"] == "base_version"
        assert not Job.objects.exists()

    @pytest.mark.parametrize("held", ["nowhere", "elsewhere", "here"])
    @pytest.mark.quick_cases(1)
    def test_an_agent_that_writes_is_led_to_datasets_of_texts(
        self, held: str, workspace: Any, admin: Any, page_client: Any, api: Any
    ) -> None:
        agent = AgentFactory(workspace=workspace, slug="helper", kind="CUSTOM")
        AgentVersionFactory(agent=agent, action_space="text", options=None)
        RewardSpecFactory(agent=agent, signal="verdict")
        model = {"registered_model": agent.registered_model}
        if held != "nowhere":
            remote = {"artifact": None, "remote_name": "gpt", "method": "remote"}
            AliasFactory(version=ModelVersionFactory(**model, **(remote if held == "elsewhere" else {})))
        for verdict in ("confirmed", "corrected"):
            decide(agent, verdict, action="Dear Ann", options=None, propensity=None)
        client, make = page_client(admin), at("dataset-make", workspace)
        answer = client.get(at("train-new", workspace))
        text = answer.content.decode()
        [one] = [one for one, _, _ in answer.context["agents"] if one.agent == agent]
        assert (one.preview.rows, one.preview.left_out, one.ready) == (2, (), False)
        assert "New rewarded texts" in text and "actions of another kind" not in text
        assert f"{make}?agent=helper&amp;kind=text" in text and f"{make}?agent=helper&amp;kind=labelled" in text
        assert "Create a dataset of 2 rewarded texts" in text and "from labelled rows" not in text
        assert ("no model yet" in text, "another server holds" in text) == (held == "nowhere", held == "elsewhere")
        assert client.get(f"{make}?agent=helper&kind=text&which=new").context["preview"].rows == 2
        steps = client.get(f"{at('run-start', workspace)}?agent=helper").context["steps"]
        assert [step.url for step in steps] == [f"{make}?agent=helper&kind=text"]
        refused = api().post("runs/train", {"agent": "helper"})
        assert refused.status_code == 400 and not Job.objects.exists()
        assert held != "here" or "kind text" in refused.json()["error"]["fields"][0]["expected"]

    def test_the_page_s_statements_do_not_grow(
        self, agent: Any, champion: Any, workspace: Any, admin: Any, page_client: Any
    ) -> None:
        client, path = page_client(admin), at("train-new", workspace)
        client.get(path)

        def count() -> int:
            with CaptureQueriesContext(connection) as captured:
                assert client.get(path).status_code == 200
            return len(captured)

        before = count()
        for _ in range(6):
            other = AgentFactory(workspace=workspace)
            RewardSpecFactory(agent=other)
            AliasFactory(version=ModelVersionFactory(registered_model=other.registered_model))
            DatasetSnapshotFactory(agent=other)
            decide(agent)
        assert count() == before

    @pytest.mark.parametrize(("persona", "status"), [("viewer", 403), ("labeller", 403), ("outsider", 404)])
    def test_others_start_nothing(
        self, persona: str, status: int, agent: Any, champion: Any, workspace: Any, page_client: Any, request: Any
    ) -> None:
        decide(agent)
        client = page_client(request.getfixturevalue(persona))
        assert client.get(at("train-new", workspace)).status_code == status
        assert self.press(client, workspace, agent=agent.slug).status_code == status
        assert not Job.objects.exists()


def test_an_agent_without_limits_is_trained_on_prompts_as_long_as_its_model_reads() -> None:
    free = AgentVersion(action_space="text", max_prompt_tokens=None, max_completion_tokens=None)
    short = AgentVersion(action_space="text", max_prompt_tokens=48, max_completion_tokens=16)
    for root in ("some/model", TINY):
        told = [
            choose_settings("sft", root=root, rows=100, agent_version=version).get("max_prompt_tokens")
            for version in (free, short)
        ]
        assert told == [MOST_OF_TINY if root == TINY else None, 48]
