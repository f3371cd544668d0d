"""How many decisions an export leaves out: by the first limit that does, and those that make no line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from decisions.agents.prompts import PromptError
from decisions.queries.export import FORMATS, ExportChoice, export_rows
from workspaces.models import Workspace


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`counts` by limit, and `unusable` decisions, which make no line; at least so many where not everything was looked
    at."""

    counts: Mapping[str, int]
    is_complete: bool = True
    unusable: int = 0

    def as_header(self, chosen: ExportChoice) -> str:
        """The limits that are set, such as `limit=120, min_reward=3`; `10000+` where there may be more. `unusable=2`
        where there are any. `none` without either."""
        is_set = {name: getattr(chosen, name) for name in self.counts}
        limits = [name for name, value in sorted(is_set.items()) if value is not None and value is not False]
        more = "" if self.is_complete else "+"
        unusable = [f"unusable={self.unusable}"] if self.unusable else []
        return ", ".join([*(f"{name}={self.counts[name]}{more}" for name in limits), *unusable]) or "none"


def count_unusable(*, workspace: Workspace, chosen: ExportChoice, format: str, most: int) -> int:
    """How many of the newest `most` of the chosen decisions make no line: their state lacks a field of the prompt, or
    is a chat that cannot be read. Raises InvalidInput as `export_rows` does."""
    count = 0
    for row in islice(export_rows(workspace=workspace, chosen=chosen), most):
        try:
            FORMATS[format](row)
        except PromptError:
            count += 1
    return count


def count_left_out(*, workspace: Workspace, chosen: ExportChoice, most: int | None = None) -> LeftOut:
    """Counts by `min_reward`, `max_reward`, `require_feedback` and `limit`. A decision outside the bounds is counted
    there alone; one that only the limit leaves out counts for the limit, also where its line could not be written.
    Walks everything that the limits could leave out, or the newest `most` beyond the limit. Raises InvalidInput as
    `export_rows` does."""
    counts: Counter[str] = Counter(min_reward=0, max_reward=0, require_feedback=0, limit=0)
    bounds = (chosen.min_reward, chosen.max_reward, chosen.limit)
    if bounds == (None, None, None) and not chosen.require_feedback:
        return LeftOut(dict(counts))
    every = replace(chosen, min_reward=None, max_reward=None, require_feedback=False, limit=None)
    rows = export_rows(workspace=workspace, chosen=every, with_content=False)
    last = None if most is None else (chosen.limit or 0) + most
    fitting = 0
    for row in islice(rows, last):
        if chosen.min_reward is not None and row.reward is not None and row.reward < chosen.min_reward:
            counts["min_reward"] += 1
        elif chosen.max_reward is not None and row.reward is not None and row.reward > chosen.max_reward:
            counts["max_reward"] += 1
        elif chosen.require_feedback and row.verdict is None:
            counts["require_feedback"] += 1
        else:
            fitting += 1
    if chosen.limit is not None:
        counts["limit"] = max(0, fitting - chosen.limit)
    return LeftOut(dict(counts), is_complete=next(rows, None) is None)
