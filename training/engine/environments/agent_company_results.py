"""What TheAgentCompany's evaluator leaves behind, as a grade. No torch.

    {"checkpoints": [{"total": 1, "result": 1}, …], "final_score": {"total": 5, "result": 5}}

The benchmark's evaluators catch what a checkpoint's grader raises, log `Error in NAME: …` and count it as not passed.
So the log is read as well: such a checkpoint is named as failed, and nothing may learn from the grade.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from training.engine.environments.agent_company import CompanyTask
from training.engine.environments.grading import Checked, Grade, score_of
from training.engine.environments.protocol import EnvironmentFault

ERROR = re.compile(r"Error in (\w+): (.*)")
NUMBER = re.compile(r"(\d+)$")
MOST_BYTES = 1_000_000


class Points(msgspec.Struct):
    total: int
    result: int


class Evaluated(msgspec.Struct):
    checkpoints: list[Points]
    final_score: Points


def read_grade(task: CompanyTask, path: Path, log: str) -> Grade:
    """The evaluator's own points, bonus included. `log` is what it printed. Raises EnvironmentFault for a result that
    is missing or none."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise EnvironmentFault(f"{path.name}: has more than {MOST_BYTES:,} bytes")
        found = msgspec.json.decode(path.read_bytes(), type=Evaluated)
    except (OSError, msgspec.DecodeError) as error:
        raise EnvironmentFault(f"{path.name}: {error}") from error
    for number, one in enumerate([*found.checkpoints, found.final_score], start=1):
        if one.total < 1 or not 0 <= one.result <= one.total:
            raise EnvironmentFault(f"{path.name}: {one.result} of {one.total} points is impossible in place {number}")
    if not found.checkpoints or sum(one.total for one in found.checkpoints) != found.final_score.total:
        raise EnvironmentFault(f"{path.name}: the checkpoints do not add up to {found.final_score.total} points")
    errors = _find_errors(log, len(found.checkpoints))
    checked = tuple(
        Checked(_name(task, number, len(found.checkpoints)), one.total, 0, errors[number])
        if number in errors
        else Checked(_name(task, number, len(found.checkpoints)), one.total, one.result)
        for number, one in enumerate(found.checkpoints, start=1)
    )
    final = found.final_score
    return Grade(
        strategy=task.strategy,
        points=final.result,
        total=final.total,
        score=score_of(final.result, final.total),
        checkpoints=checked,
        failed=tuple(one.name for one in checked if one.error is not None),
    )


def fail_all(task: CompanyTask, why: str) -> Grade:
    """The grade where the evaluator failed as a whole: no checkpoint passed, and each is named."""
    checked = tuple(Checked(one.name, one.points, 0, why) for one in task.checkpoints)
    names = tuple(one.name for one in checked)
    return Grade(task.strategy, 0, task.points, 0.0, checked, names)


def _name(task: CompanyTask, number: int, count: int) -> str:
    """As the task's text names it, where both have as many."""
    return task.checkpoints[number - 1].name if len(task.checkpoints) == count else f"Checkpoint {number}"


def _find_errors(log: str, count: int) -> dict[int, str]:
    """Failed checkpoints by number, with why. A failed function whose name says no checkpoint may have been needed by
    any of them, so all have failed."""
    errors: dict[int, str] = {}
    for name, why in ERROR.findall(log):
        number = int(found[1]) if (found := NUMBER.search(name)) else 0
        for failed in [number] if 1 <= number <= count else range(1, count + 1):
            errors.setdefault(failed, f"{name}: {why.strip()}")
    return errors
