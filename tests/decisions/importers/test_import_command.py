"""The command over all formats: what is refused and how, repeats, cut-off imports, agents, and constant memory."""

import json
import os
import subprocess
import sys

import pytest

from decisions.erasure.erasing import Person, erase_decisions, find_decisions
from decisions.importers import running
from decisions.models import Agent, Decision, Episode, Feedback, Step
from tests.decisions.importers.conftest import counts
from tools.factories import WorkspaceFactory
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
NOTHING = {"Decision": 0, "Episode": 0, "Step": 0, "Feedback": 0}
MOMENT = "2025-03-01T12:00:00+00:00"


def row(number=1, **fields):
    """A decision of FILER by somebody else's rules."""
    return {
        "agent": "filer",
        "state": {"text": f"note {number}"},
        "action": "travel",
        "options": ["finance", "travel", "health"],
        "policy_name": "rules",
        "observed_at": MOMENT,
    } | fields


class TestOwnFields:
    def test_every_field_with_steps_and_feedback_comes_in(self, importing, lines, agent):
        given = row(
            episode="mailbox 7",
            step_number=2,
            propensity=0.5,
            unit="ann",
            external_id="n-1",
            steps=[
                {"kind": "reasoning", "content": "It names a flight.", "confidence": 0.9},
                {"kind": "tool_call", "name": "look_up", "arguments": {"q": 1}, "error": "down", "duration_ms": 3.5},
            ],
            feedback=[
                {"metric": "verdict", "value": "confirmed"},
                {"metric": "minutes", "value": 4, "source": "system"},
            ],
        )
        loose = {"metric": "reward", "value": 0.5, "episode": "mailbox 7", "observed_at": MOMENT, "source": "code"}
        done = importing(lines(given, loose), "--format", "jsonl")
        assert (done.code, done.report["decisions"], done.report["steps"], done.report["feedback"]) == (0, 1, 2, 3)
        decision = Decision.objects.get()
        assert decision.observed_at.isoformat() == MOMENT
        assert decision.agent == agent
        assert (decision.propensity, decision.unit, decision.episode.external_id) == (0.5, "ann", "mailbox 7")
        first, second = Step.objects.filter(decision_id=decision.id).order_by("number")
        assert (first.kind, first.content, first.confidence) == ("reasoning", "It names a flight.", 0.9)
        assert (second.name, second.error, second.success, second.duration_ms) == ("look_up", "down", False, 3.5)
        fed = dict(Feedback.objects.filter(decision_id=decision.id).values_list("metric", "value"))
        assert fed == {"verdict": "confirmed", "minutes": 4}
        assert Feedback.objects.get(episode=decision.episode).value == 0.5

    def test_a_list_is_read_like_lines(self, importing, tmp_path, agent):
        path = tmp_path / "rows.json"
        path.write_text(json.dumps([row(1), row(2)], indent=2))
        assert importing(path, "--format", "jsonl").report["decisions"] == 2

    def test_a_table_has_a_column_for_each_field(self, importing, tmp_path, agent):
        path = tmp_path / "rows.csv"
        path.write_text(
            "state.text;action;policy_name;observed_at;options;propensity;feedback.verdict\n"
            '"a flight; and\na hotel";travel;rules;2025-03-01T12:00:00Z;"[""travel"",""health""]";0.5;confirmed\n'
            "a bill;finance;rules;2025-03-01T12:00:00Z;;x;\n"
            "a pill;health;rules;2025-03-01T12:01:00Z;;;\n"
        )
        done = importing(path, "--format", "csv", "--agent", "filer")
        # The options differ from the version's, in their order.
        assert done.code == 1
        assert [refusal.split(":", 1)[1] for refusal in done.report["refusals"]] == [
            "4: propensity: 'x' is not a number",
            "2: options: differ from those of the agent's version",
        ]
        assert Decision.objects.get().state == {"text": "a pill"}

    def test_cells_keep_their_line_breaks_and_feedback_its_kind(self, importing, tmp_path, agent):
        path = tmp_path / "rows.csv"
        path.write_text(
            "state.text,action,policy_name,observed_at,feedback.verdict,feedback.minutes\n"
            '"a flight,\nand a hotel",travel,rules,2025-03-01T12:00:00Z,confirmed,2.5\n'
        )
        assert importing(path, "--format", "csv", "--agent", "filer").code == 0
        assert Decision.objects.get().state == {"text": "a flight,\nand a hotel"}
        assert dict(Feedback.objects.values_list("metric", "value")) == {"verdict": "confirmed", "minutes": 2.5}

    def test_a_verdict_brings_its_correction(self, importing, lines, tmp_path, agent):
        verdict = {"metric": "verdict", "value": "corrected", "correction": "health"}
        assert importing(lines(row(feedback=[verdict])), "--format", "jsonl").code == 0
        path = tmp_path / "rows.csv"
        path.write_text(
            "state.text,action,policy_name,observed_at,feedback.verdict,feedback.correction\n"
            "a pill,travel,rules,2025-03-01T12:00:00Z,corrected,health\n"
            "a bill,travel,rules,2025-03-01T12:00:00Z,,finance\n"
        )
        done = importing(path, "--format", "csv", "--agent", "filer")
        assert [refusal.split(":", 2)[2] for refusal in done.report["refusals"]] == [
            " feedback.correction: stands without feedback.verdict"
        ]
        assert [fed.correction for fed in Feedback.objects.all()] == ["health", "health"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            (row(propensity=2), "propensity: "),
            (row(action="gardening"), "action: 'gardening' is not one of the options"),
            (row(surprise=1), "surprise: is not a known field"),
            (row(observed_at="yesterday"), "observed_at: 'yesterday' is not an ISO 8601 time"),
            (row(observed_at="2199-01-01T00:00:00Z"), "observed_at: 2199"),
            (row(observed_at=None), "observed_at: the record has no time"),
            (row(policy_name=None), "policy_name: give exactly one"),
            (row(id="3be670da-6f73-4e29-a4bd-f7bb5ffe2fd3"), "id: "),
            (row(steps=[{"kind": "dream"}]), "steps[0].kind: "),
            (row(steps=3), "steps: is not a list"),
            ('{"agent": "filer",', "is not JSON"),
            ('{"agent": "fi\\u0000ler"}', "The record contains a NUL character"),
            ("[" * 40 + "]" * 40, "The record is nested deeper than 32 levels"),
            ("3", "the line: is not an object"),
            ({"metric": "verdict", "value": "splendid", "unit": "ann", "observed_at": MOMENT}, "feedback.value: "),
            (
                {"metric": "reward", "value": 1, "episode": "nowhere", "observed_at": MOMENT},
                "episode: 'nowhere' has no",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) and len(value) < 60 else "bad",
    )
    def test_one_bad_line_is_named_and_the_others_are_in(self, importing, lines, agent, bad, reason):
        path = lines(row(1), bad, row(2))
        done = importing(path, "--format", "jsonl")
        assert done.code == 1
        assert [refusal.startswith(f"{path}:2: {reason}") for refusal in done.report["refusals"]] == [True], done.report
        assert counts() == NOTHING | {"Decision": 2}

    def test_bad_feedback_leaves_its_decision_in(self, importing, lines, agent):
        done = importing(lines(row(feedback=[{"metric": "x"}, {"metric": "y", "value": 1}])), "--format", "jsonl")
        assert (done.code, done.report["refused"]) == (1, 1)
        assert counts() == NOTHING | {"Decision": 1, "Feedback": 1}

    def test_all_refusals_go_to_a_file(self, importing, lines, tmp_path, agent):
        bad = [row(number, confidence=3) for number in range(30)]
        kept = tmp_path / "refusals.txt"
        done = importing(lines(row(1), *bad), "--format", "jsonl", "--refusals", str(kept))
        assert (done.code, done.report["refused"], len(done.report["refusals"])) == (1, 30, 20)
        assert len(kept.read_text().splitlines()) == 30
        assert "and 10 more" in done.errors

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("none.jsonl", None, "not found"),
            ("rows.txt", "{}", "ends in .txt"),
            ("rows.jsonl", "", "holds no decisions"),
            ("rows.jsonl", '{"a": 1}\n[2]\n', "rows.jsonl:2: the line: is not an object"),
            ("rows.json", '[{"agent": "filer"', "cut off"),
        ],
    )
    def test_what_is_not_usable_at_all_ends_with_2(self, importing, tmp_path, agent, name, content, said):
        path = tmp_path / name
        if content is not None:
            path.write_text(content)
        done = importing(path, "--format", "jsonl")
        assert done.code == 2
        assert said in done.errors
        assert counts() == NOTHING

    def test_what_only_the_ledger_refuses_ends_with_2_too(self, importing, lines, agent):
        assert importing(lines(row(action="gardening")), "--format", "jsonl").code == 2
        assert counts() == NOTHING

    def test_a_workspace_must_be_clear(self, importing, lines, agent):
        path = lines(row())
        assert importing(path, "--format", "jsonl", "--workspace", "nobody").code == 2
        WorkspaceFactory(slug="second")
        assert "2 workspaces fit" in importing(path, "--format", "jsonl").errors
        assert counts() == NOTHING
        assert importing(path, "--format", "jsonl", "--workspace", "acme").code == 0


class TestAgents:
    def test_unknown_agents_are_listed_and_nothing_is_written(self, importing, lines, agent):
        done = importing(
            lines(row(), row(agent="sorter"), row(2, agent="sorter"), row(agent="mover")), "--format", "jsonl"
        )
        assert done.code == 2
        assert "unknown agents: mover (1), sorter (2)" in done.errors
        assert counts() == NOTHING

    def test_they_are_made_when_that_is_asked_for(self, importing, lines, agent):
        path = lines(
            row(agent="sorter"),
            row(agent="writer", action="Dear Ann", options=None, state={"title": "a", "text": "b"}),
            row(agent="caller", action=[{"name": "x", "arguments": {}}], options=None),
            row(agent="planner", action={"priority": 1}, options=None),
            row(agent="ranker", action=["travel", "health"]),
        )
        done = importing(path, "--format", "jsonl", "--create-agents")
        assert done.code == 0, done.errors
        assert done.report["agents"] == ["caller", "planner", "ranker", "sorter", "writer"]
        spaces = {made.slug: made.versions.get().action_space for made in Agent.objects.exclude(slug="filer")}
        assert spaces == {
            "sorter": "choice",
            "writer": "text",
            "caller": "tool_calls",
            "planner": "structured",
            "ranker": "ranking",
        }
        template = Agent.objects.get(slug="writer").versions.get().prompt_template
        assert template == "title: {{ title }}\ntext: {{ text }}"

    def test_actions_of_several_kinds_need_an_agent_made_by_hand(self, importing, lines, agent):
        path = lines(row(agent="odd"), row(agent="odd", action=3, options=None))
        done = importing(path, "--format", "jsonl", "--create-agents")
        assert (done.code, Agent.objects.count()) == (2, 1)
        assert "several kinds (choice, structured)" in done.errors
        assert counts() == NOTHING

    def test_agent_overrides_what_the_file_names(self, importing, lines, agent):
        assert importing(lines(row(agent="sorter")), "--format", "jsonl", "--agent", "filer").code == 0
        assert Decision.objects.get().agent == agent


class TestRepeats:
    def test_a_second_import_changes_nothing(self, importing, lines, agent):
        path = lines(
            *(row(n, episode="e", steps=[{"kind": "span"}], feedback=[{"metric": "x", "value": n}]) for n in range(5))
        )
        first = importing(path, "--format", "jsonl")
        before = counts()
        again = importing(path, "--format", "jsonl")
        assert (first.report["decisions"], again.report["decisions"], again.code) == (5, 0, 0)
        assert again.report["repeated"] == 15
        assert counts() == before == {"Decision": 5, "Episode": 1, "Step": 5, "Feedback": 5}

    def test_a_longer_file_adds_what_is_new(self, importing, lines, agent):
        importing(lines(row(1), row(2)), "--format", "jsonl")
        done = importing(lines(row(1), row(2), row(3)), "--format", "jsonl")
        assert (done.report["decisions"], done.report["repeated"]) == (1, 2)

    def test_an_id_with_other_content_is_a_conflict(self, importing, lines, agent):
        given = row(id=str(uuid7()))
        importing(lines(given), "--format", "jsonl")
        done = importing(lines(given | {"action": "health"}, row(5)), "--format", "jsonl")
        assert (done.code, done.report["refused"]) == (1, 1)
        assert "was already recorded with different content" in done.errors
        assert Decision.objects.get(id=given["id"]).action == "travel"

    def test_two_workspaces_may_import_the_same_file(self, importing, lines, agent):
        other = WorkspaceFactory(slug="second")
        path = lines(row())
        for slug in ("acme", "second"):
            assert importing(path, "--format", "jsonl", "--workspace", slug, "--create-agents").code == 0
        assert Decision.objects.filter(workspace=other).count() == 1
        assert Decision.objects.count() == 2

    def test_a_dry_run_says_the_same_and_writes_nothing(self, importing, lines, agent):
        path = lines(row(1, feedback=[{"metric": "x", "value": 1}]), row(agent="new"), row(2, action="gardening"))
        dry = importing(path, "--format", "jsonl", "--create-agents", "--dry-run")
        assert (counts(), Agent.objects.count()) == (NOTHING, 1)
        done = importing(path, "--format", "jsonl", "--create-agents")
        assert (dry.code, dry.report | {"dry_run": False}) == (done.code, done.report)
        assert dry.report["dry_run"]
        assert counts() == NOTHING | {"Decision": 2, "Feedback": 1}


class TestAfterAnErasure:
    """A file that is imported again does not bring back what was erased; everybody else's rows are as before."""

    @pytest.fixture
    def erased(self, importing, lines, agent, workspace):
        """A file with an episode of ann's and bob's and one of bob's own; its import, and then ann's erasure."""
        ann = row(1, unit="ann", episode="Ann's mailbox", state={"text": "from Ann"})
        ann["steps"] = [{"kind": "reasoning", "content": "Ann writes"}]
        ann["feedback"] = [{"metric": "remark", "value": "Ann agrees"}]
        with_ann = row(2, unit="bob", episode="Ann's mailbox")
        alone = row(3, unit="bob", episode="mailbox 7", feedback=[{"metric": "verdict", "value": "confirmed"}])
        loose = {"metric": "remark", "value": "so says Ann", "episode": "Ann's mailbox", "observed_at": MOMENT}
        given = lines(ann, with_ann, alone, loose)
        assert importing(given, "--format", "jsonl").report["refused"] == 0
        ids = find_decisions(workspace=workspace, person=Person("unit", "ann"), after=None, size=10)
        erase_decisions(workspace=workspace, ids=ids, secret=b"s" * 32)
        return given

    def test_what_was_erased_is_refused_and_the_rest_repeated(self, importing, erased, tmp_path):
        before = [list(model.objects.order_by("pk").values()) for model in (Decision, Episode, Step, Feedback)]
        refusals = tmp_path / "refused.txt"
        done = importing(erased, "--format", "jsonl", "--refusals", str(refusals))
        assert done.code == 1
        kept = {name: done.report[name] for name in ("decisions", "steps", "feedback", "repeated", "refused")}
        assert kept == {"decisions": 0, "steps": 0, "feedback": 0, "repeated": 3, "refused": 2}
        assert "rows.jsonl:1" in refusals.read_text()
        assert "rows.jsonl:4" in refusals.read_text()
        after = [list(model.objects.order_by("pk").values()) for model in (Decision, Episode, Step, Feedback)]
        assert after == before

    def test_a_longer_file_still_adds_what_is_new(self, importing, erased, lines):
        new = row(4, unit="bob", episode="Ann's mailbox")
        done = importing(lines(*erased.read_text().splitlines(keepends=True)[:3], new), "--format", "jsonl")
        assert (done.report["decisions"], done.report["refused"]) == (1, 1)
        assert sorted(Episode.objects.values_list("query", flat=True)) == ["", ""]
        assert not Episode.objects.filter(external_id="Ann's mailbox").exists()


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_import_leaves_whole_batches_and_goes_on(importing, lines, agent, monkeypatch):
    """Ctrl-C falls inside the third batch, after its decisions were written."""
    monkeypatch.setattr(running, "MOST_DECISIONS", 30)
    path = lines(*(row(n, feedback=[{"metric": "x", "value": n}], steps=[{"kind": "span"}]) for n in range(50)))
    calls = []

    def interrupt(**given):
        calls.append(1)
        if len(calls) == 3:
            assert Decision.objects.count() == 30  # the batch that is being written, inside its transaction
            raise KeyboardInterrupt
        return steps(**given)

    steps = running.record_steps
    monkeypatch.setattr(running, "record_steps", interrupt)
    stopped = importing(path, "--format", "jsonl")
    assert stopped.code == 130
    assert stopped.report["decisions"] == 20
    assert counts() == {"Decision": 20, "Episode": 0, "Step": 20, "Feedback": 20}
    monkeypatch.setattr(running, "record_steps", steps)
    done = importing(path, "--format", "jsonl")
    assert (done.code, done.report["decisions"]) == (0, 30)
    assert counts() == {"Decision": 50, "Episode": 0, "Step": 50, "Feedback": 50}


MEMORY = """
import os, pathlib, re, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings_test"
import django
django.setup()
from django.core.management import call_command
from django.db import connection
connection.settings_dict["NAME"], *paths = sys.argv[1:]
def peak():
    # Not ru_maxrss: that one is handed down from the parent, which is larger.
    return re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]
for path in paths:
    call_command("import_decisions", path, "--format", "jsonl", "--agent", "filer", "--json")
    sys.stderr.write(f"{peak()}\\n")
"""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_memory_does_not_grow_with_the_file(lines, agent):
    """52 MB, in 5,200 lines, take about as much memory as a fifth of it: what one batch does."""
    from django.db import connection

    text = "some words of a note, and then more of them " * 228
    few = lines(*(row(n, state={"text": f"{text}{n}"}) for n in range(1_000)), name="few.jsonl")
    many = lines(
        *(row(n, state={"text": f"{text}{n}"}, observed_at=f"2025-04-01T12:00:{n % 60:02}Z") for n in range(5_200)),
        name="many.jsonl",
    )
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, connection.settings_dict["NAME"], str(few), str(many)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    small, large = (int(line) / 1024 for line in done.stderr.split()[-2:])
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["decisions"], Decision.objects.count(), Episode.objects.count()) == (5_200, 6_200, 0)
    assert many.stat().st_size > 50 << 20
    assert large - small < 40, f"{small:.0f} MiB for 1,000 lines, {large:.0f} MiB for 5,200"
