"""What a chat reserves of its key's budget: all that is sent counts, in words or not."""

from decimal import Decimal

import pytest

from decisions.agents.services import AgentSetup, create_agent
from decisions.chats.answering import begin_chat
from decisions.chats.requests import read_chat
from decisions.chats.responses import read_response
from models_registry.models import Call
from models_registry.versions.services import NewVersion, register_version
from tools.factories import BackendFactory, DeploymentFactory
from workspaces.access.actors import program
from workspaces.access.services import KeyLimits, create_api_key

pytestmark = pytest.mark.django_db
SCHEMA = {"type": "object", "properties": {f"field_{number}": {"type": "string"} for number in range(100)}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
PART = {"type": "text", "text": "What is it?"}
TOKEN = Decimal(1) / 1_000_000


@pytest.fixture
def client(by):
    """A key with a budget, and an agent at a server where a token in costs a millionth."""
    setup = AgentSetup(prompt_template="{{ input }}", action_space="text", max_completion_tokens=10)
    agent = create_agent(by=by, slug="helper", name="Helper", setup=setup)
    version = register_version(by=by, model=agent.registered_model, new=NewVersion(remote_name="gpt", method="remote"))
    DeploymentFactory(version=version, backend=BackendFactory(workspace=by.workspace, price_in=1, price_out=10))
    return program(create_api_key(by=by, name="chats", scopes=["route:read"], limits=KeyLimits(spend_a_day=1)).key)


def reserve(client, content=(PART,), **fields):
    chat = read_chat({"model": "helper", "messages": [{"role": "user", "content": list(content)}], **fields})
    return Call.objects.get(id=begin_chat(by=client, chat=chat, kind="chat").id).reserved


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "out", "schema": SCHEMA}}},
        {"tools": [{"type": "function", "function": {"name": "out", "parameters": SCHEMA}}]},
        {"structured_outputs": {"json": SCHEMA}},
        {"prediction": {"type": "content", "content": "word " * 1000}},
    ],
)
def test_schemas_tools_and_predictions_count_by_their_words(client, fields):
    assert reserve(client, **fields) - reserve(client) > 700 * TOKEN  # of 2,900 bytes and more


def test_schemas_of_responses_count_too(client):
    reserved = []
    for text in ({}, {"text": {"format": {"type": "json_schema", "name": "out", "schema": SCHEMA}}}):
        chat = read_response({"model": "helper", "input": "What is it?", **text})
        reserved.append(Call.objects.get(id=begin_chat(by=client, chat=chat, kind="response").id).reserved)
    assert reserved[1] - reserved[0] > 700 * TOKEN


def test_a_picture_counts_as_many_tokens_as_the_settings_say(client, settings):
    settings.PICTURE_TOKENS = 1000
    without, some = reserve(client), reserve(client, [PART, PICTURE, PICTURE])
    assert 2000 * TOKEN < some - without < 2200 * TOKEN


def test_what_claims_to_be_endless_counts_no_more_than_a_body_may_have(client, settings):
    claimed = PICTURE | {"type": "input_audio", "sha256": "0", "bytes": 1 << 62}
    assert reserve(client, [PART, claimed]) < (settings.CHAT_BODY_BYTES + 1000) * TOKEN
