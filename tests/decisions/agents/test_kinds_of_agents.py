"""The notes app's agents: what each takes as a state and as an action, how it is asked, and how they are made."""

import json
from io import StringIO

import pytest
from django.core.management import call_command

from decisions.agents.actions import check_schema, make_space
from decisions.agents.kinds import FIVE, KINDS, action_schema, state_schema
from decisions.agents.prompts import PromptError, render_prompt, template_fields
from decisions.agents.services import AgentSetup, create_agent, create_notes_agents
from decisions.models import Agent, Decision
from decisions.notes_app.ledger import agent_of_kind
from tools.factories import WorkspaceFactory
from workspaces.errors import InvalidInput

STATES = {
    "FILER": {"item": {"id": "i1", "title": "Flights to Oslo"}, "availableOpuses": [{"id": "o1", "name": "Travel"}]},
    "LIBRARIAN": {
        "newItem": {"id": "i1", "title": "Flights"},
        "corpus": [{"id": "d1"}, {"id": "d2", "title": "Trips"}],
    },
    "PRIORITIZER": {"todoItems": [{"id": "i1", "title": "Flights"}, {"id": "i2"}], "userContext": {"energy": 0.4}},
    "STORER": {"completedItem": {"id": "i1", "title": "Flights"}, "targetOpus": {"id": "o1", "name": "Travel"}},
    "RETRIEVER": {"query": "When do we fly?", "relevantOpuses": [{"id": "o1"}]},
    "GUARDRAIL": {"content": "Book flights to Oslo."},
}
ACTIONS = {
    "FILER": {"status": "TODO", "swimlane": "PROJECT", "priority": "HIGH", "labels": ["travel"], "confidence": 0.9},
    "LIBRARIAN": {
        "findings": [
            {"type": "RELATED", "relatedIds": ["d2"], "description": "Both are about Oslo."},
            {"type": "SUGGESTION"},
        ]
    },
    "PRIORITIZER": {"recommended_item_id": "i1", "alternatives": [{"item_id": "i2"}], "confidence": 0.8},
    "STORER": {"integrationDecision": "COLD_STORAGE", "confidence": 0.6, "reasoning": "Nothing new."},
    "RETRIEVER": {"generatedContent": "On Friday.", "sourceCitations": ["o1", {"opusId": "o1", "section": "2"}]},
    "GUARDRAIL": "ALLOW",
}
# kind, what is changed in state and action, and the place that is named
REFUSED = [
    ("FILER", {}, {"status": "DONE"}, "action.status"),
    ("FILER", {}, {"swimlane": "LATER"}, "action.swimlane"),
    ("FILER", {}, {"confidence": 1.2}, "action.confidence"),
    ("FILER", {}, {"labels": ["a", 3]}, "action.labels[1]"),
    ("FILER", {}, {"colour": "red"}, "action.colour"),
    ("FILER", {"item": "flights"}, {}, "state.item"),
    (
        "LIBRARIAN",
        {},
        {"findings": [{"type": "RELATED", "relatedIds": ["d2", "d9"]}]},
        "action.findings[0].relatedIds[1]",
    ),
    ("LIBRARIAN", {}, {"findings": [{"type": "OTHER"}]}, "action.findings[0].type"),
    ("PRIORITIZER", {}, {"recommended_item_id": "i9"}, "action.recommended_item_id"),
    ("PRIORITIZER", {}, {"alternatives": [{"item_id": "i9"}]}, "action.alternatives[0].item_id"),
    ("PRIORITIZER", {}, {"alternatives": [{"item_id": "i2"}] * 4}, "action.alternatives"),
    ("PRIORITIZER", {"todoItems": []}, {}, "state.todoItems"),
    ("STORER", {}, {"integrationDecision": "DELETE"}, "action.integrationDecision"),
    ("STORER", {}, {"method": "SHRED"}, "action.method"),
    ("RETRIEVER", {}, {"sourceCitations": ["o9"]}, "action.sourceCitations[0]"),
    ("RETRIEVER", {}, {"sourceCitations": [{"opusId": "o9"}]}, "action.sourceCitations[0].opusId"),
    ("RETRIEVER", {"query": ""}, {}, "state.query"),
    ("GUARDRAIL", {"content": None}, {}, "state.content"),
]


def space(kind):
    setup = KINDS[kind]
    return make_space(setup.action_space, action_schema(setup), state_schema(setup))


class TestKinds:
    @pytest.mark.parametrize("kind", KINDS)
    def test_what_the_kind_s_own_example_says_fits(self, kind):
        assert space(kind).faults(ACTIONS[kind], options=KINDS[kind].options, state=STATES[kind]) == []

    @pytest.mark.parametrize(("kind", "state", "action", "place"), REFUSED)
    def test_what_does_not_fit_is_named_by_its_place(self, kind, state, action, place):
        given = ACTIONS[kind] | action if isinstance(ACTIONS[kind], dict) else ACTIONS[kind]
        faults = space(kind).faults(given, options=KINDS[kind].options, state=STATES[kind] | state)
        assert place in [fault.field for fault in faults], faults

    @pytest.mark.parametrize("kind", [kind for kind in FIVE if kind not in {"STORER", "PRIORITIZER"}])
    def test_a_state_may_hold_more_than_is_named(self, kind):
        assert space(kind).faults(ACTIONS[kind], options=None, state=STATES[kind] | {"extra": {"a": 1}}) == []

    @pytest.mark.parametrize("kind", KINDS)
    def test_schemas_and_templates_are_usable_and_the_state_fills_the_template(self, kind):
        setup = KINDS[kind]
        assert check_schema(state_schema(setup)) is None
        assert check_schema(action_schema(setup) or {}) is None
        prompt = render_prompt(setup.prompt_template, STATES[kind], setup.options or ())
        assert "{{" not in prompt
        assert "none" in prompt  # fields that may be missing are
        first = template_fields(setup.prompt_template)[0]
        with pytest.raises(PromptError, match=first):
            render_prompt(setup.prompt_template, {})

    def test_token_limits_of_the_two_that_were_trained_before(self):
        limits = {kind: (KINDS[kind].max_prompt_tokens, KINDS[kind].max_completion_tokens) for kind in KINDS}
        assert (limits["FILER"], limits["PRIORITIZER"]) == ((512, 128), (1024, 256))


@pytest.mark.django_db
class TestMaking:
    def test_the_five_are_made_once_with_their_kind_s_own_set_up(self, by):
        made = create_notes_agents(by=by)
        assert [(agent.slug, agent.kind) for agent in made] == [(kind.lower(), kind) for kind in FIVE]
        assert {agent.kind: agent.unit for agent in made}["PRIORITIZER"] == "user"
        version = made[2].versions.get()
        assert (version.action_space, version.max_prompt_tokens, version.max_completion_tokens) == (
            "structured",
            1024,
            256,
        )
        assert version.state_schema["required"] == ["todoItems"]
        assert create_notes_agents(by=by) == []
        assert Agent.objects.count() == 5

    def test_an_agent_of_the_kind_that_is_there_stays(self, by, agent):
        assert [made.kind for made in create_notes_agents(by=by)] == list(FIVE[1:])
        assert agent.versions.count() == 1

    def test_the_command_says_what_it_made_and_what_was_there(self, by, workspace, agent):
        out = StringIO()
        call_command("create_notes_agents", "--json", stdout=out)
        assert json.loads(out.getvalue()) == {
            "made": ["librarian", "prioritizer", "storer", "retriever"],
            "agents": {kind: kind.lower() for kind in FIVE},
        }
        out = StringIO()
        call_command("create_notes_agents", "--workspace", workspace.slug, stdout=out)
        assert "FILER: filer (was there)" in out.getvalue()

    def test_a_name_that_another_agent_has_is_left_to_it(self, by):
        setup = AgentSetup(prompt_template="{{ text }}", options=["a", "b"])
        for slug in ("filer", "storer", "notes-storer"):
            create_agent(by=by, slug=slug, name=slug, setup=setup)
        out = StringIO()
        call_command("create_notes_agents", "--json", stdout=out)
        agents = json.loads(out.getvalue())["agents"]
        assert (agents["FILER"], agents["STORER"]) == ("notes-filer", "notes-storer-2")
        assert agent_of_kind(by, "FILER").slug == "notes-filer"
        assert Agent.objects.get(slug="filer").kind == "CUSTOM"

    def test_the_command_refuses_a_workspace_that_is_not_named(self, workspace):
        WorkspaceFactory()
        with pytest.raises(SystemExit, match="2"):
            call_command("create_notes_agents", stderr=StringIO())
        assert not Agent.objects.exists()

    def test_a_kind_without_a_set_up_needs_one(self, by):
        with pytest.raises(InvalidInput):
            create_agent(by=by, slug="own", name="Own", kind="CUSTOM")
        assert not Agent.objects.exists()

    def test_over_the_api_a_kind_is_enough(self, api):
        made = api().post("agents", {"slug": "prio", "name": "Prio", "kind": "PRIORITIZER", "epsilon": 0.1})
        assert made.status_code == 201, made.content
        assert made.json()["unit"] == "user"
        version = Agent.objects.get(slug="prio").versions.get()
        assert (version.epsilon, version.action_space, version.max_prompt_tokens) == (0.1, "structured", 1024)
        refused = api().post("agents", {"slug": "own", "name": "Own"})
        assert (refused.status_code, refused.json()["error"]["fields"][0]["field"]) == (400, "prompt_template")
        assert Agent.objects.count() == 1

    @pytest.mark.parametrize("setup", [{"state_schema": {"type": "nonsense"}}, {"state_schema": {"$ref": "http://x/"}}])
    def test_a_state_schema_that_is_wrong_is_refused(self, by, setup):
        with pytest.raises(InvalidInput) as refused:
            create_agent(by=by, slug="own", name="Own", setup=AgentSetup(prompt_template="x", **setup))
        assert [fault.field for fault in refused.value.faults] == ["state_schema"]
        assert not Agent.objects.exists()


@pytest.mark.django_db
class TestRecording:
    def test_each_kind_s_decision_is_recorded_with_what_it_is_about(self, by, api):
        create_notes_agents(by=by)
        items = [
            {
                "agent": kind.lower(),
                "state": STATES[kind],
                "action": ACTIONS[kind],
                "policy_name": "outside",
                "item_ref": "i1",
                "project_ref": "o1",
                "user_ref": "u1",
                "next_state": {"done": True},
            }
            for kind in FIVE
        ]
        answer = api("decisions:write").post("decisions", items)
        assert answer.status_code == 201, answer.content
        shown = api("export:read").get("decisions?item=i1").json()["results"]
        assert {one["agent"] for one in shown} == {kind.lower() for kind in FIVE}
        assert {(one["item_ref"], one["project_ref"], one["user_ref"]) for one in shown} == {("i1", "o1", "u1")}
        assert shown[0]["next_state"] == {"done": True}
        assert api("export:read").get("decisions?item=i2").json()["results"] == []

    def test_one_bad_item_of_a_batch_is_refused_with_its_place_and_the_others_are_kept(self, by, api):
        create_notes_agents(by=by)
        good = {"agent": "prioritizer", "state": STATES["PRIORITIZER"], "policy_name": "outside"}
        actions = [ACTIONS["PRIORITIZER"], {"recommended_item_id": "i9"}, {"recommended_item_id": "i2"}]
        answer = api("decisions:write").post("decisions", [good | {"action": action} for action in actions])
        assert answer.status_code == 207
        (error,) = answer.json()["errors"]
        assert (error["index"], error["fields"][0]["field"]) == (1, "action.recommended_item_id")
        assert Decision.objects.count() == 2
