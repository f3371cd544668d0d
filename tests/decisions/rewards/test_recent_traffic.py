"""The estimate of an experiment's time from what its agent met: over the API, and on the page that starts it."""

import datetime as dt

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.agents.trying import start_agent_experiment
from decisions.models import Agent, Decision, Reward
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    AliasFactory,
    DecisionFactory,
    FeedbackFactory,
    ModelVersionFactory,
    RewardFactory,
    RewardSpecFactory,
)

pytestmark = pytest.mark.django_db
NOW = timezone.now()
DAYS, A_DAY = 10, 12


@pytest.fixture
def versions(agent):
    control, treatment = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
    AliasFactory(version=control)
    return control, treatment


@pytest.fixture
def lived(agent, versions):
    """Ten days with twelve new units each, of whom every third has feedback after an hour; one decision in twelve took
    two seconds. Everybody comes back once."""
    spec = agent.reward_specs.get()
    for number in range(DAYS * A_DAY):
        moment = NOW - dt.timedelta(days=DAYS) + dt.timedelta(days=number / A_DAY)
        policy = {"agent": agent, "policy_name": None, "model_version": versions[0]}
        decision = DecisionFactory(
            **policy, unit=f"unit-{number}", observed_at=moment, latency_ms=2000.0 if number % 12 == 0 else 20.0
        )
        if number % 3 == 0:
            FeedbackFactory(decision=decision, observed_at=moment + dt.timedelta(hours=1))
            RewardFactory(decision=decision, spec=spec, value=(0.3, 0.7)[number % 2])
    for number in range(0, DAYS * A_DAY, 10):
        DecisionFactory(**policy, unit=f"unit-{number}", observed_at=NOW - dt.timedelta(hours=1), latency_ms=20.0)


def test_the_estimate_counts_each_unit_once_and_says_what_it_assumes(lived, versions, api):
    body = {"treatment": str(versions[1].id), "treatment_share": 0.05, "ramp": [0.25, 0.5], "guardrails": []}
    body |= {"min_units_per_arm": 1, "smallest_effect": 0.02}
    found = api("export:read").post("experiments/estimate", body).json()
    assert found["new_units_a_day"] == pytest.approx(A_DAY, rel=0.05)
    assert found["rewarded_share"] == pytest.approx(1 / 3, abs=0.05)
    assert found["reward_deviation"] == pytest.approx(0.2, abs=0.01)
    assert [phase["treatment_share"] for phase in found["phases"]] == [0.05, 0.25, 0.5]
    # 250 units, and then both windows of a day.
    assert found["phases"][1]["opens_after_seconds"] == pytest.approx((250 / A_DAY + 2) * 86_400, rel=0.05)
    assert found["slowest"] == "evidence" and found["seconds"] > found["phases"][2]["opens_after_seconds"]
    assert "Assumes 12 new units a day as of late" in found["assumes"] and f"{found['units']:,} units" in found["says"]
    easier = api("export:read").post("experiments/estimate", body | {"smallest_effect": 0.2}).json()
    assert easier["seconds"] < found["seconds"]
    wrong = api("export:read").post("experiments/estimate", body | {"smallest_effect": 0})
    assert wrong.status_code == 400 and "smallest_effect" in wrong.content.decode()
    assert not Experiment.objects.exists()


def test_of_an_experiment_on_versions_of_an_agent_only_that_agent_s_units_count(lived, versions, agent, by, api):
    other = AgentFactory(workspace=agent.workspace, slug="triage", registered_model=agent.registered_model)
    RewardSpecFactory(agent=other)
    for number in range(60):
        moment = NOW - dt.timedelta(days=9 - number / 8)
        DecisionFactory(agent=other, policy_name=None, model_version=versions[0], unit=f"t{number}", observed_at=moment)
    client, body = api("export:read"), {"treatment": str(versions[1].id)}
    everybody, own = (client.post("experiments/estimate", body | more).json() for more in ({}, {"agent": "filer"}))
    assert everybody["new_units_a_day"] == pytest.approx(A_DAY + 6, rel=0.05)
    assert own["new_units_a_day"] == pytest.approx(A_DAY, rel=0.05) and own["seconds"] > everybody["seconds"]
    assert own["rewarded_share"] == pytest.approx(1 / 3, abs=0.05)
    assert everybody["rewarded_share"] < 0.3
    stranger = client.post("experiments/estimate", body | {"agent": "nobody"})
    assert stranger.status_code == 400 and stranger.json()["error"]["fields"][0]["field"] == "agent"
    tried = AgentVersionFactory(agent=agent, prompt_template="File {{ text }}")
    Agent.objects.filter(id=agent.id).update(current_version=agent.versions.get(number=1))
    experiment = start_agent_experiment(by=by, agent_version=tried, plan=ExperimentPlan(), reason="clearer")
    assert experiment.expected_seconds == pytest.approx(own["seconds"], rel=0.01)


def test_what_slow_answers_make_of_it(lived, versions, api):
    body = {"treatment": str(versions[1].id), "guardrails": [{"measure": "latency", "margin": 0.01, "budget_ms": 1000}]}
    client = api("export:read")
    slow = client.post("experiments/estimate", body).json()
    assert slow["slowest"] == "latency" and "“Latency over budget” takes longest" in slow["says"]
    Decision.objects.update(latency_ms=None)
    untold = client.post("experiments/estimate", body).json()
    assert (untold["seconds"], untold["slowest"]) == (None, "latency")
    assert untold["says"] == (
        "No promotion is expected: the guardrail “Latency over budget” has no data in recent decisions."
    )


def test_without_traffic_nothing_is_estimated(versions, agent, api):
    for _ in range(5):
        DecisionFactory(agent=agent)
    found = api("export:read").post("experiments/estimate", {"treatment": str(versions[1].id)}).json()
    assert (found["seconds"], found["units"], found["phases"]) == (None, None, [])
    assert "made too few decisions lately" in found["says"]


def test_the_form_estimates_without_starting_and_a_start_keeps_the_estimate(lived, versions, by, admin, page_client):
    client, treatment = page_client(admin), versions[1]
    path = reverse("pages:version-try", args=[treatment.workspace.slug, treatment.pk])
    shown = client.get(path)
    assert shown.context["outlook"].says in shown.content.decode()
    form = shown.context["form"]
    given = {name: form[name].value() or "" for name in form.fields if name not in ("also", "agent_version")}
    unguarded = given | {"estimate": "1", "error_rate": "", "latency": "", "missing_feedback": "", "min_seconds": "0"}
    asked = [client.post(path, unguarded | {"smallest_effect": effect}) for effect in ("0.2", "0.01")]
    assert [one.status_code for one in asked] == [200, 200]
    assert asked[0].context["outlook"].seconds < asked[1].context["outlook"].seconds
    refused = client.post(path, given | {"estimate": "1", "smallest_effect": "2"})
    assert refused.status_code == 400 and "up to 1" in " ".join(refused.context["form"].errors["smallest_effect"])
    assert not Experiment.objects.exists()
    experiment = start_experiment(by=by, treatment=treatment, plan=ExperimentPlan(), reason="better")
    assert experiment.expected_seconds == pytest.approx(shown.context["outlook"].seconds, rel=0.01)
    assert not Reward.objects.filter(value=None).exists()
