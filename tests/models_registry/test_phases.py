"""Phases: a ramp that evidence opens, and a share that a person changes."""

import pytest

from models_registry.errors import NoExperiment
from models_registry.experiments.feedback_lag import find_window
from models_registry.experiments.looks import consume_observations
from models_registry.experiments.phases import change_share
from models_registry.experiments.promotion import stop_experiment
from models_registry.models import Experiment, Observation
from models_registry.routing.router import Router
from tests.models_registry.experiment_units import feed, matured
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("same_split_every_time")]

EQUAL = {"control": 0.5, "treatment": 0.5}
RAMP = {"treatment_share": 0.05, "ramp": (0.25, 0.5), "ramp_units": 200, "promote_e": 1e9}


def shares(experiment):
    return list(experiment.phases.order_by("number").values_list("treatment_share", flat=True))


class TestRamp:
    def test_each_phase_opens_after_enough_units_without_shown_harm(self, start):
        experiment = start(**RAMP)
        feed(experiment, EQUAL, batches=1)
        assert shares(experiment) == [0.05]
        feed(experiment, EQUAL, batches=1, seed=1)
        assert shares(experiment) == [0.05, 0.25]
        feed(experiment, EQUAL, batches=4, seed=2)
        assert shares(experiment) == [0.05, 0.25, 0.5]  # and no further
        first, second, third = experiment.phases.order_by("number")
        assert (sum(first.settled.values()), sum(second.settled.values())) == (200, 200)
        assert (first.ended_at, second.ended_at) == (second.started_at, third.started_at) or first.ended_at is not None
        assert third.ended_at is None and [one.phase for one in Router(experiment.registered_model).running] == [third]
        opened = experiment.looks.filter(action="open_phase")
        assert [(look.phase, look.treatment_share, look.by) for look in opened] == [(3, 0.5, ""), (2, 0.25, "")]
        assert opened[1].reasons == [
            "200 units matured in phase 1 without shown harm (E of harm below 4)",
            "the treatment's share goes from 5.0% to 25.0%",
        ]

    def test_the_tests_know_each_units_own_share(self, start):
        experiment = start(**RAMP)
        feed(experiment, EQUAL, batches=3)
        probabilities = Observation.objects.values_list("exposure__phase__number", "exposure__assignment_probability")
        assert {(number, round(p, 2)) for number, p in probabilities} == {(1, 0.05), (1, 0.95), (2, 0.25), (2, 0.75)}

    def test_harm_holds_the_share_before_it_rolls_back(self, start):
        experiment = start(**RAMP | {"ramp": (0.5,), "treatment_share": 0.3, "ramp_e": 1.5, "rollback_e": 1e12})
        feed(experiment, {"control": 0.6, "treatment": 0.4}, batches=4)
        assert shares(experiment) == [0.3] and experiment.log_e_minus > 0.5
        experiment.ramp_e = 1e12
        experiment.save()
        consume_observations(experiment=experiment, matured=[])
        assert shares(experiment) == [0.3, 0.5]

    def test_a_worse_arm_is_rolled_back_on_the_way(self, start):
        experiment = start(**RAMP)
        assert feed(experiment, {"control": 0.9, "treatment": 0.1}, batches=12).action == "roll_back"
        assert not experiment.phases.filter(ended_at=None).exists()

    @pytest.mark.parametrize("ramp", [(0.05,), (0.5, 0.25), (0.5, 1.0), (float("nan"),)])
    def test_a_ramp_that_does_not_grow_is_refused(self, start, ramp):
        with pytest.raises(InvalidInput) as refused:
            start(treatment_share=0.05, ramp=ramp)
        assert [fault.field for fault in refused.value.faults] == ["ramp"]
        assert not Experiment.objects.exists()


class TestWindows:
    def test_an_automatic_window_is_found_again_for_each_phase(self, start, model, monkeypatch):
        windows = iter([90_000.0, 100_000.0])
        monkeypatch.setattr("models_registry.experiments.services.find_window", lambda model: next(windows))
        monkeypatch.setattr("models_registry.experiments.phases.find_window", lambda model: next(windows))
        experiment = start(**RAMP | {"attribution_window_seconds": None})
        feed(experiment, EQUAL, batches=2)
        found = list(experiment.phases.order_by("number").values_list("attribution_window_seconds", flat=True))
        assert (experiment.attribution_auto, found) == (True, [90_000.0, 100_000.0])

    def test_a_model_without_feedback_has_a_day(self, model):
        assert find_window(model) == 86_400.0


class TestSharesByHand:
    def test_a_person_changes_the_share_with_a_reason(self, start, by):
        experiment = start(**RAMP)
        units = matured(experiment, 20, EQUAL)
        change_share(by=by, experiment=experiment, treatment_share=0.3, reason="the  release has settled")
        assert shares(experiment) == [0.05, 0.3]
        look = experiment.looks.get(action="change_share")
        assert (look.by, look.reasons[0], look.treatment_share) == (by.name, "the release has settled", 0.3)
        assert AuditEntry.objects.get(action="experiment.share_changed").details["from"] == 0.05
        consume_observations(experiment=experiment, matured=units)
        assert sum(experiment.phases.get(number=1).settled.values()) == 20
        feed(experiment, EQUAL, batches=2, seed=1)
        assert shares(experiment) == [0.05, 0.3, 0.5]  # the ramp goes on from the new share

    @pytest.mark.parametrize(
        ("share", "reason", "field"),
        [(0.05, "again", "treatment_share"), (1.0, "all", "treatment_share"), (0.3, "  ", "reason")],
    )
    def test_what_makes_no_sense_changes_nothing(self, start, by, share, reason, field):
        experiment = start(**RAMP)
        with pytest.raises(InvalidInput) as refused:
            change_share(by=by, experiment=experiment, treatment_share=share, reason=reason)
        assert [fault.field for fault in refused.value.faults] == [field]
        assert shares(experiment) == [0.05] and not experiment.looks.filter(action="change_share").exists()

    def test_over_the_api_while_it_runs(self, api, challenger, by):
        client = api("admin")
        plan = {"treatment": str(challenger.id), "treatment_share": 0.05, "ramp": [0.25, 0.5], "reason": "better"}
        started = client.post("experiments", plan | {"attribution_window_seconds": "auto"}).json()
        assert (started["ramp"], started["attribution_auto"], started["ramp_units"]) == ([0.25, 0.5], True, 250)
        address = f"experiments/{started['id']}/share"
        changed = client.post(address, {"treatment_share": 0.1, "reason": "slower"}).json()
        assert [phase["treatment_share"] for phase in changed["phases"]] == [0.05, 0.1]
        assert changed["phases"][0]["attribution_window_seconds"] == 86_400.0
        experiment = Experiment.objects.get()
        stop_experiment(by=by, experiment=experiment, reason="enough")
        assert client.post(address, {"treatment_share": 0.2, "reason": "more"}).status_code == 409
        with pytest.raises(NoExperiment):
            change_share(by=by, experiment=experiment, treatment_share=0.2, reason="more")
