"""What a unit's decisions say of its guardrails, and a treatment that cannot answer is gone at the next look."""

import datetime as dt
import json

import httpx
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from decisions.gateway.decide import decide
from decisions.ingest.schemas import DecideItem
from decisions.models import Decision
from decisions.rewards.maturing import mature_outcomes
from models_registry.backends import outbound
from models_registry.experiments.guardrails import GuardrailPlan
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Exposure, Observation
from models_registry.routing import lanes as routing
from models_registry.routing.router import Router
from models_registry.versions.services import get_champion
from tools.factories import AliasFactory, CallFactory, DecisionFactory, FeedbackFactory, ModelVersionFactory

pytestmark = pytest.mark.django_db
NOW = timezone.now()
WATCHED = (GuardrailPlan("error_rate", 0.05), GuardrailPlan("latency", 0.05, budget_ms=200.0))


@pytest.fixture(autouse=True)
def same_split_every_time(monkeypatch):
    real = routing.assign
    monkeypatch.setattr(routing, "assign", lambda salt, name, unit, share: real("5" * 32, "experiment", unit, share))


@pytest.fixture
def experiment(agent, by):
    """Exposure window 10 minutes, attribution window 20 minutes."""
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    plan = ExperimentPlan(exposure_window_seconds=600, attribution_window_seconds=1200, guardrails=WATCHED)
    return start_experiment(
        by=by, treatment=ModelVersionFactory(registered_model=agent.registered_model), plan=plan, reason="a better one"
    )


@pytest.fixture
def expose(experiment, agent):
    """`expose("ann")`: a unit exposed an hour ago, without decisions."""

    def make(unit):
        route = Router(agent.registered_model).route(unit)
        return Exposure.objects.create(
            workspace=agent.workspace, experiment=experiment, phase=route.phase, unit=unit, arm=route.arm,
            served_arm=route.arm, assignment_probability=route.assignment_probability, version=route.version,
            exposed_at=NOW - dt.timedelta(minutes=60),
        )  # fmt: skip

    return make


def unit_of(experiment, arm):
    router = Router(experiment.registered_model)
    return next(unit for unit in map(str, range(100)) if router.route(unit).arm == arm)


def decided(agent, exposure, version, latency_ms, minutes=0):
    return DecisionFactory(
        agent=agent, exposure=exposure, unit=exposure.unit, policy_name=None, model_version=version,
        latency_ms=latency_ms, observed_at=exposure.exposed_at + dt.timedelta(minutes=minutes),
    )  # fmt: skip


def test_measures_are_shares_of_the_decisions_in_the_exposure_window(experiment, expose, agent):
    treatment = experiment.variants.get(arm="treatment").version
    control = experiment.variants.get(arm="control").version
    exposure = expose(unit_of(experiment, "treatment"))
    decided(agent, exposure, treatment, 100.0)
    decided(agent, exposure, treatment, 300.0)
    decided(agent, exposure, control, 200.0)  # the fallback; a budget is kept when it is met
    decided(agent, exposure, treatment, None)
    decided(agent, exposure, control, 900.0, minutes=11)  # after the window
    unwatched = expose(unit_of(experiment, "control"))
    mature_outcomes(NOW)
    measures = dict(Observation.objects.values_list("exposure", "guardrails"))
    assert measures[exposure.id] == {"error_rate": 1 / 4, "latency": pytest.approx(1 / 3)}
    assert measures[unwatched.id] == {}
    experiment.refresh_from_db()
    # Every decision is a request, whichever window it fell in.
    assert (experiment.requests_treatment, experiment.failed_treatment, experiment.requests_control) == (5, 2, 0)


def test_a_unit_that_stays_silent_is_missing_and_one_that_nobody_decided_says_nothing(experiment, expose, agent, by):
    experiment.guardrails = [GuardrailPlan("missing_feedback", 0.05).as_stored()]
    experiment.save()
    answered, silent, untouched = (expose(unit) for unit in ("a", "b", "c"))
    for exposure in (answered, silent):
        decided(agent, exposure, exposure.version, 10.0)
    verdict = FeedbackFactory(decision=answered.decisions.get(), metric="verdict", value="corrected")
    late = NOW + dt.timedelta(hours=2)
    assert verdict.recorded_at < late
    Exposure.objects.update(exposed_at=verdict.recorded_at - dt.timedelta(minutes=5))
    Decision.objects.update(recorded_at=verdict.recorded_at - dt.timedelta(minutes=4))
    mature_outcomes(late)
    observed = {o.exposure_id: (o.outcome is None, o.guardrails) for o in Observation.objects.all()}
    assert observed[answered.id] == (False, {"missing_feedback": 0.0})
    assert observed[silent.id] == (True, {"missing_feedback": 1.0})
    assert observed[untouched.id] == (True, {})


def test_cost_counts_what_was_recorded_and_validity_the_calls_with_unusable_answers(experiment, expose, agent, api):
    experiment.guardrails = [
        GuardrailPlan("cost", 0.1, budget_cost=0.002).as_stored(),
        GuardrailPlan("invalid_answers", 0.01).as_stored(),
    ]
    experiment.save()
    exposure, untold = expose("a"), expose("b")
    for cost, unusable in (("0.0020", 0), ("0.0021", 0), (None, 1), ("0.0001", 2)):
        decision = decided(agent, exposure, exposure.version, 10.0)
        Decision.objects.filter(id=decision.id).update(cost=cost)
        CallFactory(id=decision.id, workspace=agent.workspace, unusable_answers=unusable)
    decided(agent, untold, untold.version, 10.0)  # whose call is not known
    mature_outcomes(NOW)
    measures = dict(Observation.objects.values_list("exposure", "guardrails"))
    assert measures[exposure.id] == {"cost": pytest.approx(1 / 3), "invalid_answers": 1 / 2}
    assert measures[untold.id] == {}
    cost, invalid = api("export:read").get(f"experiments/{experiment.id}").json()["guardrails"]
    assert (cost["budget_cost"], cost["units"], invalid["units"]) == (0.002, 1, 1)


def test_a_guardrail_without_data_says_so(experiment, expose, agent):
    experiment.guardrails = [GuardrailPlan("cost", 0.1, budget_cost=0.002).as_stored()]
    experiment.save()
    exposure = expose("a")
    decided(agent, exposure, exposure.version, 10.0)
    mature_outcomes(NOW)
    experiment.refresh_from_db()
    assert "guardrail “Cost over budget” has no data yet" in experiment.verdict


def test_the_queries_do_not_grow_with_the_units(experiment, expose, agent):
    counts = []
    for batch in ((1, 2), range(3, 40)):
        for unit in batch:
            exposure = expose(f"unit-{unit}")
            decided(agent, exposure, exposure.version, 50.0)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert mature_outcomes(NOW)[0].units == len(batch)
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.fixture
def half_a_model_server(experiment, monkeypatch):
    """Answers as the model server does when the treatment's artifact is missing from its store."""
    missing = experiment.variants.get(arm="treatment").version.artifact.digest

    def answer(request):
        results = [one(item) for item in json.loads(request.content)["items"]]
        if all("error" in result for result in results):  # then one reason is the status of the whole
            return httpx.Response(404, json=results[0] | {"results": results})
        return httpx.Response(200, json={"results": results})

    def one(item):
        if item["model"] == missing:
            return {"error": {"code": "model_not_found", "message": f"no artifact {missing}"}}
        return {"probabilities": [1 / len(item["options"])] * len(item["options"]), "model": item["model"]}

    client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://model-server")
    monkeypatch.setattr(outbound, "http_client", lambda url, own: client)


def test_a_treatment_whose_artifact_is_missing_is_rolled_back_before_any_unit_matures(
    experiment, agent, by, half_a_model_server
):
    champion = get_champion(agent.registered_model)

    def ask(begin, end):
        return decide(
            by=by, agent="filer", items=[DecideItem(state={"text": "x"}, unit=str(n)) for n in range(begin, end)]
        )

    answers = ask(0, 150)
    assert {answer.model_version for answer in answers} == {champion}
    assert {answer.fallback for answer in answers if answer.arm == "treatment"} == {True}
    alone = unit_of(experiment, "treatment")
    assert ask(int(alone), int(alone) + 1)[0].fallback
    (first,) = mature_outcomes()
    assert (first.units, first.action) == (0, "continue")  # fewer than 100 requests an arm
    ask(150, 300)
    (second,) = mature_outcomes()
    assert (second.units, second.action) == (0, "roll_back")
    experiment.refresh_from_db()
    assert experiment.verdict == "100.0 points more failed requests than control"
    assert experiment.failed_treatment == experiment.requests_treatment >= 100
    assert experiment.failed_control == 0 and experiment.requests_control >= 100
    assert get_champion(agent.registered_model) == champion
    assert ask(300, 301)[0].arm is None
