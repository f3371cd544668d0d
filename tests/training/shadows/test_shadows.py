"""Shadows: what they ask, what they make of the answers, and that a canary opens once, on evidence."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest
from django.utils import timezone

from decisions.agents.revising import revise_agent
from decisions.models import Decision, Reward, Shadow, ShadowAnswer
from decisions.rewards.spec_content import ComponentSetup, RuleSetup, SpecContent
from decisions.rewards.specs import create_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import stop_experiment
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment, GateVerdict, Look, ModelVersion
from models_registry.versions.services import NewVersion, register_version
from tests.openai_server import USAGE
from tools.factories import (
    OPTIONS,
    AgentVersionFactory,
    BackendFactory,
    DecisionFactory,
    DeploymentFactory,
    RewardFactory,
    ShadowAnswerFactory,
    ShadowFactory,
)
from training.shadows.agreement import kendall_tau
from training.shadows.asking import find_unasked
from training.shadows.rounds import queue_round, queue_rounds
from training.shadows.services import ShadowPlan, start_shadow, stop_shadow
from workspaces.errors import Conflict, InvalidInput
from workspaces.models import AuditEntry
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(serve: Callable[[], Any]) -> Any:
    """Where both versions are deployed; it picks the first option."""
    one = serve()
    one.models, one.pick = ["old", "new", "newer"], OPTIONS[0]
    return one


@pytest.fixture
def candidate(agent: Any, by: Any, server: Any) -> ModelVersion:
    """Beside a champion."""
    backend = BackendFactory(workspace=by.workspace, url=server.url, retries=0, price_in=1, price_out=10)
    for name in ("old", "new"):
        new = NewVersion(remote_name=name, method="remote")
        version = register_version(by=by, model=agent.registered_model, new=new)
        DeploymentFactory(version=version, backend=backend)
    return version


def decide(agent: Any, count: int = 1, **fields: Any) -> list[Decision]:
    return [DecisionFactory(agent=agent, epsilon=0.2, **fields) for _ in range(count)]


def play(shadow: Shadow) -> Job:
    """One round; a job that is queued already, or a new one."""
    queue_round(shadow)
    shadow.refresh_from_db()
    assert shadow.job_id is not None
    run_job(shadow.job_id)
    shadow.refresh_from_db()
    return Job.objects.get(id=shadow.job_id)


def begin(by: Any, agent: Any, version: ModelVersion, **plan: Any) -> Shadow:
    return start_shadow(by=by, agent=agent, version=version, plan=ShadowPlan(**plan), reason="a better one")


class TestARound:
    def test_asks_about_new_decisions_once_and_a_failure_is_no_disagreement(
        self, agent: Any, by: Any, candidate: ModelVersion, server: Any
    ) -> None:
        decide(agent, recorded_at=timezone.now() - dt.timedelta(hours=1))
        shadow = begin(by, agent, candidate)
        revise_agent(by=by, agent=agent, expected=1, changes={"system_prompt": "File notes."})
        agrees, other = decide(agent), decide(agent, action=OPTIONS[1])
        unfit, odd = decide(agent, state={"note": "x"}), decide(agent, action="elsewhere")
        revise_agent(by=by, agent=agent, expected=2, changes={"system_prompt": "File recipes."})
        assert play(shadow).result == {"asked": 4}
        assert {one["model"] for one in server.asked} == {"new"}
        assert [one["messages"][0]["content"] for one in server.asked] == ["File notes."] * 2
        found = {answer.decision_id: answer for answer in shadow.answers.all()}
        assert {pk: found[pk].agrees for pk in found} == {
            agrees[0].id: True, other[0].id: False, unfit[0].id: None, odd[0].id: None
        }  # fmt: skip
        assert found[other[0].id].pick == OPTIONS[0] and found[other[0].id].place == 1
        assert "text" in found[unfit[0].id].error and "not one of the options" in found[odd[0].id].error
        assert (shadow.answered, shadow.failed) == (2, 2) and shadow.cost > 0
        assert shadow.points.get().agreement == 0.5
        asked = len(server.asked)
        assert queue_rounds() == 0  # nothing to do
        assert play(shadow).result == {"asked": 0} and len(server.asked) == asked
        assert Decision.objects.count() == 5

    def test_ends_early_where_nobody_answers_and_goes_on_later(
        self, agent: Any, by: Any, candidate: ModelVersion, server: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr("training.shadows.rounds.BATCH", 2)
        shadow = begin(by, agent, candidate)
        decide(agent, 4)
        server.answers.extend([(400, {"error": {"message": "overloaded"}})] * 2)
        assert play(shadow).result == {"asked": 2}
        assert set(shadow.answers.values_list("agrees", flat=True)) == {None}
        assert queue_rounds() == 1 and queue_rounds() == 0
        play(shadow)
        assert (shadow.answered, shadow.failed) == (2, 2)

    def test_takes_a_share_that_does_not_change_within_its_rate(self, agent: Any, settings: Any) -> None:
        shadow = ShadowFactory(agent=agent, share=0.5)
        decide(agent, 40)
        found = [one.id for one in find_unasked(shadow, 100)]
        assert 4 < len(found) < 36
        assert [one.id for one in find_unasked(shadow, 3)] == found[:3]
        ShadowAnswerFactory(shadow=shadow, decision_id=found[0], decision=None)
        assert [one.id for one in find_unasked(shadow, 100)] == found[1:]


ORDERS = [[first, second] for first in range(3) for second in range(3) if first != second]


def fill(shadow: Shadow, count: int, *, ranked: bool = False) -> None:
    """Answers to decisions at random: the first option is right, and the candidate knows it; `ranked`: two of three are
    shown, and it is right to put that one first."""
    agent, rng = shadow.agent, random.Random(5)
    spec = agent.reward_specs.get()
    like = DecisionFactory.build(
        agent=agent, agent_version=agent.versions.first(), propensity=1 / len(OPTIONS), epsilon=0.2
    )
    valued = RewardFactory.build(decision=like, spec=spec)
    thought = ShadowAnswerFactory.build(shadow=shadow, decision=like)
    decisions, rewards, answers = [], [], []
    for number in range(count):
        order = rng.choice(ORDERS) if ranked else [rng.randrange(len(OPTIONS))]
        place = order[0]
        right = float(place == 0)
        decision, reward, answer = copy(like), copy(valued), copy(thought)
        decision.id, decision.action, decision.unit = uuid7(), OPTIONS[place], f"unit-{number}"
        reward.decision_id, reward.value, reward.raw = decision.id, right, right - (not right) / 2
        answer.id, answer.decision_id, answer.place, answer.agrees = uuid7(), decision.id, place, place == 0
        if ranked:
            decision.action, decision.propensity = [OPTIONS[one] for one in order], 1 / len(ORDERS)
            answer.places, answer.tau = order, kendall_tau(answer.probabilities, order)
        decisions.append(decision)
        rewards.append(reward)
        answers.append(answer)
    Decision.objects.bulk_create(decisions)
    Reward.objects.bulk_create(rewards)
    ShadowAnswer.objects.bulk_create(answers)
    Shadow.objects.filter(id=shadow.id).update(answered=count, read_until=timezone.now())


class TestTheEvidence:
    def test_opens_one_canary_with_its_figures_and_only_when_there_is_enough(
        self, agent: Any, by: Any, candidate: ModelVersion
    ) -> None:
        shadow = begin(by, agent, candidate, then="canary", min_decisions=700)
        fill(shadow, 640)
        play(shadow)
        point = shadow.points.get()
        assert (point.rewarded, point.look, shadow.state) == (640, None, "running")
        assert point.estimate is not None and point.estimate > 0.2
        assert not Experiment.objects.exists() and not GateVerdict.objects.exists()
        new = NewVersion(remote_name="newer", method="remote")
        other = register_version(by=by, model=agent.registered_model, new=new)
        DeploymentFactory(version=other, backend=candidate.deployments.get().backend)
        first = start_experiment(by=by, treatment=other, plan=ExperimentPlan(), reason="first")
        Shadow.objects.filter(id=shadow.id).update(min_decisions=600)
        shadow.points.update(at=timezone.now() - dt.timedelta(hours=2))
        play(shadow)
        assert shadow.enough_at is not None and shadow.state == "running"
        assert "has an experiment running" in shadow.waits
        stop_experiment(by=by, experiment=first, reason="make room")
        assert queue_rounds() == 1
        play(shadow)
        experiment = Experiment.objects.exclude(id=first.id).get()
        assert (shadow.state, shadow.experiment, shadow.looks) == ("canary", experiment, 1)
        assert (experiment.phases.get().treatment_share, experiment.ramp) == (0.05, [0.25, 0.5])
        [reason] = Look.objects.get(experiment=experiment).reasons
        assert reason == shadow.enough_says and "+0." in reason and "640 rewarded of 640 answered" in reason
        verdict = GateVerdict.objects.get()
        assert (verdict.version, verdict.kind, verdict.passed) == (candidate, "off_policy", True)
        assert verdict.details["shadow"] == str(shadow.id)
        assert AuditEntry.objects.filter(action="shadow.sufficed").count() == 1
        assert not queue_round(shadow) and Experiment.objects.count() == 2

    def test_is_told_where_nothing_is_to_open_and_refused_where_the_log_is_short(
        self, agent: Any, by: Any, candidate: ModelVersion
    ) -> None:
        shadow = begin(by, agent, candidate, min_decisions=100)
        fill(shadow, 150)
        play(shadow)
        [refusal] = shadow.points.get().refusals
        assert "are worth" in refusal and (shadow.looks, shadow.enough_at) == (1, None)
        fill(shadow, 640)
        play(shadow)
        assert shadow.enough_at is not None and (shadow.state, shadow.waits) == ("running", "")
        assert shadow.points.last().look == 2 and not Experiment.objects.exists()


class TestRankings:
    def test_each_item_is_asked_about_and_the_orders_are_compared(
        self, agent: Any, by: Any, candidate: ModelVersion, server: Any
    ) -> None:
        AgentVersionFactory(agent=agent, action_space="ranking", prompt_template="{{ options }}", options=None)
        shadow = begin(by, agent, candidate)
        [done] = decide(agent, action=["rent", "ticket"], options=["ticket", "pills", "rent"])
        [odd] = decide(agent, action=["rent", "boat"], options=["ticket", "pills", "rent"])
        server.answers.extend(
            (200, {"choices": [{"message": {"content": word}}], "usage": USAGE}) for word in ("no", "yes", "no")
        )
        assert play(shadow).result == {"asked": 2} and len(server.asked) == 3
        answer = shadow.answers.get(decision=done)
        # The three are asked at the same time: which of them got the yes is the server's affair.
        first = answer.pick[0]
        assert answer.places == [2, 0] and len(answer.pick) == 2 and max(answer.probabilities) > 0.99
        assert answer.agrees == (first == "rent")
        assert answer.tau == pytest.approx({"rent": 2 / 3, "ticket": 0.0, "pills": -2 / 3}[first])
        assert "not an order of the options" in shadow.answers.get(decision=odd).error
        assert shadow.points.get().tau == answer.tau

    def test_an_order_has_a_propensity_and_so_an_estimate(self, agent: Any, by: Any, candidate: ModelVersion) -> None:
        AgentVersionFactory(agent=agent, action_space="ranking", prompt_template="{{ options }}")
        shadow = begin(by, agent, candidate, min_decisions=600)
        fill(shadow, 640, ranked=True)
        play(shadow)
        point = shadow.points.get()
        # It puts the right item first in 0.8 of the decisions, what acted in a third.
        assert point.low < 0.8 - 1 / 3 < point.high and point.low > 0 == len(point.refusals)
        assert shadow.enough_at is not None and point.look == 1

    def test_what_a_budget_bound_is_not_estimated_from(self, agent: Any, by: Any, candidate: ModelVersion) -> None:
        AgentVersionFactory(agent=agent, action_space="ranking", prompt_template="{{ options }}", exploration_budget=20)
        shadow = begin(by, agent, candidate, min_decisions=600)
        fill(shadow, 640, ranked=True)
        play(shadow)
        point = shadow.points.get()
        assert point.agreement is not None and point.estimate is None


def write(shadow: Shadow, count: int) -> None:
    """Answers to decisions of texts: every third names the day, and every answer of the candidate but each tenth."""
    agent = shadow.agent
    like = DecisionFactory.build(
        agent=agent, agent_version=agent.versions.first(), propensity=None, options=None, epsilon=0.0
    )
    thought = ShadowAnswerFactory.build(shadow=shadow, decision=like, probabilities=None, place=None)
    decisions, answers = [], []
    for number in range(count):
        decision, answer = copy(like), copy(thought)
        decision.id, decision.unit = uuid7(), f"unit-{number}"
        decision.action = "Soon." if number % 3 else "On Friday."
        answer.id, answer.decision_id = uuid7(), decision.id
        answer.pick = "On Friday." if number % 10 else "Soon."
        answer.agrees = answer.pick == decision.action
        decisions.append(decision)
        answers.append(answer)
    Decision.objects.bulk_create(decisions)
    ShadowAnswer.objects.bulk_create(answers)
    Shadow.objects.filter(id=shadow.id).update(answered=count, read_until=timezone.now())


class TestTexts:
    @pytest.fixture
    def writes(self, agent: Any) -> Any:
        return AgentVersionFactory(agent=agent, action_space="text", options=None)

    def test_a_text_is_written_and_agreement_alone_never_opens_a_canary(
        self, agent: Any, by: Any, candidate: ModelVersion, server: Any, writes: Any, api: Any
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            begin(by, agent, candidate, then="canary")
        [fault] = refused.value.faults
        assert fault.field == "then" and "verdict needs more than the answer" in fault.reason
        assert not Shadow.objects.exists()
        shadow = begin(by, agent, candidate, min_decisions=1)
        same, other = (decide(agent, action=text, options=None) for text in ("On Friday. ", "Soon."))
        server.pick = "On Friday."
        assert play(shadow).result == {"asked": 2}
        found = {answer.decision_id: answer for answer in shadow.answers.all()}
        assert found[same[0].id].agrees is True and found[other[0].id].agrees is False
        assert found[other[0].id].pick == "On Friday." and found[other[0].id].probabilities is None
        assert shadow.cost > 0
        read = api().get(f"shadows/{shadow.id}").json()
        [point] = read["points"]
        assert (point["agreement"], point["estimate"], point["look"]) == (0.5, None, None)
        assert "is not estimated, because the reward's component verdict" in point["refusals"][0]
        assert "What it would earn is not estimated" in read["says"]
        [disagreement] = read["disagreements"]
        assert (disagreement["pick"], disagreement["probability"]) == ("On Friday.", None)
        assert shadow.looks == 0 and not Experiment.objects.exists()

    def test_an_agent_of_texts_that_called_a_tool_is_asked_too(
        self, agent: Any, by: Any, candidate: ModelVersion, server: Any, writes: Any
    ) -> None:
        shadow = begin(by, agent, candidate, min_decisions=1)
        call = [{"name": "look_up", "arguments": {"day": 5}, "id": "call_1"}]
        [called] = decide(agent, action=call, options=["look_up"])
        server.pick = "On Friday."
        assert play(shadow).result == {"asked": 1}
        [answer] = shadow.answers.all()
        assert (answer.decision_id, answer.pick, answer.agrees, answer.error) == (called.id, "On Friday.", False, "")

    def test_a_reward_of_the_text_itself_is_compared_and_opens_one(
        self, agent: Any, by: Any, candidate: ModelVersion, writes: Any
    ) -> None:
        rule = RuleSetup("1 if 'Friday' in action else 0", 0.0, 1.0)
        names_the_day = ComponentSetup("rule.names_the_day", rule=rule)
        create_reward_spec(
            by=by, agent=agent, content=SpecContent((names_the_day,), training_low=0.0, training_high=1.0)
        )
        shadow = begin(by, agent, candidate, then="canary", min_decisions=250)
        write(shadow, 150)
        play(shadow)
        point = shadow.points.get()
        assert point.estimate == pytest.approx(0.9 - 1 / 3) and point.look is None
        assert "150 decisions can be compared" in point.refusals[0] and not Experiment.objects.exists()
        write(shadow, 150)
        Shadow.objects.update(answered=300)
        play(shadow)
        assert (shadow.state, shadow.looks) == ("canary", 1)
        assert GateVerdict.objects.get().details["shadow"] == str(shadow.id)


class TestStartAndStop:
    def test_refuses_every_fault_at_once(self, agent: Any, by: Any, candidate: ModelVersion) -> None:
        champion = agent.registered_model.versions.get(number=1)
        with pytest.raises(InvalidInput) as refused:
            begin(by, agent, champion, share=0.0, min_decisions=0, then="promote")
        assert {fault.field for fault in refused.value.faults} == {"version", "share", "min_decisions", "then"}
        begin(by, agent, candidate)
        with pytest.raises(Conflict):
            begin(by, agent, candidate)
        assert Shadow.objects.count() == Job.objects.filter(kind="training.answer_shadow").count() == 1

    def test_a_stopped_one_asks_no_more(self, agent: Any, by: Any, candidate: ModelVersion, server: Any) -> None:
        shadow = begin(by, agent, candidate)
        decide(agent)
        stop_shadow(by=by, shadow=shadow, reason="seen enough")
        assert (shadow.state, shadow.end_reason) == ("stopped", "seen enough")
        assert Job.objects.get(id=shadow.job_id).state == "cancelled" and queue_rounds() == 0
        with pytest.raises(Conflict):
            stop_shadow(by=by, shadow=shadow, reason="again")
        assert server.asked == [] and not ShadowAnswer.objects.exists()


def test_a_shadow_over_the_api_and_its_page(
    agent: Any, candidate: ModelVersion, api: Any, admin: Any, page_client: Any, django_assert_max_num_queries: Any
) -> None:
    client = api()
    body = {"agent": "filer", "version": str(candidate.id), "share": 0.5, "reason": "a better one"}
    refused = client.post("shadows", body | {"share": 2})
    assert refused.status_code == 400 and refused.json()["error"]["fields"][0]["field"] == "share"
    made = client.post("shadows", body)
    assert (made.status_code, made.json()["version_name"]) == (201, str(candidate))
    shadow = Shadow.objects.get()
    for number in range(3):
        decision = DecisionFactory(agent=agent, action=OPTIONS[1], state={"text": f"note {number}"})
        RewardFactory(decision=decision, value=0.25)
        ShadowAnswerFactory(shadow=shadow, decision=decision, place=1, agrees=False)
    Shadow.objects.update(answered=3)
    queue_round(shadow)
    play(shadow)
    read = client.get(f"shadows/{shadow.id}").json()
    assert read["says"].startswith(f"{candidate} agrees with 0.0% of the decisions")
    assert read["points"][0]["agreement"] == 0.0
    assert [(one["action"], one["reward"], one["pick"]) for one in read["disagreements"]] == [
        (OPTIONS[1], 0.25, OPTIONS[0])
    ] * 3
    assert client.get("shadows").json()["results"][0]["id"] == str(shadow.id)
    browser = page_client(admin)
    slug = agent.workspace.slug
    with django_assert_max_num_queries(12):
        page = browser.get(f"/w/{slug}/experiments/shadows/{shadow.id}").content.decode()
    assert "note 2" in page and "0.25" in page and f"{candidate} agrees with 0.0%" in page
    assert str(candidate) in browser.get(f"/w/{slug}/experiments/shadows/").content.decode()
    stopped = client.post(f"shadows/{shadow.id}/stop", {"reason": "seen enough"})
    assert stopped.json()["state"] == "stopped"
    assert client.post(f"shadows/{shadow.id}/stop", {"reason": "again"}).status_code == 409
