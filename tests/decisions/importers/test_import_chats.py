"""What `export_training_data` writes comes back by `import_decisions`, into another workspace too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.models import Decision
from decisions.queries.export import ExportChoice, export_lines
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tools.factories import AgentFactory, AgentVersionFactory, DecisionFactory, FeedbackFactory

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "chats")


def test_an_export_of_the_default_flags_is_read_back(
    agent: Any, other_workspace: Any, importing: Any, tmp_path: Path
) -> None:
    version = AgentVersionFactory(agent=agent, system_prompt="File notes.")
    for action, verdict in (("travel", "confirmed"), ("finance", "corrected")):
        made = {"agent": agent, "agent_version": version, "reasoning": "since", "item_ref": "item-1"}
        decision = DecisionFactory(action=action, **made)
        FeedbackFactory(decision=decision, value=verdict)
    FeedbackFactory(decision=decision, metric="minutes", value=12.5)
    calculate_rewards(current_reward_spec(agent))
    file = tmp_path / "filer.jsonl"
    asked = ("--agent-type", "FILER", "--output", str(file), "--require-feedback")
    call_command("export_training_data", *asked, "--workspace", agent.workspace.slug)
    flags = (*FLAGS, "--workspace", other_workspace.slug, "--create-agents", "--policy", "gpt-of-yesterday")
    done = importing(file, *flags)
    assert (done.code, done.report["decisions"], done.report["feedback"]) == (0, 2, 3), done.errors
    found = Decision.objects.for_workspace(other_workspace).order_by("id")
    assert [(one.agent.slug, one.action, one.external_id) for one in found] == [
        ("filer", one.action, str(one.id)) for one in Decision.objects.filter(agent=agent).order_by("id")
    ]
    assert {one.agent_version.system_prompt for one in found} == {"File notes."}
    told = found.get(action="finance")
    assert (told.state, told.reasoning, told.confidence) == (decision.state, "since", decision.confidence)
    assert (told.item_ref, told.policy_name, told.propensity) == ("item-1", "gpt-of-yesterday", None)
    assert {entry.metric: entry.value for entry in told.feedback.all()} == {"verdict": "corrected", "minutes": 12.5}
    assert importing(file, *flags).report["repeated"] == 5


def test_a_chat_that_was_served_is_the_same_chat_again(
    workspace: Any, other_workspace: Any, importing: Any, tmp_path: Path
) -> None:
    agent = AgentFactory(workspace=workspace, slug="helper", kind="CUSTOM")
    version = {"prompt_template": "{{ input }}", "system_prompt": "You book.", "options": None}
    AgentVersionFactory(agent=agent, action_space="tool_calls", **version)
    tool = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}
    call = {"name": "look", "arguments": {"at": "Oslo"}, "id": "c1"}
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    said.append({"role": "user", "content": "Rain?"})
    state = {"input": "Rain?", "messages": said, "tools": [tool]}
    made = {"agent": agent, "state": state, "options": None, "propensity": None, "confidence": None}
    DecisionFactory(action=[call], completion="I look.", reasoning="since", finish_reason="tool_calls", **made)
    DecisionFactory(action=[], completion="It rains.", finish_reason="length", **made)
    by_template = made | {"state": {"input": "Rain?", "place": "Oslo"}}
    DecisionFactory(action=[{"name": "look", "arguments": {}}], **by_template)
    file = tmp_path / "chats.jsonl"
    file.write_bytes(b"".join(export_lines(workspace=workspace, chosen=ExportChoice(), format="chat")))
    done = importing(file, *FLAGS, "--workspace", other_workspace.slug, "--agent", "helper", "--create-agents")
    assert (done.code, done.report["decisions"]) == (0, 3), done.errors
    rows = Decision.objects.for_workspace(other_workspace)
    assert {row.agent_version.system_prompt for row in rows} == {"You book."}
    found = {row.completion: (row.state, row.action, row.reasoning, row.finish_reason) for row in rows}
    assert found == {
        "I look.": (state, [call], "since", "tool_calls"),
        "It rains.": (state, "It rains.", None, "length"),  # as the gateway keeps it today
        None: (by_template["state"], [{"name": "look", "arguments": {}}], None, None),
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"messages": []}, "has no text of the user"),
        ({"messages": [{"role": "user", "content": "{}"}, {"role": "assistant", "content": "no"}]}, "is not {action"),
        ({"messages": 3}, "is not a list"),
        ({"messages": [{"role": "user", "content": "Q"}], "metadata": {"chat": True}}, "do not end with the assistant"),
    ],
)
def test_what_is_no_chat_of_a_decision_is_refused(importing: Any, lines: Any, line: Any, reason: str) -> None:
    done = importing(lines(line), *FLAGS, "--agent", "x", "--create-agents", "--observed-at", "2025-01-01")
    assert done.code == 2 and reason in done.errors and not Decision.objects.exists()
