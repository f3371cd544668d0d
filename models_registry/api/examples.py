"""Examples of this floor for the OpenAPI document; `workspaces.http.examples` tells the story behind them. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workspaces.http.examples import KEY, MOMENT, Example, page

MODEL = "01a1f97f-f364-70f1-8e34-89638534f457"
VERSION = "01a1f8ed-5f8c-727a-85c4-051211072231"
SPARE = "01a1f8ed-9a1b-7c2d-8e3f-0a1b2c3d4e5f"
CHAMPION = "01a1f8c5-cd56-78ca-babf-ccea4a14876a"
LOOK = "01a1f8b4-0c11-7d52-9e0a-5b7f3f0c2d11"
EXPERIMENT = "01a1f8b0-a205-746d-b1e7-d3ad2c33be0a"
HOLDOUT = "01a1f8c9-7d10-7a52-b6c8-1f0e2d3c4b5a"
GROUP = "01a1f8b0-a1f7-7b3e-9c44-52d0a7c1e90b"
DIGEST = "9c1185a5c5e9fc54612808977ee8f548b2258d31a8c4d1d0f4b4a9f0d0b4a5e1"

A_MODEL = {"id": MODEL, "name": "filer", "description": "", "champion": "filer:1", "created_at": MOMENT}
A_VERSION = {
    "id": VERSION,
    "name": "filer:2",
    "model": "filer",
    "number": 2,
    "state": "ready",
    "kind": "adapter",
    "digest": DIGEST,
    "acting_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "remote_name": "",
    "base_model": "Qwen/Qwen2.5-0.5B-Instruct",
    "base": CHAMPION,
    "parent": CHAMPION,
    "method": "posterior",
    "description": "",
    "metrics": {"accuracy": 0.81},
    "aliases": [],
    "gate": {
        "passed": True,
        "blocks": False,
        "verdicts": [
            {
                "kind": "held_out",
                "passed": True,
                "refusals": [],
                "against": "filer:1",
                "estimate": 0.07,
                "low": 0.04,
                "high": 0.1,
                "details": {"measure": "accuracy", "rows": 400},
                "created_at": MOMENT,
            },
            {
                "kind": "off_policy",
                "passed": False,
                "refusals": ["The 120 decisions are worth 64 of the new policy's own; at least 200 are needed."],
                "against": "filer:1",
                "estimate": 0.05,
                "low": -0.02,
                "high": 0.12,
                "details": {"measure": "reward", "rows": 120, "effective_sample_size": 64.0},
                "created_at": MOMENT,
            },
        ],
    },
    "tags": ["october"],
    "notes": "",
    "approved_at": None,
    "approved_by": "",
    "approval_note": "",
    "created_at": MOMENT,
    "marked_at": None,
    "retired_at": None,
}
APPROVED = {"approved_at": MOMENT, "approved_by": "key:5f2c91d07a3e", "approval_note": "read 50 of its answers"}
AN_EXPERIMENT = {
    "id": EXPERIMENT,
    "name": "filer:2 against filer:1",
    "group": None,
    "units_share": 1.0,
    "model": "filer",
    "state": "running",
    "variants": {"control": "filer:1", "treatment": "filer:2"},
    "agent_versions": {},
    "phases": [
        {
            "number": 1,
            "treatment_share": 0.5,
            "attribution_window_seconds": 86400.0,
            "units": {"control": 160, "treatment": 161},
            "started_at": MOMENT,
            "ended_at": None,
        }
    ],
    "ramp": [],
    "ramp_units": 250,
    "ramp_e": 4.0,
    "attribution_auto": False,
    "promote_e": 40.0,
    "rollback_e": 20.0,
    "min_units_per_arm": 200,
    "min_seconds": 3600.0,
    "exposure_window_seconds": 86400.0,
    "missing": "exclude",
    "guardrails": [
        {
            "measure": "latency",
            "margin": 0.02,
            "budget_ms": 400.0,
            "units": 310,
            "estimate": -0.004,
            "log_e_non_inferior": 1.9,
            "log_e_harm": -0.7,
            "harm_e": 20.0,
        }
    ],
    "guardrail_e": 20.0,
    "max_excess_failures": 0.05,
    "min_requests_for_failures": 50,
    "conditioned": True,
    "rescaled": True,
    "outcome_low": 0.3,
    "outcome_high": 0.75,
    "units_control": 154,
    "units_treatment": 156,
    "units_conditioned": 310,
    "log_e_plus": 1.4,
    "log_e_minus": -1.1,
    "log_e_futile": -0.6,
    "estimate": 0.06,
    "low": -0.05,
    "high": 0.17,
    "plain_log_e_plus": 0.4,
    "plain_log_e_minus": -0.5,
    "plain_estimate": 0.05,
    "plain_low": -0.15,
    "plain_high": 0.25,
    "sample_ratio_mismatch": False,
    "requests_control": 171,
    "failed_control": 0,
    "requests_treatment": 173,
    "failed_treatment": 1,
    "verdict": "",
    "secondary": ["latency_ms"],
    "slices": ["language"],
    "holdout_share": 0.0,
    "holdout_seconds": 2419200.0,
    "smallest_effect": 0.05,
    "futility_e": 20.0,
    "expected_seconds": 691200.0,
    "started_at": MOMENT,
    "ended_at": None,
    "ended_by": "",
    "promoted_version": None,
}
STOPPED = {
    "state": "stopped",
    "verdict": "a new prompt comes first",
    "ended_at": MOMENT,
    "ended_by": "key:5f2c91d07a3e",
}
A_GROUP: dict[str, Any] = {
    "id": GROUP,
    "name": "2 versions against filer:1",
    "model": "filer",
    "started_at": MOMENT,
    "ended_at": None,
    "experiments": [AN_EXPERIMENT | {"group": GROUP, "units_share": 0.5}],
}
A_COMPARISON = {
    "units_served": 4210,
    "units_held": 219,
    "mean_served": 0.58,
    "mean_held": 0.51,
    "estimate": 0.07,
    "low": 0.01,
    "high": 0.13,
}
A_HOLDOUT: dict[str, Any] = {
    "id": HOLDOUT,
    "model": "filer",
    "version": "filer:2",
    "share": 0.05,
    "reason": "what the next month is worth",
    "started_by": "key:5f2c91d07a3e",
    "started_at": MOMENT,
    "ends_at": MOMENT,
    "ended_at": None,
    "end_reason": "",
    "counted_at": MOMENT,
    **A_COMPARISON,
    "weeks": [{"week": 0} | A_COMPARISON],
}

A_MEASURE = {
    "name": "latency_ms",
    "value": None,
    "units_control": 154,
    "units_treatment": 156,
    "mean_control": 41.0,
    "mean_treatment": 39.5,
    "estimate": -1.4,
    "low": -9.8,
    "high": 7.0,
}
A_SLICE = A_MEASURE | {
    "name": "language",
    "value": "de",
    "units_control": 31,
    "units_treatment": 28,
    "mean_control": 0.51,
    "mean_treatment": 0.55,
    "estimate": None,
    "low": None,
    "high": None,
}
AN_OUTLOOK = {
    "seconds": 1028160.0,
    "units": 3120,
    "slowest": "error_rate",
    "phases": [
        {"treatment_share": 0.05, "opens_after_seconds": 0.0},
        {"treatment_share": 0.25, "opens_after_seconds": 233280.0},
        {"treatment_share": 0.5, "opens_after_seconds": 466560.0},
    ],
    "new_units_a_day": 310.0,
    "rewarded_share": 0.83,
    "reward_deviation": 0.21,
    "says": "A version that is 0.05 better is expected to be promoted after about 12 d and 3,120 units. The"
    " guardrail “Error rate” takes longest.",
    "assumes": "Assumes 310 new units a day as of late, feedback in time on 83.0% of them, rewards that vary by 0.21"
    " around their mean, and a version no worse in any guardrail. Conditioned contrasts are assumed to vary 26.0% as"
    " much as plain ones, as measured on the demo.",
}
LOGGED = (
    "units_control",
    "units_treatment",
    "log_e_",
    "estimate",
    "low",
    "high",
    "plain_",
    "sample_",
    "requests_",
    "failed_",
)
A_LOOK = {
    "id": LOOK,
    "at": MOMENT,
    "action": "continue",
    "by": "",
    "reasons": ["E⁺ 4.06 of 40", "154 of 200 units with an outcome in control"],
    "phase": 1,
    "treatment_share": 0.5,
    **{name: figure for name, figure in AN_EXPERIMENT.items() if name.startswith(LOGGED)},
    "guardrails": {"error_rate": {"units": 310, "estimate": 0.006, "log_e_non_inferior": 1.0, "log_e_harm": -0.3}},
}

BACKEND, DEPLOYMENT = "01a1fa02-3b1e-7f0c-9a55-2f6f0f2f9b10", "01a1fa02-6a80-7c4e-8d11-0a8c5c3b7a20"
UNUSED = "01a1fa02-91c2-7d3f-8e22-1b9d6d4c8b30"
A_BACKEND = {
    "id": BACKEND,
    "name": "openai",
    "kind": "openai",
    "url": "https://api.openai.com/v1",
    "key_variable": "OPENAI_API_KEY",
    "capabilities": ["json_schema"],
    "connect_seconds": 5.0,
    "timeout_seconds": 20.0,
    "retries": 1,
    "price_in": "0.150000",
    "price_out": "0.600000",
    "artifacts_path": "",
    "enabled": True,
    "state": "unknown",
    "error": "",
    "checked_at": None,
    "state_since": None,
    "created_at": MOMENT,
}
A_REMOTE_VERSION = A_VERSION | {
    "name": "filer:3",
    "number": 3,
    "kind": "remote",
    "digest": None,
    "acting_sha256": "",
    "remote_name": "gpt-4o-mini",
    "base_model": "gpt-4o-mini",
    "base": None,
    "parent": None,
    "method": "remote",
    "metrics": {},
    "gate": {"passed": False, "blocks": False, "verdicts": []},
}
A_DEPLOYMENT = {
    "id": DEPLOYMENT,
    "version": "filer:2",
    "backend": "openai",
    "backend_state": "unknown",
    "remote_name": "filer-2",
    "priority": 0,
    "enabled": True,
    "error": "",
    "created_at": MOMENT,
}
A_MOVE = {
    "id": "01a1fa03-0c5a-7e77-b6a1-9d3f1a2b4c30",
    "alias": "fallback",
    "before": None,
    "after": "filer:2",
    "by": "key:5f2c91d07a3e",
    "reason": "runs on another host",
    "moved_at": MOMENT,
}
A_CALL = {
    "id": "01a1fa04-1d7b-7a10-8c2e-7b6a5d4c3b40",
    "model": "filer",
    "kind": "decide",
    "state": "answered",
    "assigned": "filer:1",
    "served": "filer:2",
    "backend": "openai",
    "fallback": "filer:1: The model server does not answer: ConnectError.",
    "error": "",
    "unusable_answers": 0,
    "cached": False,
    "tokens_in": 61,
    "tokens_out": 7,
    "cost": "0.00001335",
    "opened_at": MOMENT,
    "first_byte_at": None,
    "closed_at": MOMENT,
}
NEW_BACKEND = {
    "name": "gpt",
    "url": "https://api.openai.com/v1",
    "key_variable": "OPENAI_API_KEY",
    "capabilities": ["json_schema"],
    "price_in": "0.15",
    "price_out": "0.60",
}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "models_list": [Example(page(A_MODEL))],
    "backends_list": [Example(page(A_BACKEND))],
    "backends_retrieve": [Example(A_BACKEND, path={"id": BACKEND})],
    "add_backend": [Example(A_BACKEND | {"name": "gpt"}, 201, NEW_BACKEND)],
    "change_backend": [Example(A_BACKEND | {"enabled": False}, 200, {"enabled": False}, path={"id": BACKEND})],
    "check_backend": [Example(A_BACKEND | {"state": "up", "checked_at": MOMENT}, path={"id": BACKEND})],
    "add_remote_version": [
        Example(A_REMOTE_VERSION, 201, {"model": "filer", "remote_name": "gpt-4o-mini", "backend": BACKEND})
    ],
    "versions_deployments_list": [Example([A_DEPLOYMENT], path={"id": VERSION})],
    "deploy_version": [
        Example(A_DEPLOYMENT, 201, {"backend": BACKEND, "remote_name": "filer-2"}, path={"id": VERSION})
    ],
    "point_alias": [
        Example(
            A_VERSION | {"aliases": ["fallback"]},
            200,
            {"alias": "fallback", "reason": "runs on another host"},
            path={"id": VERSION},
        )
    ],
    "remove_alias": [Example(A_VERSION, 200, {"alias": "tried"}, path={"id": VERSION})],
    "remove_backend": [Example(A_BACKEND | {"id": UNUSED, "name": "unused"}, path={"id": UNUSED})],
    "remove_deployment": [Example(A_DEPLOYMENT, path={"id": DEPLOYMENT})],
    "note_version": [Example(A_VERSION, 200, {"tags": ["october"]}, path={"id": VERSION})],
    "approve_version": [Example(A_VERSION | APPROVED, 200, {"note": "read 50 of its answers"}, path={"id": VERSION})],
    "withdraw_approval": [Example(A_VERSION, path={"id": VERSION})],
    "change_deployment": [Example(A_DEPLOYMENT | {"priority": 2}, 200, {"priority": 2}, path={"id": DEPLOYMENT})],
    "revert_alias": [
        Example(A_MOVE | {"before": "filer:2", "after": None}, 200, {"alias": "fallback"}, path={"id": MODEL})
    ],
    "retire_version": [
        Example(
            A_VERSION | {"id": SPARE, "state": "retired", "retired_at": MOMENT},
            200,
            {"reason": "filer:3 is better"},
            path={"id": SPARE},
        )
    ],
    "restore_version": [Example(A_VERSION, path={"id": VERSION})],
    "models_alias_moves_list": [Example(page(A_MOVE), path={"id": MODEL})],
    "calls_list": [Example(page(A_CALL))],
    "read_key_use": [
        Example(
            {"calls": 212, "spent": "0.75000000", "reserved": "0.01500000", "unpriced": 0, "requests": 4},
            path={"id": KEY},
        )
    ],
    "versions_list": [Example(page(A_VERSION))],
    "versions_retrieve": [Example(A_VERSION, path={"id": VERSION})],
    "promote_version": [
        Example(
            A_VERSION | {"aliases": ["champion"]}, path={"id": VERSION}, request={"reason": "better on held-out notes"}
        )
    ],
    "experiments_list": [Example(page(AN_EXPERIMENT))],
    "experiments_retrieve": [Example(AN_EXPERIMENT | {"exploratory": [A_MEASURE, A_SLICE]}, path={"id": EXPERIMENT})],
    "start_experiment": [
        Example(
            AN_EXPERIMENT,
            201,
            {
                "treatment": VERSION,
                "reason": "learnt from the corrections of October",
                "name": "filer:2 against filer:1",
                "treatment_share": 0.5,
                "min_units_per_arm": 200,
                "guardrails": [{"measure": "latency", "margin": 0.02, "budget_ms": 400.0}],
            },
        )
    ],
    "experiment_groups_list": [Example(page(A_GROUP))],
    "experiment_groups_retrieve": [Example(A_GROUP, path={"id": GROUP})],
    "start_experiment_group": [
        Example(
            A_GROUP | {"experiments": 2 * A_GROUP["experiments"]},
            201,
            {
                "treatments": [VERSION, SPARE],
                "reason": "two ways to train on October",
                "guardrails": [{"measure": "latency", "margin": 0.02, "budget_ms": 400.0}],
            },
        )
    ],
    "stop_experiment_group": [
        Example(
            A_GROUP
            | {"ended_at": MOMENT, "experiments": [AN_EXPERIMENT | {"group": GROUP, "units_share": 0.5} | STOPPED]},
            path={"id": GROUP},
            request={"reason": "a new prompt comes first"},
        )
    ],
    "holdouts_list": [Example(page(A_HOLDOUT))],
    "holdouts_retrieve": [Example(A_HOLDOUT, path={"id": HOLDOUT})],
    "start_holdout": [
        Example(
            A_HOLDOUT | {"counted_at": None, "weeks": []},
            201,
            {"version": VERSION, "share": 0.05, "seconds": 2419200, "reason": "what the next month is worth"},
        )
    ],
    "end_holdout": [
        Example(
            A_HOLDOUT | {"ended_at": MOMENT, "end_reason": "seen enough"},
            path={"id": HOLDOUT},
            request={"reason": "seen enough"},
        )
    ],
    "estimate_experiment": [
        Example(
            AN_OUTLOOK,
            request={"treatment": VERSION, "treatment_share": 0.05, "ramp": [0.25, 0.5], "smallest_effect": 0.05},
        )
    ],
    "list_experiment_looks": [Example(page(A_LOOK), path={"id": EXPERIMENT})],
    "change_experiment_share": [
        Example(
            AN_EXPERIMENT,
            path={"id": EXPERIMENT},
            request={"treatment_share": 0.25, "reason": "the app's release has not settled"},
        )
    ],
    "stop_experiment": [
        Example(AN_EXPERIMENT | STOPPED, path={"id": EXPERIMENT}, request={"reason": "a new prompt comes first"})
    ],
}
