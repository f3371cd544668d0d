"""Examples of *Train the best* for the OpenAPI document. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from models_registry.api.examples import CHAMPION
from training.api.examples import DATASET, HELD_OUT, RUN
from workspaces.http.examples import MOMENT, Example

BEST = "01a21a3c-5d10-7b42-8d53-2f1f6c0e9a71"
OTHER_RUN = "01a21a3c-5e77-70aa-9b12-6a8c0d3f4e52"
A_COMPARISON_JOB = {
    "id": BEST,
    "agent": "filer",
    "state": "queued",
    "progress": 0.0,
    "message": "",
    "error": "",
    "comparison": None,
    "created_at": MOMENT,
    "finished_at": None,
}
COMPARED = {
    "measure": "accuracy",
    "best": "filer:4",
    "says": "filer:4 (classifier of words) is the best for its price: 84.5% on 2,000 held-out rows, against "
    "language model 83.1% (−1.4 points [−2.9, +0.1]).",
    "candidates": [
        {
            "kind": "words",
            "run": RUN,
            "state": "succeeded",
            "error": "",
            "version": "filer:4",
            "best": True,
            "score": {"mean": 0.845, "low": 0.829, "high": 0.861, "n": 2000, "clusters": 150},
            "difference": None,
            "by_log": {"estimate": 0.12, "low": 0.08, "high": 0.16},
            "milliseconds": 0.21,
            "price_per_1000": 0.0001,
            "seconds": 11.2,
        },
        {
            "kind": "language_model",
            "run": OTHER_RUN,
            "state": "succeeded",
            "error": "",
            "version": CHAMPION,
            "best": False,
            "score": {"mean": 0.831, "low": 0.815, "high": 0.847, "n": 2000, "clusters": 150},
            "difference": {"mean": -0.014, "low": -0.029, "high": 0.001, "n": 2000, "clusters": 150},
            "by_log": None,
            "milliseconds": 2.4,
            "price_per_1000": 0.0013,
            "seconds": 95.0,
        },
    ],
    "left_out": {"encoder": "No sentence encoder is at hand."},
}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "train_best": [
        Example(
            A_COMPARISON_JOB,
            202,
            {"agent": "filer", "dataset": DATASET, "heldout": HELD_OUT, "minutes": 30, "retire_others": True},
        )
    ],
    "read_best": [
        Example(
            A_COMPARISON_JOB | {"state": "succeeded", "progress": 1.0, "comparison": COMPARED, "finished_at": MOMENT},
            path={"id": BEST},
        )
    ],
}
