"""A real vLLM behind the gateway: what it decides, the adapters it is given, chats, and what follows when it is gone.

`make vllm` installs it; `make test` does without, and skips these.
"""

import json
import signal

import pytest

from decisions.agents.services import AgentSetup, create_agent_version
from decisions.gateway.decide import decide
from decisions.ingest.schemas import DecideItem
from decisions.models import Decision
from models_registry.backends.asking import forget_breakers
from models_registry.backends.checking import check_backends
from models_registry.backends.endpoint import Endpoint, ScoreItem
from models_registry.backends.openai import call
from models_registry.backends.outbound import close_clients
from models_registry.backends.prompts import Prompt
from models_registry.backends.services import BackendSetup, add_backend, change_deployment, deploy_version
from models_registry.backends.token_cuts import cut_prompt
from models_registry.models import AliasName, Call
from models_registry.versions.services import NewVersion, move_alias, register_version, store_artifact
from tests.engine_task import labelled, train_run
from tests.once import made_once
from tools.factories import OPTIONS
from tools.vllm_server import VllmServer, find_vllm

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.xdist_group("gateway"),
    pytest.mark.skipif(bool(find_vllm()), reason=find_vllm()),
]
NAME = "filer-base"
# vLLM takes heads of 32 dimensions and more.
TINY = {"vocabulary": 400, "hidden": 128, "heads": 4, "key_value_heads": 2, "max_positions": 256}
SPEC = {
    "max_prompt_tokens": 32,
    "threads": 1,
    "optimiser": {"learning_rate": 0.003, "epochs": 6, "batch_size": 32},
}
TURNED = dict(zip(OPTIONS, [*OPTIONS[1:], OPTIONS[0]], strict=True))
"""What the adapter learns: the next folder, so that it decides otherwise than its base."""
TEXTS = ("travel or work? " + "invoice " * 60 + " so travel or work?", "Überweisung — 5 € 😀 " * 20 + "ende", "short")


def made_by(run):
    """The folder of weights that a run made."""
    attempt = run / "attempts" / "1"
    return next(attempt / name for name in ("model", "adapter") if (attempt / name).exists())


@pytest.fixture(scope="module")
def layers(warm_engine):
    """A folder with `base`, a run of every weight, and `adapter`, a run of an adapter on it."""

    def make(folder):
        rows, heldout = labelled(300, 1), labelled(40, 2)
        spec = SPEC | {"method": "pretrain", "base": {"tiny": TINY}}
        train_run(folder / "base", train=rows, heldout=heldout, spec=spec)
        turned = [row | {"answer": TURNED[row["answer"]]} for row in rows]
        spec = SPEC | {"method": "sft", "base": {"path": str(made_by(folder / "base"))}, "lora": {"r": 8, "alpha": 16}}
        train_run(folder / "adapter", train=turned, heldout=heldout, spec=spec)

    return made_once("vllm", make)


@pytest.fixture(scope="module")
def server(layers, tmp_path_factory):
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    made = VllmServer(made_by(layers / "base"), NAME, log)
    warm_up(made.url, NAME)
    yield made
    made.stop()


@pytest.fixture
def vllm(server, settings):
    settings.BACKEND_URLS = [server.origin]
    yield server
    close_clients()
    forget_breakers()


@pytest.fixture
def backend(by, vllm):
    setup = BackendSetup(
        name="vllm", kind="vllm", url=vllm.url, retries=0, capabilities=("adapters", "choice", "grammar", "stream")
    )
    return add_backend(by=by, setup=setup)


@pytest.fixture
def version(agent, by, backend):
    """The agent's champion: the server's own model."""
    made = register_version(by=by, model=agent.registered_model, new=NewVersion(remote_name=NAME, method="remote"))
    deploy_version(by=by, version=made, backend=backend, remote_name=NAME)
    return made


def rows_and_picks(run):
    """Held-out texts, and what the model that this run made decides on them by its own weights."""
    rows = [json.loads(line) for line in (run / "data" / "heldout.jsonl").read_text().splitlines()]
    lines = map(json.loads, (run / "attempts" / "1" / "predictions.jsonl").read_text().splitlines())
    picks = {line["id"]: line["action"] for line in lines}
    return [row["prompt"] for row in rows], [picks[row["id"]] for row in rows]


def warm_up(url, model):
    """What it compiles for its first answer takes half a minute, and another server would stand in."""
    body = {"model": model, "messages": [{"role": "user", "content": "flight"}], "max_tokens": 2}
    call(Endpoint("vllm", "vllm", url), "POST", "/chat/completions", body, 120)


def likeliest(answers):
    return [OPTIONS[answer.probabilities.index(max(answer.probabilities))] for answer in answers]


def share(found, expected):
    return sum(one == other for one, other in zip(found, expected, strict=True)) / len(expected)


def test_it_decides_as_the_weights_do_and_the_propensity_is_exact(agent, by, version, layers):
    assert check_backends() == {"up": 1, "down": 0}
    texts, picks = rows_and_picks(layers / "base")
    answers = decide(by=by, agent="filer", items=[DecideItem(state={"text": text}) for text in texts])
    assert share(likeliest(answers), picks) >= 0.95 and len(set(picks)) == len(OPTIONS)
    uniform = agent.versions.first().epsilon / len(OPTIONS)
    for row, pick in zip(Decision.objects.order_by("id"), likeliest(answers), strict=True):
        explored = row.action != pick
        assert row.propensity == pytest.approx(uniform if explored else 1 - uniform * (len(OPTIONS) - 1))
        assert row.tokens_in > 0 and row.tokens_out > 0
    assert Call.objects.filter(state="answered", served=version).count() == len(texts)


@pytest.fixture
def tuned(agent, by, layers, store):
    """Version 2 of the agent's model: an adapter; version 1 are the weights under it, and champion."""
    model = agent.registered_model

    def register(name, kind, **fields):
        artifact = store_artifact(workspace=by.workspace, folder=made_by(layers / name), kind=kind, meta={})
        return register_version(by=by, model=model, new=NewVersion(artifact=artifact, **fields))

    base = register("base", "model", method="pretrain")
    return register("adapter", "adapter", method="sft", base=base)


def list_models(backend):
    listed = call(Endpoint("vllm", "vllm", backend.url), "GET", "/models", None, 10)["data"]
    return {one["id"] for one in listed}


def test_an_adapter_is_loaded_over_the_api_decides_as_it_was_trained_and_is_unloaded(by, backend, layers, tuned):
    deployment = deploy_version(by=by, version=tuned, backend=backend)
    check_backends()
    deployment.refresh_from_db()
    assert deployment.error == "" and list_models(backend) == {NAME, "filer-2"}
    warm_up(backend.url, "filer-2")
    move_alias(by=by, version=tuned, name=AliasName.CHAMPION)
    texts, picks = rows_and_picks(layers / "adapter")
    answers = decide(by=by, agent="filer", items=[DecideItem(state={"text": text}) for text in texts])
    assert not any(answer.fallback for answer in answers)
    assert share(likeliest(answers), picks) >= 0.95
    assert share(picks, rows_and_picks(layers / "base")[1]) < 0.5  # it is not the base that answered
    change_deployment(by=by, deployment=deployment, enabled=False)
    check_backends()
    assert list_models(backend) == {NAME}


def test_an_adapter_that_it_cannot_read_says_why(by, backend, tuned):
    backend.artifacts_path = "/nowhere"
    backend.save()
    deployment = deploy_version(by=by, version=tuned, backend=backend)
    check_backends()
    deployment.refresh_from_db()
    assert "/nowhere" in deployment.error and list_models(backend) == {NAME}


@pytest.mark.parametrize("system", ["", "you file the notes"])
def test_a_long_prompt_is_cut_as_in_training(vllm, layers, system):
    from training.engine.models.loading import load_tokenizer
    from training.engine.models.prompts import PromptEncoder
    from training.engine.rows.types import Prompt as RowPrompt

    encoder = PromptEncoder(load_tokenizer(made_by(layers / "base")), 25)
    endpoint = Endpoint("vllm", "vllm", vllm.url, capabilities=frozenset({"grammar"}))
    items = [ScoreItem(NAME, Prompt(text, system), ("travel", "finance"), 25) for text in TEXTS]
    cut = [cut_prompt(call, endpoint, item, 60).text for item in items]
    assert cut == encoder.cut([RowPrompt(text, system) for text in TEXTS])
    assert [one != text for one, text in zip(cut, TEXTS, strict=True)] == [True, True, False]


FILED = {
    "type": "object",
    "properties": {"folder": {"enum": list(OPTIONS)}, "minutes": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["folder", "minutes"],
    "additionalProperties": False,
}
"""More answers than can be listed."""
TOOL = {"name": "file", "description": "Files a note", "parameters": FILED}


def fits(filed):
    return filed.keys() == {"folder", "minutes"} and filed["folder"] in OPTIONS and 0 <= filed["minutes"] <= 150


@pytest.mark.parametrize(("space", "schema"), [("structured", FILED), ("tool_calls", {"properties": {"file": FILED}})])
def test_what_it_writes_is_held_to_the_form_of_the_action(agent, by, backend, version, space, schema):
    setup = AgentSetup(
        "{{ text }}", action_space=space, action_schema=schema, temperature=0.01, max_completion_tokens=64
    )
    create_agent_version(by=by, agent=agent, setup=setup)
    backend.capabilities = ["grammar", "json_schema"]
    backend.save()
    texts = ("flight hotel", "tax refund", "doctor on monday")
    answers = decide(by=by, agent="filer", items=[DecideItem(state={"text": text}) for text in texts])
    for row, answer in zip(Decision.objects.order_by("id"), answers, strict=True):
        assert row.action == answer.action
        written = [row.action] if space == "structured" else [call["arguments"] for call in row.action]
        assert all(fits(one) for one in written)


def test_openai_client_has_json_and_calls_of_tools_written_by_it(client, chatting, deploy, vllm):
    for agent in (chatting(), chatting("planner", "tool_calls")):
        deploy(agent, f"vllm-{agent.slug}", vllm.url, remote_name=NAME, kind="vllm")
    asked = {"messages": [{"role": "user", "content": "flight hotel"}], "max_tokens": 90, "temperature": 0}
    form = {"type": "json_schema", "json_schema": {"name": "filed", "schema": FILED}}
    filed = client.chat.completions.create(**asked, model="helper", response_format=form)
    assert fits(json.loads(filed.choices[0].message.content))
    tools = [{"type": "function", "function": TOOL}]
    named = {"type": "function", "function": {"name": "file"}}
    for choice in ("required", named):
        planned = client.chat.completions.create(**asked, model="planner", tools=tools, tool_choice=choice)
        calls = planned.choices[0].message.tool_calls
        assert calls and all(call.function.name == "file" for call in calls)
        arguments = [json.loads(call.function.arguments) for call in calls]
        assert all(fits(one) for one in arguments)
        recorded = Decision.objects.filter(agent__slug="planner").latest("id").action
        assert recorded == [{"name": "file", "arguments": one} for one in arguments]


def test_openai_client_chats_with_it_whole_and_streamed(client, chatting, deploy, vllm):
    deploy(chatting(), "vllm", vllm.url, remote_name=NAME, kind="vllm", capabilities=["stream"])
    asked = {"model": "helper", "messages": [{"role": "user", "content": "flight hotel"}], "max_tokens": 12}
    whole = client.chat.completions.create(**asked, temperature=0)
    assert whole.usage.completion_tokens > 0
    with client.chat.completions.create(
        **asked, temperature=0, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert [row.action for row in Decision.objects.all()] == [text, text]
    assert Call.objects.filter(state="answered").count() == 2


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])  # the last one ends it
def test_where_it_is_gone_the_fallback_answers(agent, by, version, serve, vllm, settings, number):
    spare_server = serve()
    settings.BACKEND_URLS = [*settings.BACKEND_URLS, vllm.origin]
    spare_server.pick = OPTIONS[0]
    spare = register_version(by=by, model=agent.registered_model, new=NewVersion(remote_name="gpt", method="remote"))
    other = add_backend(by=by, setup=BackendSetup(name="spare", kind="openai", url=spare_server.url, retries=0))
    deploy_version(by=by, version=spare, backend=other, remote_name="gpt")
    move_alias(by=by, version=spare, name=AliasName.FALLBACK)
    vllm.send(number)
    try:
        [answer] = decide(by=by, agent="filer", items=[DecideItem(state={"text": "tax refund"})])
    finally:
        if number == signal.SIGSTOP:
            vllm.send(signal.SIGCONT)
    assert (answer.model_version, answer.fallback) == (spare, True)
    recorded = Call.objects.get()
    assert (recorded.assigned, recorded.served) == (version, spare) and recorded.fallback
