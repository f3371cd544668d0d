"""What an agent without a model says it needs, to whom it is asked by."""

from __future__ import annotations

from typing import Any

import pytest

from decisions.agents.current import get_current_agent
from decisions.gateway.routing import find_agent_routes
from models_registry.errors import NoChampion
from tools.factories import AgentFactory, AgentVersionFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("space", "outside"), [("text", True), ("tool_calls", True), ("choice", False)])
def test_only_who_chats_hears_of_outside_models(space: str, outside: bool, workspace: Any, by: Any) -> None:
    AgentVersionFactory(agent=AgentFactory(workspace=workspace, slug="helper"), action_space=space)
    with pytest.raises(NoChampion) as refusal:
        find_agent_routes(get_current_agent(by, "helper"))
    assert ("POST /api/v1/remote-versions" in refusal.value.message) == outside


@pytest.mark.parametrize(("space", "writes"), [("text", True), ("tool_calls", True), ("choice", False)])
def test_who_writes_is_not_sent_to_labelled_rows_and_a_tiny_model(
    space: str, writes: bool, workspace: Any, by: Any
) -> None:
    AgentVersionFactory(agent=AgentFactory(workspace=workspace, slug="helper"), action_space=space, options=None)
    with pytest.raises(NoChampion) as refusal:
        find_agent_routes(get_current_agent(by, "helper"))
    said = refusal.value.message
    assert [name in said for name in ("import_labelled", "pretrain (")] == [not writes] * 2
    assert [words in said for words in ("import_texts", "sft", "cannot write")] == [writes] * 3
