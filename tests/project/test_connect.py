"""Connecting an app: the key's form, who may, and the programs, each of them run against a live server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse
from django.utils import timezone

from decisions.agents.actions import make_space
from decisions.agents.current import find_current_version
from decisions.agents.services import create_notes_agents
from decisions.models import Agent, Decision, Feedback
from models_registry.backends.outbound import close_clients
from models_registry.versions.services import NewVersion, register_version, store_artifact
from project.pages.connect import (
    Connection,
    NewAgent,
    connect_app,
    example_item,
    example_state,
    find_gateway,
    write_snippets,
)
from tests.node import fetch_package
from tools.factories import (
    OPTIONS,
    AgentFactory,
    AgentVersionFactory,
    AliasFactory,
    ApiKeyFactory,
    BackendFactory,
    CallFactory,
    DecisionFactory,
    ModelVersionFactory,
)
from tools.model_server import running_model_server
from workspaces.access.services import find_key
from workspaces.errors import InvalidInput
from workspaces.models import ApiKey, AuditEntry

EVERY = ("route:read", "decisions:write", "feedback:write", "export:read")
FORM = {
    "name": "notes-app",
    "scopes": list(EVERY),
    "agent": "",
    "slug": "sorter",
    "kind": "CUSTOM",
    "options": "a\nb\n",
}


@pytest.fixture
def page(workspace: Any) -> str:
    return reverse("pages:connect", args=[workspace.slug])


@pytest.fixture
def make(workspace: Any) -> str:
    return reverse("pages:key-make", args=[workspace.slug])


def token_of(answer: Any) -> str:
    return str(answer.context["made"].made.token)


class TestTheForm:
    def test_it_makes_an_agent_and_a_key_and_shows_the_secret_once(
        self, admin: Any, page: str, make: str, page_client: Any, workspace: Any
    ) -> None:
        client = page_client(admin)
        sent = client.post(make, FORM)
        assert sent.status_code == 302 and not sent.content
        answer = client.get(sent["Location"])
        text = answer.content.decode()
        token = token_of(answer)
        assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
        assert text.count(token) == 4  # by itself, and in each program
        key = find_key(token)
        assert key is not None and (key.name, key.scopes, key.workspace) == ("notes-app", sorted(EVERY), workspace)
        agent = Agent.objects.get(workspace=workspace)
        assert (agent.slug, agent.versions.get().options) == ("sorter", ["a", "b"])
        assert token not in client.get(page).content.decode()
        again = client.get(sent["Location"], follow=True)  # a reload: no second key, and no secret any more
        assert "was already shown" in again.content.decode() and token not in again.content.decode()
        assert ApiKey.objects.count() == 1 and token.partition(".")[2] not in str(list(Session.objects.values()))
        assert AuditEntry.objects.filter(action="api_key.created", actor=admin.email).exists()

    def test_it_leads_to_where_an_agent_that_chats_is_made(self, admin: Any, workspace: Any, page_client: Any) -> None:
        content = page_client(admin).get(reverse("pages:connect", args=[workspace.slug])).content.decode()
        assert f'<a href="{reverse("pages:agent-new", args=[workspace.slug])}">Agents, New agent</a>' in content

    def test_an_agent_that_is_there_is_taken(self, admin: Any, agent: Any, make: str, page_client: Any) -> None:
        answer = page_client(admin).post(make, {**FORM, "agent": agent.slug}, follow=True)
        assert answer.status_code == 200 and Agent.objects.count() == 1
        assert answer.context["made"].agent == agent and not answer.context["made"].lacking

    @pytest.mark.parametrize(
        "change, fault",
        [
            ({"name": "  "}, "name"),
            ({"name": "n" * 201}, "name"),
            ({"scopes": []}, "scopes"),
            ({"scopes": ["root"]}, "scopes"),
            ({"slug": "Not a slug"}, "slug"),
            ({"slug": ""}, "slug"),
            ({"options": "only one"}, "options"),
            ({"options": "a\na"}, "options"),
            ({"kind": "KING"}, "kind"),
            ({"agent": "theirs"}, "agent"),
        ],
    )
    @pytest.mark.quick_cases(3)
    def test_a_fault_comes_back_in_the_filled_form_and_makes_nothing(
        self, admin: Any, make: str, page_client: Any, other_workspace: Any, change: dict[str, Any], fault: str
    ) -> None:
        AgentFactory(workspace=other_workspace, slug="theirs")
        answer = page_client(admin).post(make, {**FORM, **change})
        assert answer.status_code == 400 and fault in answer.context["faults"]
        assert answer.context["given"]["kind"] == {**FORM, **change}["kind"]
        assert ApiKey.objects.count() == 0 and Agent.objects.count() == 1

    def test_all_faults_are_listed_above_the_form_and_lead_to_their_fields(
        self, admin: Any, make: str, page_client: Any
    ) -> None:
        answer = page_client(admin).post(make, {**FORM, "name": "", "scopes": [], "slug": "No slug", "options": "one"})
        assert set(answer.context["faults"]) == {"name", "scopes", "slug", "options"}
        summary = answer.content.decode().partition('id="faults"')[2].partition("</div>")[0]
        places = ("key-name", "key-scopes", "agent-slug", "agent-options")
        assert all(f'href="#{place}"' in summary for place in places)
        assert ApiKey.objects.count() == 0 and Agent.objects.count() == 0

    def test_what_the_programs_need_and_the_key_lacks_is_said(self, admin: Any, make: str, page_client: Any) -> None:
        answer = page_client(admin).post(make, {**FORM, "scopes": ["route:read"]}, follow=True)
        assert answer.context["made"].lacking == ("decisions:write", "feedback:write")
        assert "decisions:write and feedback:write" in answer.content.decode()

    def test_text_of_the_form_is_only_text(self, admin: Any, make: str, page_client: Any) -> None:
        form = {**FORM, "name": "<script>alert(1)</script>", "options": "<b>a</b>\nb"}
        text = page_client(admin).post(make, form, follow=True).content.decode()
        assert "<script>alert" not in text and "<b>a</b>" not in text


class TestLimits:
    def test_are_set_with_the_key_and_changed_on_its_page_beside_what_it_used(
        self, admin: Any, make: str, page_client: Any, agent: Any, api: Any
    ) -> None:
        client = page_client(admin)
        client.post(make, {**FORM, "agent": agent.slug, "spend_a_day": "2.5", "agents": [agent.slug]})
        key = ApiKey.objects.get()
        assert (key.spend_a_day, key.agents, key.requests_a_minute) == (Decimal("2.5"), [agent.slug], None)
        version = ModelVersionFactory(registered_model=agent.registered_model)
        facts = {"api_key": key, "state": "answered", "served": version, "closed_at": timezone.now()}
        for cost in (Decimal("0.25"), Decimal("0.5"), None):
            CallFactory(assigned=version, cost=cost, **facts)
        page = reverse("pages:key-limits", args=[agent.workspace.slug, key.pk])
        text = " ".join(re.sub("<[^>]+>", " ", client.get(page).content.decode()).split())
        assert "Spent today 0.75 of 2.50" in text
        assert "Calls today 3 1 without a known cost, counted at what they reserved" in text
        assert "Reserved by open calls 0" in text
        use = api("admin").get(f"keys/{key.pk}/use").json()
        shown = {"calls": 3, "spent": "0.75000000", "reserved": "0.00000000", "unpriced": 1, "requests": 0}
        assert use | {"requests": 0} == shown
        assert client.post(page, {"requests_a_minute": "60"}).status_code == 302
        key.refresh_from_db()
        assert (key.spend_a_day, key.agents, key.requests_a_minute) == (None, [], 60)
        entry = AuditEntry.objects.get(action="api_key.limits_changed")
        assert (entry.actor, set(entry.details)) == (admin.email, {"spend_a_day", "agents", "requests_a_minute"})

    @pytest.mark.parametrize(
        ("counted", "says"),
        [(300, "at most 300 of 30,000"), (0, "0 of 30,000"), (None, "unknown of 30,000")],
    )
    def test_requests_are_shown_as_what_they_are_at_most(
        self, admin: Any, page_client: Any, api: Any, settings: Any, monkeypatch: Any, counted: int | None, says: str
    ) -> None:
        """A process takes them in steps of a hundredth of the limit."""
        settings.KEY_REQUESTS_A_MINUTE = 30_000
        monkeypatch.setattr("project.pages.keys.count_this_minute", lambda actor: counted)
        api("admin")
        key = ApiKey.objects.get()
        content = page_client(admin).get(reverse("pages:key-limits", args=[key.workspace.slug, key.pk])).content
        text = " ".join(re.sub("<[^>]+>", " ", content.decode()).split())
        assert f"Requests this minute {says}" in text

    @pytest.mark.parametrize("given", [{"spend_a_day": "-1"}, {"requests_a_minute": "x"}, {"agents": ["nobody"]}])
    def test_that_cannot_be_come_back_in_the_filled_form_and_change_nothing(
        self, admin: Any, make: str, page_client: Any, agent: Any, given: dict[str, Any]
    ) -> None:
        client, key = page_client(admin), ApiKeyFactory(workspace=agent.workspace, spend_a_day=3)
        answer = client.post(reverse("pages:key-limits", args=[agent.workspace.slug, key.pk]), given)
        assert answer.status_code == 400 and set(answer.context["form"].errors) == set(given)
        made = client.post(make, {**FORM, "agent": agent.slug, **given})
        assert made.status_code == 400 and set(made.context["limits"].errors) == set(given)
        key.refresh_from_db()
        assert (key.spend_a_day, ApiKey.objects.count()) == (3, 1)


class TestWhoMay:
    @pytest.mark.parametrize("role", ["viewer", "labeller"])
    def test_others_read_the_programs_and_see_no_key_and_no_form(
        self, role: str, request: Any, page: str, page_client: Any, agent: Any
    ) -> None:
        ApiKeyFactory(workspace=agent.workspace, name="hidden-app")
        text = page_client(request.getfixturevalue(role)).get(page).content.decode()
        assert "YOUR-KEY" in text and "hidden-app" not in text and "Create key" not in text

    @pytest.mark.parametrize("role, status", [("viewer", 403), ("labeller", 403), ("outsider", 404)])
    def test_only_an_admin_makes_and_revokes(
        self, role: str, status: int, request: Any, make: str, page_client: Any, workspace: Any
    ) -> None:
        key = ApiKeyFactory(workspace=workspace)
        client = page_client(request.getfixturevalue(role))
        revoke = reverse("pages:key-revoke", args=[workspace.slug, key.pk])
        arrival = reverse("pages:key-arrival", args=[workspace.slug, key.pk])
        assert client.post(make, FORM).status_code == status
        assert client.post(revoke).status_code == status
        assert client.get(arrival).status_code == status
        assert client.get(reverse("pages:key-made", args=[workspace.slug, key.pk])).status_code == status
        key.refresh_from_db()
        assert ApiKey.objects.count() == 1 and key.revoked_at is None and Agent.objects.count() == 0

    def test_a_key_of_another_workspace_is_not_there(
        self, admin: Any, other_workspace: Any, workspace: Any, page_client: Any
    ) -> None:
        key = ApiKeyFactory(workspace=other_workspace)
        client = page_client(admin)
        for given in ({}, {"confirmed": "1"}):
            assert client.post(reverse("pages:key-revoke", args=[workspace.slug, key.pk]), given).status_code == 404
        assert client.get(reverse("pages:key-made", args=[workspace.slug, key.pk])).status_code == 404
        assert client.get(reverse("pages:key-arrival", args=[workspace.slug, key.pk])).status_code == 404
        key.refresh_from_db()
        assert key.revoked_at is None

    def test_making_takes_a_post(self, admin: Any, make: str, page_client: Any) -> None:
        assert page_client(admin).get(make).status_code == 405


def test_revoking_closes_the_door(admin: Any, make: str, page_client: Any, workspace: Any) -> None:
    client = page_client(admin)
    token = token_of(client.post(make, FORM, follow=True))
    key = ApiKey.objects.get()
    path = reverse("pages:key-revoke", args=[workspace.slug, key.pk])
    asked = client.post(path)
    assert "Revoke notes-app?" in asked.content.decode() and find_key(token) is not None
    answer = client.post(path, {"confirmed": "1"}, follow=True)
    assert answer.status_code == 200 and "is revoked" in answer.content.decode()
    assert find_key(token) is None
    arrival = client.get(reverse("pages:key-arrival", args=[workspace.slug, key.pk]))
    assert arrival.status_code == 286 and "hx-trigger" not in arrival.content.decode()


def test_the_line_waits_for_a_decision_after_the_key(
    admin: Any, make: str, page_client: Any, workspace: Any, api: Any
) -> None:
    client = page_client(admin)
    assert client.post(make, FORM).status_code == 302
    key = ApiKey.objects.get()
    DecisionFactory(agent=Agent.objects.get(), recorded_at=key.created_at.replace(year=2020))  # it was there before
    path = reverse("pages:key-arrival", args=[workspace.slug, key.pk])
    waiting = client.get(path)
    assert waiting.status_code == 200 and "Waiting for your first decision" in waiting.content.decode()
    ApiKey.objects.filter(pk=key.pk).update(last_used_at=key.created_at)
    assert "The key was used at" in client.get(path).content.decode()
    item = {"agent": "sorter", "state": {"text": "x"}, "action": "a", "policy_name": "own"}
    assert api("decisions:write").post("decisions", item).status_code == 201
    arrived = client.get(path)
    assert arrived.status_code == 286 and "sorter chose a" in arrived.content.decode()


def test_the_example_state_has_every_field_of_the_template() -> None:
    assert set(example_state("{{ text }} {{ options }}")) == {"text"}
    nested = example_state("{{ item.title }}: {{ item.body }} by {{ user }}")
    assert set(nested) == {"item", "user"} and set(nested["item"]) == {"title", "body"}
    assert example_state("no field") != {}


@pytest.mark.django_db
def test_the_programs_offer_options_only_where_the_agent_has_none_of_its_own() -> None:
    own = AgentVersionFactory(options=OPTIONS)
    offered = AgentVersionFactory(options=None, prompt_template="{{ text }} {{ options }}")
    for agent, offers in ((own.agent, False), (offered.agent, True)):
        for asks in (False, True):
            snippets = write_snippets(url="http://reckoner", token="key", agent=agent, asks=asks)
            assert [('"options"' in snippet.text) for snippet in snippets] == [offers] * len(snippets)


def chatting(workspace: Any, space: str = "tool_calls", *, served: bool = True) -> Agent:
    agent = AgentFactory(workspace=workspace, slug="helper")
    AgentVersionFactory(agent=agent, action_space=space, options=None, prompt_template="{{ input }}")
    if served:
        AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    return agent


@pytest.mark.parametrize("space", ["text", "tool_calls"])
def test_an_agent_that_chats_is_asked_through_the_gateway(
    space: str, workspace: Any, admin: Any, page: str, make: str, page_client: Any, settings: Any
) -> None:
    settings.GATEWAY_URL = "https://chats.example.org/"
    chatting(workspace, space)
    client = page_client(admin)
    made = client.post(make, {**FORM, "agent": "helper"}, follow=True)
    for answer in (client.get(page), made):
        samples, text = dict(answer.context["samples"]), answer.content.decode()
        assert list(samples) == ["curl", "Python", "JavaScript"] and "/decide" not in text
        for sample in samples.values():
            assert "https://chats.example.org/v1" in sample and "X-Reckoner-Unit" in sample and "helper" in sample
        assert 'OpenAI(base_url="https://chats.example.org/v1", api_key=KEY)' in samples["Python"]
        assert 'baseURL: "https://chats.example.org/v1"' in samples["JavaScript"]
        compile(samples["Python"], "python.py", "exec")
        assert "<code>https://chats.example.org/v1</code>" in text
    assert made.content.decode().count(token_of(made)) == 4


def test_an_agent_that_chats_is_asked_through_the_gateway_also_before_it_has_a_model(
    workspace: Any, admin: Any, viewer: Any, page: str, make: str, page_client: Any
) -> None:
    helper = chatting(workspace, served=False)
    client = page_client(admin)
    made = client.post(make, {**FORM, "agent": "helper"}, follow=True)
    for answer in (page_client(viewer).get(page), client.get(page), made):
        samples, text = dict(answer.context["samples"]), answer.content.decode()
        assert list(samples) == ["curl", "Python", "JavaScript"] and "chat.completions" in samples["Python"]
        assert f"{helper.name} has no model yet" in text
        assert "Record answers that another program gave" in text
        assert "/api/v1/decisions" in dict(answer.context["recording"])["Python"]
    assert token_of(made) in dict(made.context["recording"])["Python"] and made.context["made"].lacking == ()
    lacking = client.post(make, {**FORM, "agent": "helper", "scopes": ["decisions:write"]}, follow=True)
    assert lacking.context["made"].lacking == ("route:read", "feedback:write")


def test_its_next_step_is_a_backend_then_a_remote_version_then_a_champion(
    workspace: Any, admin: Any, page: str, page_client: Any
) -> None:
    helper, client = chatting(workspace, served=False), page_client(admin)
    agent_page = reverse("pages:agent", args=[workspace.slug, helper.slug])

    def steps() -> str:
        text = client.get(page).content.decode()
        ordered = text[text.index('<ol class="next-steps"') : text.index("</ol>")]
        assert ordered in client.get(agent_page).content.decode()
        return ordered

    assert reverse("pages:backend-new", args=[workspace.slug]) in steps()
    backend = BackendFactory(workspace=workspace)
    place = f"{reverse('pages:backend', args=[workspace.slug, backend.id])}?model={helper.registered_model.name}"
    assert f"{place}#add-remote" in steps()
    form = client.get(place).content.decode()
    assert '<details class="panel" id="add-remote" open>' in form
    assert f'<option value="{helper.registered_model.name}" selected>' in form
    version = ModelVersionFactory(registered_model=helper.registered_model)
    assert reverse("pages:version", args=[workspace.slug, version.id]) in steps()
    AliasFactory(version=version)
    assert "next-steps" not in client.get(page).content.decode() + client.get(agent_page).content.decode()


def test_the_programs_are_those_of_the_agent_that_is_picked(
    agent: Any, workspace: Any, viewer: Any, page: str, page_client: Any
) -> None:
    helper, client = chatting(workspace), page_client(viewer)
    shown = client.get(page, {"agent": "helper"})
    assert shown.context["shown_agent"] == helper and "?agent=filer" in shown.content.decode()
    for query in ({}, {"agent": "nobody"}):
        assert client.get(page, query).context["shown_agent"] == agent


def test_an_agent_of_options_is_not_shown_the_gateway(agent: Any, viewer: Any, page: str, page_client: Any) -> None:
    assert "X-Reckoner-Unit" not in page_client(viewer).get(page).content.decode()


@pytest.mark.parametrize(
    ("url", "gateway"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8020"),
        ("https://reckoner.example.org/", "https://reckoner.example.org:8020"),
        ("http://[::1]:8000", "http://[::1]:8020"),
    ],
)
def test_the_gateway_is_looked_for_at_the_host_of_the_page(url: str, gateway: str, settings: Any) -> None:
    settings.GATEWAY_URL = ""
    assert find_gateway(url) == gateway


EXAMPLE_SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 3}, "ok": {"type": "boolean"}, "at": {"$ref": "#/$defs/place"}},
    "required": ["n", "ok", "at"],
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
}


@pytest.mark.django_db
def test_the_programs_send_what_every_agent_takes(workspace: Any, by: Any) -> None:
    agents = create_notes_agents(by=by)
    for space, schema in (("text", None), ("tool_calls", None), ("ranking", None), ("structured", EXAMPLE_SCHEMA)):
        own = AgentFactory(workspace=workspace)
        AgentVersionFactory(agent=own, action_space=space, options=None, action_schema=schema)
        agents.append(own)
    for agent in agents:
        version = find_current_version(agent)
        assert version is not None
        checks = make_space(version.action_space, version.action_schema, version.state_schema)
        for asks in (False, True):
            item = example_item(version, asks=asks)
            options = item.get("options", version.options)
            faults = checks.state.faults(item["state"]) if checks.state is not None else []
            if not asks:
                faults = checks.faults(item["action"], options=options, state=item["state"])
            assert faults == [], (agent.slug, item)
            text = write_snippets(url="http://reckoner", token="key", agent=agent, asks=asks)[1].text
            compile(text, "python.py", "exec")
            assert not re.search(r"[ \[](true|false|null),?$", text, re.MULTILINE)


def test_a_key_without_a_usable_agent_is_not_made(by: Any) -> None:
    with pytest.raises(InvalidInput):
        connect_app(by=by, name="app", scopes=EVERY, agent=None)
    with pytest.raises(InvalidInput):
        connect_app(by=by, name="app", scopes=EVERY, agent=None, new=NewAgent("sorter", "Sorter", options=["one"]))
    assert ApiKey.objects.count() == 0 and Agent.objects.count() == 0


TYPESCRIPT = "5.9.3"


@pytest.fixture(scope="session")
def tsc() -> list[str]:
    """TypeScript's compiler. Skips where there is no node, or no way to the registry."""
    node, modules = fetch_package("typescript", TYPESCRIPT)
    compiler = modules / "typescript" / "lib" / "tsc.js"
    return [node, str(compiler), "--strict", "--target", "es2022", "--lib", "es2022,dom", "--skipLibCheck"]


@pytest.fixture
def run(request: Any, tmp_path: Path) -> Any:
    """`run(language, text)`: the program in an empty folder, as a reader would run it."""

    def perform(language: str, text: str) -> subprocess.CompletedProcess[str]:
        file = {"curl": "program.sh", "Python": "program.py", "TypeScript": "program.ts"}[language]
        (tmp_path / file).write_text(text, encoding="utf-8")
        if language == "curl":
            missing = [tool for tool in ("sh", "curl", "sed") if shutil.which(tool) is None]
            if missing:
                pytest.skip(f"no {missing[0]} on this machine")
            command = ["sh", file]
        elif language == "Python":
            command = [sys.executable, file]
        else:
            made = subprocess.run(
                [*request.getfixturevalue("tsc"), file], cwd=tmp_path, capture_output=True, text=True, timeout=60
            )
            assert made.returncode == 0, made.stdout
            command = ["node", "program.js"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    return perform


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("language", ["curl", "Python", "TypeScript"])
@pytest.mark.slow
@pytest.mark.xdist_group("typescript")  # which one worker fetches
class TestThePrograms:
    """Copied from the page as they are shown, with the key that was just made."""

    def copied(self, made: Connection, language: str, url: str) -> str:
        snippets = write_snippets(url=url, token=made.made.token, agent=made.agent, asks=made.asks)
        return next(snippet.text for snippet in snippets if snippet.language == language)

    def test_it_records_a_decision_and_confirms_it(
        self, language: str, live_server: Any, admin: Any, make: str, page_client: Any, run: Any
    ) -> None:
        form = {**FORM, "options": 'it\'s "urgent" & $HOME\nspäter 😀\nc'}
        answer = page_client(admin).post(
            make, form, follow=True, SERVER_NAME="127.0.0.1", SERVER_PORT=live_server.thread.port
        )
        text = dict(answer.context["samples"])[language]
        assert live_server.url.replace("localhost", "127.0.0.1") in text
        done = run(language, text)
        assert done.returncode == 0, done.stdout + done.stderr
        decision = Decision.objects.get()
        assert (decision.action, decision.policy_name) == ('it\'s "urgent" & $HOME', "my-own-rules")
        assert [(f.decision_id, f.value) for f in Feedback.objects.all()] == [(decision.pk, "confirmed")]
        assert str(decision.pk) in done.stdout

    def test_it_fails_aloud_with_a_key_that_may_not(self, language: str, live_server: Any, by: Any, run: Any) -> None:
        new = NewAgent("sorter", "Sorter", options=["a", "b"])
        made = connect_app(by=by, name="app", scopes=["export:read"], agent=None, new=new)
        done = run(language, self.copied(made, language, live_server.url))
        assert done.returncode != 0 and "403" in done.stdout + done.stderr
        assert Decision.objects.count() == 0 and Feedback.objects.count() == 0


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.xdist_group("typescript")
class TestAsking:
    """With a champion the programs ask the agent: a model that was really trained, a model server that really runs."""

    @pytest.fixture
    def served(self, tmp_path_factory: Any, settings: Any) -> Iterator[None]:
        shelf = tmp_path_factory.mktemp("shelf")
        with running_model_server(shelf, "for-this-test") as address:
            settings.ARTIFACTS = str(shelf)
            settings.MODEL_SERVER_URL = address
            settings.MODEL_SERVER_TOKEN = "for-this-test"
            yield
            close_clients()

    def test_each_program_asks_and_confirms(
        self, served: None, live_server: Any, agent: Any, by: Any, run: Any, tiny_run: Path
    ) -> None:
        artifact = store_artifact(
            workspace=by.workspace, folder=tiny_run / "attempts" / "1" / "model", kind="model", meta={}
        )
        register_version(by=by, model=agent.registered_model, new=NewVersion(artifact=artifact, method="pretrain"))
        made = connect_app(by=by, name="app", scopes=EVERY, agent=agent)
        assert made.asks and made.lacking == ()
        snippets = write_snippets(url=live_server.url, token=made.made.token, agent=agent, asks=made.asks)
        for number, snippet in enumerate(snippets, start=1):
            done = run(snippet.language, snippet.text)
            assert done.returncode == 0, snippet.language + done.stdout + done.stderr
            assert Decision.objects.count() == Feedback.objects.count() == number
            newest = Decision.objects.latest("id")
            assert newest.action in OPTIONS and newest.propensity and str(newest.pk) in done.stdout
