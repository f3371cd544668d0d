"""The notes app's agents, and its server as a client. They are made once a file; what a test changes is undone."""

import pytest

from decisions.agents.services import create_notes_agents
from decisions.models import Agent
from tools.factories import WorkspaceFactory
from workspaces.access.actors import system
from workspaces.models import Workspace


@pytest.fixture(scope="module")
def made_once(module_db):
    workspace = WorkspaceFactory(slug="acme", name="Acme")
    return workspace.pk, {agent.kind: agent.pk for agent in create_notes_agents(by=system(workspace))}


@pytest.fixture
def workspace(db, request):
    """Theirs; in a file that asks for no agents (test_notes_app_without_agents.py) an empty one."""
    if "agents" not in request.fixturenames:
        return WorkspaceFactory(slug="acme", name="Acme")
    return Workspace.objects.get(pk=request.getfixturevalue("made_once")[0])


@pytest.fixture
def agents(db, made_once):
    return {kind: Agent.objects.get(pk=pk) for kind, pk in made_once[1].items()}


@pytest.fixture
def app(api, agents):
    """The app's server with a key of the scopes it needs."""
    return api("decisions:write", "feedback:write", "export:read")
