"""Experiments on versions of an agent, from the version that is kept to the one that won."""

import pytest

from decisions.agents.current import find_current_version
from decisions.agents.trying import start_agent_experiment
from decisions.chats.answering import About, Ended, begin_chat, record_chat
from decisions.chats.requests import read_chat
from decisions.chats.written import Written
from decisions.models import Decision
from decisions.rewards.maturing import mature_outcomes
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import stop_experiment
from models_registry.models import Alias, CallKind, Experiment, Exposure, Look
from models_registry.versions.services import get_champion
from tests.models_registry.experiment_units import feed
from tools.factories import (
    OPTIONS,
    AgentFactory,
    AgentVersionFactory,
    AliasFactory,
    BackendFactory,
    DeploymentFactory,
    ModelVersionFactory,
    RewardSpecFactory,
)
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
BETTER, WORSE = {"control": 0.2, "treatment": 0.9}, {"control": 0.9, "treatment": 0.2}
QUICK = {
    "exposure_window_seconds": 0,
    "attribution_window_seconds": 0,
    "min_units_per_arm": 50,
    "min_seconds": 0,
    "guardrails": [],
}
UNITS = [f"unit-{number}" for number in range(12)]


@pytest.fixture
def client(api):
    return api("admin")


@pytest.fixture
def keep(client):
    """Makes a version of the agent that is not used: its number."""

    def make(**changes):
        answer = client.request("PATCH", "agents/filer", {"expected_version": 1, "acts": False} | changes)
        assert answer.status_code == 200, answer.content
        assert answer.json()["version"] == 1
        return answer.json()["newest_version"]

    return make


@pytest.fixture
def start(client):
    def post(number, **plan):
        return client.post("agents/filer/experiments", {"agent_version": number, "reason": "a better one"} | plan)

    return post


@pytest.fixture
def ask(api):
    client = api("route:read")
    return lambda **fields: client.post("agents/filer/decide", {"state": {"text": "Flights to Oslo"}} | fields)


def share(option, pick, epsilon):
    """The probability with which a server that names `pick` and our exploration give the option."""
    return (1 - epsilon) * (option == pick) + epsilon / len(OPTIONS)


class TestDeciding:
    def test_each_arm_asks_by_its_own_version_and_its_decisions_say_which(self, agent, remote, keep, start, ask):
        _, server = remote("gpt")
        started = start(keep(prompt_template="A topic for: {{ text }}", epsilon=0.3))
        assert started.status_code == 201, started.content
        told = started.json()
        assert told["agent_versions"] == {"control": "filer v1", "treatment": "filer v2"}
        assert (told["variants"], told["name"]) == (
            {"control": "filer:1", "treatment": "filer:1"}, "filer v2 against filer v1",
        )  # fmt: skip
        versions = {"control": (1, 0.05), "treatment": (2, 0.3)}
        answers = {unit: ask(unit=unit).json() for unit in UNITS}
        assert {one["variant"] for one in answers.values()} == set(versions)
        for row in Decision.objects.select_related("agent_version", "exposure"):
            arm, other = row.exposure.arm, next(arm for arm in versions if arm != row.exposure.arm)
            assert (row.agent_version.number, row.epsilon) == versions[arm]
            assert row.propensity == pytest.approx(share(row.action, server.pick, versions[arm][1]))
            assert row.other_arm_propensity == pytest.approx(share(row.action, server.pick, versions[other][1]))
        prompts = [one["messages"][0]["content"].splitlines()[0] for one in server.asked]
        assert prompts.count("A topic for: Flights to Oslo") == prompts.count("Flights to Oslo") == len(UNITS)
        assert not Alias.objects.filter(name="challenger").exists()

    def test_versions_that_only_explore_differently_are_told_by_one_answer(self, remote, keep, start, ask):
        _, server = remote("gpt")
        start(keep(epsilon=0.3))
        assert ask(unit="ann").status_code == 201
        row = Decision.objects.get()
        both = sorted([row.propensity, row.other_arm_propensity])
        assert both == pytest.approx(sorted(share(row.action, server.pick, epsilon) for epsilon in (0.05, 0.3)))
        assert len(server.asked) == 1

    def test_what_the_tried_version_cannot_be_asked_the_agent_s_own_answers_and_that_is_a_failure(
        self, agent, remote, keep, start, ask
    ):
        remote("gpt")
        start(keep(prompt_template="{{ title }}: {{ text }}"), **QUICK)
        answers = [ask(unit=unit, id=str(uuid7())) for unit in UNITS]
        assert {one.status_code for one in answers} == {201}
        told = [one.json() for one in answers]
        assert {(one["variant"], one["fallback"]) for one in told} == {("control", False), ("treatment", True)}
        rows = Decision.objects.all()
        assert {(row.agent_version.number, row.other_arm_propensity) for row in rows} == {(1, None)}
        exposures = Exposure.objects.values_list("arm", "served_arm", "fallback").distinct()
        assert set(exposures) == {("control", "control", False), ("treatment", "control", True)}
        stood_in = next(one for one in told if one["fallback"])
        unit = rows.get(id=stood_in["decision_id"]).unit
        assert ask(unit=unit, id=stood_in["decision_id"]).json() == stood_in  # asked again
        mature_outcomes()
        experiment = Experiment.objects.get()
        assert experiment.failed_treatment == experiment.requests_treatment > 0
        assert experiment.failed_control == 0 < experiment.requests_control
        refused = {ask(unit=unit, state={"title": "x"}).status_code for unit in UNITS}
        assert (refused, Decision.objects.count()) == ({400}, len(UNITS))  # in both arms, by what the control needs

    def test_other_options_are_compared_plainly_and_the_log_says_why(self, remote, keep, start, ask):
        _, server = remote("gpt")
        server.pick = "travel"
        answer = start(keep(options=["travel", "rest"]))
        assert answer.json()["conditioned"] is False
        [begun] = Look.objects.all()
        assert begun.reasons[:2] == ["a better one", "filer v2 differs from filer v1 in: options"]
        assert "do not choose from the same options" in begun.reasons[2]
        offered = {one["variant"]: set(one["probabilities"]) for one in (ask(unit=unit).json() for unit in UNITS)}
        assert offered == {"control": set(OPTIONS), "treatment": {"travel", "rest"}}
        assert len(server.asked) == len(UNITS)

    @pytest.mark.slow
    def test_several_versions_are_tried_at_the_same_time(self, agent, remote, keep, client, ask):
        """Each unit meets one of them; the winner is the agent's version, and the others end."""
        _, server = remote("gpt")
        numbers = [keep(prompt_template="A topic for: {{ text }}", epsilon=0.3), keep(epsilon=0.4)]
        body = {"agent_versions": numbers, "reason": "two prompts"} | QUICK
        refused = client.post("agents/filer/experiment-groups", body | {"agent_versions": [numbers[0], numbers[0]]})
        assert refused.json()["error"]["fields"][0]["reason"] == "is given twice"
        assert not Experiment.objects.exists()
        started = client.post("agents/filer/experiment-groups", body)
        assert started.status_code == 201, started.content
        names = [one["name"] for one in started.json()["experiments"]]
        assert names == ["filer v2 against filer v1", "filer v3 against filer v1"]
        assert [one["units_share"] for one in started.json()["experiments"]] == [0.5, 0.5]
        for unit in [f"unit-{number}" for number in range(40)]:
            assert ask(unit=unit).status_code == 201
        seen = {}
        for row in Decision.objects.select_related("agent_version", "exposure__experiment"):
            arm, experiment = row.exposure.arm, row.exposure.experiment
            tried = {"filer v2 against filer v1": (2, 0.3), "filer v3 against filer v1": (3, 0.4)}[experiment.name]
            versions = {"control": (1, 0.05), "treatment": tried}
            assert (row.agent_version.number, row.epsilon) == versions[arm]
            other = next(value for name, value in versions.items() if name != arm)
            assert row.other_arm_propensity == pytest.approx(share(row.action, server.pick, other[1]))
            seen[experiment.name, arm] = seen.get((experiment.name, arm), 0) + 1
        assert len(seen) == 4
        refused = client.request("PATCH", "agents/filer", {"expected_version": 1, "epsilon": 0.2})
        assert refused.json()["error"]["code"] == "experiment_running"
        won = Experiment.objects.get(name=names[1])
        feed(won, BETTER, batches=20)
        assert won.state == "promoted"
        assert find_current_version(type(agent).objects.get(id=agent.id)).number == 3
        assert Experiment.objects.get(name=names[0]).state == "superseded"
        assert ask(unit="unit-1").json()["variant"] is None

    def test_other_agents_of_the_model_stay_outside(self, agent, remote, keep, start, api):
        remote("gpt")
        second = AgentFactory(workspace=agent.workspace, slug="second", registered_model=agent.registered_model)
        AgentVersionFactory(agent=RewardSpecFactory(agent=second).agent)
        assert start(keep(epsilon=0.3)).status_code == 201
        answer = api("route:read").post("agents/second/decide", {"state": {"text": "x"}, "unit": "ann"}).json()
        assert (answer["variant"], answer["model_version"]) == (None, "filer:1")
        assert not Exposure.objects.exists()


def test_a_chat_is_written_as_its_arm_s_version_says(by, workspace, serve):
    agent = RewardSpecFactory(agent=AgentFactory(workspace=workspace, slug="helper")).agent
    versions = [
        AgentVersionFactory(
            agent=agent,
            action_space="text",
            options=None,
            temperature=heat,
            max_completion_tokens=tokens,
            system_prompt=system,
        )
        for heat, tokens, system in ((1.0, 16, ""), (0.25, 64, "Be brief."))
    ]
    agent.current_version = versions[0]
    agent.save()
    champion = ModelVersionFactory(registered_model=agent.registered_model)
    AliasFactory(version=champion)
    server = serve()
    server.models = ["helper-1"]
    DeploymentFactory(version=champion, backend=BackendFactory(workspace=workspace, url=server.url))
    start_agent_experiment(by=by, agent_version=versions[1], plan=ExperimentPlan(), reason="shorter answers")
    chat = read_chat({"model": "helper", "messages": [{"role": "user", "content": "Where to?"}]})
    told = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where to?"}]
    fields = [{"temperature": 1.0, "max_tokens": 16}, {"temperature": 0.25, "max_tokens": 64, "messages": told}]
    seen = {}
    for unit in UNITS:
        begun = begin_chat(by=by, chat=chat, kind=CallKind.CHAT, about=About(unit=unit))
        record_chat(begun=begun, ended=Ended(Written(parts=["Oslo"]), begun.attempts[-1]))
        asked = [attempt.fields for attempt in begun.attempts if attempt.place.endpoint.backend]
        row = Decision.objects.select_related("exposure", "agent_version").get(id=begun.id)
        seen[row.exposure.arm] = (asked, row.agent_version.number, row.temperature, row.exposure.served_arm)
    # The last to be asked is the control, which stands in for a treatment that cannot answer.
    assert seen == {
        "control": (fields[:1], 1, 1.0, "control"),
        "treatment": ([fields[1], fields[0]], 1, 1.0, "control"),
    }


class TestTheEnd:
    @pytest.fixture
    def champion(self, agent):
        version = ModelVersionFactory(registered_model=agent.registered_model)
        AliasFactory(version=version)
        return version

    def run(self, rate):
        experiment = Experiment.objects.get()
        feed(experiment, rate)
        return experiment.state

    def current(self, agent):
        return find_current_version(type(agent).objects.get(id=agent.id)).number

    def test_what_wins_is_the_agent_s_version_from_then_on(self, agent, champion, keep, start, client):
        start(keep(epsilon=0.3), **QUICK)
        keep(epsilon=0.4)  # newer, and neither used nor tried
        refused = client.request("PATCH", "agents/filer", {"expected_version": 1, "epsilon": 0.2})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "experiment_running")
        switched = client.post("agents/filer/versions/3/use")
        assert (switched.status_code, switched.json()["error"]["code"]) == (409, "experiment_running")
        assert (self.current(agent), agent.versions.count()) == (1, 3)
        assert self.run(BETTER) == "promoted"
        assert (self.current(agent), get_champion(agent.registered_model)) == (2, champion)
        assert client.get("agents/filer").json()["current"]["epsilon"] == 0.3
        assert client.post("agents/filer/versions/1/use").json()["version"] == 1 == self.current(agent)
        revised = client.request("PATCH", "agents/filer", {"expected_version": 1, "epsilon": 0.2})
        assert (revised.json()["version"], self.current(agent)) == (4, 4)

    def test_a_model_version_and_an_agent_version_win_together(self, agent, champion, keep, start):
        tried = ModelVersionFactory(registered_model=agent.registered_model)
        start(keep(epsilon=0.3), treatment=str(tried), **QUICK)
        assert Alias.objects.get(name="challenger").version == tried
        assert self.run(BETTER) == "promoted"
        assert (self.current(agent), get_champion(agent.registered_model)) == (2, tried)

    def test_what_is_worse_or_stopped_leaves_the_agent_as_it_is(self, agent, champion, keep, start, by):
        number = keep(epsilon=0.3)
        start(number, **QUICK)
        assert self.run(WORSE) == "rolled_back"
        assert self.current(agent) == 1
        Experiment.objects.all().delete()
        start(number, **QUICK)
        stop_experiment(by=by, experiment=Experiment.objects.get(), reason="enough")
        assert self.current(agent) == 1

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"action_space": "text", "options": None}, "filer v2 has another action space than filer v1"),
            ({"state_schema": {"type": "object"}}, "filer v2 has another state schema than filer v1"),
            (None, "filer v1 and filer v1 are the same"),
        ],
    )
    def test_what_asks_another_question_or_the_same_one_is_not_tried(self, champion, keep, start, changes, told):
        answer = start(keep(**changes) if changes else 1)
        assert (answer.status_code, answer.json()["error"]["fields"][0]["reason"]) == (400, told)
        assert not Experiment.objects.exists()
