"""How many rewarded decisions the limits of an export leave out, by the first limit that does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from decisions.queries.export import ExportChoice, export_rows
from workspaces.models import Workspace


def count_left_out(*, workspace: Workspace, chosen: ExportChoice) -> Mapping[str, int]:
    """Counts by `min_reward`, `require_feedback` and `limit`. A decision below the reward bound is counted there alone;
    one that only the limit leaves out counts for the limit, also where its line could not be written. Walks everything
    that the limits could leave out. Raises InvalidInput as `export_rows` does."""
    every = replace(chosen, min_reward=None, require_feedback=False, limit=None)
    counts: Counter[str] = Counter(min_reward=0, require_feedback=0, limit=0)
    fitting = 0
    for row in export_rows(workspace=workspace, chosen=every):
        if chosen.min_reward is not None and row.reward is not None and row.reward < chosen.min_reward:
            counts["min_reward"] += 1
        elif chosen.require_feedback and row.verdict is None:
            counts["require_feedback"] += 1
        else:
            fitting += 1
    if chosen.limit is not None:
        counts["limit"] = max(0, fitting - chosen.limit)
    return dict(counts)
