"""Reward specs: what is refused, what is a change, who is told of another's change, and what a new one starts."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.db import DatabaseError, transaction

from decisions.agents.services import create_agent
from decisions.errors import InvalidRewardSpec, OutdatedVersion
from decisions.models import Reward, RewardSpec
from decisions.rewards.components import COMPONENTS
from decisions.rewards.components.defaults import PRESETS, TRACES
from decisions.rewards.pending import calculate_pending
from decisions.rewards.queueing import CALCULATE_REWARDS, request_calculation
from decisions.rewards.revising import rebase_content, revise_reward_spec
from decisions.rewards.spec_content import (
    ComponentSetup,
    SpecContent,
    compare_contents,
    complete,
    editable_content,
    find_component,
    plain_content,
    preset_content,
    read_content,
)
from decisions.rewards.specs import content_of, create_reward_spec, current_reward_spec, find_specs
from jobs.models import Job
from jobs.runner import run_job
from tools.factories import DecisionFactory, FeedbackFactory
from workspaces.errors import InvalidInput
from workspaces.http.yaml_text import MOST_BYTES, read_yaml, write_yaml
from workspaces.models import AuditEntry

VERDICT = {"components": [{"name": "verdict"}]}


def faults_of(told: Any) -> dict[str, str]:
    with pytest.raises(InvalidRewardSpec) as refused:
        read_content(told)
    return {fault.field: fault.expected for fault in refused.value.faults}


class TestContent:
    def test_every_fault_is_told_at_once_with_what_would_be_right(self) -> None:
        told = {
            "components": [
                {"name": "verdict", "weight": "much", "parametres": {}},
                {"name": "filer.time", "weight": 1e-9, "parameters": {"quick": True, "fast": 1}, "window_days": 0},
                {"name": "verdict", "missing": 0.5},
                "calibration",
                {"name": "matches_answer"},
                {"weight": 1},
                {"name": "calibration", "window_days": 7, "missing": 3},
            ],
            "clamp": -1,
            "low": 2,
            "credit": "fair",
            "discount": 0,
            "colour": "red",
        }
        found = faults_of(told)
        assert set(found) == {
            "components[0].weight",
            "components[0].parametres",
            "components[1].weight",
            "components[1].parameters.quick",
            "components[1].parameters.fast",
            "components[1].window_days",
            "components[2].name",
            "components[2].missing",
            "components[3]",
            "components[4].name",
            "components[5].name",
            "components[6].missing",
            "clamp",
            "high",
            "credit",
            "discount",
            "colour",
        }
        assert all(found.values())
        assert found["components[6].missing"] == "-1 to 0"
        assert found["credit"] == "equal, return_to_go, last_step, leave_one_out"

    @pytest.mark.parametrize(
        ("more", "field"),
        [
            ({"signal": "calibration"}, "signal"),
            ({"training_low": 2.0, "training_high": 1.0}, "training_high"),
            ({"training_low": 1e9}, "training_low"),
        ],
    )
    def test_what_training_reads_must_make_sense(self, more: dict[str, Any], field: str) -> None:
        assert set(faults_of(VERDICT | more)) == {field}

    @pytest.mark.parametrize("told", [None, [], "verdict", {}, {"components": {}}, {"components": []}])
    def test_what_holds_no_components_is_no_spec(self, told: Any) -> None:
        assert set(faults_of(told)) == {"components"}

    def test_what_is_left_out_is_kept_with_the_spec(self) -> None:
        full = complete(read_content({"components": [{"name": "filer.time"}, {"name": "verdict", "weight": 2}]}))
        table = COMPONENTS["filer.time"]
        assert full.components[0] == ComponentSetup(
            "filer.time", 1.0, table.parameters, table.window_days, table.missing
        )
        assert (full.signal, full.training_low, full.training_high) == ("verdict", -1.0, 2.5)
        assert read_content(plain_content(full)) == full == complete(read_content(editable_content(full)))

    @pytest.mark.parametrize("preset", [*PRESETS.values(), TRACES], ids=[*PRESETS, "traces"])
    def test_a_preset_survives_json_and_yaml(self, preset: Any) -> None:
        full = preset_content(preset)
        assert complete(read_content(read_yaml(write_yaml(editable_content(full))))) == full
        assert complete(read_content(json.loads(json.dumps(plain_content(full))))) == full

    def test_a_rule_survives_json_and_yaml_and_its_faults_are_told(self) -> None:
        rule = {"text": "1 if measures.clicks > 3 else 0", "low": 0, "high": 1}
        full = complete(read_content({"components": [{"name": "rule.clicks", "rule": rule}]}))
        assert complete(read_content(read_yaml(write_yaml(editable_content(full))))) == full
        other = complete(read_content({"components": [{"name": "rule.clicks", "rule": rule | {"high": 2}}]}))
        assert "components.rule.clicks.rule.high" in [change.field for change in compare_contents(full, other)]
        faulty = [{"name": "rule.a", "rule": rule | {"text": "x("}}, {"name": "rule.b", "rule": {"text": "1"}}]
        assert set(faults_of({"components": faulty})) == {
            "components[0].rule",
            "components[1].rule",
            "components[1].name",
        }

    def test_changes_are_told_by_field_and_order_is_none(self) -> None:
        old = complete(read_content({"components": [{"name": "verdict"}, {"name": "calibration"}]}))
        assert compare_contents(old, complete(SpecContent(tuple(reversed(old.components))))) == []
        told = {"components": [{"name": "verdict", "weight": 2}, {"name": "filer.time"}], "clamp": 3}
        changes = compare_contents(old, complete(read_content(told)))
        found = {change.field: (change.before, change.after) for change in changes}
        assert found["components.verdict.weight"] == (1.0, 2.0) and found["clamp"] == (5.0, 3.0)
        assert found["components.calibration"][1] is None and found["components.filer.time"][0] is None
        assert {change.part for change in changes} >= {"components.verdict", "components.filer.time", "clamp"}

    def test_of_two_changes_both_stay(self) -> None:
        base = complete(read_content({"components": [{"name": "verdict"}, {"name": "calibration"}]}))
        mine = complete(read_content({"components": [{"name": "verdict", "weight": 3}], "signal": "verdict"}))
        theirs = {"components": [{"name": "verdict"}, {"name": "calibration"}, {"name": "filer.time"}], "clamp": 4}
        merged = rebase_content(base=base, mine=mine, newest=complete(read_content(theirs)))
        assert [(one.name, one.weight) for one in merged.components] == [("verdict", 3.0), ("filer.time", 1.0)]
        assert merged.clamp == 4


class TestYaml:
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("a: &x [1]\nb: *x", "line 2, column 4: aliases are not allowed"),
            ("a: 1\na: 2", "line 2, column 1: a appears twice"),
            ("[" * 3000, "line 1, column 34: it is nested deeper than 32 levels"),
            ("a: !!python/object:os.system x", "could not determine a constructor"),
            ('a: "\\0"', "NUL"),
            ('a: "\\ud800"', "surrogates"),
            ("a: 99999999999999999999999", "64 bits"),
            ("~: 1", "not valid YAML"),
        ],
        ids=["alias", "twice", "deep", "object", "nul", "surrogate", "integer", "null"],
    )
    def test_what_json_cannot_hold_is_refused(self, text: str, says: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            read_yaml(text)
        assert says in refused.value.message

    def test_numbers_are_those_of_yaml_1_2(self) -> None:
        assert read_yaml("a: 1e-3\nb: [1, .5, -3e2]\nc: 1") == {"a": 0.001, "b": [1, 0.5, -300.0], "c": 1}


@pytest.mark.django_db
class TestRevising:
    def test_a_change_is_the_next_version_and_its_rewards_are_calculated(self, agent: Any, by: Any) -> None:
        FeedbackFactory(decision=DecisionFactory(agent=agent))
        waiting = request_calculation(by=by)  # it may have passed the agent before the change
        made = revise_reward_spec(
            by=by, agent=agent, expected=1, content=SpecContent((ComponentSetup("verdict", 2.0),))
        )
        assert made.spec.number == 2 and made.spec == current_reward_spec(agent)
        assert made.calculation is not None and made.calculation != waiting
        assert made.calculation.payload == {"requested_by": "system", "agent_id": str(agent.id)}
        entry = AuditEntry.objects.filter(action="reward_spec.created").latest("id")
        changed = ["components.verdict.weight", "training_low", "training_high"]
        assert entry.details == {"agent": "filer", "number": 2, "changed": changed}
        run_job(made.calculation.id)
        assert Reward.objects.get(spec=made.spec).raw == 2.0
        assert request_calculation(by=by) == waiting  # one agent's is not the workspace's

    def test_the_same_content_makes_no_version_and_no_job(self, agent: Any, by: Any) -> None:
        same = content_of(current_reward_spec(agent))
        made = revise_reward_spec(by=by, agent=agent, expected=1, content=same)
        assert (made.spec.number, made.changes, made.calculation) == (1, (), None)
        assert agent.reward_specs.count() == 1 and not Job.objects.exists()

    def test_what_is_not_usable_or_outdated_changes_nothing(self, agent: Any, by: Any) -> None:
        for expected, content, error in (
            (1, SpecContent((ComponentSetup("nonsense"),)), InvalidRewardSpec),
            (1, SpecContent(()), InvalidRewardSpec),
            (2, SpecContent((ComponentSetup("verdict", 2.0),)), OutdatedVersion),
        ):
            with pytest.raises(error):
                revise_reward_spec(by=by, agent=agent, expected=expected, content=content)
        assert agent.reward_specs.count() == 1 and not Job.objects.exists()

    def test_a_spec_never_changes(self, agent: Any) -> None:
        spec = current_reward_spec(agent)
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            RewardSpec.objects.filter(id=spec.id).update(clamp=1.0)
        assert current_reward_spec(agent).clamp == spec.clamp

    def test_one_of_an_earlier_release_is_complete(self, agent: Any) -> None:
        spec = RewardSpec(components=[{"name": "calibration", "weight": 0.5, "parameters": {}}], signal="")
        (one,) = content_of(spec).components
        assert (one.window_days, one.missing, one.parameters) == (None, None, {})
        gone = RewardSpec(components=[{"name": "gone.by", "weight": 0.5, "parameters": {}}])
        assert content_of(gone).names == ["gone.by"] and find_component("gone.by") is None


@pytest.mark.django_db(transaction=True)
def test_of_changes_at_once_one_is_made(agent: Any, by: Any, at_once: Any) -> None:
    content = SpecContent((ComponentSetup("verdict", 2.0),))

    def change() -> str:
        try:
            return str(revise_reward_spec(by=by, agent=agent, expected=1, content=content).spec.number)
        except OutdatedVersion as error:
            return error.code

    assert sorted(at_once(4, change)) == ["2"] + ["outdated_version"] * 3
    assert Job.objects.filter(kind=CALCULATE_REWARDS).count() == 1


@pytest.mark.django_db
class TestOverTheApi:
    def test_the_table_of_components(self, api: Any) -> None:
        rows = {row["name"]: row for row in api("export:read").get("reward-components").json()["results"]}
        assert set(rows) == {name for name in COMPONENTS if find_component(name)} and "matches_answer" not in rows
        assert rows["verdict"]["says_right"] and not rows["calibration"]["says_right"]
        assert rows["filer.time"]["parameters"]["quick_ratio"] == 1.2 and rows["filer.time"]["window_days"] == 30
        assert rows["filer.opportunity_cost"]["proxy"] and rows["trace.syntax"]["scope"] == "episode"

    def test_a_version_is_made_in_json_and_in_yaml_and_compared(self, api: Any, agent: Any) -> None:
        client = api()
        first = client.get("agents/filer/reward-specs/1")
        assert first.status_code == 200 and first.headers["ETag"] == '"1"' and first.json()["changes"] is None
        # What was answered and is sent back is no change.
        same = client.post("agents/filer/reward-specs", first.json() | {"expected_number": 1})
        assert (same.status_code, same.json()["number"], same.json()["calculation"]) == (200, 1, None)
        told = {"components": [{"name": "verdict"}, {"name": "filer.time", "parameters": {"quick": 1}}]}
        made = client.post("agents/filer/reward-specs", told | {"expected_number": 1})
        assert made.status_code == 201 and made.headers["ETag"] == '"2"', made.content
        assert made.json()["calculation"]["state"] == "queued"
        text = client.get("agents/filer/reward-specs/2?against=1", Accept="application/yaml")
        assert text.headers["Content-Type"].startswith("application/yaml")
        read = yaml.safe_load(text.content)
        assert [one["field"] for one in read["changes"]] == ["components.filer.time", "training_high"]
        assert read["components"][1]["parameters"]["quick"] == 1.0
        edited = write_yaml(read | {"components": read["components"][:1]}).encode()
        third = client.request(
            "POST", "agents/filer/reward-specs", edited, media="application/yaml", **{"If-Match": '"2"'}
        )
        assert third.status_code == 201 and third.json()["number"] == 3, third.content
        listed = client.get("agents/filer/reward-specs?limit=2").json()
        assert [spec["number"] for spec in listed["results"]] == [3, 2] and listed["next"]
        assert agent.reward_specs.count() == 3

    @pytest.mark.parametrize(
        ("body", "headers", "status", "fields"),
        [
            ({"components": [{"name": "x"}], "clamp": 0}, {}, 400, {"components[0].name", "clamp", "expected_number"}),
            (VERDICT | {"expected_number": "1"}, {}, 400, {"expected_number"}),
            (VERDICT | {"expected_number": 1}, {"If-Match": '"2"'}, 400, {"If-Match"}),
            ([], {"If-Match": '"1"'}, 400, {"components"}),
            (VERDICT | {"expected_number": 7}, {}, 409, {"expected_number"}),
        ],
        ids=["several", "text", "header", "list", "outdated"],
    )
    def test_what_is_not_usable_is_named_and_nothing_changes(
        self, api: Any, agent: Any, body: Any, headers: Any, status: int, fields: set[str]
    ) -> None:
        for place in ("reward-specs", "reward-drafts"):
            answer = api().request("POST", f"agents/filer/{place}", body, **headers)
            assert answer.status_code == status, answer.content
            assert {fault["field"] for fault in answer.json()["error"]["fields"]} == fields
        assert agent.reward_specs.count() == 1 and not agent.reward_drafts.exists() and not Job.objects.exists()

    @pytest.mark.parametrize("path", ["/9", "/99999999999", "/1?against=9", "/1?against=x"])
    def test_a_version_that_is_not_there(self, api: Any, agent: Any, path: str) -> None:
        answer = api().get(f"agents/filer/reward-specs{path}")
        assert answer.status_code == (400 if "against" in path else 404)

    def test_yaml_that_is_none_is_told_with_its_line(self, api: Any, agent: Any) -> None:
        answer = api().request("POST", "agents/filer/reward-specs", b"a: [", media="application/yaml")
        assert answer.status_code == 400 and "line 1" in answer.json()["error"]["message"]
        answer = api().request("POST", "agents/filer/reward-specs", b"#" * (MOST_BYTES + 1), media="application/yaml")
        assert answer.status_code == 413
        assert agent.reward_specs.count() == 1


@pytest.mark.django_db
class TestCommand:
    def call(self, *arguments: str) -> tuple[int, str]:
        out, err = StringIO(), StringIO()
        try:
            call_command("reward_specs", *arguments, stdout=out, stderr=err)
        except SystemExit as end:
            return int(end.code or 0), out.getvalue() + err.getvalue()
        return 0, out.getvalue()

    def test_a_spec_goes_out_as_yaml_and_comes_back_changed(self, agent: Any, tmp_path: Path) -> None:
        code, text = self.call("show", "filer")
        assert code == 0 and text.startswith("# Reward spec 1 of filer")
        file = tmp_path / "rewards.yaml"
        file.write_text(text)
        assert self.call("set", "filer", str(file)) == (1, "Nothing differs from version 1.\n")
        file.write_text(text.replace("weight: 1.0", "weight: 1.5"))
        code, told = self.call("set", "filer", str(file), "--json")
        assert code == 0 and json.loads(told)["number"] == 2
        assert json.loads(told)["changed"][0] == "components.verdict.weight"
        assert Job.objects.filter(kind=CALCULATE_REWARDS).count() == 1
        code, shown = self.call("diff", "filer", "1", "2")
        assert code == 0 and "- weight: 1.0" in shown and "+ weight: 1.5" in shown
        assert self.call("diff", "filer", "2")[0] == 1
        rows = json.loads(self.call("list", "filer", "--json")[1])["specs"]
        assert [(row["number"], "verdict" in row["changed"]) for row in rows] == [(2, True), (1, False)]

    def test_a_default_that_changed_changes_no_stored_reward_until_it_is_taken(self, by: Any) -> None:
        """The spec of an agent that an earlier release made: OVERRIDDEN costs 0.5."""
        agent = create_agent(by=by, slug="prioritizer", name="Prioritizer", kind="PRIORITIZER")
        today = content_of(current_reward_spec(agent))
        earlier = tuple(
            replace(one, parameters={**one.parameters, "overridden": -0.5})
            if one.name == "prioritizer.acceptance"
            else one
            for one in today.components
        )
        create_reward_spec(by=by, agent=agent, content=replace(today, components=earlier))
        decision = DecisionFactory(agent=agent)
        FeedbackFactory(decision=decision, value="overridden")
        for _ in range(2):
            calculate_pending(find_specs(by.workspace))
            [before] = Reward.objects.filter(decision=decision)
            assert (before.spec.number, before.components["prioritizer.acceptance"]) == (2, {"value": -0.5})

        place = "components.prioritizer.acceptance.parameters.overridden"
        code, told = self.call("diff", "prioritizer", "default", "--json")
        assert (code, json.loads(told)["changes"]) == (0, [{"field": place, "before": -0.8, "after": -0.5}])
        assert self.call("show", "prioritizer", "default")[1].startswith("# Default of a PRIORITIZER\n")
        assert json.loads(self.call("set", "prioritizer", "default", "--json")[1]) == {"number": 3, "changed": [place]}
        assert Job.objects.filter(kind=CALCULATE_REWARDS).count() == 1
        run_job(Job.objects.get(kind=CALCULATE_REWARDS).id)
        after = Reward.objects.get(spec=current_reward_spec(agent))
        assert (after.raw, after.components["prioritizer.acceptance"]) == (-0.8, {"value": -0.8})
        assert self.call("set", "prioritizer", "default") == (1, "Nothing differs from version 3.\n")
        assert self.call("diff", "prioritizer", "default")[0] == 1

    def test_what_is_not_usable_is_named_and_nothing_changes(self, agent: Any, tmp_path: Path) -> None:
        file = tmp_path / "rewards.yaml"
        file.write_text("components: [{name: x}]\nclamp: 0")
        code, told = self.call("set", "filer", str(file))
        assert code == 2 and "components[0].name: 'x' is unknown" in told and "clamp: 0" in told
        file.write_text("components: [{name: verdict, weight: 2}]")
        for arguments in (
            ("set", "filer", str(file), "--expected", "2"),
            ("set", "filer", str(tmp_path / "none.yaml")),
            ("set", "filer"),
            ("show", "filer", "9"),
            ("show", "nobody"),
        ):
            assert self.call(*arguments)[0] == 2, arguments
        assert agent.reward_specs.count() == 1
