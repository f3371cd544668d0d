"""Examples of this floor for the OpenAPI document; `workspaces.http.examples` tells the story behind them. PURE."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from models_registry.api.examples import CHAMPION, DIGEST, VERSION
from workspaces.http.examples import MOMENT, Example, page

NDJSON = "application/x-ndjson"

DATASET = "01a1f9b3-50bd-7f13-a30c-4cdcd7288ff6"
HELD_OUT = "01a1f7fb-e134-7e8a-92af-b4749286a175"
RUN = "01a1f9bb-ef15-74fc-b646-8224c3e4a892"
EVENT = "01a1f9bc-1772-769f-9b1e-49c7995253fd"
ERASURE = "01a1f9e1-2184-7d00-b308-14c10b11ad28"

IMPORT = "01a1f9b2-7a31-7d4e-b0c2-5e8f17a6c904"
FREEZING = "01a1f9b3-4e22-7c08-8f51-93a6e0b7d2c4"

SUITE = "01a1f9b3-6b10-7e31-9d27-4c5f0a81e2d7"
SUITE_SCORE = "01a1f9b3-7c44-7a90-b1de-2f6380c95a1b"
SCORING = "01a1f9b3-8d52-7b6f-a0c3-7e19d4f28b60"

SHADOW = "01a1f9bc-9a3e-7d15-8c40-6e2b71f0d5a4"

A_LINEAGE = {
    "nodes": [
        {"kind": "dataset", "id": HELD_OUT, "name": "notes", "state": "labelled", "at": MOMENT, "distance": -2},
        {"kind": "run", "id": RUN, "name": "Filer posterior", "state": "succeeded", "at": MOMENT, "distance": -1},
        {"kind": "version", "id": VERSION, "name": "filer:2", "state": "ready", "at": MOMENT, "distance": 0},
    ],
    "links": [
        {"from_id": HELD_OUT, "to_id": RUN, "role": "train"},
        {"from_id": RUN, "to_id": VERSION, "role": "produced"},
    ],
}
A_FREEZING = {
    "id": FREEZING,
    "agent": "filer",
    "name": "notes of November",
    "state": "queued",
    "progress": 0.0,
    "message": "",
    "error": "",
    "dataset": None,
    "held_out": None,
    "demonstrations": None,
    "run": None,
    "best": None,
    "created_at": MOMENT,
    "finished_at": None,
}
AN_IMPORT = {
    "id": IMPORT,
    "what": "labelled",
    "file": "rows.jsonl",
    "state": "queued",
    "progress": 0.0,
    "message": "",
    "error": "",
    "dataset": None,
    "counts": {},
    "refusals": [],
    "created_at": MOMENT,
    "finished_at": None,
}
A_LABELLED_ROW = {"id": "1", "prompt": "Flights to Oslo", "options": ["finance", "travel"], "answer": "travel"}
AN_IMPORTED_DECISION = {
    "agent": "filer",
    "state": {"text": "Flights to Oslo"},
    "action": "travel",
    "policy_name": "rules-7",
    "observed_at": MOMENT,
}
A_LOGGED_ROW: dict[str, Any] = {
    "id": "01a1f9b0-77c1-7a52-9d0e-3f6b8c2d4e10",
    "prompt": "Flights to Oslo on 3 May",
    "options": ["finance", "travel", "health"],
    "action": "travel",
    "propensity": 0.8,
    "reward": 1.0,
    "raw": 1.0,
    "right": 1.0,
    "group": "item-1",
    "done": True,
}
A_DATASET = {
    "id": DATASET,
    "name": "notes of November",
    "agent": "filer",
    "kind": "logged",
    "rows": 1840,
    "digest": DIGEST,
    "query": {"agent": "filer", "reward_spec": 1},
    "statistics": {
        "actions": {"travel": 1010, "finance": 830},
        "other_actions": 0,
        "mean_reward": 0.71,
        "confirmed_share": 0.68,
        "right": 1251,
        "wrong": 589,
        "groups": 112,
        "least_right": 0.0,
        "most_right": 1.0,
    },
    "created_at": MOMENT,
    "erased_rows": 0,
    "marked_at": None,
}
SAMPLES = {
    "held_out": True,
    "step": 240,
    "rows": [
        {
            "id": "17",
            "system": None,
            "prompt": "Flights to Oslo on 3 May",
            "answer": "travel",
            "action": None,
            "reward": None,
            "before": {"said": "finance", "p": 0.41, "right": False, "wrote": None, "valid": None},
            "now": {"said": "travel", "p": 0.87, "right": True, "wrote": None, "valid": None},
        }
    ],
}
AN_ESTIMATE = {
    "parameters": 649_216,
    "trained_parameters": 649_216,
    "exact": True,
    "device": "cpu",
    "memory_bytes": 989_104_128,
    "parts": {
        "weights": 2_596_864,
        "gradients": 2_596_864,
        "optimiser": 5_193_728,
        "activations": 178_716_672,
        "process": 800_000_000,
    },
    "disk_bytes": 28_565_504,
    "work": 717_225_984_000.0,
    "seconds": 22.9,
    "measured_runs": 10,
}
A_RUN: dict[str, Any] = {
    "id": RUN,
    "agent": "filer",
    "method": "posterior",
    "state": "queued",
    "dataset": DATASET,
    "heldout": HELD_OUT,
    "replay": None,
    "base_version": CHAMPION,
    "base_model": "",
    "produced_version": None,
    "spec": {"method": "posterior", "seed": 7, "checkpoint_every_seconds": 30.0},
    "estimate": AN_ESTIMATE,
    "tags": [],
    "notes": "",
    "progress": 0.0,
    "message": "",
    "metrics": {},
    "scores": None,
    "reached": "",
    "error": "",
    "requested_by": "key:5f2c91d07a3e",
    "created_at": MOMENT,
    "started_at": None,
    "finished_at": None,
}
_BASE = {"mean": 0.74, "low": 0.7, "high": 0.78, "n": 400, "clusters": 400}
_TRAINED = {"mean": 0.81, "low": 0.77, "high": 0.85, "n": 400, "clusters": 400}
_GAIN = {"mean": 0.07, "low": 0.04, "high": 0.1, "n": 400, "clusters": 400}
_PLAIN = {"accuracy": _BASE, "difference": _GAIN, "rows": 1_850}
A_SUITE = {
    "id": SUITE,
    "name": "tickets of March",
    "agent": "filer",
    "dataset": HELD_OUT,
    "rows": 400,
    "left_out": 0,
    "slice_by": "",
    "scorer": {"right": 0.75, "wrong": 0.375},
    "created_at": MOMENT,
}
A_SUITE_SCORE = {
    "id": SUITE_SCORE,
    "suite": SUITE,
    "suite_name": "tickets of March",
    "version": "filer:2",
    "run": RUN,
    "rows": 400,
    "learnt": False,
    "scores": {
        "accuracy": _TRAINED,
        "error_rate": {"mean": 0.19, "low": 0.15, "high": 0.23, "n": 400, "clusters": 400},
        "reward": {"mean": 0.68, "low": 0.66, "high": 0.69, "n": 400, "clusters": 400},
        "valid_share": {"mean": 0.99, "low": 0.95, "high": 1.0, "n": 100, "clusters": 100},
        "calibration_error": 0.03,
        "bins": [{"confidence": 0.84, "accuracy": 0.81, "low": 0.77, "high": 0.85, "rows": 400}],
        "labels": [{"label": "travel", "rows": 130, "accuracy": _TRAINED, "chosen": 120, "precision": 0.86}],
        "slices": [],
        "errors": [{"id": "17", "answer": "travel", "action": "finance", "p": 0.93}],
        "plain": _PLAIN,
    },
    "against": "filer:1",
    "differences": {"accuracy": _GAIN, "labels": {"travel": _GAIN}},
    "created_at": MOMENT,
}
A_SCORING = {
    "id": SCORING,
    "state": "queued",
    "progress": 0.0,
    "message": "",
    "error": "",
    "score": None,
    "created_at": MOMENT,
    "finished_at": None,
}
FINISHED = {
    "state": "succeeded",
    "produced_version": "filer:2",
    "progress": 1.0,
    "metrics": {
        "loss": 0.61,
        "loss_at_start": 1.92,
        "loss_at_end": 0.64,
        "loss_reduction": 0.667,
        "seconds": 22.4,
        "steps": 230,
        "rows": 1840,
        "trainable_parameters": 24_576,
        "total_parameters": 673_792,
        "rewards": {
            "rows": 1840,
            "mean": 0.68,
            "deviation": 0.466,
            "minimum": 0.0,
            "median": 1.0,
            "maximum": 1.0,
            "counts": [589, 0, 0, 0, 0, 0, 0, 0, 0, 1251],
        },
    },
    "scores": {
        "scores": {"base": {"accuracy": _BASE}, "trained": {"accuracy": _TRAINED}},
        "differences": {"accuracy": _GAIN},
        "plain": _PLAIN,
        "rows": 400,
        "unanswered": 0,
        "without_feedback": 12,
    },
    "started_at": MOMENT,
    "finished_at": "2026-11-20T08:11:00Z",
}
AN_EVENT = {
    "id": EVENT,
    "attempt": 1,
    "sequence": 12,
    "kind": "progress",
    "details": {"step": 40, "total": 120, "fraction": 0.33, "message": "epoch 1"},
    "at": MOMENT,
}
FOUND = {"decisions": 120, "feedback": 96, "labels": 14, "rewards": 118, "steps": 40, "episodes": 9, "datasets": 2}
AN_ERASURE = {
    "id": ERASURE,
    "kind": "unit",
    "fingerprint": "5d41402abc4b2a76b9719d911017c592ae2f8d1c0b7e4f3a9c6d8e1f2a3b4c5d",
    "state": "queued",
    "progress": 0.0,
    "message": "",
    "counts": {},
    "requested_by": "key:5f2c91d07a3e",
    "created_at": MOMENT,
    "finished_at": None,
}

A_SHADOW: dict[str, Any] = {
    "id": SHADOW,
    "agent": "filer",
    "version": VERSION,
    "version_name": "filer:2",
    "state": "running",
    "share": 0.5,
    "min_decisions": 500,
    "then": "canary",
    "reason": "learnt from October",
    "requested_by": "key:a1b2c3d4",
    "answered": 0,
    "failed": 0,
    "cost": "0.00000000",
    "enough_at": None,
    "enough_says": "",
    "waits": "",
    "experiment": None,
    "created_at": MOMENT,
    "ended_at": None,
    "end_reason": "",
}
A_POINT = {
    "at": MOMENT,
    "answered": 620,
    "failed": 2,
    "agreement": 0.71,
    "agreement_low": 0.67,
    "agreement_high": 0.75,
    "tau": None,
    "rewarded": 512,
    "estimate": 0.06,
    "low": 0.01,
    "high": 0.11,
    "lower": 0.009,
    "logged": 0.55,
    "effective_sample_size": 301.5,
    "refusals": [],
    "passed": True,
    "look": 1,
}
A_DISAGREEMENT = {
    "decision": "01a1f9b0-77c1-7a52-9d0e-3f6b8c2d4e10",
    "action": "finance",
    "reward": 0.25,
    "pick": "travel",
    "probability": 0.84,
    "probability_of_action": 0.11,
}
FOUND_BY_SHADOW = {
    "answered": 620,
    "failed": 2,
    "enough_at": MOMENT,
    "enough_says": "In the shadow it is estimated to earn +0.060 [+0.010, +0.110] more than what acted.",
    "says": "filer:2 would probably earn more than what decides now. A canary opens with the next round.",
    "points": [A_POINT],
    "disagreements": [A_DISAGREEMENT],
}
EXAMPLES: Mapping[str, Sequence[Example]] = {
    "datasets_list": [Example(page(A_DATASET))],
    "create_dataset": [
        Example(
            A_FREEZING,
            202,
            {"agent": "filer", "name": "notes of November", "only_new": True, "policy": "filer:2", "held_out": 0.2},
            name="rewarded decisions",
        ),
        Example(
            A_FREEZING | {"name": "labels of November"},
            202,
            {
                "agent": "filer",
                "name": "labels of November",
                "kind": "labelled",
                "suggestions": True,
                "least_confidence": 0.98,
            },
            name="people's labels, and suggestions",
        ),
    ],
    "datasets_freezings_retrieve": [
        Example(A_FREEZING | {"state": "running", "progress": 0.4, "message": "12,000 rows"}, path={"id": FREEZING})
    ],
    "export_dataset": [
        Example(
            json.dumps(A_LOGGED_ROW | {"completion": A_LOGGED_ROW["action"]}) + "\n",
            path={"id": DATASET},
            query={"format": "completion"},
            media=NDJSON,
        )
    ],
    "rebuild_dataset": [Example(A_FREEZING | {"name": "notes of November (rebuilt)"}, 202, path={"id": DATASET})],
    "start_import": [
        Example(
            AN_IMPORT,
            202,
            {
                "what": "labelled",
                "agent": "filer",
                "name": "gold",
                "file": "rows.jsonl",
                "content": json.dumps(A_LABELLED_ROW),
            },
            name="labelled rows",
        ),
        Example(
            AN_IMPORT | {"what": "decisions", "file": "november.jsonl"},
            202,
            {"what": "decisions", "file": "november.jsonl", "content": json.dumps(AN_IMPORTED_DECISION)},
            name="decisions",
        ),
    ],
    "cancel_import": [Example(AN_IMPORT | {"state": "cancelled", "finished_at": MOMENT}, path={"id": IMPORT})],
    "read_version_lineage": [Example(A_LINEAGE, path={"id": VERSION})],
    "read_run_lineage": [Example(A_LINEAGE, path={"id": RUN})],
    "read_dataset_lineage": [Example(A_LINEAGE, path={"id": HELD_OUT})],
    "imports_retrieve": [
        Example(
            AN_IMPORT
            | {
                "state": "succeeded",
                "progress": 1.0,
                "dataset": DATASET,
                "counts": {"rows": 1840},
                "finished_at": MOMENT,
            },
            path={"id": IMPORT},
        )
    ],
    "runs_list": [Example(page(A_RUN | FINISHED))],
    "start_run": [
        Example(
            A_RUN,
            201,
            {
                "agent": "filer",
                "method": "posterior",
                "dataset": DATASET,
                "heldout": HELD_OUT,
                "base_version": CHAMPION,
                "settings": {"seed": 7},
            },
            name="a run",
        ),
        Example(
            {"spec": A_RUN["spec"], "estimate": AN_ESTIMATE, "unchecked": ""},
            200,
            {
                "agent": "filer",
                "method": "posterior",
                "dataset": DATASET,
                "base_version": CHAMPION,
                "settings": {"seed": 7},
                "dry_run": True,
            },
            name="what it would need",
        ),
    ],
    "start_sweep": [
        Example(
            {"tag": "sweep-1f2e3d4c", "runs": [RUN]},
            201,
            {
                "agent": "filer",
                "method": "posterior",
                "dataset": DATASET,
                "base_version": CHAMPION,
                "grid": {"optimiser.learning_rate": [0.001, 0.002], "seed": [0, 1]},
            },
        )
    ],
    "note_run": [Example(A_RUN | {"tags": ["november"]}, 200, {"tags": ["november"]}, path={"id": RUN})],
    "train_on_new_decisions": [
        Example(A_FREEZING | {"name": "New decisions of Filer, 20 Nov 2026 08:00"}, 202, {"agent": "filer"})
    ],
    "runs_retrieve": [Example(A_RUN | FINISHED, path={"id": RUN})],
    "runs_events_list": [Example(page(AN_EVENT), path={"id": RUN})],
    "read_run_curves": [Example("curve,step,value\nloss,1,0.693\nloss,2,0.612\n", path={"id": RUN}, media="text/csv")],
    "read_run_samples": [Example(SAMPLES, path={"id": RUN})],
    "cancel_run": [Example(A_RUN | {"state": "cancelled", "finished_at": MOMENT}, path={"id": RUN})],
    "shadows_list": [Example(page(A_SHADOW))],
    "start_shadow": [
        Example(
            A_SHADOW,
            201,
            {
                "agent": "filer",
                "version": VERSION,
                "share": 0.5,
                "then": "canary",
                "reason": "learnt from October",
            },
        )
    ],
    "shadows_retrieve": [Example(A_SHADOW | FOUND_BY_SHADOW, path={"id": SHADOW})],
    "stop_shadow": [
        Example(
            A_SHADOW | {"state": "stopped", "ended_at": MOMENT, "end_reason": "seen enough"},
            200,
            {"reason": "seen enough"},
            path={"id": SHADOW},
        )
    ],
    "suites_list": [Example(page(A_SUITE))],
    "create_suite": [
        Example(A_SUITE, 201, {"agent": "filer", "name": "tickets of March", "dataset": HELD_OUT}),
        Example(
            A_SUITE | {"name": "graded tickets", "scorer": {"components": [{"name": "matches_answer"}]}},
            201,
            {
                "agent": "filer",
                "name": "graded tickets",
                "dataset": HELD_OUT,
                "reward": [{"name": "matches_answer"}],
            },
            name="with a reward function",
        ),
    ],
    "suites_retrieve": [Example(A_SUITE, path={"id": SUITE})],
    "suites_scores_list": [Example(page(A_SUITE_SCORE), path={"id": SUITE})],
    "score_version": [Example(A_SCORING, 202, {"version": CHAMPION}, path={"id": SUITE})],
    "suites_scorings_retrieve": [Example(A_SCORING, path={"id": SCORING})],
    "versions_scores_list": [Example(page(A_SUITE_SCORE), path={"id": VERSION})],
    "erasures_list": [Example(page(AN_ERASURE | {"state": "succeeded", "progress": 1.0, "counts": FOUND}))],
    "start_erasure": [
        Example({"dry_run": True, "counts": FOUND}, 200, {"unit": "ann", "dry_run": True}, name="what would be found"),
        Example(AN_ERASURE, 201, {"unit": "ann"}, name="by the unit"),
        Example(AN_ERASURE | {"kind": "user"}, 201, {"user": "user-1"}, name="by the app's own reference"),
    ],
    "erasures_retrieve": [Example(AN_ERASURE, path={"id": ERASURE})],
}
