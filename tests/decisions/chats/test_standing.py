"""A chat is begun with what was read for the last one; its call is opened only where no row behind that has changed."""

import pytest

from decisions.agents.revising import revise_agent
from decisions.agents.services import AgentSetup, create_agent
from decisions.chats.answering import Ended, begin_chat, record_chat
from decisions.chats.requests import read_chat
from decisions.chats.standing import OutOfDate, keep_standing, recall_standing
from decisions.chats.written import Written
from decisions.models import Decision
from models_registry.models import AliasName, Backend, Call, ModelVersion
from models_registry.versions.services import NewVersion, move_alias, register_version
from tools.factories import BackendFactory, DeploymentFactory
from workspaces.access import actors
from workspaces.access.services import create_api_key, revoke_api_key
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db
SETUP = AgentSetup(prompt_template="{{ input }}", action_space="text")
CHAT = read_chat({"model": "helper", "messages": [{"role": "user", "content": "How do I get to Oslo?"}]})
CHANGES = {
    "the key is revoked": lambda by, key, agent: revoke_api_key(by=by, key=key),
    "the workspace is renamed": lambda by, key, agent: Workspace.objects.update(name="Other"),
    "the agent has a new version": lambda by, key, agent: revise_agent(
        by=by, agent=agent, expected=1, changes={"max_completion_tokens": 7}
    ),
    "the champion moves": lambda by, key, agent: move_alias(
        by=by, version=ModelVersion.objects.get(number=2), name=AliasName.CHAMPION
    ),
    "its server is down": lambda by, key, agent: Backend.objects.filter(name="gpt").update(state="down"),
}


@pytest.fixture
def helper(by):
    agent = create_agent(by=by, slug="helper", name="Helper", setup=SETUP)
    for name in ("gpt", "llama"):
        version = register_version(
            by=by, model=agent.registered_model, new=NewVersion(remote_name=name, method="remote")
        )
        backend = BackendFactory(workspace=by.workspace, name=name, price_in=1, price_out=10)
        DeploymentFactory(version=version, backend=backend)
    return agent


@pytest.fixture
def made(by, helper):
    """A key, whose standing with the helper is kept."""
    made = create_api_key(by=by, name="chats", scopes=["route:read"])
    keep_standing(token=made.token, slug="helper")
    recall_standing(token=made.token, slug="helper")  # notes that the key was used, which changes it
    keep_standing(token=made.token, slug="helper")
    return made


def begin(made):
    standing = recall_standing(token=made.token, slug="helper")
    return begin_chat(by=actors.program(standing.key), chat=CHAT, kind="chat", standing=standing)


def test_a_chat_takes_one_statement_before_the_model_and_one_after(made, django_assert_num_queries):
    with django_assert_num_queries(1):
        begun = begin(made)
    ended = Ended(Written(["By train."], tokens_in=10, tokens_out=4), begun.attempts[0])
    with django_assert_num_queries(1):
        record_chat(begun=begun, ended=ended)
    decision, call = Decision.objects.get(), Call.objects.get()
    assert (decision.id, decision.action, decision.model_version) == (call.id, "By train.", call.served)
    assert (call.state, call.cost, call.tokens_out, call.backend.name) == ("answered", decision.cost, 4, "gpt")


@pytest.mark.parametrize("change", CHANGES)
def test_no_call_is_opened_by_what_has_changed(made, by, helper, change):
    CHANGES[change](by, made.key, helper)
    with pytest.raises(OutOfDate):
        begin(made)
    assert not Call.objects.exists()


def test_a_change_of_another_model_changes_nothing(made, by, helper):
    other = create_agent(by=by, slug="other", name="Other", setup=SETUP).registered_model
    version = register_version(by=by, model=other, new=NewVersion(remote_name="gpt", method="remote"))
    move_alias(by=by, version=version, name=AliasName.CHAMPION)
    assert begin(made).id == Call.objects.get().id


def test_nobody_else_s_secret_opens_it_and_what_is_read_anew_is_kept(made, by, helper):
    prefix = made.token.partition(".")[0]
    assert recall_standing(token=f"{prefix}.{'x' * 43}", slug="helper") is None
    move_alias(by=by, version=ModelVersion.objects.get(number=2), name=AliasName.CHAMPION)
    keep_standing(token=made.token, slug="helper")
    assert begin(made).request.served.number == 2
    revoke_api_key(by=by, key=made.key)
    keep_standing(token=made.token, slug="helper")
    with pytest.raises(OutOfDate):
        begin(made)
