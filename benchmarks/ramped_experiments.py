"""Experiments on a ramp as the product runs them: how often they promote what is no better, how long they take, and who
meets an arm that is worse.

    python -m benchmarks.ramped_experiments [--quick]

Units, actions and verdicts are drawn from the demo's predictions (`benchmarks.demo_experiment`); 15% of the units are
never answered, and the treatment's feedback takes twice as long. Assignment, evidence, guardrails, the promotion rule
and the ramp are the product's own functions with its defaults (conditioned and rescaled, a ramp of 5, 25 and 50%), at a
look every 50 units; only SQL is left out. Some experiments run through Router, ledger and maturing job as well, and
must end with the same evidence. Prints a row per point and one JSON object as the last line; exits 1 when a point
misses its bound.
"""

from __future__ import annotations

import argparse
import datetime as dt
import logging
import math
import sys
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.demo_experiment import CONFIRMED, CORRECTED, HIGH, LOW, WINDOW_HOURS, WRONG, Floats, World, load_world
from benchmarks.own_database import own_database
from benchmarks.statistics import find_upper_bound
from tools.report import Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models_registry.models import Experiment

RUNS, EQUAL_RUNS = 400, 1_000
"""Experiments of a better and of a worse treatment; and of one that is as good, whose promotions are rare."""
UNITS = 5_000
LOOK = 50
IN_FLIGHT = 50
"""Units that have met an arm and not matured yet, at any moment."""
UNANSWERED = 0.15
LAG_HOURS = (2.0, 4.0)
POINTS = 0.10
WITHIN = 2_500
RAMP = (0.05, 0.25, 0.5)
TRIED = 3
"""Versions of a group."""
SAME = 1e-6
"""Logarithms of E differ by less where SQL and numpy take the logarithms of the same probabilities."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the units of one experiment bring, (units,) each: the passage, chance for the action, whether the person
    errs, whether they stay silent, and how long feedback takes as a multiple of the arm's mean."""

    passage: NDArray[np.int64]
    chance: Floats
    wrong: NDArray[np.bool_]
    silent: NDArray[np.bool_]
    lag: Floats


def draw(seed: int, passages: int, units: int) -> Drawn:
    rng = np.random.default_rng([seed, 16])
    return Drawn(
        rng.integers(passages, size=units),
        rng.random(units),
        rng.random(units) < WRONG,
        rng.random(units) < UNANSWERED,
        rng.exponential(1.0, units),
    )


def make_treatments(world: World) -> dict[str, Floats]:
    """Policies to try against the base: another of the same value, one that is right 10 points more often, and one that
    is right 10 points less often."""
    rows = np.arange(len(world.right))
    base, trained = (policy[rows, world.right].mean() for policy in (world.base, world.trained))
    chance = 1.0 / world.base.shape[1]
    better, worse = POINTS / (trained - base), POINTS / (base - chance)
    return {
        "equal": world.equal,
        "better": better * world.trained + (1 - better) * world.base,
        "worse": worse * chance + (1 - worse) * world.base,
    }


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of the units, (units,) each: the action's place, its log-probability under control and treatment, and
    the outcome, nan where none came in time."""

    action: NDArray[np.int64]
    log_l: tuple[Floats, Floats]
    outcome: Floats


def act(world: World, treatment: Floats, drawn: Drawn, treated: NDArray[np.bool_], units: slice) -> Acted:
    passage = drawn.passage[units]
    control, other = world.base[passage], treatment[passage]
    own = np.where(treated[:, None], other, control)
    action = (own.cumsum(1) > drawn.chance[units, None] * own.sum(1, keepdims=True)).argmax(1)
    rows = np.arange(len(passage))
    right = (action == world.right[passage]) ^ drawn.wrong[units]
    hours = drawn.lag[units] * np.where(treated, LAG_HOURS[1], LAG_HOURS[0])
    outcome = np.where(right, CONFIRMED, CORRECTED)
    outcome[drawn.silent[units] | (hours > WINDOW_HOURS)] = np.nan
    return Acted(action, (np.log(control[rows, action]), np.log(other[rows, action])), outcome)


@dataclass(slots=True)
class End:
    """action: the last verdict. units: that had met an arm by then, of them `treated` the treatment. sharp, plain:
    units when E+ of the deciding and of the plain contrast first reached its bound; inf where they did not. log_e: E+
    and E- at the end."""

    action: str = "continue"
    units: int = 0
    treated: int = 0
    sharp: float = math.inf
    plain: float = math.inf
    log_e: tuple[float, float] = (0.0, 0.0)


def make_experiment(**fields: Any) -> Experiment:
    """Not saved; the plan's defaults, without a minimum age."""
    from models_registry.experiments.plan import ExperimentPlan
    from models_registry.models import Experiment
    from models_registry.routing.lanes import new_salt

    plan = ExperimentPlan()
    return Experiment(
        **{
            "salt": new_salt(),
            "guardrails": [guardrail.as_stored() for guardrail in plan.guardrails],
            "conditioned": plan.conditioned,
            "rescaled": plan.rescaled,
            "outcome_low": LOW,
            "outcome_high": HIGH,
            "ramp": list(RAMP[1:]),
            "min_seconds": 0.0,
            "started_at": dt.datetime.now(dt.UTC),
        }
        | fields
    )


def make_seeded(seed: int, **fields: Any) -> Experiment:
    """Whose units are assigned alike every time."""
    return make_experiment(id=uuid.UUID(int=seed), salt=f"{seed:032x}", **fields)


def simulate(
    experiment: Experiment,
    world: World,
    treatment: Floats,
    drawn: Drawn,
    *,
    first_share: float = RAMP[0],
    until: str = "verdict",
) -> End:
    """One experiment of the drawn units. until: "verdict" ends it as the rule does; "evidence" goes on until both
    contrasts have reached the bound of a promotion, whatever the rule says."""
    from models_registry.experiments.evidence import Comparison, ObservedUnit, go_on
    from models_registry.experiments.looks import read_verdict, show_comparison
    from models_registry.experiments.phases import find_next_share, list_obstacles
    from models_registry.models import Arm, Phase
    from models_registry.routing.lanes import SCALE, hash_unit

    units = len(drawn.passage)
    places = np.array([hash_unit(experiment.salt, str(experiment.id), f"unit-{n}") / SCALE for n in range(units)])
    phase = Phase(treatment_share=first_share)
    comparison, end = Comparison(), End()
    waiting: list[tuple[Phase, ObservedUnit]] = []
    for begin in range(0, units, LOOK):
        now = slice(begin, begin + LOOK)
        treated = places[now] < phase.treatment_share
        acted = act(world, treatment, drawn, treated, now)
        for given, outcome, *log_l in zip(treated, acted.outcome, *acted.log_l, strict=True):
            silent = math.isnan(outcome)
            measures = {"error_rate": 0.0, "latency": 0.0, "missing_feedback": float(silent)}
            arm = Arm.TREATMENT.value if given else Arm.CONTROL.value
            unit = ObservedUnit(None if silent else outcome, arm, phase.treatment_share, *log_l, measures)
            waiting.append((phase, unit))
        end.units, end.treated = begin + LOOK, end.treated + int(treated.sum())
        ripe = max(0, len(waiting) - IN_FLIGHT)
        matured, waiting = waiting[:ripe], waiting[ripe:]
        comparison = go_on(experiment, comparison, [unit for _, unit in matured]).comparison
        show_comparison(experiment, comparison)
        for own, unit in matured:
            own.settled[unit.arm] = own.settled.get(unit.arm, 0) + 1
        bound = math.log(experiment.promote_e)
        if experiment.log_e_plus >= bound:
            end.sharp = min(end.sharp, end.units)
        if experiment.plain_log_e_plus >= bound:
            end.plain = min(end.plain, end.units)
        end.action = read_verdict(experiment).action
        if end.action != "continue" if until == "verdict" else math.isfinite(end.sharp + end.plain):
            break
        share = find_next_share(experiment, phase)
        if share is not None and not list_obstacles(experiment, phase):
            phase = Phase(treatment_share=share)
    end.log_e = (experiment.log_e_plus, experiment.log_e_minus)
    return end


def run_in_ledger(world: World, treatment: Floats, drawn: Drawn) -> tuple[Experiment, End]:
    """The same experiment through Router, exposures, decisions, feedback and maturing job; a unit a second."""
    from decisions.models import Decision, Feedback
    from decisions.rewards.maturing import mature_outcomes
    from models_registry.experiments.plan import ExperimentPlan
    from models_registry.experiments.services import start_experiment
    from models_registry.models import Arm, Exposure
    from models_registry.routing.router import Router
    from tools.factories import (
        AgentFactory,
        AgentVersionFactory,
        AliasFactory,
        DecisionFactory,
        FeedbackFactory,
        ModelVersionFactory,
        RewardSpecFactory,
    )
    from workspaces.access.actors import system

    agent = AgentFactory()
    version = AgentVersionFactory(agent=agent)
    RewardSpecFactory(agent=agent)
    AliasFactory(version=ModelVersionFactory(registered_model=agent.registered_model))
    tried = ModelVersionFactory(registered_model=agent.registered_model)
    plan = ExperimentPlan(
        treatment_share=RAMP[0], ramp=RAMP[1:], min_seconds=0.0, exposure_window_seconds=1.0,
        attribution_window_seconds=IN_FLIGHT - 1.0,
    )  # fmt: skip
    experiment = start_experiment(by=system(agent.workspace), treatment=tried, plan=plan, reason="a better one")
    units, end, second = len(drawn.passage), End(), dt.timedelta(seconds=1)
    began = dt.datetime.now(dt.UTC) - (units + 2 * IN_FLIGHT) * second
    for begin in range(0, units, LOOK):
        router = Router(agent.registered_model)
        routes = [router.route(f"unit-{number}") for number in range(begin, begin + LOOK)]
        treated = np.array([route.arm == Arm.TREATMENT for route in routes])
        acted = act(world, treatment, drawn, treated, slice(begin, begin + LOOK))
        exposures, decisions, feedback = [], [], []
        for one, route in enumerate(routes):
            moment = began + (begin + one) * second
            own, other = acted.log_l[::-1] if treated[one] else acted.log_l
            exposures.append(
                Exposure(
                    workspace=agent.workspace, experiment=experiment, phase=route.phase, unit=f"unit-{begin + one}",
                    arm=route.arm, served_arm=route.arm, assignment_probability=route.assignment_probability,
                    version=route.version, exposed_at=moment,
                )
            )  # fmt: skip
            decisions.append(
                DecisionFactory.build(
                    agent=agent, workspace=agent.workspace, agent_version=version, unit=exposures[-1].unit,
                    action=f"topic {acted.action[one]}", propensity=math.exp(own[one]),
                    other_arm_propensity=math.exp(other[one]), policy_name=None, model_version=route.version,
                    exposure=exposures[-1], latency_ms=20.0, observed_at=moment,
                )
            )  # fmt: skip
            if not math.isnan(acted.outcome[one]):
                said = "confirmed" if acted.outcome[one] == CONFIRMED else "corrected"
                feedback.append(
                    FeedbackFactory.build(
                        workspace=agent.workspace, decision=decisions[-1], value=said, observed_at=moment + second / 2
                    )
                )  # fmt: skip
        Exposure.objects.bulk_create(exposures)
        Decision.objects.bulk_create(decisions)
        Feedback.objects.bulk_create(feedback)
        end.units, end.treated = begin + LOOK, end.treated + int(treated.sum())
        done = {found.experiment_id: found.action for found in mature_outcomes(began + (end.units - 0.5) * second)}
        end.action = done[experiment.id]
        if end.action != "continue":
            break
    experiment.refresh_from_db()
    end.log_e = (experiment.log_e_plus, experiment.log_e_minus)
    return experiment, end


def check_ledger(world: World, treatments: dict[str, Floats], units: int) -> dict[str, float]:
    """How far the evidence of one experiment of each treatment is from what the ledger's own run ends with; inf where
    they end differently."""
    gaps = {}
    for seed, (name, treatment) in enumerate(treatments.items()):
        drawn = draw(10_000 + seed, len(world.right), units)
        experiment, through = run_in_ledger(world, treatment, drawn)
        same = {field: getattr(experiment, field) for field in ("id", "salt", "outcome_low", "outcome_high")}
        alone = simulate(make_experiment(**same), world, treatment, drawn)
        ended_alike = (alone.action, alone.units, alone.treated) == (through.action, through.units, through.treated)
        gap = max(abs(a - b) for a, b in zip(alone.log_e, through.log_e, strict=True))
        gaps[f"ledger_gap_{name}"] = gap if ended_alike else math.inf
        print(f"through the ledger, {name}: {through.action} after {through.units} units, gap {gap:.1g}", flush=True)
    return gaps


def measure(runs: int, equal_runs: int) -> dict[str, float | None]:
    """Figures of `runs` experiments of a better and of a worse treatment, and `equal_runs` of one that is as good. Of
    the better one, a quarter as many go on until both contrasts have their evidence, at an even split and on the ramp.
    """
    world = load_world()
    treatments = make_treatments(world)
    figures: dict[str, float | None] = {"runs": float(runs), "equal_runs": float(equal_runs)}
    ends = {}
    for name, treatment in treatments.items():
        units = WITHIN if name == "worse" else UNITS
        ends[name] = [
            simulate(make_seeded(seed), world, treatment, draw(seed, len(world.right), units))
            for seed in range(equal_runs if name == "equal" else runs)
        ]
    for name, found in ends.items():
        for action, key in (("promote", "promoted"), ("roll_back", "rolled_back")):
            at = [end.units for end in found if end.action == action]
            figures[f"{name}_{key}"] = len(at) / len(found)
            figures[f"{name}_{key}_median_units"] = float(np.median(at)) if at else None
    promoted = sum(end.action == "promote" for end in ends["equal"])
    figures["equal_promoted_upper"] = find_upper_bound(promoted, equal_runs)
    figures["worse_met_mean"] = float(np.mean([end.treated for end in ends["worse"]]))
    figures["worse_met_most"] = float(max(end.treated for end in ends["worse"]))
    for split, first_share, ramp in (("even", 0.5, []), ("ramp", RAMP[0], list(RAMP[1:]))):
        both = []
        for seed in range(max(1, runs // 4)):
            drawn, experiment = draw(20_000 + seed, len(world.right), 4 * UNITS), make_seeded(seed, ramp=ramp)
            better = treatments["better"]
            both.append(simulate(experiment, world, better, drawn, first_share=first_share, until="evidence"))
        sharp, plain = (float(np.median([getattr(end, name) for end in both])) for name in ("sharp", "plain"))
        figures[f"evidence_{split}_median_units"] = sharp if math.isfinite(sharp) else None
        figures[f"evidence_{split}_plain_median_units"] = plain if math.isfinite(plain) else None
        figures[f"evidence_{split}_of_plain"] = sharp / plain if math.isfinite(sharp) else None
    return figures


def measure_groups(runs: int) -> dict[str, float | None]:
    """Figures of groups of three versions with a lane each, at an even split and the product's bounds: how often any of
    three that are no better is promoted, and what becomes of one that is better beside an equal and a worse one. Beside
    it the units of all arms together until E+ of a better one reaches its bound: in lanes with the deciding contrast,
    and with one control for all of them and the plain contrast (docs/adr/0038)."""
    world = load_world()
    treatments = make_treatments(world)
    strict = {"ramp": [], "promote_e": TRIED * make_experiment().promote_e}

    def try_in_lane(seed: int, name: str, units: int, until: str = "verdict") -> End:
        drawn = draw(30_000 + seed, len(world.right), units)
        return simulate(make_seeded(seed, **strict), world, treatments[name], drawn, first_share=0.5, until=until)

    def first_end(seed: int, names: Sequence[str]) -> dict[str, End]:
        return {
            f"{name} {lane}": try_in_lane(TRIED * seed + lane, name, UNITS // TRIED) for lane, name in enumerate(names)
        }

    alike = [first_end(seed, ["equal"] * TRIED) for seed in range(runs)]
    promoted = sum(any(end.action == "promote" for end in ends.values()) for ends in alike)
    mixed = [first_end(runs + seed, ["better", "equal", "worse"]) for seed in range(runs)]
    won = [ends["better 0"] for ends in mixed]
    ways = {
        name: [count_until(world, treatments["better"], seed, strict["promote_e"], lanes=lanes) for seed in range(runs)]
        for name, lanes in (("lanes", True), ("shared", False))
    }
    medians = {name: float(np.median(found)) for name, found in ways.items()}
    return {
        "groups": float(runs),
        "group_equal_promoted": promoted / runs,
        "group_equal_promoted_upper": find_upper_bound(promoted, runs),
        "group_better_promoted": sum(end.action == "promote" for end in won) / runs,
        "group_worse_promoted": sum(ends["worse 2"].action == "promote" for ends in mixed) / runs,
        "group_worse_rolled_back": sum(ends["worse 2"].action == "roll_back" for ends in mixed) / runs,
        "group_lanes_median_units": medians["lanes"] if math.isfinite(medians["lanes"]) else None,
        "group_shared_control_median_units": medians["shared"] if math.isfinite(medians["shared"]) else None,
    }


def count_until(world: World, treatment: Floats, seed: int, bound: float, *, lanes: bool) -> float:
    """Units of all arms until E+ of `treatment` reaches `bound`, looked at after each; inf where it does not.

    In lanes a third of the units are its own, with the conditioned contrast; else it and the one control have a quarter
    of them each, with the plain contrast. Outcomes are rescaled in both.
    """
    from models_registry.statistics.e_process import CAP, SHARP_CAP, compute_posteriors, rescale, run_e_process

    units = 6 * UNITS
    drawn, rng = draw(40_000 + seed, len(world.right), units), np.random.default_rng([seed, 17])
    arms = rng.integers(2 * TRIED if lanes else TRIED + 1, size=units)
    acted = act(world, treatment, drawn, arms == 1, slice(0, units))
    mine = np.flatnonzero((arms <= 1) & ~np.isnan(acted.outcome))
    treated, even = (arms[mine] == 1).astype(float), np.full(len(mine), 0.5)
    posteriors = compute_posteriors(treated, even, *(log_l[mine] for log_l in acted.log_l)) if lanes else None
    outcomes = rescale(acted.outcome[mine], LOW, HIGH)
    run = run_e_process(treated, even, outcomes, posteriors=posteriors, cap=SHARP_CAP if lanes else CAP)
    over = run.log_e_plus >= math.log(bound)
    return float(mine[over.argmax()] + 1) if over.any() else math.inf


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"40 experiments of each treatment, not {RUNS} or more")
    quick = parser.parse_args().quick
    began, cpu = time.monotonic(), time.process_time()
    with own_database():
        logging.disable(logging.WARNING)
        world = load_world()
        gaps = check_ledger(world, make_treatments(world), 600 if quick else 1_500)
        figures = measure(*((40, 40) if quick else (RUNS, EQUAL_RUNS))) | measure_groups(20 if quick else RUNS)
    points: list[tuple[str, str, Literal["<=", ">="], float]] = [
        ("no difference: promoted", "equal_promoted", "<=", 0.01),
        ("10 points better: units until E+, of plain's, even split", "evidence_even_of_plain", "<=", 1 / 3),
        ("10 points worse: rolled back within 2,500 units", "worse_rolled_back", ">=", 0.70),
        ("three at a time, no difference: any promoted", "group_equal_promoted", "<=", 0.01),
    ]
    report = Report("ramped_experiments")
    report.bound("the ledger ends with the same evidence, difference", max(gaps.values()), "<=", SAME)
    for label, key, sign, bound in points:
        report.bound(label, figures[key], sign, bound)
    figures |= {name: gap if math.isfinite(gap) else None for name, gap in gaps.items()}
    seconds, cpu_seconds = round(time.monotonic() - began, 1), round(time.process_time() - cpu, 1)
    return report.finish(quick=quick, seconds=seconds, cpu_seconds=cpu_seconds, figures=figures)


if __name__ == "__main__":
    sys.exit(main())
