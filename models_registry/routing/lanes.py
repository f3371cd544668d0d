"""Assigns a unit to an arm by one hash, without state, the same in every process and every client language.

The decide endpoint calls `assign` for each unit, after `is_in_lane` where the units are divided among experiments; the
experiment keeps the salt. The vectors in tests/models_registry/routing_vectors.json fix the answers for clients in
other languages.
"""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

Arm = Literal["control", "treatment"]

SCALE = 2**64
LARGEST_BELOW_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True, slots=True)
class Assignment:
    """The arm of one unit.

    probability: P(this arm | unit) in (0, 1], the treatment's share or one minus it, by the arm the unit got.
    bucket: the unit's place in [0, 1); it does not depend on the share, so raising the share only adds units.
    """

    arm: Arm
    probability: float
    bucket: float


def new_salt() -> str:
    """A fresh 128-bit salt as 32 hex digits; one per experiment, so that experiments split units independently."""
    return secrets.token_hex(16)


def hash_unit(salt: str, experiment: str, unit: str) -> int:
    """First 8 bytes, big-endian, of SHA-256 of "salt|experiment|unit" in UTF-8: an integer in [0, 2^64).

    Raises ValueError when salt or experiment holds "|": the three parts could then be cut in two ways.
    """
    if "|" in salt or "|" in experiment:
        raise ValueError("neither salt nor experiment may contain '|'")
    digest = hashlib.sha256(f"{salt}|{experiment}|{unit}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def assign(salt: str, experiment: str, unit: str, treatment_share: float) -> Assignment:
    """The arm of `unit`: treatment iff b < treatment_share, with b = hash_unit(...) / 2^64.

    treatment_share is in [0, 1]; ValueError otherwise. Sticky: the same arguments always give the same arm.
    """
    if not 0.0 <= treatment_share <= 1.0:
        raise ValueError(f"treatment_share must lie in [0, 1], got {treatment_share!r}")
    number = hash_unit(salt, experiment, unit)
    # Multiplying by a power of two is exact and Python compares int with float exactly; number / 2^64 would round
    # the highest numbers up to 1.0, which a share of 1 would then leave out.
    treated = number < treatment_share * SCALE
    bucket = min(number / SCALE, LARGEST_BELOW_ONE)
    if treated:
        return Assignment("treatment", treatment_share, bucket)
    return Assignment("control", 1.0 - treatment_share, bucket)


def is_in_lane(salt: str, name: str, unit: str, low: float, high: float) -> bool:
    """Whether `unit` is in the lane [low, high) of those that `salt` and `name` cut: low <= b < high, with b as in
    `assign`. Ends in [0, 1]; lanes that share an end have every unit in exactly one of them. Its hash is another than
    that of the arm, so a lane's units split between arms as any others do."""
    number = hash_unit(salt, name, unit)
    return low * SCALE <= number < high * SCALE
