"""The notes app's API in a workspace that has not made its agents, or has others by their names."""

import pytest
from django.core.management import call_command

from decisions.notes_app import examples as example
from tests.decisions.notes_app.notes_requests import FILER, T
from tools.factories import AgentFactory

pytestmark = pytest.mark.django_db


def test_a_record_is_refused_and_says_how_to_make_the_agent(api):
    refused = api().post(f"{T}/decisions/record", FILER)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_agent")
    assert "create_notes_agents" in refused.json()["error"]["message"]


def test_the_command_needs_one_workspace_with_the_agent(workspace):
    with pytest.raises(SystemExit, match="2"):
        call_command("training_stats", "FILER")


def test_an_agent_with_another_action_does_not_answer_for_the_app(api, workspace):
    AgentFactory(workspace=workspace, slug="filer", kind="FILER").versions.create(
        workspace=workspace, number=1, prompt_template="{{ text }}", options=["a", "b"]
    )
    refused = api("route:read").post("/api/ai/file", {"input": example.STATE, "userId": "user-1"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
