"""Items and pairs that a model is asked about one by one: learning from a log of yes and no, and scores of others.

Nobody tells the probabilities with which the outside policy acted, and there is no model to start with. The first part
of the log is what people's verdicts make of it, labelled rows: from them comes the first model (`pretrain`). From the
rest it learns as from any log (`posterior`), with the labelled rows replayed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.engine_runs import Rows, Runs
from decisions.labelling.classifier import learn as learn_words
from models_registry.statistics.intervals import Interval

FIRST = 0.4
"""Share of the log that makes the first model."""
EPOCHS = 8


class Learnt(NamedTuple):
    """Log-odds of the asked option for each of the held-out rows: of the first model, of the trained one, and of a
    plain classifier of words taught by all the verdicts; and the CPU seconds of the runs."""

    first: list[float]
    trained: list[float]
    words: list[float]
    cpu: float


def learn_to_answer(runs: Runs, log: Rows, held_out: Rows, *, asked: str, hidden: int, steps: int = EPOCHS) -> Learnt:
    """`log`: logged rows without propensity, of two options each, those that nobody judged with a null reward.
    `held_out`: labelled rows. `asked`: the option whose probability is the score. `steps`: epochs of each run."""
    judged = [row for row in log if row["reward"] is not None]
    cut = round(FIRST * len(judged))
    labels = [_answered(row) for row in judged[:cut]]
    known = {row["id"] for row in judged[:cut]}
    recipe: dict[str, Any] = {"optimiser": {"learning_rate": 3e-3, "epochs": steps, "batch_size": 32}}
    tiny = {"base": {"tiny": {"hidden": hidden, "vocabulary": 1500}}}
    first = runs.run("first", "pretrain", recipe | tiny, train=labels)
    spec = {
        "base": {"path": str(first.output)},
        "optimiser": {"learning_rate": 2e-3, "epochs": steps, "batch_size": 32},
        "evaluate": {"free_rows": 0},
    }
    rest = [row for row in log if row["id"] not in known]
    done = runs.run("trained", "posterior", spec, train=rest, replay=labels, heldout=held_out)
    taught = [_answered(row) for row in judged]
    words = learn_words([row["prompt"] for row in taught], [row["answer"] for row in taught])
    said = words.probabilities([row["prompt"] for row in held_out])[:, words.actions.index(asked)]
    place = [row["options"].index(asked) for row in held_out]
    return Learnt(
        *(
            [_log_odds(line["p"][at]) for line, at in zip(done.predictions(model), place, strict=True)]
            for model in ("base", "trained")
        ),
        [_log_odds(float(p)) for p in said],
        first.cpu + done.cpu,
    )


def _answered(row: dict[str, Any]) -> dict[str, Any]:
    """What a verdict on one of two options says of both."""
    [other] = [option for option in row["options"] if option != row["action"]]
    answer = row["action"] if row["reward"] > 0.5 else other
    return {"id": row["id"], "prompt": row["prompt"], "options": row["options"], "answer": answer}


def _log_odds(p: float) -> float:
    p = min(max(p, 1e-9), 1 - 1e-9)
    return math.log(p / (1 - p))


def positions(scores: Sequence[float]) -> list[int]:
    """The place of each in the order by falling score, from 0; equals in the order given."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    return [order.index(place) for place in range(len(scores))]


def show(found: Interval, sign: str = "") -> str:
    return f"{found.mean:{sign}.3f} [{found.low:{sign}.3f}, {found.high:{sign}.3f}]"
