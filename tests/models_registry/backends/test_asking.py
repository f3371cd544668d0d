"""Asking the servers of a version in their order: what they are sent, and who answers where one fails."""

import pytest

from models_registry.backends.asking import Asked, ready_version, score_versions
from models_registry.backends.prompts import Prompt
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.models import Backend
from tools.factories import BackendFactory, DeploymentFactory, ModelVersionFactory
from tools.ports import free_port

pytestmark = pytest.mark.django_db
OPTIONS = ("travel", "health")


@pytest.fixture
def version(workspace):
    return ModelVersionFactory(registered_model__workspace=workspace, artifact=None, remote_name="gpt-4o-mini")


@pytest.fixture
def deploy(version):
    def at(server, *, priority=0, version=version, **fields):
        url = server if isinstance(server, str) else server.url
        backend = BackendFactory(workspace=version.workspace, url=url, retries=0, **fields)
        return DeploymentFactory(version=version, backend=backend, priority=priority)

    return at


def ask(version, **fields):
    [told] = score_versions([Asked(version, Prompt("Flight to Rome"), OPTIONS, 64, **fields)])
    return told


def closed_port():
    return f"http://127.0.0.1:{free_port()}/v1"


def test_a_pick_becomes_a_policy_that_is_exact_given_the_pick(version, deploy, serve, monkeypatch, settings):
    monkeypatch.setenv("SOME_API_KEY", "sk-test")
    server = serve()
    settings.BACKEND_KEYS = [f"SOME_API_KEY={server.url}"]
    deployment = deploy(server, key_variable="SOME_API_KEY", price_in="1.50", price_out="6")
    told = ask(version)
    assert (told.score.probabilities, told.score.picked, told.failures) == ((1.0, 0.0), True, ())
    assert told.endpoint.backend == deployment.backend_id
    assert told.endpoint.price(told.score.tokens_in, told.score.tokens_out) * 1_000_000 == 20 * 1.5 + 3 * 6
    [body] = server.asked
    assert (body["model"], body["temperature"]) == ("gpt-4o-mini", 0)
    assert "- travel\n- health" in body["messages"][0]["content"]
    assert server.headers[0]["Authorization"] == "Bearer sk-test"


@pytest.mark.parametrize(
    ("kind", "capabilities", "field", "pick"),
    [
        ("vllm", ["choice"], "structured_outputs", "health"),
        ("openai", ["json_schema"], "response_format", '{"choice": "health"}'),
        ("openai", [], None, " health\n"),
    ],
)
def test_an_answer_is_held_to_the_options_as_strictly_as_the_server_can(
    version, deploy, serve, kind, capabilities, field, pick
):
    server = serve()
    server.pick = pick
    deploy(server, kind=kind, capabilities=capabilities)
    assert ask(version).score.probabilities == (0.0, 1.0)
    assert {"structured_outputs", "response_format"} & set(server.asked[0]) == ({field} if field else set())


@pytest.mark.parametrize("answer", ["Travel!", "travel or health", "", '{"choice": "sports"}'])
def test_what_is_none_of_the_options_is_an_error_and_no_guess(version, deploy, serve, answer):
    server = serve()
    server.pick = answer
    deploy(server)
    told = ask(version)
    assert told.score.probabilities is None and "not one of the options" in told.score.error


class TestTheNextServerAnswers:
    @pytest.fixture
    def second(self, serve, deploy):
        server = serve()
        server.pick = "health"
        deploy(server, priority=1, name="second")
        return server

    def test_where_the_first_refuses_connections(self, version, deploy, second):
        deploy(closed_port(), name="first")
        told = ask(version)
        assert told.endpoint.name == "second"
        assert told.failures == ("first does not answer: ConnectError.",)

    def test_where_the_first_is_silent_within_the_time_for_that(self, version, deploy, serve, second, settings):
        settings.FALLBACK_SECONDS = 0.2
        first = serve()
        first.held.clear()  # as a stopped process: it takes the connection, and says nothing
        deploy(first, name="first", timeout_seconds=60.0)
        told = ask(version)
        assert told.failures == ("first did not answer within 0.2 s.",)
        assert ask(version).failures == ("first is not asked: it failed a moment ago.",)
        assert len(first.asked) == 1 and len(second.asked) == 2

    def test_where_the_first_answers_nonsense(self, version, deploy, serve, second):
        first = serve()
        first.answers.extend([(200, b"<html>"), (500, {"error": {"message": "out of memory"}}), (200, {"choices": []})])
        deploy(first, name="first")
        reasons = [ask(version).failures[0] for _ in range(3)]
        assert reasons == [
            "first answered what is no JSON object.",
            "first answered 500: out of memory.",
            "first answered without a message.",
        ]

    def test_first_where_the_prober_has_seen_the_first_down(self, version, deploy, serve, second):
        first = serve()
        deploy(first, name="first", state="down")
        assert ask(version).endpoint.name == "second"
        assert first.asked == []

    def test_and_one_that_is_switched_off_is_not_asked(self, version, deploy, serve, second):
        first = serve()
        deploy(first, enabled=False)
        assert (ask(version).endpoint.name, first.asked) == ("second", [])


def test_the_last_server_gets_its_whole_time(version, deploy, serve, settings):
    settings.FALLBACK_SECONDS = 0.0
    deploy(serve(), timeout_seconds=30.0)
    assert ask(version).score.probabilities == (1.0, 0.0)


def test_unless_a_version_on_another_server_stands_in(version, deploy, serve, settings):
    settings.FALLBACK_SECONDS = 0.1
    server = serve()
    server.held.clear()
    deploy(server, timeout_seconds=60.0)
    stored = ModelVersionFactory(registered_model=version.registered_model)
    told = ask(version, stand_ins=(stored,))
    assert told.score.error == told.failures[0] and "within 0.1 s" in told.failures[0]


def test_what_may_succeed_a_moment_later_is_tried_again(version, deploy, serve):
    server = serve()
    server.answers.extend([(503, {}), (429, {}, {"Retry-After": "0"})])
    deploy(server)
    Backend.objects.update(retries=2)
    assert ask(version).score.probabilities == (1.0, 0.0)
    assert len(server.asked) == 3


def test_a_key_that_is_not_set_fails_before_anything_is_sent(version, deploy, serve, settings):
    server = serve()
    settings.BACKEND_KEYS = [f"NO_SUCH_API_KEY={server.origin}"]
    deploy(server, key_variable="NO_SUCH_API_KEY", name="gpt")
    assert "needs the environment variable NO_SUCH_API_KEY" in ask(version).score.error
    assert server.asked == []


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "RECKONER_INTERNAL_API_KEY"])
def test_a_key_of_another_server_is_not_sent(version, deploy, serve, settings, monkeypatch, variable):
    """A row of before the operator bound variables to servers, or changed what is bound."""
    monkeypatch.setenv(variable, "sk-of-somebody-else")
    server = serve()
    settings.BACKEND_KEYS = ["OPENAI_API_KEY=https://api.openai.com", f"RECKONER_INTERNAL_API_KEY={server.origin}"]
    deploy(server, key_variable=variable, name="gpt")
    assert f"The key of {variable} may not be sent to backend gpt" in ask(version).score.error
    assert server.asked == []


def test_a_version_that_is_deployed_nowhere_says_so(version):
    assert ask(version).score.error == f"{version} is deployed nowhere."
    with pytest.raises(BackendRefused, match="deployed nowhere"):
        ready_version(version)


def test_a_server_that_lists_other_models_is_refused_before_traffic(version, deploy, serve):
    server = serve()
    deploy(server, name="gpt")
    ready_version(version)
    server.models = ["llama"]
    with pytest.raises(BackendRefused, match="no model gpt-4o-mini; it has llama"):
        ready_version(version)


def test_versions_on_several_servers_are_asked_at_once(version, deploy, serve):
    first, second = serve(), serve()
    second.pick = "health"
    other = ModelVersionFactory(registered_model=version.registered_model, artifact=None, remote_name="llama")
    deploy(first)
    deploy(second, version=other)
    told = score_versions([Asked(one, Prompt("Flight"), OPTIONS, 64) for one in (version, other, version)])
    assert [one.score.probabilities for one in told] == [(1.0, 0.0), (0.0, 1.0), (1.0, 0.0)]


def test_nobody_answers(version, deploy):
    deploy(closed_port(), name="gpt")
    with pytest.raises(BackendUnavailable, match="gpt does not answer"):
        ready_version(version)
    assert ask(version).score.error == "gpt does not answer: ConnectError."
