"""Judges on GSM8K's solutions: corrected means against the truth, where few solutions have a label.

    python -m benchmarks.judges [--data DIR] [--quick]

The rows are the 5,276 solutions by four systems; the truth is the share of right ones (`is_correct`), which no judge
reads. `checker` reads one solution: it passes one whose calculator steps are exact, whose answer is a whole number, and
whose steps use every number of the question. `vote` passes a solution whose answer another system gives, too.

500 draws (100 with --quick) label 5 % of the solutions, or 5 % of the questions with all their solutions. Then, with
answers made up at several rates of right ones, the least number of labels that a calibration needs. Prints a row per
figure and one JSON object as the last line; exits 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np

from decisions.judges.agreement import agree
from decisions.judges.assessing import LEAST_LABELS, LEAST_OTHERWISE
from models_registry.statistics.prediction_powered import CorrectedMean, correct_mean
from tools.report import Report
from training.engine.environments.arithmetic import Verdict, check_steps, read_final_answer, read_number
from training.engine.environments.grading import rank_rewards

ROOT = Path(__file__).resolve().parents[1]
SYSTEMS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
QUANTITY = re.compile(r"\d[\d,]*(?:\.\d+)?")
LABELLED, DRAWS, QUICK = 0.05, 500, 100
COVERAGE = 0.93


@dataclass(frozen=True)
class Solutions:
    """right: (n,), the truth; questions: (n,), what each answers; judges: the scores of each judge, (n,)."""

    right: np.ndarray
    questions: np.ndarray
    judges: dict[str, np.ndarray]


def read_solutions(data: Path) -> Solutions:
    right, questions, checked, voted = [], [], [], []
    with (data / "gsm8k" / "example_model_solutions.jsonl").open(encoding="utf-8") as lines:
        for number, row in enumerate(map(json.loads, lines)):
            texts = [row[system]["solution"] for system in SYSTEMS]
            answers = [answer_of(text) for text in texts]
            right += [float(row[system]["is_correct"]) for system in SYSTEMS]
            questions += [number] * len(SYSTEMS)
            checked += [check(row["question"], text) for text in texts]
            voted += [float(one is not None and answers.count(one) > 1) for one in answers]
    judges = {"checker": np.array(checked), "vote": np.array(voted)}
    return Solutions(np.array(right), np.array(questions), judges)


def answer_of(text: str) -> Fraction | None:
    found = read_final_answer(text)
    return None if found is None else read_number(found)


def quantities_of(text: str) -> set[Fraction]:
    read = (read_number(one.rstrip(",")) for one in QUANTITY.findall(text))
    return {one for one in read if one is not None}


def check(question: str, text: str) -> float:
    """1 where nothing speaks against the solution, else 0."""
    steps, answer = check_steps(text), answer_of(text)
    exact = bool(steps) and all(step.verdict in {Verdict.EXACT, Verdict.ROUNDED} for step in steps)
    whole = answer is not None and answer.denominator == 1 and answer >= 0
    used = set().union(*(quantities_of(step.text) for step in steps))
    return float(exact and whole and quantities_of(question) <= used)


@dataclass
class Tally:
    """How often each of the three intervals holds the truth, and how wide the two honest ones are."""

    draws: int = 0
    corrected: int = 0
    alone: int = 0
    judged: int = 0
    width: float = 0.0
    width_alone: float = 0.0
    narrower: int = 0

    def add(self, found: CorrectedMean, truth: float) -> None:
        one, alone, judged = found.corrected, found.labels_only, found.judged
        self.draws += 1
        self.corrected += one.low <= truth <= one.high
        self.alone += alone.low <= truth <= alone.high
        self.judged += judged.low <= truth <= judged.high
        self.width += one.high - one.low
        self.width_alone += alone.high - alone.low
        self.narrower += one.high - one.low < alone.high - alone.low


def draw_means(solutions: Solutions, scores: np.ndarray, draws: int, whole_questions: bool) -> Tally:
    """Of `draws` seeds. Labelled is a part of the rows, each a cluster, or of the questions, then clusters."""
    tally, truth = Tally(), float(solutions.right.mean())
    units = solutions.questions if whole_questions else np.arange(solutions.right.size)
    count = int(units.max()) + 1
    for seed in range(draws):
        chosen = np.random.default_rng(seed).choice(count, round(LABELLED * count), replace=False)
        mine = np.isin(units, chosen)
        found = correct_mean(
            solutions.right[mine],
            scores[mine],
            scores[~mine],
            clusters=units[mine],
            unlabelled_clusters=units[~mine],
        )
        tally.add(found, truth)
    return tally


def share_ranked_right(solutions: Solutions, scores: np.ndarray) -> tuple[float, int]:
    """Of pairs of a right and a wrong solution of one question: in what share the rank reward of the right one is
    higher, half where they are equal."""
    won, pairs = 0.0, 0
    for start in range(0, scores.size, len(SYSTEMS)):
        right = solutions.right[start : start + len(SYSTEMS)]
        rewards = rank_rewards(scores[start : start + len(SYSTEMS)].tolist())
        for one, other in combinations(range(len(SYSTEMS)), 2):
            if right[one] != right[other]:
                better, worse = (one, other) if right[one] else (other, one)
                won += 0.5 + 0.5 * (np.sign(rewards[better] - rewards[worse]))
                pairs += 1
    return won / pairs, pairs


def draw_at_the_least(rate: float, labels: int, draws: int) -> Tally:
    """Made-up answers, right at `rate`, and a judge that is wrong in 20 %; only draws that a calibration would take."""
    tally, rng, others = Tally(), np.random.default_rng([labels, round(100 * rate)]), 5_000
    while tally.draws < draws:
        right = (rng.random(labels + others) < rate).astype(float)
        if min(right[:labels].sum(), labels - right[:labels].sum()) < LEAST_OTHERWISE:
            continue
        judged = np.where(rng.random(right.size) < 0.8, right, 1.0 - right)
        tally.add(correct_mean(right[:labels], judged[:labels], judged[labels:]), rate)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} draws")
    options = parser.parse_args()
    if not (options.data / "gsm8k").is_dir():
        parser.error(f"--data: {options.data} has no gsm8k/")
    draws = QUICK if options.quick else DRAWS
    solutions, report = read_solutions(options.data), Report("judges")
    for name, scores in solutions.judges.items():
        alpha = agree(solutions.right, scores, solutions.questions)
        assert alpha is not None
        ranked, pairs = share_ranked_right(solutions, scores)
        report.add(
            f"{name}: α on all; mean against the truth; ranks right in pairs",
            bound="informative, not perfect",
            figure=f"{alpha.mean:.3f}; {scores.mean():.3f} against {solutions.right.mean():.3f}; "
            f"{ranked:.3f} of {pairs}",
            passed=0.0 < alpha.mean < 0.95 and ranked > 0.5,
        )
        for whole_questions, what in ((False, "solutions"), (True, "questions")):
            found = draw_means(solutions, scores, draws, whole_questions)
            report.add(
                f"{name}, 5 % of {what}: corrected covers; labels alone; the judge's mean",
                bound=f">= {COVERAGE} of {draws}",
                figure=f"{found.corrected / draws:.3f}; {found.alone / draws:.3f}; {found.judged / draws:.3f}",
                passed=found.corrected / draws >= COVERAGE,
            )
            report.add(
                f"{name}, 5 % of {what}: mean width; of labels alone; narrower in",
                bound="narrower in every draw",
                figure=f"{found.width / draws:.4f}; {found.width_alone / draws:.4f} "
                f"({found.width / found.width_alone:.3f}); {found.narrower} of {draws}",
                passed=found.narrower == draws,
            )
    for rate in (0.1, 0.2, 0.5, 0.9):
        found = draw_at_the_least(rate, LEAST_LABELS, 4 * draws)
        report.add(
            f"{LEAST_LABELS} labels, {rate:.0%} right: corrected covers",
            bound=f">= {COVERAGE} of {4 * draws}",
            figure=f"{found.corrected / found.draws:.3f}",
            passed=found.corrected / found.draws >= COVERAGE,
        )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
