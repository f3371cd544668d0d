"""Decisions as training data: what stands in a line, which decisions are chosen, and who may have them."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from decisions.agents.kinds import KINDS
from decisions.labelling.labels import label_decision
from decisions.models import Decision
from decisions.models.tombstones import ERASED_HASH
from decisions.queries.export import ExportChoice, ExportReport, export_lines, export_rows
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DecisionFactory,
    FeedbackFactory,
    RewardFactory,
    RewardSpecFactory,
)
from tools.openapi import whole_document
from training.imports.exported import read_export

ROOT = Path(__file__).resolve().parents[3]


def read(workspace, format="chat", **chosen):
    lines = export_lines(workspace=workspace, chosen=ExportChoice(**chosen), format=format)
    return [json.loads(line) for line in lines]


def ids(rows):
    return [row["metadata"]["decisionId"] for row in rows]


def lines_of(answer):
    return [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]


@pytest.fixture(params=["looked up", "walked to"])
def either_way(request, monkeypatch):
    """What is rewarded or judged is found from there, or among all decisions: the answers are the same."""
    if request.param == "walked to":
        monkeypatch.setattr("decisions.queries.export.FEW", 0)


@pytest.fixture
def told(judged, agent):
    """Confirmed (1.0), corrected (-0.5), and nothing known, oldest first; rewards calculated."""
    made = [
        judged("confirmed", state={"text": "a flight"}, action="travel", confidence=0.75, reasoning="it flies"),
        judged("confirmed", "corrected", state={"text": "a bill"}, action="health"),
        judged(state={"text": "a pill"}, action="health"),
    ]
    calculate_rewards(current_reward_spec(agent))
    return [str(decision.id) for decision in made]


@pytest.mark.django_db
class TestLines:
    def test_a_chat(self, workspace, by, agent, told):
        decision = Decision.objects.get(id=told[1])
        label_decision(by=by, decision=decision, verdict="corrected", corrected_action="finance")
        FeedbackFactory(decision=decision, metric="minutes", value=12.5)
        Decision.objects.filter(id=told[1]).update(item_ref="item-1", project_ref="opus-1", finish_reason="length")
        row = read(workspace)[1]
        system, user, assistant = row["messages"]
        assert [system["role"], user["role"], assistant["role"]] == ["system", "user", "assistant"]
        assert system["content"] == KINDS["FILER"].system
        assert json.loads(user["content"]) == {"text": "a bill"}
        assert json.loads(assistant["content"]) == {
            "action": "health",
            "reasoning": None,
            "confidence": decision.confidence,
        }
        assert row["reward"] == -0.5
        metadata = row["metadata"]
        assert metadata.pop("finishReason") == "length"
        assert dt.datetime.fromisoformat(metadata.pop("createdAt")) == decision.observed_at
        assert dt.datetime.fromisoformat(metadata.pop("rewardComputedAt")) == decision.rewards.get().computed_at
        assert metadata == {
            "decisionId": told[1],
            "agentType": "FILER",
            "agent": "filer",
            "itemId": "item-1",
            "opusId": "opus-1",
            "userFeedback": "CORRECTED",
            "userCorrection": "finance",
            "outcomeMetrics": {"minutes": 12.5},
            "systemPrompt": False,
        }

    def test_a_completion_is_what_the_agent_s_prompt_asks_for(self, workspace, told):
        row = read(workspace, "completion")[-1]
        assert (row["prompt"], row["completion"], row["reward"]) == ("a flight", "travel", 1.0)
        assert row["metadata"]["decisionId"] == told[0]

    def test_what_was_decided_under_a_system_prompt_has_it_and_is_learnt_under_it(
        self, workspace, agent, told, tmp_path
    ):
        version = AgentVersionFactory(agent=agent, system_prompt="File notes.")
        DecisionFactory(agent=agent, agent_version=version, state={"text": "a train"})
        newest, *others = read(workspace, "completion")
        assert (newest["system"], newest["prompt"]) == ("File notes.", "a train")
        assert not any("system" in row for row in others)
        assert [row["messages"][0]["content"] for row in read(workspace)[:2]] == ["File notes.", KINDS["FILER"].system]
        file = tmp_path / "exported.jsonl"
        file.write_bytes(b"".join(export_lines(workspace=workspace, chosen=ExportChoice(), format="completion")))
        found, faults = read_export(file)
        assert [row.get("system") for row in found.rows] == ["File notes.", None, None, None] and not faults
        file.write_bytes(b"".join(export_lines(workspace=workspace, chosen=ExportChoice(), format="chat")))
        found, faults = read_export(file)
        assert [row.get("system") for row in found.rows] == ["File notes.", None, None, None] and not faults
        file.write_text(json.dumps({"messages": read(workspace)[1]["messages"]}))  # a chat of another hand
        assert read_export(file)[0].rows[0]["system"] == KINDS["FILER"].system

    def test_an_action_of_fields_is_completed_by_confidence_and_reasoning(self, workspace):
        agent = AgentFactory(workspace=workspace)
        version = AgentVersionFactory(agent=agent, action_space="structured", options=None, action_schema={})
        action = {"status": "TODO", "confidence": 0.5}
        DecisionFactory(
            agent=agent, agent_version=version, action=action, options=None, confidence=0.9, reasoning="since"
        )
        (row,) = read(workspace, "completion")
        assert json.loads(row["completion"]) == {"status": "TODO", "confidence": 0.5, "reasoning": "since"}

    def test_a_state_without_what_the_prompt_names_is_counted_and_left_out(self, workspace, agent, told):
        DecisionFactory(agent=agent, state={"title": "no text"})
        report = ExportReport()
        found = list(export_lines(workspace=workspace, chosen=ExportChoice(), format="completion", report=report))
        assert (len(found), report.rows, report.unusable) == (3, 3, 1)
        assert len(read(workspace)) == 4  # a chat does not need the prompt


@pytest.mark.django_db
class TestChoosing:
    def test_newest_first_and_never_more_than_asked(self, workspace, told):
        assert ids(read(workspace)) == told[::-1]
        assert ids(read(workspace, limit=2)) == told[:0:-1]
        assert ids(read(workspace, limit=None)) == told[::-1]

    @pytest.mark.parametrize(
        ("chosen", "found"),
        [
            ({"require_reward": True}, [1, 0]),
            ({"min_reward": 0.0}, [2, 0]),
            ({"min_reward": 0.0, "require_reward": True}, [0]),
            ({"max_reward": 0.0, "require_reward": True}, [1]),
            ({"require_feedback": True}, [1, 0]),
            ({"require_feedback": True, "min_reward": 0.0, "require_reward": True}, [0]),
            ({"min_reward": 1.5, "require_reward": True}, []),
            ({"kind": "LIBRARIAN"}, []),
            ({"agent": "filer", "kind": "FILER", "limit": 1}, [2]),
        ],
    )
    def test_filters(self, workspace, told, either_way, chosen, found):
        assert ids(read(workspace, **chosen)) == [told[index] for index in found]

    def test_moments_are_of_the_server_s_clock(self, workspace, told):
        now = timezone.now()
        for hours, decision in enumerate(told):
            Decision.objects.filter(id=decision).update(recorded_at=now - dt.timedelta(hours=hours))
        hour = dt.timedelta(hours=1)
        assert ids(read(workspace, since=now - hour)) == [told[1], told[0]]
        assert ids(read(workspace, until=now - hour)) == [told[2]]

    def test_pages_join_without_gap_or_repeat(self, workspace, told, either_way, monkeypatch):
        monkeypatch.setattr("decisions.queries.export.PAGE", 2)
        assert ids(read(workspace)) == told[::-1]
        assert ids(read(workspace, require_feedback=True)) == [told[1], told[0]]
        monkeypatch.setattr("decisions.queries.export.PAGE", 1)
        assert ids(read(workspace, require_feedback=True)) == [told[1], told[0]]

    def test_superseded_feedback_and_a_corrected_reward_are_not_shown(self, workspace, agent, told, either_way):
        decision = Decision.objects.get(id=told[0])
        old = decision.feedback.get()
        FeedbackFactory(decision=decision, value="ignored", supersedes=old.id, observed_at=old.observed_at)
        calculate_rewards(current_reward_spec(agent))
        row = read(workspace)[-1]
        assert (row["metadata"]["userFeedback"], row["reward"]) == ("IGNORED", 0.0)
        assert ids(read(workspace, min_reward=-0.1, require_reward=True)) == [told[0]]
        assert ids(read(workspace, min_reward=0.5, require_reward=True)) == []
        FeedbackFactory(decision=decision, metric="clicks", value=1, supersedes=decision.feedback.latest("id").id)
        assert ids(read(workspace, require_feedback=True)) == [told[1]]

    def test_several_agents_each_by_its_own_spec(self, workspace, told, either_way):
        other = AgentFactory(workspace=workspace, slug="second", kind="CUSTOM", name="Second")
        AgentVersionFactory(agent=other)
        RewardSpecFactory(agent=other)
        decision = DecisionFactory(agent=other)
        FeedbackFactory(decision=decision, value="overridden")
        calculate_rewards(current_reward_spec(other))
        rows = read(workspace, require_reward=True)
        assert [row["reward"] for row in rows] == [-0.8, -0.5, 1.0]
        assert "Second" in rows[0]["messages"][0]["content"]

    def test_erased_decisions_stay_out(self, workspace, told):
        Decision.objects.filter(id=told[0]).update(content_hash=ERASED_HASH)
        assert ids(read(workspace)) == told[:0:-1]


@pytest.mark.django_db
class TestEndpoint:
    def test_streams_lines(self, api, told):
        answer = api("export:read").get("decisions/export?agent=filer&min_reward=-2&require_feedback=true")
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="decisions-chat.jsonl"'
        assert ids(lines_of(answer)) == [told[1], told[0]]

    def test_a_bound_asks_for_rewards_unless_said_otherwise(self, api, told):
        client = api("export:read")
        assert ids(lines_of(client.get("decisions/export?min_reward=-2"))) == [told[1], told[0]]
        answer = client.get("decisions/export?min_reward=-2&require_reward=false&limit=none&format=completion")
        assert ids(lines_of(answer)) == told[::-1]

    def test_every_fault_of_the_query_is_named(self, api, told):
        query = "limit=0&min_reward=nan&max_reward=x&since=2026-01-01&until=no&agent_type=COOK&require_feedback=maybe"
        answer = api("export:read").get(f"decisions/export?{query}&require_reward=2")
        assert answer.status_code == 400
        assert {fault["field"] for fault in answer.json()["error"]["fields"]} == {
            *("limit", "min_reward", "max_reward", "since", "until", "agent_type", "require_feedback", "require_reward")
        }
        for wrong in (
            *("format=csv", "agent=nobody", "limit=99999999999", "limit=%C2%B2"),
            "since=0001-01-01T00:00:00%2B20:00",
        ):
            assert api("export:read").get(f"decisions/export?{wrong}").status_code == 400, wrong
        far = api("export:read").get("decisions/export?since=2026-01-01T00:00:00%2B20:53")
        assert far.status_code == 200

    def test_another_workspace_sees_none_of_it(self, api, other_workspace, told):
        elsewhere = api.of(other_workspace, "export:read")
        assert lines_of(elsewhere.get("decisions/export?limit=none")) == []
        assert elsewhere.get("decisions/export?agent=filer").status_code == 400


@pytest.mark.django_db
class TestCommand:
    def run(self, *arguments):
        out, err = StringIO(), StringIO()
        try:
            call_command("export_training_data", *arguments, stdout=out, stderr=err)
            code = 0
        except SystemExit as exit:
            code = exit.code
        return code, out.getvalue(), err.getvalue()

    def test_writes_rewarded_decisions(self, told, tmp_path):
        file = tmp_path / "filer.jsonl"
        code, out, _ = self.run("--agent-type", "FILER", "--output", str(file), "--json")
        assert code == 0
        assert json.loads(out) == {
            "rows": 2,
            "unusable": 0,
            "mean_reward": 0.25,
            "agents": {"filer": 2},
            "left_out": {"min_reward": 0, "require_feedback": 0, "limit": 0},
            "output": str(file),
            "format": "chat",
        }
        assert ids(map(json.loads, file.read_text().splitlines())) == [told[1], told[0]]
        assert list(tmp_path.iterdir()) == [file]

    def test_flags_narrow_it(self, told, tmp_path):
        file = tmp_path / "filer.jsonl"
        flags = ("--min-reward", "0", "--require-feedback", "--limit", "5", "--format", "completion")
        code, out, _ = self.run("--agent-type", "filer", "--workspace", "acme", "--output", str(file), *flags)
        assert (code, out) == (0, f"1 rows to {file}; 0 decisions could not be written\n")
        assert json.loads(file.read_text())["prompt"] == "a flight"

    def test_what_the_limits_leave_out_is_counted(self, judged, agent, told, tmp_path):
        unjudged = judged(state={"text": "a cruise"}, action="travel")
        RewardFactory(decision=unjudged, spec=current_reward_spec(agent), raw=0.5)
        file = tmp_path / "filer.jsonl"
        flags = ("--agent-type", "FILER", "--output", str(file), "--json")
        _, out, err = self.run(*flags, "--limit", "1")
        assert json.loads(out)["left_out"] == {"min_reward": 0, "require_feedback": 0, "limit": 2}
        assert err.splitlines() == ["--limit left out 2 rewarded decisions"]
        _, out, err = self.run(*flags, "--min-reward", "0", "--require-feedback")
        assert json.loads(out)["left_out"] == {"min_reward": 1, "require_feedback": 1, "limit": 0}
        assert err.splitlines() == [
            "--min-reward left out 1 rewarded decisions",
            "--require-feedback left out 1 rewarded decisions",
        ]

    def test_standard_output(self, told):
        code, out, err = self.run("--agent-type", "FILER", "--output", "-", "--json")
        assert (code, len(out.splitlines()), json.loads(err)["rows"]) == (0, 2, 2)

    def test_nothing_found_leaves_the_file_as_it_was(self, told, tmp_path):
        file = tmp_path / "old.jsonl"
        file.write_text("as it was")
        code, _, _ = self.run("--agent-type", "FILER", "--output", str(file), "--min-reward", "2")
        assert (code, file.read_text(), list(tmp_path.iterdir())) == (1, "as it was", [file])

    @pytest.mark.parametrize(
        "wrong",
        [
            ("--agent-type", "COOK", "--output", "x.jsonl"),
            ("--agent-type", "FILER", "--output", "nowhere/x.jsonl"),
            ("--agent-type", "FILER", "--output", "x.jsonl", "--workspace", "unknown"),
            ("--agent-type", "FILER", "--output", "x.jsonl", "--limit", "-1"),
            ("--agent-type", "FILER", "--output", "x.jsonl", "--min-reward", "nan"),
            ("--agent-type", "FILER", "--output", "."),
        ],
    )
    def test_what_is_not_usable_is_refused(self, told, tmp_path, monkeypatch, wrong):
        monkeypatch.chdir(tmp_path)
        code, out, err = self.run(*wrong)
        assert (code, out, list(tmp_path.iterdir())) == (2, "", [])
        assert any(flag in err for flag in ("--agent-type", "--output", "--workspace", "--limit", "--min-reward"))


MEASURE = """
import pathlib, re, sys
import django
django.setup()
from decisions.queries.export import ExportChoice, export_lines
from workspaces.models import Workspace
workspace = Workspace.objects.get(id=sys.argv[1])
def export(limit):
    chosen = ExportChoice(limit=limit)
    return sum(1 for _ in export_lines(workspace=workspace, chosen=chosen, format="completion"))
def peak():
    # Not ru_maxrss: that one is handed down from the parent, which is larger.
    return int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
export(2000)  # whatever is loaded or compiled on first use
before = peak()
rows = export(None)
print(rows, peak() - before)
"""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_memory_does_not_grow_with_the_ledger(agent, workspace):
    """10,000 decisions of about 5 KB through a fresh process: 50 MB on the wire, under 20 MB more than two pages."""
    version = agent.versions.get()
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO decisions_decision (id, workspace_id, agent_id, agent_version_id, state, options, action,
                                               policy_name, observed_at, recorded_at, content_hash)
               SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - i), 12, '0')
                       || '7000' || '8' || substr(md5(i::text), 1, 15))::uuid,
                      %s, %s, %s, jsonb_build_object('text', repeat(md5(i::text), 150)), '["finance", "travel"]',
                      '"travel"', 'outside', now(), now(), decode(md5(i::text), 'hex')
                 FROM generate_series(1, 10000) i""",
            [workspace.id, agent.id, version.id],
        )
    name = connection.settings_dict["NAME"]
    code = f"from project import settings_test as s; s.DATABASES['default']['NAME'] = {name!r}\n{MEASURE}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(workspace.id)],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "project.settings_test"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    rows, grown_kb = map(int, done.stdout.split()[-2:])
    assert rows == 10_000
    assert grown_kb < 20_000


def test_what_filters_drop_stays_in_the_database_and_long_gaps_cost_few_statements(
    agent, workspace, either_way, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr("decisions.queries.export.PAGE", 4)
    monkeypatch.setattr("decisions.queries.export.LONGEST_PAGE", 16)
    made = [DecisionFactory(agent=agent) for _ in range(70)]
    wanted = [made[0], made[1], made[40], made[69]]
    for decision in wanted:
        RewardFactory(decision=decision, raw=1.5)
        FeedbackFactory(decision=decision)
    RewardFactory(decision=made[50], raw=-1.0)
    chosen = ExportChoice(min_reward=1.0, require_reward=True, limit=None)
    with django_assert_max_num_queries(14):
        found = [row.id for row in export_rows(workspace=workspace, chosen=chosen)]
    assert found == [decision.id for decision in reversed(wanted)]
    for limit in (1, 2, 3):
        few = ExportChoice(min_reward=1.0, require_reward=True, require_feedback=True, limit=limit)
        assert [row.id for row in export_rows(workspace=workspace, chosen=few)] == found[:limit]
    assert len(list(export_rows(workspace=workspace, chosen=ExportChoice(limit=None)))) == 70


@pytest.mark.parametrize("chosen", [{"require_reward": True}, {"require_feedback": True}])
def test_few_among_many_cost_no_walk(agent, workspace, monkeypatch, django_assert_num_queries, chosen):
    """Agents, specs, prompts, the few, and one page of them."""
    monkeypatch.setattr("decisions.queries.export.PAGE", 4)
    made = [DecisionFactory(agent=agent) for _ in range(30)]
    for decision in made[:2]:
        RewardFactory(decision=decision)
        FeedbackFactory(decision=decision)
    with django_assert_num_queries(5):
        found = [row.id for row in export_rows(workspace=workspace, chosen=ExportChoice(**chosen))]
    assert found == [made[1].id, made[0].id]


@pytest.mark.django_db
class TestLeftOut:
    PATHS = ("/api/v1/decisions/export", "/api/training/export", "/api/training/export-file")

    def header(self, api, path, query):
        answer = api("export:read").get(f"{path}?{query}")
        assert answer.status_code == 200, answer.content
        return answer.headers["Reckoner-Left-Out"], len(lines_of(answer))

    def test_a_header_says_what_each_limit_left_out(self, api, told):
        own, chats, file = self.PATHS
        assert self.header(api, own, "") == ("limit=0", 3)
        assert self.header(api, own, "limit=1") == ("limit=2", 1)
        assert self.header(api, own, "limit=none") == ("none", 3)
        assert self.header(api, own, "min_reward=0&limit=none") == ("min_reward=1", 1)
        assert self.header(api, own, "max_reward=0&require_feedback=true&limit=5") == (
            "limit=0, max_reward=1, require_feedback=0", 1,
        )  # fmt: skip
        assert self.header(api, own, "require_feedback=true") == ("limit=0, require_feedback=1", 2)
        assert self.header(api, chats, "limit=1") == ("limit=2, min_reward=0", 1)
        assert self.header(api, file, "agentType=FILER&minReward=0") == ("limit=0, min_reward=1", 1)

    def test_of_many_the_newest_beyond_the_limit_are_looked_at(self, api, told, monkeypatch):
        monkeypatch.setattr("decisions.api.export.MOST_COUNTED", 1)
        assert self.header(api, self.PATHS[0], "limit=1") == ("limit=1+", 1)
        assert self.header(api, self.PATHS[0], "limit=2") == ("limit=1", 2)

    def test_the_header_counts_decisions_that_make_no_line(self, api, told, agent):
        DecisionFactory(agent=agent, state={"note": "without the prompt's field"})
        path = self.PATHS[0]
        assert self.header(api, path, "format=completion") == ("limit=0, unusable=1", 3)
        assert self.header(api, path, "format=completion&limit=none") == ("unusable=1", 3)
        assert self.header(api, path, "format=completion&limit=1") == ("limit=3, unusable=1", 0)
        assert self.header(api, path, "format=chat") == ("limit=0", 4)

    def test_the_header_is_documented(self):
        paths = whole_document()["paths"]
        for path in self.PATHS:
            documented = paths[path]["get"]["responses"]["200"]
            assert "left out" in documented["headers"]["Reckoner-Left-Out"]["description"], path
