"""The life of an experiment: routed, exposed, consumed in order, and decided only on enough evidence."""

import datetime as dt
import itertools
import math
import random
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from models_registry.errors import ExperimentRunning, GateNotPassed, NoChampion, NoExperiment
from models_registry.experiments.evidence import UNIT_COLUMNS, Comparison, ObservedUnit, go_on
from models_registry.experiments.guardrails import GuardrailPlan
from models_registry.experiments.looks import MaturedUnit, consume_observations
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import stop_experiment
from models_registry.experiments.services import start_experiment
from models_registry.models import Alias, Arm, Experiment, Exposure, Observation, Phase, RegisteredModel
from models_registry.routing.router import Router
from models_registry.versions.services import drop_alias, get_champion
from tests.models_registry.experiment_units import SHORT, feed, matured
from tools.factories import AliasFactory, GateVerdictFactory, ModelVersionFactory, RegisteredModelFactory
from workspaces.access.actors import system
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

WATCHED = (GuardrailPlan("error_rate", 0.05), GuardrailPlan("latency", 0.05, budget_ms=200.0))


def approx_nested(found):
    """Of sums by name, some of which hold sums by name."""
    if isinstance(found, dict):
        return {name: approx_nested(value) for name, value in found.items()}
    return pytest.approx(found, abs=1e-9)


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("same_split_every_time")]


@pytest.mark.parametrize(("passed", "tried"), [(True, True), (False, False), (None, True)])
def test_a_version_that_its_gate_refuses_gets_no_traffic(start, challenger, model, passed, tried):
    champion = get_champion(model)
    if passed is not None:
        GateVerdictFactory(version=challenger, against=champion, passed=not passed)
        GateVerdictFactory(version=challenger, against=champion, passed=passed)  # the newest counts
    if tried:
        assert start().state == "running"
    else:
        with pytest.raises(GateNotPassed):
            start()
        assert not Experiment.objects.exists()
        assert Router(model).route("a unit").version == champion


class TestStarting:
    def test_everything_stands_when_it_starts(self, start, model, challenger, by):
        experiment = start(treatment_share=0.25, attribution_window_seconds=60)
        assert (experiment.state, len(experiment.salt)) == ("running", 32)
        phase = experiment.phases.get()
        assert (phase.treatment_share, phase.attribution_window_seconds) == (0.25, 60)
        assert {v.arm: v.version for v in experiment.variants.all()} == {
            "control": get_champion(model),
            "treatment": challenger,
        }
        assert Alias.objects.get(registered_model=model, name="challenger").version == challenger
        assert AuditEntry.objects.filter(action="experiment.started").count() == 1

    def test_there_is_one_at_a_time(self, start):
        start()
        with pytest.raises(ExperimentRunning):
            start()
        assert Experiment.objects.count() == 1

    def test_nothing_is_tried_against_itself_or_against_nothing(self, by, model):
        with pytest.raises(InvalidInput):
            start_experiment(by=by, treatment=get_champion(model), plan=SHORT, reason="a better one")
        with pytest.raises(NoChampion):
            start_experiment(
                by=by, treatment=ModelVersionFactory(workspace=by.workspace), plan=SHORT, reason="a better one"
            )
        assert not Experiment.objects.exists()

    def test_every_fault_of_a_plan_is_told_at_once(self, start):
        wrong = {
            "treatment_share": 1.0,
            "attribution_window_seconds": 31 * 86_400.0,
            "exposure_window_seconds": -1.0,
            "promote_e": 1.0,
            "rollback_e": float("nan"),
            "min_units_per_arm": 0,
            "min_seconds": 1e300,
            "missing": "guess",
            "guardrail_e": 0.5,
            "futility_e": 1.0,
            "max_excess_failures": float("nan"),
            "min_requests_for_failures": 0,
        }
        with pytest.raises(InvalidInput) as refused:
            start(**wrong)
        assert {fault.field for fault in refused.value.faults} == set(wrong)
        assert not Experiment.objects.exists()

    def test_every_fault_of_its_guardrails_is_told_too(self, start):
        with pytest.raises(InvalidInput) as refused:
            start(
                guardrails=(
                    GuardrailPlan("error_rate", 0.0, budget_ms=1.0),
                    GuardrailPlan("latency", float("nan")),
                    GuardrailPlan("latency", 0.02, budget_ms=-1.0),
                    GuardrailPlan("mood", 0.02),
                )
            )
        assert [fault.field for fault in refused.value.faults] == [
            "guardrails[0].margin",
            "guardrails[0].budget_ms",
            "guardrails[1].margin",
            "guardrails[1].budget_ms",
            "guardrails[2].measure",
            "guardrails[2].budget_ms",
            "guardrails[3].measure",
        ]

    def test_errors_latency_and_silence_are_watched_unless_said_otherwise(self, by, challenger):
        experiment = start_experiment(by=by, treatment=challenger, plan=ExperimentPlan(), reason="a better one")
        assert experiment.guardrails == [
            {"measure": "error_rate", "margin": 0.01},
            {"measure": "latency", "margin": 0.02, "budget_ms": 1000.0},
            {"measure": "missing_feedback", "margin": 0.05},
        ]


class TestRouting:
    def test_without_an_experiment_the_champion_serves(self, model):
        route = Router(model).route("ann")
        assert (route.version, route.arm, route.phase, route.other) == (get_champion(model), None, None, None)

    def test_a_unit_stays_where_it_was_put(self, start, model):
        experiment = start(treatment_share=0.3)
        units = [f"unit-{n}" for n in range(500)]
        first, again = Router(model), Router(model)
        arms = [first.route(unit).arm for unit in units]
        assert arms == [again.route(unit).arm for unit in reversed(units)][::-1]
        assert 100 < arms.count("treatment") < 200
        for unit, arm in zip(units, arms, strict=True):
            route = first.route(unit)
            assert route.assignment_probability == pytest.approx(0.3 if arm == "treatment" else 0.7)
            assert {route.version, route.other} == set(first.running[0].versions.values())
        # Raising the share moves nobody out of the treatment.
        Phase.objects.filter(experiment=experiment).update(treatment_share=0.6)
        wider = Router(model)
        assert all(wider.route(u).arm == "treatment" for u, arm in zip(units, arms, strict=True) if arm == "treatment")

    def test_routing_costs_the_same_for_many_units(self, start, model, django_assert_max_num_queries):
        start()
        with django_assert_max_num_queries(4):
            router = Router(model)
            for n in range(100):
                router.route(str(n))


class TestConsuming:
    def test_units_are_consumed_once_and_in_exposure_order(self, start):
        experiment = start()
        units = matured(experiment, 60, {"control": 0.5, "treatment": 0.5})
        shuffled = units[:]
        random.Random(3).shuffle(shuffled)
        consume_observations(experiment=experiment, matured=shuffled)
        assert list(Observation.objects.values_list("position", "unit")) == [
            (n + 1, unit.exposure.unit) for n, unit in enumerate(units)
        ]
        experiment.refresh_from_db()
        before = (experiment.log_e_plus, experiment.log_e_minus, experiment.units_control)
        consume_observations(experiment=experiment, matured=units[:30])
        experiment.refresh_from_db()
        assert (experiment.log_e_plus, experiment.log_e_minus, experiment.units_control) == before
        assert Observation.objects.count() == 60

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.quick_cases(1)
    def test_the_evidence_does_not_depend_on_the_looks(self, start, by, seed):
        """Units of three phases, in looks of any size, against one look with all of them."""
        rng = random.Random(seed)
        experiment = start(treatment_share=0.05, guardrails=WATCHED, promote_e=1e12, rollback_e=1e12)
        units = []
        for number, share in enumerate((0.05, 0.25, 0.5), 1):
            if number > 1:
                experiment.phases.update(ended_at=timezone.now())
                Phase.objects.create(
                    workspace=experiment.workspace, experiment=experiment, number=number, treatment_share=share,
                    attribution_window_seconds=0,
                )  # fmt: skip
            rate = {"control": 0.4, "treatment": 0.6}
            units += matured(
                experiment, 60, rate, seed, 60 * number, {"error_rate": {"control": 0.1, "treatment": 0.1}}
            )
        cuts = [0, *sorted(rng.sample(range(len(units)), 7)), len(units)]
        for begin, end in itertools.pairwise(cuts):
            consume_observations(experiment=experiment, matured=units[begin:end])
        experiment.refresh_from_db()
        rows = Observation.objects.order_by("position").values_list(*UNIT_COLUMNS)
        whole = go_on(experiment, Comparison(), [ObservedUnit(*row) for row in rows])
        assert msgspec.to_builtins(whole.comparison) == approx_nested(experiment.running)
        assert experiment.log_e_plus == pytest.approx(whole.log_e_plus[-1], abs=1e-9)
        assert experiment.plain_log_e_minus == pytest.approx(whole.comparison.plain.log_e_minus, abs=1e-9)
        stored = Observation.objects.order_by("position").values_list("log_e_plus", flat=True)
        assert list(stored) == pytest.approx(whole.log_e_plus.tolist(), abs=1e-9)
        # What an experiment that began before sums were kept has to do once.
        kept, experiment.running = experiment.running, {}
        experiment.save()
        consume_observations(experiment=experiment, matured=[])
        experiment.refresh_from_db()
        assert experiment.running == approx_nested(kept)

    def test_a_look_reads_fresh_units_only(self, start):
        experiment = start(guardrails=WATCHED)
        counts = []
        for begin in (0, 200):
            units = matured(experiment, 40, {"control": 0.5, "treatment": 0.5}, begin=begin)
            with CaptureQueriesContext(connection) as queries:
                consume_observations(experiment=experiment, matured=units)
            counts.append(len(queries))
            assert not any("log_l_control" in one["sql"] and one["sql"].startswith("SELECT") for one in queries)
            assert not Exposure.objects.filter(settled=False).exists()
        assert sum(Phase.objects.get().settled.values()) == 80
        assert counts[1] <= counts[0]

    def test_units_without_a_reward_are_left_out_or_count_zero_as_the_plan_says(self, start, by):
        for missing, counted in (("exclude", None), ("zero", 0.0)):
            experiment = start(missing=missing, rollback_e=1e9)
            units = matured(experiment, 40, {"control": 0.5, "treatment": None}, seed=missing)
            consume_observations(experiment=experiment, matured=units)
            experiment.refresh_from_db()
            treated = Observation.objects.filter(experiment=experiment, exposure__arm=Arm.TREATMENT)
            assert set(treated.values_list("outcome", flat=True)) == {counted}
            assert experiment.units_treatment == (0 if missing == "exclude" else treated.count())
            assert Observation.objects.filter(experiment=experiment).count() == 40
            stop_experiment(by=by, experiment=experiment, reason="enough")

    def test_a_unit_counts_in_its_first_phase_only(self, start):
        experiment = start()
        (unit,) = matured(experiment, 1, {"control": 1.0, "treatment": 1.0})
        consume_observations(experiment=experiment, matured=[unit])
        Phase.objects.filter(experiment=experiment).update(ended_at=timezone.now())
        phase = Phase.objects.create(
            workspace=experiment.workspace, experiment=experiment, number=2, treatment_share=0.9,
            attribution_window_seconds=0,
        )  # fmt: skip
        again = Exposure.objects.create(
            workspace=experiment.workspace, experiment=experiment, phase=phase, unit=unit.exposure.unit,
            arm=unit.exposure.arm, served_arm=unit.exposure.arm, assignment_probability=0.5,
            version=unit.exposure.version, exposed_at=timezone.now(),
        )  # fmt: skip
        consume_observations(experiment=experiment, matured=[MaturedUnit(again, 0.0, timezone.now())])
        assert Observation.objects.get().outcome == 1.0


class TestDeciding:
    def test_a_truly_better_arm_is_promoted(self, start, model, challenger):
        experiment = start()
        verdict = feed(experiment, {"control": 0.4, "treatment": 0.75})
        assert verdict.action == "promote"
        assert (experiment.state, experiment.ended_at is not None) == ("promoted", True)
        assert get_champion(model) == challenger
        assert min(experiment.units_control, experiment.units_treatment) >= 100
        assert experiment.low > 0
        assert not Phase.objects.filter(ended_at__isnull=True).exists()
        assert Router(model).route("anyone").version == challenger
        assert AuditEntry.objects.filter(action="alias.champion", actor="system").count() == 1
        with pytest.raises(NoExperiment):
            consume_observations(experiment=experiment, matured=[])

    def test_a_worse_arm_is_rolled_back(self, start, model):
        champion = get_champion(model)
        experiment = start()
        assert feed(experiment, {"control": 0.75, "treatment": 0.4}).action == "roll_back"
        assert experiment.state == "rolled_back"
        assert get_champion(model) == champion
        assert Router(model).route("anyone").version == champion

    def test_never_before_there_are_enough_units(self, start, model):
        champion = get_champion(model)
        experiment = start(min_units_per_arm=400)
        verdict = feed(experiment, {"control": 0.0, "treatment": 1.0}, batches=3)
        assert (verdict.action, experiment.state) == ("continue", "running")
        assert experiment.log_e_plus > 5  # e^5 > 40: the evidence alone would have been enough
        assert get_champion(model) == champion

    def test_never_before_it_is_old_enough(self, start, model, challenger):
        experiment = start(min_seconds=3600)
        assert feed(experiment, {"control": 0.0, "treatment": 1.0}, batches=4).action == "continue"
        Experiment.objects.update(started_at=timezone.now() - dt.timedelta(seconds=3700))
        assert consume_observations(experiment=experiment, matured=[]).action == "promote"
        assert get_champion(model) == challenger

    def test_never_on_a_broken_split(self, start, model):
        """Outcomes that would promote, but far more units in one arm than the share says."""
        experiment = start()
        units = matured(experiment, 1200, {"control": 0.3, "treatment": 0.8})
        kept = [u for n, u in enumerate(units) if u.exposure.arm == "treatment" or n % 3 == 0]
        lost = {u.exposure.id for u in units} - {u.exposure.id for u in kept}
        Exposure.objects.filter(id__in=lost).delete()
        assert consume_observations(experiment=experiment, matured=kept).action == "continue"
        experiment.refresh_from_db()
        assert experiment.sample_ratio_mismatch
        assert experiment.log_e_plus > 5

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.quick_cases(1)
    def test_equal_arms_are_not_promoted(self, start, seed):
        experiment = start()
        assert feed(experiment, {"control": 0.5, "treatment": 0.5}, seed=seed, batches=6).action == "continue"
        assert experiment.state == "running"


class TestGivingUp:
    EQUAL = {"control": 0.5, "treatment": 0.5}

    def test_an_experiment_without_an_effect_worth_finding_ends_undecided(self, start, model):
        champion = get_champion(model)
        experiment = start(smallest_effect=0.3, futility_e=20)
        assert feed(experiment, self.EQUAL).action == "give_up"
        assert (experiment.state, experiment.ended_by) == ("futile", "") and experiment.ended_at is not None
        assert experiment.log_e_futile >= math.log(20) and experiment.verdict.startswith("not better by the smallest")
        assert get_champion(model) == champion and challengers(model) == []
        assert Router(model).route("anyone").version == champion
        assert experiment.looks.first().action == "give_up"

    def test_the_test_goes_on_over_looks(self, start):
        """Many small looks end with the evidence of one large one."""
        experiment = start(smallest_effect=0.1, futility_e=1e12)
        units = matured(experiment, 300, self.EQUAL)
        for begin in range(0, 300, 50):
            consume_observations(experiment=experiment, matured=units[begin : begin + 50])
        experiment.refresh_from_db()
        stored = [ObservedUnit(*row) for row in experiment.observations.values_list(*UNIT_COLUMNS)]
        whole = go_on(experiment, Comparison(), stored).comparison.futility
        assert whole.units == 300 and whole.log_e_minus != 0
        assert experiment.log_e_futile == pytest.approx(whole.log_e_minus, abs=1e-9)

    @pytest.mark.parametrize("plan", [{"min_seconds": 3600, "futility_e": 20}, {}])
    def test_not_before_its_age_and_never_where_it_is_not_planned(self, start, plan):
        experiment = start(smallest_effect=0.3, **plan)
        assert feed(experiment, self.EQUAL, batches=5).action == "continue"
        assert experiment.state == "running"

    def test_the_effect_is_in_the_outcomes_own_units(self, start):
        """Outcomes of a range of 0.5: a difference of 0.3 is 0.6 of what is bet on."""
        ends = []
        for low, high, effect in ((0.0, 1.0, 0.6), (0.25, 0.75, 0.3)):
            experiment = start(smallest_effect=effect, futility_e=1e12, rescaled=True, conditioned=False)
            experiment.outcome_low, experiment.outcome_high = low, high
            rows = [
                ObservedUnit(
                    low + (high - low) * (n % 3 == 0), "treatment" if n % 2 else "control", 0.5, None, None, {}
                )
                for n in range(60)
            ]
            ends.append(go_on(experiment, Comparison(), rows).comparison.futility.log_e_minus)
            stop_experiment(by=system(experiment.workspace), experiment=experiment, reason="seen")
        assert ends[0] == pytest.approx(ends[1]) and ends[0] > 0


def challengers(model):
    return list(Alias.objects.filter(registered_model=model, name="challenger").values_list("version", flat=True))


class TestChallenger:
    """The alias stands exactly as long as the experiment runs."""

    def test_it_stands_while_the_experiment_runs(self, start, model, challenger):
        experiment = start()
        assert feed(experiment, {"control": 0.5, "treatment": 0.5}, batches=1).action == "continue"
        assert challengers(model) == [challenger.id]

    @pytest.mark.parametrize(
        ("state", "means"),
        [("promoted", {"control": 0.4, "treatment": 0.75}), ("rolled_back", {"control": 0.75, "treatment": 0.4})],
    )
    def test_a_verdict_takes_it_away(self, start, model, challenger, state, means):
        experiment = start()
        feed(experiment, means)
        assert (experiment.state, challengers(model)) == (state, [])
        dropped = AuditEntry.objects.get(action="alias.challenger_dropped")
        assert (dropped.actor, dropped.target) == ("system", f"model_version:{challenger.id}")

    def test_stopping_takes_it_away_in_the_name_of_who_stopped(self, start, model, by):
        experiment = start()
        champion = get_champion(model)
        stop_experiment(by=by, experiment=experiment, reason="enough")
        assert (challengers(model), get_champion(model)) == ([], champion)
        assert AuditEntry.objects.get(action="alias.challenger_dropped").actor == by.name

    def test_another_models_challenger_is_left_alone(self, start, workspace, by):
        other = RegisteredModelFactory(workspace=workspace, name="other")
        alias = AliasFactory(version=ModelVersionFactory(registered_model=other), name="challenger")
        stop_experiment(by=by, experiment=start(), reason="enough")
        assert challengers(other) == [alias.version_id]

    def test_the_champion_cannot_be_dropped(self, model, by):
        champion = get_champion(model)
        with pytest.raises(ValueError, match="not removed"):
            drop_alias(by=by, version=champion, name="champion")
        assert get_champion(model) == champion


class TestPromotingByHand:
    @pytest.mark.parametrize("which", ["another", "treatment", "champion"])
    @pytest.mark.quick_cases(1)
    def test_it_ends_the_experiment_and_no_later_verdict_undoes_it(self, start, model, challenger, api, which):
        experiment, champion = start(), get_champion(model)
        better = feed(experiment, {"control": 0.4, "treatment": 0.75}, batches=1)
        assert better.action == "continue"
        others = {"another": ModelVersionFactory(registered_model=model), "treatment": challenger, "champion": champion}
        chosen = others[which]
        client = api("admin")
        assert client.post(f"versions/{chosen.id}/promote", {"reason": "by hand"}).status_code == 200
        assert {Router(model).route(f"unit-{n}").version for n in range(20)} == {chosen}
        experiment.refresh_from_db()
        assert (experiment.state, experiment.verdict) == ("stopped", "by hand")
        shown = client.get(f"experiments/{experiment.id}").json()
        assert (shown["ended_by"], shown["promoted_version"]) == (f"key:{client.key.prefix}", str(chosen))
        with pytest.raises(NoExperiment):
            consume_observations(experiment=experiment, matured=[])
        assert get_champion(model) == chosen
        assert set(Alias.objects.filter(registered_model=model).values_list("name", flat=True)) == {"champion"}


class TestStopping:
    def test_stopping_gives_everyone_back_to_the_champion(self, start, model, by):
        experiment = start()
        stopped = stop_experiment(by=by, experiment=experiment, reason="a better idea")
        assert (stopped.state, stopped.verdict) == ("stopped", "a better idea")
        assert Router(model).route("anyone").arm is None
        assert AuditEntry.objects.filter(action="experiment.stopped").count() == 1
        with pytest.raises(NoExperiment):
            stop_experiment(by=by, experiment=experiment, reason="enough")
        start()  # the next one may begin

    def test_over_the_api(self, api, challenger):
        client = api("admin")
        started = client.post(
            "experiments", {"treatment": str(challenger.id), "treatment_share": 0.3, "reason": "better"}
        )
        assert started.status_code == 201, started.content
        shown = client.get(f"experiments/{started.json()['id']}").json()
        assert shown["variants"] == {"control": "filer:1", "treatment": "filer:2"}
        again = client.post("experiments", {"treatment": str(challenger.id), "reason": "better"})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "experiment_running")
        stop = f"experiments/{shown['id']}/stop"
        assert client.post(stop, {"reason": "enough"}).json()["state"] == "stopped"
        assert client.post(stop, {"reason": "enough"}).status_code == 409


@pytest.mark.django_db(transaction=True)
def test_experiments_started_at_once_are_one(by, at_once, workspace):
    model = RegisteredModelFactory(workspace=workspace)
    AliasFactory(version=ModelVersionFactory(registered_model=model))
    challenger = ModelVersionFactory(registered_model=model)

    def start():
        try:
            return start_experiment(by=by, treatment=challenger, plan=SHORT, reason="a better one")
        except ExperimentRunning:
            return None

    assert len([made for made in at_once(4, start) if made]) == 1
    assert Experiment.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_units_consumed_by_two_at_once_count_once(by, at_once, workspace):
    model = RegisteredModelFactory(workspace=workspace)
    AliasFactory(version=ModelVersionFactory(registered_model=model))
    experiment = start_experiment(
        by=by, treatment=ModelVersionFactory(registered_model=model), plan=SHORT, reason="a better one"
    )
    units = matured(experiment, 40, {"control": 0.5, "treatment": 0.5})
    at_once(3, lambda: consume_observations(experiment=experiment, matured=units))
    assert list(Observation.objects.values_list("position", flat=True)) == list(range(1, 41))


@pytest.mark.django_db(transaction=True)
def test_a_look_waits_for_a_promotion_by_hand_without_the_row_that_this_will_need(by, workspace):
    model = RegisteredModelFactory(workspace=workspace)
    AliasFactory(version=ModelVersionFactory(registered_model=model))
    treatment = ModelVersionFactory(registered_model=model)
    experiment = start_experiment(by=by, treatment=treatment, plan=SHORT, reason="a better one")

    def look():
        try:
            return consume_observations(experiment=experiment, matured=[])
        finally:
            connection.close()

    def waits():
        with connection.cursor() as cursor:
            mine = "pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            cursor.execute(f"SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND {mine})")
            return cursor.fetchone()[0]

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            RegisteredModel.objects.select_for_update().get(id=model.id)  # as promote_version does
            looking = pool.submit(look)
            while not waits():
                assert not looking.done()
            assert Experiment.objects.select_for_update(nowait=True).get(id=experiment.id)
        assert looking.result(30).reasons
