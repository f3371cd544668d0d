"""Several versions against the champion at the same time: who meets which, and what becomes of them all."""

from itertools import pairwise

import pytest

from models_registry.errors import ExperimentRunning, GateNotPassed, NoExperiment
from models_registry.experiments.groups import start_group, stop_group
from models_registry.experiments.promotion import promote_version
from models_registry.experiments.services import start_experiment
from models_registry.models import Alias, Experiment, ExperimentGroup, Exposure, Look
from models_registry.routing import lanes as routing
from models_registry.routing.router import Router
from models_registry.versions.services import get_champion
from tests.models_registry.experiment_units import SHORT, feed
from tools.factories import GateVerdictFactory, ModelVersionFactory, RegisteredModelFactory
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

UNITS = [f"unit-{number}" for number in range(3000)]
BETTER, WORSE, SAME = ({"control": c, "treatment": t} for c, t in ((0.2, 0.9), (0.9, 0.2), (0.5, 0.5)))


def test_lanes_part_the_units_and_say_nothing_of_their_arms():
    ends = [index / 3 for index in range(4)]
    lanes = [
        [unit for unit in UNITS if routing.is_in_lane("5" * 32, "group", unit, low, high)]
        for low, high in pairwise(ends)
    ]
    assert sorted(unit for lane in lanes for unit in lane) == sorted(UNITS)
    for lane in lanes:
        assert 900 < len(lane) < 1100
        treated = sum(routing.assign("5" * 32, "experiment", unit, 0.5).arm == "treatment" for unit in lane)
        assert 0.45 < treated / len(lane) < 0.55
    # As any other program must place them: SHA-256 of "salt|group|unit".
    placed = [
        [routing.is_in_lane("5" * 32, "group", u, *lane) for lane in pairwise(ends)].index(True) for u in UNITS[:6]
    ]
    assert placed == PLACED


PLACED = [0, 0, 2, 1, 2, 0]


@pytest.mark.django_db
@pytest.mark.usefixtures("same_split_every_time", "same_lanes_every_time")
class TestGroup:
    @pytest.fixture
    def same_lanes_every_time(self, monkeypatch):
        real = routing.is_in_lane
        monkeypatch.setattr(routing, "is_in_lane", lambda salt, name, unit, *ends: real("5" * 32, "group", unit, *ends))

    @pytest.fixture
    def tried(self, model):
        return ModelVersionFactory.create_batch(3, registered_model=model)

    @pytest.fixture
    def start(self, by, tried):
        return lambda versions=None, plan=SHORT: start_group(
            by=by, treatments=tried if versions is None else versions, plan=plan, reason="three ways to train"
        )

    @pytest.fixture
    def experiments(self, start):
        return list(start().experiments.order_by("lane_low"))

    def test_each_version_has_a_part_of_the_units_with_a_control_of_its_own(
        self, experiments, model, tried, django_assert_max_num_queries
    ):
        champion = get_champion(model)
        assert [one.promote_e for one in experiments] == [3 * SHORT.promote_e] * 3
        assert [one.rollback_e for one in experiments] == [SHORT.rollback_e] * 3
        assert not Alias.objects.filter(name="challenger").exists()
        assert AuditEntry.objects.filter(action="experiment_group.started").count() == 1
        met = {(one.id, arm): 0 for one in experiments for arm in ("control", "treatment")}
        with django_assert_max_num_queries(4):
            router = Router(model)
            routes = [router.route(unit) for unit in UNITS]
        for route in routes:
            experiment = next(one for one in experiments if one.id == route.phase.experiment_id)
            own = {"control": champion, "treatment": tried[experiments.index(experiment)]}
            assert (route.version, route.other) == (own[route.arm], own[other(route.arm)])
            assert route.assignment_probability == 0.5
            met[experiment.id, route.arm] += 1
        assert all(400 < count < 600 for count in met.values())

    def test_the_first_that_is_promoted_ends_the_others(self, experiments, model, tried):
        feed(experiments[0], SAME, batches=2)
        assert feed(experiments[1], BETTER, batches=40).action == "promote"
        assert get_champion(model) == tried[1]
        assert states(experiments) == ["superseded", "promoted", "superseded"]
        assert experiments[0].units_control > 0 and "was promoted" in experiments[0].verdict
        assert ExperimentGroup.objects.get().ended_at is not None
        router = Router(model)
        assert {router.route(unit).phase for unit in UNITS[:50]} == {None}
        assert set(Look.objects.filter(action="supersede").values_list("experiment", flat=True)) == {
            experiments[0].id, experiments[2].id,
        }  # fmt: skip

    def test_one_that_is_rolled_back_leaves_the_others_running(self, experiments, model):
        assert feed(experiments[2], WORSE, batches=40).action == "roll_back"
        assert states(experiments) == ["running", "running", "rolled_back"]
        assert ExperimentGroup.objects.get().ended_at is None
        router = Router(model)
        routes = [router.route(unit) for unit in UNITS[:300]]
        outside = [route for route in routes if route.phase is None]
        assert 60 < len(outside) < 140 and {route.version for route in outside} == {get_champion(model)}
        assert {route.phase.experiment_id for route in routes if route.phase} == {one.id for one in experiments[:2]}

    def test_promoting_by_hand_or_stopping_ends_them_all(self, experiments, model, by, start):
        other = ModelVersionFactory(registered_model=model)
        promote_version(by=by, version=other, reason="urgent")
        assert states(experiments) == ["stopped"] * 3
        assert {one.promoted_version for one in experiments} == {other}
        again = start()
        stop_group(by=by, group=again, reason="enough")
        assert states(again.experiments.all()) == ["stopped"] * 3
        assert ExperimentGroup.objects.filter(ended_at=None).count() == 0
        with pytest.raises(NoExperiment):
            stop_group(by=by, group=again, reason="enough")

    @pytest.mark.parametrize(
        ("case", "field"),
        [
            ("one", "treatments"),
            ("nine", "treatments"),
            ("twice", "treatments[1]"),
            ("champion", "treatment"),
            ("foreign", "treatments[1]"),
        ],
    )
    def test_what_cannot_be_tried_together_starts_nothing(self, start, tried, model, case, field):
        given = {
            "one": tried[:1],
            "nine": [*tried, *ModelVersionFactory.create_batch(6, registered_model=model)],
            "twice": [tried[0], tried[0]],
            "champion": [tried[0], get_champion(model)],
            "foreign": [tried[0], ModelVersionFactory(registered_model=RegisteredModelFactory())],
        }[case]
        with pytest.raises(InvalidInput) as refused:
            start(given)
        assert [fault.field for fault in refused.value.faults] == [field]
        assert not ExperimentGroup.objects.exists() and not Experiment.objects.exists()

    def test_a_gate_or_another_experiment_stands_in_the_way(self, start, tried, model, by):
        GateVerdictFactory(version=tried[1], against=get_champion(model), passed=False)
        with pytest.raises(GateNotPassed):
            start()
        assert not Experiment.objects.exists()
        start_experiment(by=by, treatment=tried[0], plan=SHORT, reason="alone")
        with pytest.raises(ExperimentRunning):
            start(tried[::2])
        assert Experiment.objects.count() == 1
        assert not ExperimentGroup.objects.exists() and not Exposure.objects.exists()


def other(arm):
    return "control" if arm == "treatment" else "treatment"


def states(experiments):
    found = []
    for one in experiments:
        one.refresh_from_db()
        found.append(one.state)
    return found
