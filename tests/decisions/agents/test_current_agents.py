"""Agents as requests meet them: every change counts from the next one on, and any number of agents costs one query."""

import pytest

from decisions.agents.current import find_agents
from decisions.agents.services import AgentSetup, create_agent_version
from decisions.models import Decision
from tests.decisions.conftest import body
from tools.factories import AgentFactory, AgentVersionFactory
from workspaces.access.actors import system

pytestmark = pytest.mark.django_db


def test_a_new_version_and_a_change_count_from_the_next_decision_on(api, agent, by):
    client = api("decisions:write")
    assert client.post("decisions", body(action="travel")).status_code == 201
    setup = AgentSetup(prompt_template="{{ text }}", options=["keep", "drop"])
    version = create_agent_version(by=by, agent=agent, setup=setup)
    refused = client.post("decisions", body(action="travel"))
    assert refused.status_code == 400
    assert [fault["field"] for fault in refused.json()["error"]["fields"]] == ["action"]
    assert client.post("decisions", body(action="keep")).status_code == 201
    assert Decision.objects.filter(agent_version=version).count() == 1
    type(agent).objects.filter(id=agent.id).update(name="Renamed")
    assert find_agents(by, ["filer", "nobody"])["filer"].agent.name == "Renamed"


def test_any_number_of_known_agents_costs_one_query(agent, by, django_assert_num_queries):
    find_agents(by, ["filer"])
    with django_assert_num_queries(1):
        assert set(find_agents(by, ["filer", "nobody"])) == {"filer"}


def test_agents_come_in_the_order_that_they_are_asked_for_in(agent, by):
    AgentVersionFactory(agent=AgentFactory(workspace=agent.workspace, slug="another"))
    for _ in ("new to this process", "known"):
        assert list(find_agents(by, ["filer", "nobody", "another"])) == ["filer", "another"]
        assert list(find_agents(by, ["another", "filer"])) == ["another", "filer"]


@pytest.mark.parametrize("change", ["renamed", "new version", "deleted", "one more"])
def test_every_change_of_an_agent_is_seen_by_the_next_request(agent, by, change):
    before = find_agents(by, ["filer", "other"])
    assert set(before) == {"filer"}
    agents = type(agent).objects.filter(id=agent.id)
    if change == "renamed":
        agents.update(slug="other")
    elif change == "new version":
        create_agent_version(by=by, agent=agent, setup=AgentSetup(prompt_template="{{ text }}", options=["a", "b"]))
    elif change == "deleted":
        agents.delete()
    else:
        AgentVersionFactory(agent=AgentFactory(workspace=by.workspace, slug="other"))
    after = find_agents(by, ["filer", "other"])
    assert {slug: room.version.number for slug, room in after.items()} == {
        "renamed": {"other": 1}, "new version": {"filer": 2}, "deleted": {}, "one more": {"filer": 1, "other": 1},
    }[change]  # fmt: skip


def test_another_workspace_s_agent_of_that_name_is_another(agent, by, other_workspace):
    AgentVersionFactory(agent=AgentFactory(workspace=other_workspace, slug="filer"))
    assert find_agents(by, ["filer"])["filer"].agent == agent
    assert find_agents(system(other_workspace), ["filer"])["filer"].agent != agent
