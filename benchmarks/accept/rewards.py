"""`make accept PART=rewards`: rewards from components to what-if, and labels from queues to the auto-labeler.

    python -m benchmarks.accept.rewards [--only NAME …] [--quick]

The speeds are of this machine and want it for themselves.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.accept.parts import run_parts
from benchmarks.accept.shown import program, shown_rows
from benchmarks.large_ledger import large_ledger
from benchmarks.rewards import fill
from tools.instance import ROOT
from tools.report import Report

REWARDS = "tests/decisions/rewards"
LABELLING = "tests/decisions/labelling"
SHOWN: Mapping[str, Sequence[str]] = {
    "the golden tables of the five agents and of traces": [
        f"{REWARDS}/test_golden_rewards.py::test_the_reward_of",
        f"{REWARDS}/test_golden_rewards.py::test_the_kinds_have_these_weights",
    ],
    "every component stays within its range, whatever the facts": [f"{REWARDS}/test_component_properties.py"],
    "feedback repeated, shuffled, late or early earns what sorted feedback earns": [
        f"{REWARDS}/test_rewards.py::test_shuffled_and_repeated_feedback_earns_what_sorted_feedback_earns"
    ],
    "windows, interrupted work, several workers": [f"{REWARDS}/test_what_is_due.py"],
    "which verdict counts: a reviewer outranks an app": ["tests/decisions/models/test_verdicts.py"],
    "credit by four schemes": [f"{REWARDS}/test_credit.py"],
    "credit of 200 real runs of tau-bench": ["tests/decisions/importers/test_import_tau_bench.py"],
    "costly components are measured by jobs": [f"{REWARDS}/test_measuring.py"],
    "a spec is tried on history, then published or dropped": [
        f"{REWARDS}/test_what_if.py",
        "tests/browser/test_reward_specs_in_browser.py::test_a_change_is_tried_and_published_and_every_page_fits",
    ],
    "reviewers at once never collide; overlap, disputes, gold": [
        f"{LABELLING}/test_reservations.py",
        f"{LABELLING}/test_resolution.py",
        f"{LABELLING}/test_agreement.py",
    ],
    "a queue and its disputes by keyboard": ["tests/browser/test_label_queues_in_browser.py"],
    "every kind of action is edited in a browser": [
        "tests/browser/test_editors_in_browser.py",
        "tests/browser/test_decisions_in_browser.py::test_labelling_goes_from_one_decision_to_the_next_by_keys",
    ],
    "whole episodes, labels in bulk, and similar decisions": [
        f"{LABELLING}/test_episode_queues.py",
        f"{LABELLING}/test_bulk_labels.py",
        f"{LABELLING}/test_similar.py",
    ],
    "corrections become labelled rows and preference pairs": [
        f"{LABELLING}/test_corrections.py",
        "tests/training/test_label_datasets.py",
    ],
    "an active queue asks first what the auto-labeler doubts": [f"{LABELLING}/test_active_queue.py"],
    "an auto-labeler's suggestion is no label": [f"{LABELLING}/test_suggestions.py"],
    "a team's own components: packages and rules": [
        f"{REWARDS}/test_rules.py",
        f"{REWARDS}/test_installed_components.py",
    ],
}
# Where the worker dies, by a function of `decisions.rewards.calculate` and on which side of it.
FAILPOINTS = (
    *(("mark_due", "before"), ("mark_due", "after"), ("_take", "after"), ("value_decisions", "before")),
    *(("_write", "before"), ("_write", "after")),
)
WORKER = """
import os, signal, sys
import django
django.setup()
from decisions.models import RewardSpec
from decisions.rewards import calculate
calculate.CHUNK = 500
name, side, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
if name != "-":
    real, calls = getattr(calculate, name), iter(range(1, 1_000_000))
    def dies(*given, **named):
        last = next(calls) == times
        if last and side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*given, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    setattr(calculate, name, dies)
calculate.calculate_rewards(RewardSpec.objects.get())
"""
_HASH = """
SELECT string_agg(concat_ws('|', decision_id, version, raw, value, components), E'\\n' ORDER BY decision_id, version)
  FROM decisions_reward
"""


def shown(report: Report, quick: bool) -> None:
    shown_rows(report, SHOWN)


def kills(report: Report, quick: bool) -> None:
    """A worker is killed at each place and the next one goes on: the table is that of an uninterrupted calculation."""
    rounds = 2 if quick else 10

    def work(*arguments: object) -> int:
        command = [sys.executable, "-c", WORKER, *map(str, arguments)]
        return subprocess.run(command, cwd=ROOT, env=os.environ, check=False).returncode

    with large_ledger(5_000, fill=fill):
        from django.db import connection

        def begin_again() -> None:
            with connection.cursor() as cursor:
                cursor.execute("TRUNCATE decisions_reward, decisions_rewarddue, decisions_rewardprogress")

        def table() -> str:
            with connection.cursor() as cursor:
                cursor.execute(_HASH)
                return hashlib.sha256(cursor.fetchone()[0].encode()).hexdigest()

        assert work("-", "-", 0) == 0
        undisturbed = table()
        for name, side in FAILPOINTS:
            equal = killed = 0
            for times in range(1, rounds + 1):
                begin_again()
                # `mark_due` is called once in a calculation; the others once for each chunk.
                killed += work(name, side, 1 if name == "mark_due" else times) == -9
                assert work("-", "-", 0) == 0
                equal += table() == undisturbed
            report.add(
                f"killed {side} {name}: the table is that of an undisturbed calculation",
                bound=f"{rounds} of {rounds}",
                figure=f"{equal} of {killed} kills",
                passed=equal == killed == rounds,
            )


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "shown": shown,
    "kills": kills,
    "speed": program("benchmarks.rewards"),
    "sandbox": program("benchmarks.sandbox"),
    "suggestions": program("benchmarks.suggestions"),
    "active": program("benchmarks.active_labelling"),
    "queues": program("benchmarks.labelling"),
    "keyboard": program("benchmarks.accept.keyboard"),
}

if __name__ == "__main__":
    sys.exit(run_parts("rewards", PARTS, description=__doc__, quick="two kills at each place, smaller tables"))
