"""How long a rehearsal will take.

`manage.py rehearse` has the engine measure some of the texts on a pretrained base, which takes a minute or more. The
page, which answers at once, goes by the rate of earlier runs, or a rough guess.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from training.engine.spec.run_spec import RunSpec
from training.loops.rehearsal.plan import Plan, Split, split_rows
from training.loops.rehearsal.source import Source
from training.rows.labelled_texts import labelled_row
from training.runs.base_models import TINY
from training.runs.defaults import recipes
from training.runs.defaults.matrices import adapt_usable_matrices
from training.runs.estimates.capacity import Load, estimate_load
from training.runs.launcher import engine_environment

MEASURE = (sys.executable, "-m", "training.engine.measure")
ROWS_MEASURED = 48
LONGEST_SECONDS = 900.0


class EstimateError(RuntimeError):
    """The engine could not measure; the base may not load."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rows a second in training and in scoring, and the seconds that loading the base takes."""

    trained: float
    scored: float
    loading: float


@dataclass(frozen=True, slots=True)
class Work:
    """One run: rows passed over in training, rows scored without learning."""

    trained: float
    scored: float


def estimate_seconds(plan: Plan, source: Source, rates: Rates) -> float:
    """Of all seeds, on one worker. Every run also loads its base twice: to train, and to compare."""
    runs = list(list_work(plan, split_rows(source, plan, 0), plan.base))
    one_seed = sum(work.trained / rates.trained + work.scored / rates.scored + 2 * rates.loading for work in runs)
    return plan.seeds * one_seed


def guess_seconds(plan: Plan, source: Source) -> tuple[float, int] | None:
    """Of all seeds, on one worker, at the rate of earlier runs; of how many, 0 for a rough guess. None for a base of
    unknown size."""
    base = plan.base or settings.BASE_MODEL
    spec = RunSpec.model_validate(
        {
            "run_id": "guess",
            "method": "pretrain",
            "base": {"tiny": {}} if base == TINY else {"path": base},
            "data": {"train": "rows"},
            "max_prompt_tokens": recipes.prompt_tokens(source.examples),
            "optimiser": {"epochs": 1, "batch_size": 16},
        }
    )
    runs = list(list_work(plan, split_rows(source, plan, 0), base))
    needs = [estimate_load(spec, Load(None, base, round(run.trained), round(run.scored / 2))) for run in runs]
    known = [one for one in needs if one is not None]
    if len(known) < len(runs):
        return None
    return plan.seeds * sum(one.seconds for one in known), known[0].measured_runs


def list_work(plan: Plan, split: Split, base: str) -> Iterator[Work]:
    """What one seed's runs and its decisions will pass over, with the passes of the recipes."""
    seeds, heldout, stream = len(split.seed_rows), len(split.heldout), len(split.stream)
    compared = 2 * heldout
    yield Work(0.8 * seeds * _passes(recipes.base_settings(base, seeds)), compared)
    for number, end in enumerate(split.round_ends(plan.rounds), start=1):
        rows = seeds + end * min(1, 2 * (1 - plan.missing))  # those that nobody judged, at most as many
        recipe = recipes.round_settings(base, round(rows), lora=plan.lora, last=number == plan.rounds)
        yield Work(rows * _passes(recipe), rows / 2 + compared)  # the direct method reads the middle layer
    yield Work((seeds + stream) * _passes(recipes.ceiling_settings(base, seeds + stream)), compared)
    yield Work(0, stream + len(split.gate))


def _passes(recipe: Mapping[str, Any]) -> int:
    return int(recipe["optimiser"]["epochs"])


def measure_rates(plan: Plan, source: Source) -> Rates:
    """Loads the base in the engine's process and times a few batches of the source's texts. Raises EstimateError."""
    rows = random.Random(0).sample(source.examples, min(ROWS_MEASURED, len(source.examples)))  # noqa: S311
    recipe = adapt_usable_matrices(recipes.round_settings(plan.base, len(rows), lora=plan.lora), plan.base)
    spec = {
        "run_id": "measure",
        "method": "posterior",
        "base": {"path": plan.base},
        "data": {"train": "rows"},
        "max_prompt_tokens": recipes.prompt_tokens(source.examples),
        **recipe,
    }
    question = {"spec": spec, "rows": [labelled_row(row, source.labels) for row in rows]}
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module, no shell
            MEASURE,
            input=json.dumps(question),
            capture_output=True,
            text=True,
            check=True,
            cwd=settings.BASE_DIR,
            env=engine_environment(),
            timeout=LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise EstimateError(f"{plan.base} took more than {LONGEST_SECONDS / 60:.0f} minutes to measure") from error
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or "").strip().splitlines()
        raise EstimateError(f"{plan.base} cannot be used: {reason[-1] if reason else error}") from error
    told = json.loads(done.stdout.splitlines()[-1])
    return Rates(told["trained"], told["scored"], told["loading"])
