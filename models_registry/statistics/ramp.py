"""When the next phase of a ramp opens: a larger share of the units gets the treatment once the last one did no harm.

`models_registry.experiments.looks` asks after each look that neither promotes nor rolls back. Waiting is always safe
for the tests: an e-process is valid for any share that depends on the past only (`e_process.run_e_process`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from models_registry.statistics.promotion import Guardrail, write_e

RAMP_UNITS = 250
RAMP_E = 4.0


@dataclass(frozen=True, slots=True)
class RampBounds:
    """units: matured units, of both arms and with an outcome or without, that a phase needs. max_e: E of harm, of the
    primary measure or of one of k guardrails at k times as much, from which the share stays where it is; above 1, and
    below the bound of a roll-back to have any effect.

    A treatment that is not worse is ever held up with a probability of at most 1 / max_e by the primary measure, and
    as much by all guardrails together. Raises ValueError where they make no sense.
    """

    units: int = RAMP_UNITS
    max_e: float = RAMP_E

    def __post_init__(self) -> None:
        if self.units < 1 or not self.max_e > 1.0:
            raise ValueError("a phase needs at least 1 unit, and max_e must exceed 1, which no evidence already gives")


def find_obstacles(
    *,
    units: int,
    log_e_minus: float,
    guardrails: Sequence[Guardrail],
    sample_ratio_mismatch: bool,
    bounds: RampBounds,
) -> list[str]:
    """Why the next phase may not open yet, each with its numbers; none where it may.

    units: matured in the phase that runs. log_e_minus, and log_e_harm of the guardrails: over all units so far.
    """
    found = []
    if units < bounds.units:
        found.append(f"{units:,} of {bounds.units:,} matured units in this phase")
    if not log_e_minus < math.log(bounds.max_e):
        found.append(f"E⁻ {write_e(log_e_minus)} is not below {bounds.max_e:g}")
    harm_at = bounds.max_e * len(guardrails)
    found += [
        f"guardrail “{guardrail.name}”: E of harm {write_e(guardrail.log_e_harm)} is not below {harm_at:g}"
        for guardrail in guardrails
        if not guardrail.log_e_harm < math.log(harm_at)
    ]
    if sample_ratio_mismatch:
        found.append("sample-ratio mismatch: the arms' sizes contradict the assignment probabilities")
    return found
