"""Pages of agents: read by everyone of the workspace, changed by admins as new versions that were looked at first."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from decisions.agents.kinds import KINDS
from decisions.agents.revising import find_changes, revise_agent, setup_of
from decisions.agents.services import AgentSetup, create_agent, kind_setup, kind_unit
from decisions.agents.trying import start_agent_experiment
from decisions.models import EXPLORING, ActionSpaceKind, Agent, AgentVersion
from decisions.pages.agent_form import AgentForm, write_setup
from decisions.queries.agents import VERSIONS
from models_registry.experiments.plan import ExperimentPlan
from models_registry.models import RegisteredModel
from tools.factories import (
    OPTIONS,
    AgentFactory,
    AgentVersionFactory,
    AliasFactory,
    DecisionFactory,
    ModelVersionFactory,
)
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db


def at(name: str, agent: Any, *more: Any) -> str:
    return reverse(f"pages:{name}", args=[agent.workspace.slug, agent.slug, *more])


def list_of(workspace: Any) -> str:
    return reverse("pages:agents", args=[workspace.slug])


def filled(agent: Any, **changes: Any) -> dict[str, Any]:
    """What a browser posts of the form as it is shown, with changes."""
    newest = agent.versions.order_by("-number").first()
    return {"base": newest.number, "seen": "", **write_setup(setup_of(newest)), **changes}


def rewarded(agent: Any) -> list[str]:
    """The names of its reward's components."""
    return [one["name"] for one in agent.reward_specs.get().components]


def hidden(page: str) -> dict[str, str]:
    """The form's hidden fields."""
    return dict(re.findall(r'<input type="hidden" name="(base|seen)" value="([^"]*)"', page))


class TestReading:
    def test_the_list_says_who_answers_and_how_much_was_decided(
        self, agent: Any, workspace: Any, other_workspace: Any, viewer: Any, page_client: Any
    ) -> None:
        AgentVersionFactory(agent=AgentFactory(workspace=other_workspace, slug="theirs", name="Theirs"))
        champion = ModelVersionFactory(registered_model=agent.registered_model)
        AliasFactory(version=champion)
        DecisionFactory.create_batch(2, agent=agent)
        # An app may have made the id long before the decision.
        last = DecisionFactory(agent=agent, observed_at=timezone.now() + dt.timedelta(hours=1))
        page = page_client(viewer).get(list_of(workspace))
        (line,) = page.context["lines"]
        assert (line.champion, line.activity.shown, line.version.number) == (champion, "3", 1)
        assert line.activity.last == last.observed_at
        text = page.content.decode()
        assert at("agent", agent) in text and str(champion) in text and "Theirs" not in text
        assert "<kbd>a</kbd>" in text  # the sidebar leads here

    def test_the_list_goes_on_after_its_last_agent(
        self, workspace: Any, viewer: Any, page_client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("decisions.queries.agents.AGENTS", 2)
        for number in range(5):
            AgentFactory(workspace=workspace, slug=f"agent-{number}", name=f"Agent {number // 2}")
        client, place, seen = page_client(viewer), list_of(workspace), []
        for _ in range(3):
            page = client.get(place)
            seen.append([line.agent.slug for line in page.context["lines"]])
            place = f"{list_of(workspace)}?after={seen[-1][-1]}"
            assert (place in page.content.decode()) == page.context["more"]
        assert seen == [["agent-0", "agent-1"], ["agent-2", "agent-3"], ["agent-4"]]
        assert client.get(f"{list_of(workspace)}?after=nobody").status_code == 404

    def test_an_empty_list_says_what_to_do(self, workspace: Any, owner: Any, viewer: Any, page_client: Any) -> None:
        new = reverse("pages:agent-new", args=[workspace.slug])
        for person, offered in ((viewer, False), (owner, True)):
            text = page_client(person).get(list_of(workspace)).content.decode()
            assert "No agents yet" in text and (new in text) is offered

    def test_the_statements_do_not_grow_with_agents_versions_or_decisions(
        self, agent: Any, workspace: Any, viewer: Any, page_client: Any, by: Any
    ) -> None:
        client = page_client(viewer)

        def count(path: str) -> int:
            with CaptureQueriesContext(connection) as found:
                assert client.get(path).status_code == 200
            return len(found)

        client.get(list_of(workspace))
        few = count(list_of(workspace)), count(at("agent", agent))
        for number in range(6):
            other = AgentFactory(workspace=workspace, slug=f"agent-{number}")
            AgentVersionFactory.create_batch(2, agent=other)
            DecisionFactory.create_batch(2, agent=other)
            revise_agent(by=by, agent=agent, expected=number + 1, changes={"epsilon": 0.1 + number / 100})
        assert (count(list_of(workspace)), count(at("agent", agent))) == few
        assert max(few) <= 16  # two of them of an agent without a model

    def test_one_agent_shows_its_prompt_options_and_versions_by_whom(
        self, by: Any, viewer: Any, page_client: Any
    ) -> None:
        agent = create_agent(by=by, slug="sorter", name="Sorter", setup=AgentSetup("{{ text }}", options=OPTIONS))
        revise_agent(by=by, agent=agent, expected=1, changes={"prompt_template": "<b>{{ text }}</b>"})
        page = page_client(viewer).get(at("agent", agent))
        text = page.content.decode()
        assert "&lt;b&gt;{{ text }}&lt;/b&gt;" in text and ">travel<" in text
        assert [(line.version.number, line.changed, line.made_by) for line in page.context["lines"]] == [
            (2, ("Prompt",), "system"),
            (1, (), "system"),
        ]
        assert at("agent-edit", agent) not in text  # a viewer's

    @pytest.mark.parametrize(
        ("space", "explores"),
        [("choice", True), ("ranking", True), ("structured", False), ("text", False), ("tool_calls", False)],
    )
    @pytest.mark.quick_cases(2)
    def test_only_agents_with_options_explore(
        self, space: str, explores: bool, workspace: Any, viewer: Any, page_client: Any
    ) -> None:
        agent = AgentFactory(workspace=workspace)
        AgentVersionFactory(agent=agent, action_space=space, options=None)
        page = page_client(viewer).get(at("agent", agent)).content.decode()
        seen = [text in page for text in ("of decisions choose any option", "<dt>Epsilon</dt>", "Exploration</h2>")]
        assert seen == [explores] * 3 and "<dt>Temperature</dt>" in page
        listed = page_client(viewer).get(list_of(workspace)).content.decode()
        assert ('data-label="Epsilon"><div>–' in listed) is not explores

    @pytest.mark.parametrize("space", sorted(ActionSpaceKind))
    @pytest.mark.quick_cases(2)
    def test_only_agents_that_explore_are_asked_for_an_epsilon(
        self, space: str, workspace: Any, owner: Any, page_client: Any
    ) -> None:
        helper = AgentFactory(workspace=workspace, slug="helper")
        AgentVersionFactory(agent=helper, action_space=space, options=None, epsilon=0.125, exploration_budget=7.5)
        client, path = page_client(owner), at("agent-edit", helper)
        text, explores = client.get(path).content.decode(), space in EXPLORING
        assert ("Epsilon" in text, "Exploration" in text, "Sampling" in text) == (explores, explores, True)
        # What is not shown is kept.
        sent = hidden(text) | filled(helper, system_prompt="Be brief.")
        shown = client.post(path, sent).content.decode()
        client.post(path, sent | hidden(shown) | {"make": "1"})
        assert helper.versions.latest("number").exploration_budget == 7.5
        assert helper.versions.latest("number").epsilon == 0.125 and ("Epsilon" in shown) == explores

    def test_versions_are_read_by_cursor(self, agent: Any, viewer: Any, page_client: Any) -> None:
        AgentVersionFactory.create_batch(VERSIONS, agent=agent)
        client = page_client(viewer)
        first = client.get(at("agent", agent))
        assert len(first.context["lines"]) == VERSIONS and first.context["older"] == "before=2"
        second = client.get(f"{at('agent', agent)}?before=2")
        assert [line.version.number for line in second.context["lines"]] == [1] and not second.context["older"]
        assert second.context["current"].number == VERSIONS + 1
        for odd in ("x", "0", "9" * 12):
            assert client.get(f"{at('agent', agent)}?before={odd}").status_code == 400

    def test_a_version_shows_what_it_changed(self, agent: Any, by: Any, viewer: Any, page_client: Any) -> None:
        revise_agent(by=by, agent=agent, expected=1, changes={"prompt_template": "File it.\n{{ text }}"})
        client = page_client(viewer)
        text = client.get(at("agent-version", agent, 2)).content.decode()
        assert "<ins>File it.</ins>" in text and "added</span>" in text and "0 lines removed, 1 added" in text
        first = client.get(at("agent-version", agent, 1)).content.decode()
        assert "The first version" in first and "The current version is" in first
        assert client.get(at("agent-version", agent, 3)).status_code == 404
        assert client.get(at("agent-version", agent, 10**12)).status_code == 404


@pytest.mark.parametrize("name", ["agent", "agent-version", "agent-edit"])
@pytest.mark.quick_cases(1)
def test_pages_of_one_agent_are_for_its_workspace_and_changing_is_for_admins(
    name: str, agent: Any, owner: Any, labeller: Any, viewer: Any, outsider: Any, page_client: Any
) -> None:
    path = at(name, agent, *([1] if name == "agent-version" else []))
    expected = {"owner": 200, "labeller": 200, "viewer": 200, "outsider": 404}
    if name == "agent-edit":
        expected |= {"labeller": 403, "viewer": 403}
    people = {"owner": owner, "labeller": labeller, "viewer": viewer, "outsider": outsider}
    assert {who: page_client(person).get(path).status_code for who, person in people.items()} == expected
    assert page_client().get(path).status_code == 302
    if name == "agent-edit":
        for person in (labeller, viewer, outsider):
            sent = filled(agent, epsilon="0.3") | {"make": "1"}
            assert page_client(person).post(path, sent).status_code == expected.get(person.name.lower(), 404)
        assert agent.versions.count() == 1
    assert page_client(owner).get(path.replace("filer", "nobody")).status_code == 404


class TestChanging:
    @pytest.fixture
    def client(self, owner: Any, page_client: Any) -> Any:
        return page_client(owner)

    def test_what_was_looked_at_is_made(self, agent: Any, owner: Any, client: Any) -> None:
        path = at("agent-edit", agent)
        shown = client.get(path).content.decode()
        assert hidden(shown)["base"] == "1" and "{{ text }}" in shown
        told = {"prompt_template": "File it.\r\n{{ text }}", "system_prompt": "You file.\r\nBe quick."}
        sent = filled(agent, epsilon="0.2", exploration_budget="20", **told)
        preview = client.post(path, sent)
        text = preview.content.decode()
        assert preview.status_code == 200 and "<ins>File it.</ins>" in text and "Create version 2" in text
        assert "<ins>You file.</ins>" in text
        assert agent.versions.count() == 1
        made = client.post(path, sent | hidden(text) | {"make": "1"})
        assert made.status_code == 302 and made["Location"] == at("agent", agent)
        version = agent.versions.get(number=2)
        assert (version.prompt_template, version.epsilon) == ("File it.\n{{ text }}", 0.2)
        assert version.exploration_budget == 20
        assert "gives up at most 20 right decisions of 1,000" in client.get(at("agent", agent)).content.decode()
        assert version.system_prompt == "You file.\nBe quick."
        assert "You file.\nBe quick.</pre>" in client.get(at("agent", agent)).content.decode()
        entry = AuditEntry.objects.filter(action="agent_version.created").latest("id")
        assert (entry.actor, entry.details["changed"]) == (
            owner.email,
            ["prompt_template", "system_prompt", "epsilon", "exploration_budget"],
        )

    def test_a_version_is_kept_without_being_used_and_used_by_none_while_versions_are_compared(
        self, agent: Any, by: Any, client: Any
    ) -> None:
        AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
        path, sent = at("agent-edit", agent), filled(agent, epsilon="0.3")
        sent |= hidden(client.post(path, sent).content.decode())
        kept = client.post(path, sent | {"make": "keep"}, follow=True)
        version = agent.versions.get(number=2)
        assert kept.redirect_chain[-1][0] == at("agent-version", agent, 2)
        assert "Try it in an experiment" in kept.content.decode()
        assert client.get(at("agent", agent)).context["current"].number == 1
        start_agent_experiment(by=by, agent_version=version, plan=ExperimentPlan(), reason="more exploration")
        other = {**sent, "epsilon": "0.4", "seen": ""}
        page = client.post(path, other).content.decode()
        assert "cannot be used before it ends" in page and "Create version 3 without using it" in page
        refused = client.post(path, other | hidden(page) | {"make": "1"})
        assert refused.status_code == 409 and "Stop it first" in refused.content.decode()
        assert agent.versions.count() == 2

    def test_another_version_is_used_and_the_one_before_it_again(
        self, agent: Any, by: Any, owner: Any, client: Any
    ) -> None:
        revise_agent(by=by, agent=agent, expected=1, changes={"epsilon": 0.3}, acts=False)
        for number in (2, 1):
            assert f"Use version {number} of" in client.get(at("agent-version-use", agent, number)).content.decode()
            done = client.post(at("agent-version-use", agent, number), follow=True)
            assert f"{agent.name} uses version {number} now" in done.content.decode()
            assert client.get(at("agent", agent)).context["current"].number == number
        used = AuditEntry.objects.filter(actor=owner.email, action="agent_version.used").order_by("id")
        assert [one.details for one in used] == [
            {"agent": "filer", "number": 2, "before": 1}, {"agent": "filer", "number": 1, "before": 2},
        ]  # fmt: skip

    def test_what_was_changed_after_the_look_is_shown_again_first(self, agent: Any, client: Any) -> None:
        path = at("agent-edit", agent)
        seen = hidden(client.post(path, filled(agent, epsilon="0.2")).content.decode())
        for more in (seen, {"seen": ""}):
            answer = client.post(path, filled(agent, epsilon="0.3") | more | {"make": "1"})
            assert answer.status_code == 200 and "You changed the form after the comparison" in answer.content.decode()
        assert agent.versions.count() == 1

    def test_the_form_as_it_was_makes_no_version(self, agent: Any, client: Any) -> None:
        answer = client.post(at("agent-edit", agent), filled(agent) | {"make": "1"})
        assert answer.status_code == 200 and "Nothing differs from version 1" in answer.content.decode()
        assert agent.versions.count() == 1

    def test_the_second_of_two_is_told_and_loses_nothing(self, agent: Any, by: Any, client: Any) -> None:
        path = at("agent-edit", agent)
        mine = filled(agent, epsilon="0.2", options="finance\ntravel\nhealth\nsports")
        seen = hidden(client.post(path, mine).content.decode())
        theirs = {"prompt_template": "Sort: {{ text }}", "epsilon": 0.4}
        revise_agent(by=by, agent=agent, expected=1, changes=theirs)
        told = client.post(path, mine | seen | {"make": "1"})
        text = told.content.decode()
        assert told.status_code == 409 and agent.versions.count() == 2
        assert "system created version 2 while you were editing version 1" in text
        assert "What version 2 changed" in text and "<ins>Sort: {{ text }}</ins>" in text
        assert "<ins>sports</ins>" in text and "<ins>0.2</ins>" in text and "<del>0.4</del>" in text
        # Pressed again, their prompt stays: only what one changed oneself goes on top of it.
        merged = filled(agent, epsilon="0.2", options="finance\ntravel\nhealth\nsports")
        made = client.post(path, merged | hidden(text) | {"make": "1"})
        assert made.status_code == 302, made.content
        version = agent.versions.get(number=3)
        assert (version.prompt_template, version.epsilon) == ("Sort: {{ text }}", 0.2)
        assert version.options == ["finance", "travel", "health", "sports"]

    @pytest.mark.parametrize(
        ("field", "value", "says"),
        [
            ("prompt_template", "{{ text", "a field is written"),
            ("prompt_template", "", "This field is required"),
            ("options", "alone", "two or more different options"),
            ("options", "a\n" + "b" * 201, "an option has at most 200"),
            ("options", "[1, 2]", "Enter a JSON list of texts"),
            ("temperature", "0", "is not positive"),
            ("epsilon", "1.5", "is out of range"),
            ("exploration_budget", "0", "is out of range"),
            ("action_space", "dance", "Select a valid choice"),
            ("max_prompt_tokens", "1", "greater than or equal to 4"),
            ("state_schema", "[]", "Enter a JSON object"),
            ("state_schema", "{", "Enter valid JSON"),
            ("base", "7", "does not exist"),
        ],
    )
    def test_what_is_not_usable_stands_beside_its_field(
        self, agent: Any, client: Any, field: str, value: str, says: str
    ) -> None:
        answer = client.post(at("agent-edit", agent), filled(agent) | {field: value, "make": "1"})
        assert answer.status_code == 400 and says in answer.content.decode()
        assert agent.versions.count() == 1


class TestCreating:
    @pytest.fixture
    def client(self, owner: Any, page_client: Any) -> Any:
        return page_client(owner)

    @pytest.fixture
    def path(self, workspace: Any) -> str:
        return reverse("pages:agent-new", args=[workspace.slug])

    def shown(self, client: Any, path: str, kind: str = "CUSTOM") -> dict[str, Any]:
        """What a browser posts of the form as it is shown for this kind."""
        return dict(client.get(f"{path}?kind={kind}").context["form"].initial)

    def test_an_agent_with_a_set_up_of_its_own(self, workspace: Any, owner: Any, client: Any, path: str) -> None:
        sent = self.shown(client, path) | {"name": "Mail sorter", "options": "now\nlater", "epsilon": "0.2"}
        made = client.post(path, sent, follow=True)
        agent = Agent.objects.get(workspace=workspace)
        assert made.redirect_chain == [(at("agent", agent), 302)] and "Mail sorter was created" in made.content.decode()
        assert (agent.slug, agent.name, agent.kind, agent.unit) == ("mail-sorter", "Mail sorter", "CUSTOM", "item")
        version = agent.versions.get()
        assert (version.prompt_template, version.options, version.epsilon) == ("{{ text }}", ["now", "later"], 0.2)
        assert rewarded(agent) == ["verdict"]
        assert AuditEntry.objects.get(action="agent.created").actor == owner.email

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.quick_cases(2)
    def test_a_kind_brings_its_set_up_and_unchanged_its_reward(
        self, workspace: Any, by: Any, client: Any, path: str, kind: str
    ) -> None:
        sent = self.shown(client, path, kind)
        assert client.post(path, sent | {"slug": "own"}).status_code == 302
        assert client.post(path, sent | {"slug": "other", "epsilon": "0.5"}).status_code == 302
        own, other = Agent.objects.get(slug="own"), Agent.objects.get(slug="other")
        assert not find_changes(setup_of(own.versions.get()), kind_setup(kind))
        assert (own.kind, own.unit, other.kind, other.unit) == (kind, kind_unit(kind), kind, kind_unit(kind))
        same = create_agent(by=by, slug="same", name="Same", kind=kind, unit=kind_unit(kind))
        assert rewarded(own) == rewarded(same)
        assert rewarded(other) == ["verdict"]

    @pytest.mark.parametrize(
        ("field", "value", "says"),
        [
            ("name", "", "This field is required"),
            ("name", "私", "can be made from this name"),
            ("slug", "a b", "Enter a valid"),
            ("slug", "filer", "is taken"),
            ("unit", "", "This field is required"),
            ("kind", "CHEF", "Select a valid choice"),
            ("prompt_template", "{{ text", "a field is written"),
            ("options", "alone", "two or more different options"),
        ],
    )
    def test_what_is_not_usable_stands_beside_its_field_and_makes_nothing(
        self, agent: Any, client: Any, path: str, field: str, value: str, says: str
    ) -> None:
        sent = self.shown(client, path) | {"name": "Sorter", "options": "a\nb"}
        answer = client.post(path, sent | {field: value})
        assert answer.status_code == 400 and says in answer.content.decode()
        assert [one.slug for one in Agent.objects.all()] == ["filer"] and RegisteredModel.objects.count() == 1
        assert client.post(path, sent).status_code == 302

    @pytest.mark.parametrize(
        ("space", "template"),
        [("text", "{{ input }}"), ("tool_calls", "{{ input }}"), ("choice", "{{ text }}")],
    )
    def test_an_empty_prompt_is_that_of_the_action_space(
        self, client: Any, path: str, space: str, template: str
    ) -> None:
        sent = self.shown(client, path) | {"name": "Sorter", "options": "a\nb", "action_space": space}
        assert sent["prompt_template"] == "" and client.post(path, sent).status_code == 302
        assert AgentVersion.objects.get().prompt_template == template

    def test_an_agent_called_new_has_its_page(self, by: Any, client: Any, path: str) -> None:
        made = create_agent(by=by, slug="new", name="Newest", setup=AgentSetup("{{ text }}"))
        assert "<h1" in client.get(at("agent", made)).content.decode()
        assert client.get(at("agent", made)).context["agent"] == made
        assert "agent" not in client.get(path).context


@pytest.mark.parametrize("options", [None, ["a", "b"], ["[odd", "b"], ["two\nlines", "b"], [" a", "b "]])
def test_what_the_form_shows_of_a_version_reads_back_as_the_same(options: Any) -> None:
    setup = setup_of(
        AgentVersion(
            prompt_template="\n a\r\nb ",
            system_prompt=" c\r\nd\n",
            options=options,
            action_schema={"type": "object"},
            temperature=0.5,
            epsilon=0.1,
        )
    )
    form = AgentForm({"base": 1, **write_setup(setup)})
    assert form.is_valid(), form.errors
    assert form.read_setup(setup) == setup
