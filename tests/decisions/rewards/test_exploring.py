"""Secondary measures and slices, from decisions through maturing to the API and the page."""

import datetime as dt

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.models import Decision
from decisions.rewards.maturing import mature_outcomes
from models_registry.experiments.evidence import read_comparison
from models_registry.experiments.exploring import ExploredUnit, Tallies, go_on_exploring
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment, Exposure
from models_registry.routing.router import Router
from tools.factories import AliasFactory, DecisionFactory, FeedbackFactory, ModelVersionFactory
from workspaces.errors import InvalidInput

pytestmark = pytest.mark.django_db
NOW = timezone.now()
MET = NOW - dt.timedelta(hours=3)


@pytest.fixture
def start(agent, by):
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    treatment = ModelVersionFactory(registered_model=agent.registered_model)

    def run(**fields):
        plan = ExperimentPlan(exposure_window_seconds=600, attribution_window_seconds=3600, **fields)
        return start_experiment(by=by, treatment=treatment, plan=plan, reason="a better one")

    return run


def met(experiment, agent, number, language, latency):
    route = Router(agent.registered_model).route(f"unit-{number}")
    moment = MET + dt.timedelta(milliseconds=number)
    exposure = Exposure.objects.create(
        workspace=agent.workspace, experiment=experiment, phase=route.phase, unit=f"unit-{number}", arm=route.arm,
        served_arm=route.arm, assignment_probability=route.assignment_probability, version=route.version,
        exposed_at=moment,
    )  # fmt: skip
    for minutes, spoken in ((0, language), (1, "later")):
        decision = DecisionFactory(
            agent=agent, exposure=exposure, unit=exposure.unit, policy_name=None, model_version=route.version,
            latency_ms=latency + 10 * minutes, observed_at=moment + dt.timedelta(minutes=minutes),
            state={"text": "x", "language": spoken},
        )  # fmt: skip
    verdict = "confirmed" if number % 2 else "corrected"
    FeedbackFactory(decision=decision, value=verdict, observed_at=moment + dt.timedelta(minutes=2))
    return exposure


def test_measures_and_slices_are_shown_and_decide_nothing(start, agent, api, viewer, page_client):
    experiment = start(secondary=("latency_ms", "decisions", "verdict", "cost"), slices=("language",))
    arms = [met(experiment, agent, number, ("de", "en", "en")[number % 3], 100.0 + number).arm for number in range(12)]
    assert mature_outcomes(NOW)[0].units == 12
    explored = api("export:read").get(f"experiments/{experiment.id}").json()["exploratory"]
    latency, decisions, verdict, cost, english, german = explored
    treated = [105.0 + number for number, arm in enumerate(arms) if arm == "treatment"]
    assert latency["mean_treatment"] == pytest.approx(sum(treated) / len(treated))
    assert (decisions["mean_control"], decisions["units_treatment"]) == (2.0, len(treated))
    assert verdict["units_control"] + verdict["units_treatment"] == 12  # a component of the reward
    assert (cost["units_control"], cost["mean_control"], cost["estimate"]) == (0, None, None)
    # By the first decision's state, before an arm could change it.
    assert [(one["name"], one["value"]) for one in (english, german)] == [("language", "en"), ("language", "de")]
    assert [one["units_control"] + one["units_treatment"] for one in (english, german)] == [8, 4]
    page = page_client(viewer).get(reverse("pages:experiment", args=[agent.workspace.slug, experiment.pk]))
    text = page.content.decode()
    assert "Reward where language is en" in text and "decides nothing" in text and "Up to 14 differences" in text
    experiment.refresh_from_db()
    assert "latency_ms" not in experiment.verdict and "language" not in experiment.verdict
    mature_outcomes(NOW)  # nothing new: nothing is counted twice
    experiment.refresh_from_db()
    assert read_comparison(experiment).explored.secondary["decisions"].units == 12


def test_the_first_values_have_slices_of_their_own_and_the_rest_is_one(start):
    experiment = start(slices=("language",), secondary=())
    values = [f"v{number}" for number in range(12)] + ["v3", "v11"]
    units = [ExploredUnit(True, 0.5, 1.0, {}, {"language": value}) for value in values]
    found = Tallies()
    for begin in range(0, 14, 5):
        found = go_on_exploring(experiment, found, units[begin : begin + 5])
    sizes = {value: tally.units for value, tally in found.slices["language"].items()}
    assert sizes == {f"v{number}": 1 for number in range(8)} | {"v3": 2, "(other)": 5}


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"secondary": ("cost", "cost")}, "secondary"),
        ({"slices": tuple("abcdef")}, "slices"),
        ({"slices": (" ",)}, "slices"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(start, fields, fault):
    with pytest.raises(InvalidInput) as refused:
        start(**fields)
    assert [one.field for one in refused.value.faults] == [fault]
    assert not Experiment.objects.exists() and not Decision.objects.exists()
