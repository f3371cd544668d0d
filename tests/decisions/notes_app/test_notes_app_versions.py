"""The notes app's A/B test: any number of versions, with intervals."""

import pytest

from decisions.agents.revising import revise_agent
from decisions.agents.trying import start_agent_experiment
from decisions.models import Agent
from decisions.notes_app import examples as example
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import stop_experiment
from models_registry.experiments.services import start_experiment
from models_registry.versions.services import NewVersion, register_version
from tests.decisions.notes_app.notes_requests import T, recorded, shape
from tools.factories import BackendFactory, DecisionFactory, DeploymentFactory, FeedbackFactory, HoldoutFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def compared(app):
    def compare(kind="FILER"):
        answer = app.get(f"{T}/ab-test?agentType={kind}")
        assert answer.status_code == 200, answer.content
        return answer.json()

    return compare


def test_one_version_or_none_is_no_test(app, compared):
    assert compared() == compared("STORER") | {"agentType": "FILER"}
    recorded(app)
    told = compared()
    assert (told["abTestingEnabled"], set(told)) == (False, {"agentType", "abTestingEnabled", "message", "versions"})
    assert told["versions"] == [{"version": "gpt-4.1-mini-20250101", "description": "", "weight": 0.0}]
    refused = app.get(f"{T}/ab-test")
    assert refused.status_code == 400
    assert refused.json()["error"]["fields"][0]["expected"].endswith("STORER, RETRIEVER")


def test_versions_are_compared_by_reward_and_acceptance_with_intervals(app, agents, compared):
    """Of the better one 11 of 12 units accept, of the worse one 4; a third has one unit, a fourth no verdict."""

    def decide(version, unit, verdict=None):
        fields = {"state": example.STATE, "action": example.ACTION, "options": None, "confidence": 0.5}
        made = DecisionFactory(agent=agents["FILER"], policy_name=version, unit=unit, **fields)
        if verdict is not None:
            FeedbackFactory(decision=made, value=verdict)

    for version, accepted in (("gpt-a", 11), ("gpt-b", 4)):
        for number in range(12):
            decide(version, f"{version}-{number}", "confirmed" if number < accepted else "corrected")
    decide("gpt-d", "ann")
    for verdict in ("confirmed", "corrected", "ignored"):
        decide("gpt-c", "ann", verdict)
    app.post(f"{T}/calculate-pending")
    told = compared()
    assert shape(told) == shape(example.COMPARED | {"versions": told["versions"]})
    assert (told["totalDecisions"], told["experimentId"]) == (28, None)
    a, b, c, d = (one["stats"] for one in told["versions"])
    assert shape(a) == shape(example.VERSION_STATS)
    assert [one["version"] for one in told["versions"]] == ["gpt-a", "gpt-b", "gpt-c", "gpt-d"]
    assert [one["acceptanceRate"] for one in (a, b, c, d)] == pytest.approx([11 / 12, 4 / 12, 1 / 2, None])
    low, high = a["acceptanceInterval"]
    assert 0.6 < low < a["acceptanceRate"] < high <= 1.0
    assert a["avgRewardInterval"][0] < a["avgReward"] < a["avgRewardInterval"][1]
    assert (a["decisionsWithFeedback"], a["decisionsWithReward"], a["avgConfidence"]) == (12, 12, 0.5)
    # What one unit says is no evidence of others.
    assert (c["avgRewardInterval"], c["acceptanceInterval"]) == (None, [0.0, 1.0])
    assert c["feedbackBreakdown"] == {"confirmed": 1, "corrected": 1, "overridden": 0, "ignored": 1}
    assert (d["avgReward"], d["avgRewardInterval"], d["acceptanceInterval"]) == (None, None, None)
    of_all = sum(one["avgReward"] * one["decisionsWithReward"] for one in (a, b, c))
    assert told["overallAvgReward"] == pytest.approx(of_all / 27)
    # Twelve units are too few to call it.
    assert told["comparison"] == {
        "bestReward": "gpt-a",
        "bestRewardIsClear": False,
        "bestAcceptanceRate": "gpt-a",
        "bestAcceptanceRateIsClear": False,
        "mostDecisions": "gpt-a",
    }


def test_an_experiment_s_arms_have_its_weights(app, compared, agents, by, serve):
    server = serve()
    server.models = ["base", "tuned"]
    backend = BackendFactory(workspace=by.workspace, url=server.url)
    versions = []
    for name in server.models:
        new = NewVersion(remote_name=name, method="remote", description=f"the {name} one")
        versions.append(register_version(by=by, model=agents["FILER"].registered_model, new=new))
        DeploymentFactory(version=versions[-1], backend=backend)
    recorded(app)
    before = compared()
    assert [(one["version"], one["weight"]) for one in before["versions"]] == [
        ("filer:1", 1.0),
        ("gpt-4.1-mini-20250101", 0.0),
    ]
    plan = ExperimentPlan(treatment_share=0.25)
    filer = agents["FILER"]
    own = filer.versions.first()
    revise_agent(by=by, agent=filer, expected=own.number, changes={"system_prompt": "File notes."}, acts=False)
    tried = filer.versions.first()
    first = start_agent_experiment(by=by, agent_version=tried, plan=plan, reason="a clearer prompt")
    acted = {"agent": filer, "policy_name": None, "state": example.STATE, "action": example.ACTION, "options": None}
    for setup, count in ((own, 3), (tried, 2)):
        for _ in range(count):
            DecisionFactory(**acted, model_version=versions[0], agent_version=setup)
    DecisionFactory(**acted, model_version=versions[1], agent_version=tried)
    told = compared()
    assert told["experimentId"] == str(first.id)
    assert [(one["version"], one["weight"], one["stats"]["totalDecisions"]) for one in told["versions"]] == [
        ("filer:1 with filer v1", 0.75, 3),
        ("filer:1 with filer v2", 0.25, 2),
        ("filer:2", 0.0, 1),
        ("gpt-4.1-mini-20250101", 0.0, 1),
    ]
    # Another agent of the model stays outside.
    Agent.objects.filter(id=agents["STORER"].id).update(registered_model=filer.registered_model)
    [champion] = compared("STORER")["versions"]
    assert (champion["version"], champion["weight"]) == ("filer:1", 1.0)
    stop_experiment(by=by, experiment=first, reason="the next one")
    running = start_experiment(by=by, treatment=versions[1], plan=plan, reason="a better one")
    told = compared()
    assert told["experimentId"] == str(running.id)
    assert [(one["version"], one["description"], one["weight"]) for one in told["versions"]] == [
        ("filer:1", "the base one", 0.75),
        ("filer:2", "the tuned one", 0.25),
        ("gpt-4.1-mini-20250101", "", 0.0),
    ]
    HoldoutFactory(version=versions[0], share=0.2)  # a fifth keeps it, and takes part in no experiment
    held = {one["version"]: one["weight"] for one in compared()["versions"]}
    assert held == pytest.approx({"filer:1": 0.8, "filer:2": 0.2, "gpt-4.1-mini-20250101": 0.0})
