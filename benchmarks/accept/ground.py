"""`make accept PART=ground`: faults that were found, the first command, rooms, and the tests' budget.

    python -m benchmarks.accept.ground [--only NAME …] [--quick]

`faults` runs the tests that show that each fault is fixed. The figures are of this machine and want it for themselves.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accept.parts import run_parts
from benchmarks.accept.shown import program_rows, run, shown_rows
from tools.instance import ROOT
from tools.report import Report

BEFORE = "2304afd"
"""The commit that the sheets and the lines of code are compared with."""
GATEWAY = "tests/decisions/gateway/test_gateway.py"
LEDGER = "tests/decisions/ingest/test_ledger_ingest.py"
EXPERIMENTS = "tests/models_registry/test_experiments.py"
MATURING = "tests/decisions/rewards/test_maturing.py"
VERDICTS = "tests/decisions/models/test_verdicts.py"
WEB = "tests/project/web/test_connections.py"
FAULTS: Mapping[str, Sequence[str]] = {
    "a: one fresh id decided by many at once has one answer": [
        f"{GATEWAY}::test_one_id_at_the_same_moment_gets_one_answer"
    ],
    "b: one feedback key from many connections has one effect": [
        f"{LEDGER}::TestFeedback::test_one_key_from_many_senders_at_once_has_one_effect",
        f"{LEDGER}::TestFeedback::test_the_same_units_in_opposite_orders_at_once_are_all_kept",
    ],
    "c: a feedback key belongs to its target": [f"{LEDGER}::TestFeedback::test_one_key_on_two_targets_is_two"],
    "d: traces keep JSON, and spans take the agent above them": [
        "tests/decisions/traces/test_mapping.py",
        "tests/decisions/traces/test_traces_recorded.py",
    ],
    "e: a skip is no verdict": ["tests/decisions/pages/test_decision_pages.py::TestQueue"],
    "f: one definition of the verdict that counts": [VERDICTS],
    "g: later phases keep nobody from maturing": [
        f"{MATURING}::test_units_of_an_earlier_phase_do_not_keep_later_ones_waiting"
    ],
    "h: promotion by hand, loading first, and both arms failing": [
        f"{EXPERIMENTS}::TestPromotingByHand",
        f"{GATEWAY}::test_a_version_is_loaded_before_it_gets_traffic",
        f"{GATEWAY}::test_a_decision_that_no_arm_can_answer_counts_against_the_arm_that_was_asked",
    ],
    "i: attempts over minutes, dead jobs asked again": [
        "tests/jobs/test_jobs_running.py::test_attempts_are_spread_over_minutes",
        "tests/jobs/test_jobs_running.py::test_a_dead_job_can_be_tried_again_by_a_command",
        "tests/jobs/test_jobs_queueing.py",
    ],
    "j, l: slow clients, and workers that die": [WEB],
    "k: costly bodies": ["tests/decisions/traces/test_costly_bodies.py", "tests/workspaces/test_parsing.py"],
    "m: NUL, endless numbers, endless times": [
        "tests/architecture/test_form_values.py",
        "tests/decisions/pages/test_episode_pages.py",
    ],
    "n: no transaction waits for a model, no request walks the ledger": [
        f"{GATEWAY}::TestAnIdempotencyKey",
        "tests/training/test_runs_and_datasets.py",
    ],
    "o, v: one-time passwords, keys and their pages": [
        "tests/workspaces/test_person_pages.py",
        "tests/project/test_connect.py",
    ],
    "p: attempts to log in": ["tests/workspaces/test_log_in_limit.py"],
    "q: base models": [
        "tests/training/test_runs_and_datasets.py::TestStarting::test_only_allowed_models_are_begun_with",
        "tests/training/engine/test_engine_models.py::test_pickled_weights_are_not_loaded",
    ],
    "r: the internal key": ["tests/decisions/notes_app/test_notes_app_api.py::TestTheInternalKey"],
    "s: 405, ids of others, who may read files, request ids": [
        "tests/architecture/test_api_matrix.py",
        "tests/decisions/test_ids_of_others.py",
        "tests/project/embedded/test_layout.py",
    ],
    "t: kinds of jobs that are named exist": ["tests/architecture/test_floors.py"],
    "u: one number, one name": [
        "tests/project/registry",
        "tests/project/home",
    ],
    "v: the notes app's agents, double confirms, erased decisions": [
        "tests/decisions/agents/test_kinds_of_agents.py",
        VERDICTS,
        "tests/decisions/pages/test_decision_pages.py::TestLabel",
        "tests/browser/test_home_in_browser.py::test_a_key_its_program_and_the_first_decision",
    ],
    "w: stated lives, and the disk by kind": ["tests/project/upkeep"],
    "x: a refresh takes nobody's place": ["tests/browser/test_home_in_browser.py"],
    "y: the newest of a new workspace": ["tests/decisions/queries/test_newest_of_a_new_workspace.py"],
    "4b: both arms' probabilities, conditioned and rescaled": [
        f"{GATEWAY}::test_both_arms_probabilities_of_an_action_are_logged",
        f"{MATURING}::TestConditionedContrast",
        "tests/models_registry/statistics",
    ],
    "both sets of requirements, CPU and CUDA": ["tests/project/test_requirements.py"],
    "a quick start without a model, followed as written": ["tests/docs/test_code_blocks.py"],
}


def last_json(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return found


def faults(report: Report, quick: bool) -> None:
    shown_rows(report, FAULTS)


def statistics(report: Report, quick: bool) -> None:
    program_rows(report, "benchmarks.statistics", *(["--quick"] if quick else []))


def loops(report: Report, quick: bool) -> None:
    count = 1 if quick else 10
    code, text, _ = run([sys.executable, "-m", "benchmarks.ten_loops", "--seeds", str(count)])
    for line in text.splitlines()[1:-1]:
        report.add(f"loop of seed {line.split()[0]}", bound="promoted", figure=line, passed="promoted" in line)
    report.add(f"{count} whole loops, {count} promotions", bound="all", figure=f"exit {code}", passed=code == 0)


def installing(report: Report, quick: bool) -> None:
    """From nothing, in a fresh clone with a clean HOME: by uv, by pip beside it, and on to the verdict."""
    with tempfile.TemporaryDirectory(prefix="reckoner-ground-") as work:
        home = Path(work) / "home"
        home.mkdir()
        for name in ("uv", "pip"):
            clone = Path(work) / name
            run(["git", "clone", "--quiet", str(ROOT), str(clone)])
            install = f"python3 -m venv .venv && .venv/bin/python requirements/install.py --installer {name}"
            code, _, seconds = run(
                ["sh", "-c", f"cd {clone} && {install} && touch .venv/run-auto.stamp"], HOME=str(home)
            )
            passed = code == 0 and (name == "pip" or seconds <= 60)
            bound = "<= 60 s" if name == "uv" else ""
            report.add(f"installing by {name}, seconds", bound=bound, figure=round(seconds), passed=passed)
            if name == "uv":
                code, text, more = run(["make", "-s", "-C", str(clone), "run", "ARGS=--once"], HOME=str(home))
                better = code == 0 and last_json(text).get("better")
                report.add("the loop of a fresh clone ends with", bound="promoted", figure=better, passed=bool(better))
                total = round(seconds + more)
                report.add("from nothing to the verdict, seconds", bound="<= 240", figure=total, passed=total <= 240)
    program_rows(report, "benchmarks.accept.wheel")


def serving(report: Report, quick: bool) -> None:
    for module in ("benchmarks.slow_connections", "benchmarks.start"):
        program_rows(report, module, *(["--quick"] if quick else []))
    program_rows(report, "benchmarks.accept.at_once")


def count_lines(commit: str, *folders: str) -> int:
    _, names, _ = run(["git", "ls-tree", "-r", "--name-only", commit, "--", *folders])
    files = [name for name in names.splitlines() if name.endswith(".py") and "/migrations/" not in name]
    return sum(run(["git", "show", f"{commit}:{name}"])[1].count("\n") for name in files)


def rooms(report: Report, quick: bool) -> None:
    """The import sheet and the lines of code, before and after."""
    with tempfile.TemporaryDirectory(prefix="reckoner-before-") as before:
        run(["sh", "-c", f"git archive {BEFORE} | tar -x -C {before}"])
        sheets = {}
        for name, root in (("before", before), ("after", str(ROOT))):
            _, text, _ = run([sys.executable, "-m", "tools.rooms", "decisions", "--root", root, "--json"])
            sheets[name] = last_json(text)
    after = sheets["after"]
    told = {name: {word: sheet[word] for word in ("rooms", "arrows", "circles")} for name, sheet in sheets.items()}
    report.add("the ledger's rooms", bound="<= 20", figure=told, passed=after["rooms"] <= 20)
    # 61 when the rooms had been made, of 64 that were planned; what the ledger learns to do since brings its own.
    report.add("  arrows between them", bound="", figure=after["arrows"], passed=True)
    for what in ("circles", "upward"):
        report.add(f"  {what}", bound="0", figure=after[what], passed=not after[what])
    floors = ("project", "training", "decisions", "models_registry", "jobs", "workspaces")
    for what, folders in (
        ("the floors", floors),
        ("the client", ("clients/python/reckoner_client",)),
        ("tests", ("tests",)),
    ):
        figures = f"{count_lines(BEFORE, *folders):,} -> {count_lines('HEAD', *folders):,}"
        report.add(f"lines of Python, {what}", bound="", figure=figures, passed=True)


def tests(report: Report, quick: bool) -> None:
    for target, bound in (("test-quick", 90), ("test", 360)):
        code, text, seconds = run(["make", target])
        closing = (text.strip().splitlines() or [""])[-1]
        report.add(f"make {target}: {closing}", bound="exit 0", figure=code, passed=code == 0)
        report.add("  seconds", bound=f"<= {bound}", figure=round(seconds), passed=seconds <= bound)


def earlier(report: Report, quick: bool) -> None:
    for part in ("loop", "rehearse", "ledger"):
        code, text, _ = run([sys.executable, "-m", f"benchmarks.accept.{part}", *(["--quick"] if quick else [])])
        rows = [line for line in text.splitlines() if line[:4] in ("pass", "FAIL")]
        failed = [line[6:60].strip() for line in rows if line.startswith("FAIL")]
        figure = f"{len(rows) - len(failed)} of {len(rows)}" + (f"; {'; '.join(failed)}" if failed else "")
        report.add(f"make accept PART={part}", bound="all rows pass", figure=figure, passed=code == 0)


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "faults": faults,
    "statistics": statistics,
    "loops": loops,
    "installing": installing,
    "serving": serving,
    "rooms": rooms,
    "tests": tests,
    "earlier": earlier,
}

if __name__ == "__main__":
    sys.exit(run_parts("ground", PARTS, description=__doc__, quick="shorter simulations, one loop, smaller tables"))
