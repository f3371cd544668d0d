"""The gateway before a second real model server: llama.cpp's, which names an option and gives no probabilities."""

import os
import signal

import pytest

from decisions.gateway.decide import decide
from decisions.ingest.schemas import DecideItem
from decisions.models import Decision
from models_registry.backends.asking import forget_breakers, ready_version
from models_registry.backends.checking import check_backends
from models_registry.backends.outbound import close_clients
from models_registry.errors import BackendRefused
from models_registry.models import AliasName, Backend, Call
from models_registry.versions.services import NewVersion, move_alias, register_version
from tools.factories import BackendFactory, DeploymentFactory
from tools.llama_server import LlamaServer

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
TEXTS = ["flight hotel", "tax refund", "nurse clinic", "visa ticket"]


@pytest.fixture(scope="module")
def gguf(tiny_run, tmp_path_factory):
    from training.engine.export.gguf import write_gguf

    target = tmp_path_factory.mktemp("gguf") / "filer.gguf"
    write_gguf(tiny_run / "attempts" / "1" / "model", target, "F16")
    return target


@pytest.fixture
def llama(gguf, settings):
    server = LlamaServer(gguf, "filer-gguf")
    settings.BACKEND_URLS = [server.origin]
    yield server
    close_clients()
    forget_breakers()
    server.stop()


@pytest.fixture
def version(agent, by, llama):
    """The champion: the model as llama.cpp serves it."""
    new = NewVersion(remote_name="filer-gguf", method="remote")
    made = register_version(by=by, model=agent.registered_model, new=new)
    backend = BackendFactory(workspace=by.workspace, url=llama.url, retries=0, capabilities=["json_schema"])
    DeploymentFactory(version=made, backend=backend)
    return made


def test_what_it_picks_is_explored_around_and_its_propensity_is_exact(agent, by, version):
    ready_version(version)
    assert check_backends() == {"up": 1, "down": 0}
    items = [DecideItem(state={"text": text}) for text in TEXTS * 3]
    answers = decide(by=by, agent="filer", items=items)
    setup = agent.versions.first()
    uniform = setup.epsilon / len(setup.options)
    picks = {}
    for item, answer in zip(items, answers, strict=True):
        assert sorted(answer.probabilities) == pytest.approx(
            [uniform] * (len(setup.options) - 1) + [1 - setup.epsilon + uniform]
        )
        picks.setdefault(item.state["text"], set()).add(
            setup.options[answer.probabilities.index(max(answer.probabilities))]
        )
    assert all(len(found) == 1 for found in picks.values())  # greedy: the same text, the same pick
    for row in Decision.objects.all():
        explored = row.action not in picks[row.state["text"]]
        assert row.propensity == pytest.approx(uniform if explored else 1 - setup.epsilon + uniform)
        assert row.tokens_in > 0 and row.tokens_out > 0 and row.model_version == version
    assert Call.objects.filter(state="answered", served=version).count() == len(items)


def test_a_model_that_it_lacks_is_refused_with_those_that_it_has(by, agent, version):
    version.deployments.update(remote_name="another")
    with pytest.raises(BackendRefused, match="has no model another; it has filer-gguf"):
        ready_version(version)


@pytest.mark.parametrize("signal_sent", [signal.SIGKILL, signal.SIGSTOP])
def test_where_it_is_gone_the_fallback_answers(agent, by, version, llama, serve_spare, signal_sent):
    spare, _ = serve_spare
    os.kill(llama.process.pid, signal_sent)
    [answer] = decide(by=by, agent="filer", items=[DecideItem(state={"text": TEXTS[0]})])
    assert (answer.model_version, answer.fallback) == (spare, True)
    call = Call.objects.get()
    assert (call.assigned, call.served) == (version, spare) and call.fallback
    assert Backend.objects.count() == 2


@pytest.fixture
def serve_spare(agent, by, serve, llama, settings):
    """A version on another server, under the alias that stands in."""
    server = serve()
    settings.BACKEND_URLS = [*settings.BACKEND_URLS, llama.origin]
    server.pick = agent.versions.first().options[0]
    spare = register_version(
        by=by, model=agent.registered_model, new=NewVersion(remote_name="gpt-4o-mini", method="remote")
    )
    DeploymentFactory(version=spare, backend=BackendFactory(workspace=by.workspace, url=server.url, retries=0))
    move_alias(by=by, version=spare, name=AliasName.FALLBACK)
    return spare, server
