"""Rows of a benchmark: what, bound, figure, pass; and one JSON line at the end."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    bound: str
    figure: str
    passed: bool


@dataclass
class Report:
    """Prints each row as it comes."""

    part: str
    rows: list[Row] = field(default_factory=list)

    def add(self, what: str, *, bound: str, figure: object, passed: bool) -> None:
        row = Row(what, bound, str(figure), bool(passed))
        self.rows.append(row)
        print(f"{'pass' if row.passed else 'FAIL'}  {row.what:<66} {row.bound:<22} {row.figure}", flush=True)

    def bound(self, what: str, figure: float | None, sign: Literal["<=", ">="], bound: float) -> None:
        """A row that passes on this side of the bound. None, a figure that nothing reached, fails."""
        good = figure is not None and (figure <= bound if sign == "<=" else figure >= bound)
        shown = "none" if figure is None else f"{figure:.4g}"
        self.add(what, bound=f"{sign} {bound:.3g}", figure=shown, passed=good)

    def finish(self, **more: Any) -> int:
        """Exit code 0 when every row passed. `more` stands in the last line beside the rows."""
        passed = all(row.passed for row in self.rows) and bool(self.rows)
        rows = [asdict(row) for row in self.rows]
        print(json.dumps({"part": self.part, "passed": passed, "rows": rows, **more}))
        return 0 if passed else 1


def log(message: str) -> None:
    print(f"      {message}", file=sys.stderr, flush=True)
