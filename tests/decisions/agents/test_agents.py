"""Agents over the API: what comes with one, and its versions."""

import pytest

from decisions.agents.services import AgentSetup, create_agent_version
from decisions.models import Agent, AgentVersion
from decisions.rewards.specs import current_reward_spec
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


def setup(**fields):
    return {"slug": "sorter", "name": "Sorter", "prompt_template": "{{ text }}", "options": ["a", "b"]} | fields


def test_an_agent_comes_with_a_version_a_model_and_a_reward_spec(api):
    answer = api("admin").post("agents", setup(kind="FILER", temperature=0.5, epsilon=0.1))
    assert answer.status_code == 201, answer.content
    agent = Agent.objects.get(slug="sorter")
    version = agent.versions.get()
    assert (version.number, version.temperature, version.epsilon, version.options) == (1, 0.5, 0.1, ["a", "b"])
    assert agent.registered_model.name == "sorter"
    one = {"name": "verdict", "weight": 1.0, "parameters": {}, "window_days": None, "missing": None}
    assert current_reward_spec(agent).components == [one]
    assert AuditEntry.objects.filter(action="agent.created").count() == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"slug": "not a slug"}, "slug"),
        ({"slug": "filer"}, "slug"),
        ({"kind": "ORACLE"}, "kind"),
        ({"prompt_template": "{{ text"}, "prompt_template"),
        ({"options": ["a"]}, "options"),
        ({"options": ["a", "a"]}, "options"),
        ({"temperature": 0}, "temperature"),
        ({"epsilon": 1.5}, "epsilon"),
        ({"exploration_budget": 0}, "exploration_budget"),
        ({"exploration_budget": 1001}, "exploration_budget"),
        ({"action_space": "dance"}, "action_space"),
        ({"action_space": "structured", "action_schema": {"type": "nonsense"}}, "action_schema"),
        ({"action_space": "structured", "action_schema": {"$ref": "http://10.0.0.1/"}}, "action_schema"),
        ({"max_prompt_tokens": 1}, "max_prompt_tokens"),
        ({"max_prompt_tokens": 10**12}, "max_prompt_tokens"),
    ],
    ids=str,
)
def test_a_bad_field_is_named_and_nothing_is_made(api, agent, fields, field):
    answer = api("admin").post("agents", setup(**fields))
    assert answer.status_code == 400, answer.content
    assert field in {fault["field"] for fault in answer.json()["error"]["fields"]}
    assert Agent.objects.count() == 1


LIMITS = ("max_prompt_tokens", "max_completion_tokens")


@pytest.mark.parametrize("space", ["text", "tool_calls", "choice", "ranking"])
@pytest.mark.quick_cases(1)
def test_an_agent_that_chats_has_no_limits_unless_asked(api, space):
    none = space in ("text", "tool_calls")
    usual = (None, None) if none else (64, 16)
    client = api("admin", "export:read")
    new = {"slug": "helper", "name": "Helper", "prompt_template": "{{ input }}", "action_space": space}
    made = client.post("agents", new).json()
    assert tuple(client.get("agents/helper").json()["current"][name] for name in LIMITS) == usual, made
    asked = {"expected_version": 1, "max_prompt_tokens": 500, "max_completion_tokens": 200}
    assert client.request("PATCH", "agents/helper", asked).status_code == 200
    assert tuple(client.get("agents/helper").json()["current"][name] for name in LIMITS) == (500, 200)
    assert client.request("PATCH", "agents/helper", {"expected_version": 2} | dict.fromkeys(LIMITS)).status_code == 200
    assert tuple(client.get("agents/helper").json()["current"][name] for name in LIMITS) == usual


@pytest.mark.parametrize("space", ["text", "tool_calls"])
def test_an_agent_that_chats_may_come_without_a_template(api, space):
    new = {"slug": "helper", "name": "Helper", "action_space": space, "options": ["look"]}
    answer = api("admin").post("agents", new)
    assert answer.status_code == 201, answer.content
    assert AgentVersion.objects.get().prompt_template == "{{ input }}"


def test_an_agent_that_chooses_has_a_template(api):
    answer = api("admin").post("agents", {"slug": "helper", "name": "Helper", "options": ["a", "b"]})
    [fault] = answer.json()["error"]["fields"]
    assert fault["field"] == "prompt_template" and "text or tool_calls" in fault["expected"]


def test_a_new_version_leaves_the_old_one_as_it_was(agent, by):
    old = AgentVersion.objects.values().get()
    new = create_agent_version(
        by=by, agent=agent, setup=AgentSetup(prompt_template="File: {{ text }}", options=["x", "y"])
    )
    assert new.number == 2
    assert AgentVersion.objects.values().get(number=1) == old
    with pytest.raises(InvalidInput):
        create_agent_version(by=by, agent=agent, setup=AgentSetup(prompt_template="{{ text }}", epsilon=2))
    assert agent.versions.count() == 2


@pytest.mark.django_db(transaction=True)
def test_versions_made_at_once_have_numbers_of_their_own(agent, by, at_once):
    setup = AgentSetup(prompt_template="{{ text }}")
    made = at_once(4, lambda: create_agent_version(by=by, agent=agent, setup=setup).number)
    assert sorted(made) == [2, 3, 4, 5]
