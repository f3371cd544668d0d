"""Greedy answers of chats that are given again: to an equal question only, for the agent's time, and never after their
erasure."""

import datetime as dt

import pytest
from django.core.cache import cache
from django.utils import timezone

from decisions.agents.caching import change_cache
from decisions.agents.services import AgentSetup, create_agent, create_agent_version
from decisions.chats import recalling
from decisions.chats.answering import About, Ended, begin_chat, record_chat
from decisions.chats.requests import read_chat
from decisions.chats.written import Written
from decisions.erasure.erasing import Person, erase_decisions, find_decisions
from decisions.models import Agent, Decision
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import AliasName, Call
from models_registry.versions.services import NewVersion, move_alias, register_version
from tools.factories import BackendFactory, DeploymentFactory
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db
SETUP = AgentSetup(prompt_template="{{ input }}", action_space="text")
SAYS = "By train."


@pytest.fixture
def helper(by):
    """An agent of texts, with a cache of an hour."""
    cache.clear()
    helper = create_agent(by=by, slug="helper", name="Helper", setup=SETUP)
    return change_cache(by=by, agent=helper, seconds=3600)


@pytest.fixture
def deploy(by, helper):
    def put(name):
        new = NewVersion(remote_name=name, method="remote")
        version = register_version(by=by, model=helper.registered_model, new=new)
        backend = BackendFactory(workspace=by.workspace, name=name, price_in=1, price_out=10)
        DeploymentFactory(version=version, backend=backend)
        return version

    return put


@pytest.fixture
def champion(deploy):
    return deploy("gpt")


@pytest.fixture
def ask(by, champion):
    """`ask(seed=1)`: whether it was answered from the cache; else the model's server says `message`."""

    def answer(text="How do I get to Oslo?", unit="ann", anew=False, message=None, reason="stop", **fields):
        body = {"model": "helper", "messages": [{"role": "user", "content": text}], "temperature": 0} | fields
        begun = begin_chat(by=by, chat=read_chat(body), kind="chat", about=About(unit=unit, anew=anew))
        said = {"role": "assistant", "content": SAYS} | (message or {})
        given = {
            "choices": [{"message": said, "finish_reason": reason, "reckoner": {"policy_logprob": 0}}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 3},
        }
        written = Written()
        written.take_whole(begun.recalled or given)
        record_chat(begun=begun, ended=Ended(written, begun.attempts[0]))
        return begun.recalled is not None

    return answer


def test_an_equal_question_gets_the_recorded_answer_and_is_a_decision_of_its_own(ask, champion):
    assert [ask(), ask(unit="ben")] == [False, True]
    first, second = Decision.objects.order_by("id")
    same = (
        "action",
        "completion",
        "propensity",
        "model_version",
        "agent_version",
        "state",
        "content_hash",
        "tokens_in",
    )
    assert {name: getattr(first, name) for name in same} == {name: getattr(second, name) for name in same}
    assert (second.action, second.propensity, second.unit, second.cost) == (SAYS, 1.0, "ben", 0)
    call = Call.objects.get(id=second.id)
    assert (call.state, call.cached, call.served, call.backend, call.cost, call.tokens_out) == (
        "answered", True, champion, None, 0, None,
    )  # fmt: skip
    assert not Call.objects.get(id=first.id).cached


@pytest.mark.parametrize(
    "other",
    [
        {"text": "And back?"}, {"temperature": 0.5}, {"seed": 1}, {"max_tokens": 9}, {"anew": True},
        {"response_format": {"type": "json_object"}}, {"logprobs": True},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.quick_cases(2)
def test_another_question_does_not(ask, other):
    ask()
    assert not ask(**other)
    assert ask()


@pytest.mark.parametrize(
    "first",
    [{"reason": "content_filter"}, {"message": {"content": None, "refusal": "No."}}, {"temperature": 1}],
    ids=str,
)
def test_what_the_ledger_does_not_hold_whole_or_was_drawn_is_not_kept(ask, first):
    ask(**first)
    assert not ask(**{name: value for name, value in first.items() if name == "temperature"})


def test_other_versions_answer_for_themselves_and_arms_of_an_experiment_always(ask, by, helper, deploy):
    ask()
    create_agent_version(by=by, agent=helper, setup=SETUP)
    assert [ask(), ask()] == [False, True]
    tuned = deploy("tuned")
    experiment = start_experiment(by=by, treatment=tuned, plan=ExperimentPlan(), reason="a better one")
    assert [ask(), ask()] == [False, False]
    type(experiment).objects.update(state="stopped", ended_at=timezone.now())
    assert ask()
    move_alias(by=by, version=tuned, name=AliasName.CHAMPION)
    assert [ask(), ask()] == [False, True]


def test_an_erased_answer_is_not_given_again(ask, workspace):
    ask()
    ids = find_decisions(workspace=workspace, person=Person("unit", "ann"), after=None, size=9)
    erase_decisions(workspace=workspace, ids=ids, secret=b"s" * 32)
    assert [ask(unit="ben"), ask(unit="ben")] == [False, True]


def test_the_time_counts_from_the_answer_and_may_be_shortened(ask, by, helper, monkeypatch):
    ask()
    later = timezone.now() + dt.timedelta(minutes=10)
    monkeypatch.setattr(recalling, "database_now", lambda: later)
    assert ask()
    change_cache(by=by, agent=helper, seconds=300)
    assert not ask()
    change_cache(by=by, agent=helper, seconds=0)
    assert [ask(), ask()] == [False, False]
    told = [entry.details for entry in AuditEntry.objects.filter(action="agent.cache_changed").order_by("id")]
    assert told[1:] == [{"agent": "helper", "from": 3600, "to": 300}, {"agent": "helper", "from": 300, "to": 0}]


@pytest.mark.parametrize("seconds", [-1, 30 * 86_400 + 1])
def test_a_time_out_of_range_changes_nothing(by, helper, seconds):
    with pytest.raises(InvalidInput):
        change_cache(by=by, agent=helper, seconds=seconds)
    assert Agent.objects.get(id=helper.id).cache_seconds == 3600


def test_an_agent_that_does_not_chat_has_no_cache(by, agent, api, page_client, owner):
    refused = api().request("PATCH", "agents/filer/cache", {"seconds": 60})
    assert (refused.status_code, refused.json()["error"]["fields"][0]["field"]) == (400, "seconds")
    assert page_client(owner).post(f"/w/{by.workspace.slug}/agents/filer/cache", {"seconds": "60"}).status_code == 400
    assert Agent.objects.get(id=agent.id).cache_seconds == 0
