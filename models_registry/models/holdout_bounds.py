"""How large and how long a holdout may be, and the faults of one."""

from __future__ import annotations

from workspaces.errors import FieldFault

LARGEST_SHARE = 0.5
HOLDOUT_SECONDS = 28 * 86_400.0
"""Where nobody says otherwise."""
MAX_HOLDOUT_SECONDS = 366 * 86_400.0


def find_holdout_faults(share: float, seconds: float, prefix: str = "") -> list[FieldFault]:
    """Of the fields `share` and `seconds`, whose names begin with the prefix."""
    faults = []
    if not 0 < share <= LARGEST_SHARE:
        reason = f"{share:g} must be above 0, up to {LARGEST_SHARE:g}"
        faults.append(FieldFault(f"{prefix}share", reason, "for example 0.05"))
    if not 0 < seconds <= MAX_HOLDOUT_SECONDS:
        reason, expected = "must be above 0, up to 366 days", f"seconds, for example {HOLDOUT_SECONDS:.0f}"
        faults.append(FieldFault(f"{prefix}seconds", reason, expected))
    return faults
