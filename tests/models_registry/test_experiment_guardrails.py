"""Guardrails of an experiment: what holds a promotion back, and what rolls a version back."""

import pytest

from models_registry.experiments.guardrails import GuardrailPlan
from models_registry.experiments.looks import RequestCounts, consume_observations
from models_registry.versions.services import get_champion
from tests.models_registry.experiment_units import feed, matured

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("same_split_every_time")]

BETTER = {"control": 0.4, "treatment": 0.75}
NEVER = {"control": 0.0, "treatment": 0.0}
WATCHED = (GuardrailPlan("error_rate", 0.05), GuardrailPlan("latency", 0.05, budget_ms=200.0))


class TestGuardrails:
    def test_a_better_arm_waits_for_its_guardrails(self, start, model, challenger):
        experiment = start(guardrails=WATCHED, min_units_per_arm=50)
        champion = get_champion(model)
        sound = {"error_rate": NEVER, "latency": NEVER}
        verdict = feed(experiment, BETTER, batches=2, measures=sound)
        assert verdict.action == "continue"
        names = ("Error rate", "Latency over budget")
        assert [reason.split(":")[0] for reason in verdict.reasons] == [
            f"guardrail “{name}” not shown to be no worse" for name in names
        ]
        assert get_champion(model) == champion
        # Without a single failure some 250 units are enough at this margin (statistics/test_guardrails.py).
        rest = matured(experiment, 200, BETTER, begin=200, measures=sound)
        assert consume_observations(experiment=experiment, matured=rest).action == "promote"
        assert get_champion(model) == challenger
        experiment.refresh_from_db()
        assert {name: state["units"] for name, state in experiment.guardrail_evidence.items()} == {
            "error_rate": 400,
            "latency": 400,
        }

    def test_what_was_not_measured_is_not_taken_for_sound(self, start):
        experiment = start(guardrails=WATCHED)
        verdict = feed(experiment, BETTER, measures={"latency": NEVER})
        assert verdict.action == "continue"
        assert verdict.reasons == ["guardrail “Error rate” has no data yet"]
        assert experiment.units_treatment > 400

    def test_harm_to_a_guardrail_rolls_a_better_arm_back(self, start, model):
        experiment = start(guardrails=WATCHED)
        champion = get_champion(model)
        slow = {"error_rate": NEVER, "latency": {"control": 0.01, "treatment": 0.4}}
        verdict = feed(experiment, BETTER, measures=slow)
        assert verdict.action == "roll_back"
        assert verdict.reasons[0].startswith("guardrail “Latency over budget” harmed: E ")
        assert "has reached 40" in verdict.reasons[0]  # 20 for each of two
        assert (experiment.state, get_champion(model)) == ("rolled_back", champion)

    def test_units_without_a_reward_are_watched_all_the_same(self, start):
        experiment = start(guardrails=WATCHED)
        units = matured(experiment, 30, {"control": None, "treatment": None}, measures={"error_rate": NEVER})
        consume_observations(experiment=experiment, matured=units)
        experiment.refresh_from_db()
        assert experiment.units_control == 0
        assert experiment.guardrail_evidence["error_rate"]["units"] == 30

    def test_failed_requests_roll_back_before_any_unit_has_matured(self, start, model):
        experiment = start()
        champion = get_champion(model)
        few = RequestCounts(control=99, treatment=99, failed_treatment=99)
        assert consume_observations(experiment=experiment, matured=[], requests=few).action == "continue"
        bearable = RequestCounts(control=1000, failed_control=10, treatment=1000, failed_treatment=59)
        assert consume_observations(experiment=experiment, matured=[], requests=bearable).action == "continue"
        many = RequestCounts(control=1000, failed_control=10, treatment=1000, failed_treatment=61)
        verdict = consume_observations(experiment=experiment, matured=[], requests=many)
        assert (verdict.action, verdict.reasons) == ("roll_back", ["5.1 points more failed requests than control"])
        experiment.refresh_from_db()
        assert experiment.state == "rolled_back"
        assert (experiment.requests_treatment, experiment.failed_treatment) == (1000, 61)
        assert get_champion(model) == champion

    def test_over_the_api(self, api, challenger):
        client = api("admin")
        guardrails = [{"measure": "error_rate", "margin": 0.05}, {"measure": "latency", "margin": 0.1, "budget_ms": 50}]
        plan = {
            "treatment": str(challenger.id),
            "guardrails": guardrails,
            "guardrail_e": 10,
            "rollback_e": 30,
            "reason": "better",
        }
        wrong = client.post("experiments", plan | {"guardrails": [*guardrails, guardrails[0] | {"margin": 2}]})
        assert wrong.status_code in (400, 422)
        assert "guardrails[2].margin" in wrong.content.decode()
        shown = client.get(f"experiments/{client.post('experiments', plan).json()['id']}").json()
        assert (shown["guardrail_e"], shown["max_excess_failures"], shown["requests_control"]) == (10, 0.05, 0)
        nothing_yet = {"units": 0, "estimate": 0.0, "log_e_non_inferior": 0.0, "log_e_harm": 0.0, "harm_e": 60.0}
        assert shown["guardrails"] == [guardrail | nothing_yet for guardrail in guardrails]
