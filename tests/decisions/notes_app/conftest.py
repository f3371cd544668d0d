"""The notes app's agents, and its server as a client."""

import pytest

from decisions.agents.services import create_notes_agents


@pytest.fixture
def agents(by):
    return {agent.kind: agent for agent in create_notes_agents(by=by)}


@pytest.fixture
def app(api, agents):
    """The app's server with a key of the scopes it needs."""
    return api("decisions:write", "feedback:write", "export:read")
