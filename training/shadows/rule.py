"""When a shadow's evidence suffices. PURE.

`training.shadows.rounds` judges with it, again and again while answers come in.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import stdtrit

from training.evaluation.off_policy import OffPolicyGate

ERROR = 0.05
MAX_FAILED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Judged:
    """passed: the evidence suffices. lower: the bound by which it was judged, in units of reward. refusals: why
    nothing can be said, a sentence each."""

    passed: bool
    lower: float
    refusals: tuple[str, ...]


def is_look_due(*, looks: int, answered: int, rewarded: int, least: int) -> bool:
    """Whether the evidence is judged now, after `looks` times: with `least` rewarded decisions, and whenever the
    answers have doubled since: at least, 2 · least, 4 · least, … answers."""
    return rewarded >= least and answered >= least * 2**looks


def judge(gate: OffPolicyGate, *, look: int, answered: int, failed: int) -> Judged:
    """Judges for the `look`-th time, from 1 on. It suffices when the gate passes, the bound is above 0, and the
    candidate could answer.

        lower = mean − t_{G−1}(1 − α_k) se            α_k = 0.05 / (k (k + 1)),  Σ_k α_k = 0.05

    One bound of 95 %, read at every look, would let a candidate that is no better pass more and more often. By the
    union of all looks, this lets it pass ever with a probability of about 5 %. Feedback and answers that are missing
    for a reason bias every bound; where more than 5 % of the answers failed, nothing is said.
    """
    difference = gate.difference
    refusals = list(gate.refusals)
    asked = answered + failed
    if failed > MAX_FAILED_SHARE * asked:
        refusals.append(
            f"The candidate could not answer {failed:,} of {asked:,} decisions; at most {MAX_FAILED_SHARE:.0%} may be"
            " missing."
        )
    if difference.clusters < 2:
        return Judged(False, float("-inf"), tuple(refusals))
    degrees = difference.clusters - 1
    error = (difference.high - difference.mean) / float(stdtrit(degrees, 0.975))
    lower = float(difference.mean - stdtrit(degrees, 1.0 - ERROR / (look * (look + 1))) * error)
    return Judged(gate.passed and not refusals and lower > 0.0, lower, tuple(refusals))
