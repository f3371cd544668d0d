"""Examples of the ledger for the OpenAPI document; `workspaces.http.examples` tells the story behind them. PURE. Those
of the notes app's paths are in `decisions.notes_app.examples`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from models_registry.api.examples import A_GROUP, AN_EXPERIMENT, CHAMPION, SPARE, VERSION
from workspaces.http.examples import MOMENT, Example, page

AGENT = "01a1f7fa-8da8-7430-8db8-ed6ff165c8ce"
AGENT_VERSION = "01a1f7fb-0c91-7b52-9d27-6b1d4e0c8a35"
DECISION = "01a1f805-50a4-7d43-a901-42a0ce80c4b0"
SIMILAR = "01a1f804-7c1e-7f2b-8d09-5be1f06a3c94"
FRESH = "01a1f992-044c-7459-8c61-4f522a318785"
"""An id that the client makes for something new."""
EPISODE = "01a1f88c-7bc8-7a08-b782-f5ffbb5d7385"
STEP = "01a1f89d-c478-7d93-b852-16335f552773"
FEEDBACK = "01a1f9a8-b836-79b1-9598-634fabf4a07c"
LABEL = "01a1f8fb-3c5f-73fb-8b60-793d3f508249"
CHANGE = "01a1f987-8bd8-716d-bc73-d160ef412ed6"
CALCULATION = "01a1f9b0-6c1d-7f42-9d36-2b7ad0a5c318"
TRACE_SECONDS = "1795176000"
"""When the spans began, in seconds of Unix time."""
NDJSON = "application/x-ndjson"

OPTIONS = ["finance", "travel", "health"]
STATE = {"text": "Flights to Oslo on 3 May"}
AN_AGENT = {
    "id": AGENT,
    "slug": "filer",
    "name": "Filer",
    "kind": "FILER",
    "unit": "item",
    "version": 1,
    "newest_version": 1,
    "cache_seconds": 0,
    "created_at": MOMENT,
}
A_VERSION = {
    "id": AGENT_VERSION,
    "number": 1,
    "action_space": "choice",
    "options": OPTIONS,
    "action_schema": None,
    "state_schema": None,
    "system_prompt": "",
    "prompt_template": "{{ text }}",
    "max_prompt_tokens": 64,
    "max_completion_tokens": 16,
    "temperature": 1.0,
    "epsilon": 0.05,
    "exploration_budget": None,
    "created_at": MOMENT,
}
AGENT_IN_FULL = AN_AGENT | {"champion": "filer:2", "current": A_VERSION}
REVISED = AGENT_IN_FULL | {"version": 2, "newest_version": 2, "current": A_VERSION | {"number": 2, "epsilon": 0.1}}
A_DECISION = {
    "id": DECISION,
    "agent": "filer",
    "agent_version": 1,
    "state": STATE,
    "options": OPTIONS,
    "action": "travel",
    "next_state": None,
    "confidence": 0.9,
    "completion": None,
    "finish_reason": None,
    "parameters": None,
    "reasoning": "It names a trip.",
    "alternatives": [{"action": "finance", "probability": 0.08}],
    "propensity": 0.9,
    "temperature": 1.0,
    "epsilon": None,
    "model_version": None,
    "policy_name": "gpt-4.1-mini-20250101",
    "variant": None,
    "unit": "item-1",
    "episode": EPISODE,
    "step_number": 1,
    "external_id": None,
    "item_ref": "item-1",
    "project_ref": "opus-1",
    "user_ref": "user-1",
    "latency_ms": 412.5,
    "tokens_in": 180,
    "tokens_out": 12,
    "tokens_estimated": False,
    "cost": "0.00012000",
    "observed_at": MOMENT,
    "recorded_at": MOMENT,
}
SOME_FEEDBACK = {
    "id": FEEDBACK,
    "metric": "verdict",
    "value": "confirmed",
    "correction": None,
    "source": "human",
    "observed_at": MOMENT,
    "recorded_at": MOMENT,
    "supersedes": None,
}
A_LABEL = {
    "id": LABEL,
    "verdict": "corrected",
    "corrected_action": "finance",
    "note": "A bill.",
    "labelled_by": "key:5f1c0a9be2d4",
    "bulk": None,
    "created_at": MOMENT,
}
A_REWARD = {
    "spec": 1,
    "version": 1,
    "value": 0.6,
    "raw": 1.0,
    "components": {"verdict": {"value": 1.0}},
    "computed_at": MOMENT,
}
DECIDED: Mapping[str, Any] = {
    "decision_id": DECISION,
    "action": "travel",
    "probabilities": {"finance": 0.08, "travel": 0.9, "health": 0.02},
    "propensity": 0.9,
    "confidence": 0.93,
    "logprob": None,
    "model_version": "filer:2",
    "variant": "treatment",
    "assignment_probability": 0.5,
    "fallback": False,
}
COMPARED = {
    "decision": DECISION,
    "version": "filer:1",
    "edited": False,
    "action": "travel",
    "propensity": 0.84,
    "reward": 0.75,
    "pick": "finance",
    "agrees": False,
    "named": False,
    "offers": [
        {"action": "finance", "then": 0.11, "now": 0.62, "thought": 0.64, "taken": False, "picked": True},
        {"action": "travel", "then": 0.84, "now": 0.31, "thought": 0.31, "taken": True, "picked": False},
        {"action": "health", "then": 0.05, "now": 0.07, "thought": 0.05, "taken": False, "picked": False},
    ],
}
RERUN = {
    "decisions": 4,
    "ended": "Its action differs from the recorded one. The later states follow from the recorded action, and nothing "
    "here can restore the episode's environment, so they would be another policy's.",
    "steps": [{"step": 1, "decision": DECISION, "comparison": COMPARED, "failure": ""}],
}
RECORD = {
    "agent": "filer",
    "state": STATE,
    "action": "travel",
    "policy_name": "gpt-4.1-mini-20250101",
    "propensity": 0.9,
    "reasoning": "It names a trip.",
    "alternatives": [{"action": "finance", "probability": 0.08}],
    "episode": "mailbox-7",
    "item_ref": "item-1",
    "project_ref": "opus-1",
    "user_ref": "user-1",
    "tokens_in": 180,
    "tokens_out": 12,
    "cost": 0.00012,
}
NOT_OFFERED = {
    "index": 1,
    "code": "invalid_input",
    "fields": [{"field": "action", "reason": "'garden' is not one of the options", "expected": "one of the options"}],
}
A_STEP = {
    "id": STEP,
    "episode": EPISODE,
    "decision_id": None,
    "kind": "tool_call",
    "name": "search_notes",
    "number": None,
    "external_id": None,
    "parent": None,
    "arguments": {"query": "Oslo"},
    "result": ["note 17", "note 31"],
    "success": True,
    "error": "",
    "reasoning_type": "",
    "content": "",
    "confidence": None,
    "insights": None,
    "issues": None,
    "model": "",
    "tokens_in": None,
    "tokens_out": None,
    "cost": None,
    "started_at": MOMENT,
    "duration_ms": 41.5,
    "attributes": None,
    "recorded_at": MOMENT,
}
A_TOOL_CALL = {
    "kind": "tool_call",
    "agent": "filer",
    "episode": "mailbox-7",
    "name": "search_notes",
    "arguments": {"query": "Oslo"},
    "result": ["note 17", "note 31"],
    "success": True,
    "duration_ms": 41.5,
}
A_THOUGHT = {
    "kind": "reasoning",
    "agent": "filer",
    "episode": "mailbox-7",
    "reasoning_type": "analysis",
    "content": "Two notes are of the same trip.",
    "confidence": 0.8,
    "insights": ["Both name Oslo."],
    "issues": [],
}
_SAID = {
    "session": "ann-monday",
    "query": "File what came in over the weekend.",
    "final_response": "Three notes are filed, one needs you.",
    "tasks_created": 4,
    "tasks_completed": 3,
    "tasks_failed": 1,
}
AN_EPISODE = {
    "id": EPISODE,
    "agent": "filer",
    "external_id": "mailbox-7",
    "trace": None,
    "unit": "",
    **_SAID,
    "llm_calls": 0,
    "tokens_in": 180,
    "tokens_out": 12,
    "cost": "0.00012000",
    "duration_ms": 0.0,
    "started_at": MOMENT,
    "ended_at": MOMENT,
}
TOTALS = {
    "steps": 1,
    "decisions": 1,
    "failures": 0,
    "tool_calls": 1,
    "llm_calls": 0,
    "tokens_in": 180,
    "tokens_out": 12,
    "cost": "0.00012000",
    "started_at": MOMENT,
    "ended_at": MOMENT,
}
_METADATA = {
    "decisionId": DECISION,
    "agentType": "FILER",
    "agent": "filer",
    "itemId": "item-1",
    "opusId": "opus-1",
    "userFeedback": "CONFIRMED",
    "userCorrection": None,
    "outcomeMetrics": None,
    "createdAt": MOMENT,
    "rewardComputedAt": MOMENT,
}


def choice_row(decision: str, prompt: str, options: Sequence[str]) -> dict[str, Any]:
    """The row of an exported decision that chose the first of the options, rightly."""
    row = {"id": decision, "prompt": prompt, "options": list(options), "action": options[0]}
    return {**row, "propensity": 0.7, "reward": 1.0, "raw": 1.0, "right": 1.0, "group": "ann", "answer": options[0]}


def chat_line(system: str, state: Any, answer: Any, metadata: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """One line of the format `chat`."""
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": json.dumps(state)},
        {"role": "assistant", "content": json.dumps(answer)},
    ]
    metadata = {**metadata, "systemPrompt": False}
    return json.dumps({"messages": messages, "reward": 1.0, "metadata": metadata, "rows": [row]}) + "\n"


def served_line(metadata: Mapping[str, Any]) -> str:
    """One line of the format `chat`, of a decision that answered a chat by calling a tool."""
    messages = [
        {"role": "system", "content": "You plan journeys."},
        {"role": "user", "content": "Does it rain in Oslo?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": {"place": "Oslo"}}}]},
    ]  # fmt: skip
    parameters = {"type": "object", "properties": {"place": {"type": "string"}}}
    tool = {"name": "weather", "description": "", "parameters": parameters}
    about = {**metadata, "agentType": "CUSTOM", "agent": "planner", "systemPrompt": True, "chat": True}
    tools = [{"type": "function", "function": tool}]
    return json.dumps({"messages": messages, "tools": tools, "metadata": about, "reward": 1.0}) + "\n"


def completion_line(prompt: str, completion: str, metadata: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """One line of the format `completion`."""
    told = {"prompt": prompt, "completion": completion, "reward": 1.0, "metadata": metadata, "rows": [row]}
    return json.dumps(told) + "\n"


_CHOICE = choice_row(DECISION, "Flights to Oslo on 3 May", ["travel", "finance"])


def kept(*ids: str, errors: Sequence[Any] = ()) -> dict[str, Any]:
    """What recording answers."""
    found = [{"index": index, "id": one, "duplicate": False} for index, one in enumerate(ids)]
    return {"kept": found, "errors": list(errors)}


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


A_SPAN = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "name": "execute_tool search_notes",
    "startTimeUnixNano": f"{TRACE_SECONDS}000000000",
    "endTimeUnixNano": f"{TRACE_SECONDS}041000000",
    "attributes": [
        _attribute("gen_ai.operation.name", "execute_tool"),
        _attribute("gen_ai.tool.name", "search_notes"),
    ],
}
TRACES = {
    "resourceSpans": [
        {"resource": {"attributes": [_attribute("service.name", "notes-app")]}, "scopeSpans": [{"spans": [A_SPAN]}]}
    ]
}

REWARDS_SUMMED_UP = {
    "reward_spec": 1,
    "since": "24h",
    "by": "hour",
    "looked_at": 2,
    "sampled": False,
    "rewarded": 1,
    "failed": 0,
    "mean": 0.75,
    "progress": {"due": 0, "more": False, "searched_until": MOMENT, "calculated_at": MOMENT},
    "stretches": [
        {"start": MOMENT, "looked_at": 2, "full": False, "rewarded": 1, "mean": 0.75, "low": None, "high": None}
    ],
    "components": [
        {
            "name": "verdict",
            "horizon": "immediate",
            "weight": 1.0,
            "mean": 1.0,
            "means": [1.0],
            "states": {"value": 1, "waiting": 1},
            "queued": 0,
        }
    ],
    "failures": [],
    "lag": {
        "decisions": 2,
        "verdicts": 1,
        "median_seconds": 1260.5,
        "within": [{"name": "1 hour", "seconds": 3600.0, "share": 0.5, "low": 0.11, "high": 0.99}],
    },
}
A_CALCULATION = {
    "id": CALCULATION,
    "state": "queued",
    "progress": 0.0,
    "message": "",
    "error": "",
    "rewards": None,
    "requested_by": "key:5f2c91d07a3e",
    "created_at": MOMENT,
    "finished_at": None,
}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "agents_list": [Example(page(AN_AGENT))],
    "agents_create": [
        Example(
            AN_AGENT | {"slug": "folders", "name": "Folders"},
            201,
            {
                "slug": "folders",
                "name": "Folders",
                "kind": "FILER",
                "prompt_template": "{{ text }}",
                "options": OPTIONS,
            },
            name="a choice among fixed options",
        ),
        Example(
            AN_AGENT | {"slug": "librarian", "name": "Librarian", "kind": "LIBRARIAN"},
            201,
            {"slug": "librarian", "name": "Librarian", "kind": "LIBRARIAN"},
            name="the kind's own set-up",
        ),
    ],
    "reward_summary": [Example(REWARDS_SUMMED_UP, path={"slug": "filer"}, query={"since": "24h"})],
    "agents_retrieve": [Example(AGENT_IN_FULL, path={"slug": "filer"})],
    "revise_agent": [
        Example(REVISED, 200, {"expected_version": 1, "epsilon": 0.1}, {"slug": "filer"}, name="more exploration"),
        Example(
            AGENT_IN_FULL | {"newest_version": 2},
            200,
            {"expected_version": 1, "prompt_template": "Which topic? {{ text }}", "acts": False},
            {"slug": "filer"},
            name="a prompt to try",
        ),
    ],
    "use_agent_version": [Example(REVISED, path={"slug": "filer", "number": "2"})],
    "start_agent_experiment_group": [
        Example(
            A_GROUP | {"experiments": 2 * A_GROUP["experiments"]},
            201,
            {
                "agent_versions": [2],
                "treatments": [VERSION, SPARE],
                "reason": "a shorter prompt, by either version",
                "guardrails": [{"measure": "latency", "margin": 0.02, "budget_ms": 400.0}],
            },
            path={"slug": "filer"},
        )
    ],
    "start_agent_experiment": [
        Example(
            AN_EXPERIMENT
            | {
                "name": "filer v2 against filer v1",
                "variants": {"control": "filer:1", "treatment": "filer:1"},
                "agent_versions": {"control": "filer v1", "treatment": "filer v2"},
            },
            201,
            {
                "agent_version": 2,
                "reason": "a shorter prompt",
                "treatment_share": 0.5,
                "guardrails": [{"measure": "latency", "margin": 0.02, "budget_ms": 400.0}],
            },
            {"slug": "filer"},
        )
    ],
    "change_cache": [Example(AN_AGENT, 200, {"seconds": 0}, {"slug": "filer"})],
    "decide": [
        Example(DECIDED, 201, {"state": STATE, "unit": "item-1"}, {"slug": "filer"}, name="one item"),
        Example(
            {"answers": [DECIDED]},
            201,
            [{"state": STATE, "unit": "item-1", "id": FRESH}],
            {"slug": "filer"},
            name="a list",
        ),
    ],
    "decisions_list": [Example(page(A_DECISION), query={"agent": "filer", "unit": "item-1", "item": "item-1"})],
    "record_decisions": [
        Example(kept(FRESH), 201, RECORD, name="one item"),
        Example(
            kept(FRESH, errors=[NOT_OFFERED]),
            207,
            [
                {"id": FRESH, "agent": "filer", "state": STATE, "action": "travel", "policy_name": "rules of 2025"},
                {"agent": "filer", "state": STATE, "action": "garden", "policy_name": "rules of 2025"},
            ],
            name="a list with one invalid item",
        ),
    ],
    "decisions_retrieve": [
        Example(A_DECISION | {"feedback": [SOME_FEEDBACK], "labels": [], "rewards": [A_REWARD]}, path={"id": DECISION})
    ],
    "ask_again": [
        Example(COMPARED, 200, {"version": CHAMPION}, {"id": DECISION}, name="as it was recorded"),
        Example(
            COMPARED | {"edited": True},
            200,
            {"version": CHAMPION, "state": {"text": "Hotel in Oslo"}, "options": ["finance", "travel"]},
            {"id": DECISION},
            name="edited",
        ),
    ],
    "similar_decisions": [
        Example(
            {"compared": 2500, "results": [{"similarity": 0.83, "decision": A_DECISION | {"id": SIMILAR}}]},
            path={"id": DECISION},
        )
    ],
    "label_decision": [
        Example(
            A_LABEL,
            201,
            {"verdict": "corrected", "corrected_action": "finance", "note": "A bill."},
            {"id": DECISION},
        )
    ],
    "export_decisions": [
        Example(
            chat_line("", STATE, {"action": "travel"}, _METADATA, _CHOICE),
            query={"agent": "filer", "require_feedback": "true", "since": "2026-01-01T00:00:00Z", "limit": "none"},
            media=NDJSON,
            name="a decision as a chat",
        ),
        Example(served_line(_METADATA), query={"agent": "planner"}, media=NDJSON, name="a chat that was served"),
        Example(
            completion_line("Flights to Oslo on 3 May", "travel", _METADATA, _CHOICE),
            query={"agent": "filer", "format": "completion", "min_reward": "0.5"},
            media=NDJSON,
            name="a prompt with its completion",
        ),
    ],
    "feedback_list": [
        Example(
            page(
                SOME_FEEDBACK | {"decision": DECISION, "episode": None, "unit": None, "idempotency_key": "click-1831"}
            ),
            query={"agent": "filer", "metric": "verdict", "source": "human"},
        )
    ],
    "record_feedback": [
        Example(
            kept(FEEDBACK),
            201,
            {"metric": "verdict", "value": "confirmed", "decision_id": DECISION, "idempotency_key": "click-1831"},
            name="a person's verdict",
        ),
        Example(
            kept(FEEDBACK),
            201,
            {"metric": "verdict", "value": "corrected", "correction": "finance", "decision_id": DECISION},
            name="a verdict with the right action",
        ),
        Example(
            kept(FEEDBACK),
            201,
            [{"metric": "minutes_saved", "value": 4.5, "unit": "item-1", "source": "system", "id": FRESH}],
            name="a measure of a unit, in a list",
        ),
    ],
    "rewards_list": [
        Example(page({"decision": DECISION, "agent": "filer"} | A_REWARD), query={"agent": "filer", "spec": "1"})
    ],
    "rewards_calculations_list": [
        Example(
            page(
                A_CALCULATION
                | {"state": "succeeded", "progress": 1.0, "message": "filer: 96 rewards", "rewards": 96}
                | {"finished_at": "2026-11-20T08:00:04Z"}
            )
        )
    ],
    "calculate_rewards": [Example(A_CALCULATION, 202)],
    "agents_suggestions_list": [
        Example(
            page(
                {"decision": DECISION, "episode": None, "verdict": "corrected", "action": "travel", "fields": []}
                | {"confidence": 0.981, "made_at": "2026-11-20T08:00:00Z"}
            ),
            path={"slug": "filer"},
        )
    ],
    "suggest_labels": [
        Example(
            {"id": CALCULATION, "state": "queued", "created_at": "2026-11-20T08:00:00Z"}, 202, path={"slug": "filer"}
        )
    ],
    "auto_labeler": [
        Example(
            {
                "suggests": "option",
                "labels": 640,
                "actions": 5,
                "accuracy": 0.894,
                "baseline": 0.31,
                "threshold": 0.93,
                "precision": 0.971,
                "coverage": 0.68,
                "fields": [],
                "suggested": 812,
                "looked_at": 1204,
                "reason": "",
                "about": "",
                "trained_at": "2026-11-20T08:00:00Z",
            },
            path={"slug": "filer"},
        )
    ],
    "record_status_changes": [
        Example(
            kept(CHANGE),
            201,
            {"item_ref": "item-1", "status": "DONE", "swimlane": "PROJECT", "minutes": 240, "alignment": 0.8},
            name="an item is done",
        )
    ],
    "steps_list": [Example(page(A_STEP), query={"episode": EPISODE})],
    "record_steps": [
        Example(kept(STEP), 201, A_TOOL_CALL, name="a tool call"),
        Example(kept(STEP), 201, A_THOUGHT, name="a piece of reasoning"),
    ],
    "episodes_list": [Example(page(AN_EPISODE), query={"agent": "filer", "session": "ann-monday"})],
    "record_episodes": [
        Example(kept(EPISODE), 201, {"agent": "filer", "episode": "mailbox-7", **_SAID}, name="an episode at its end")
    ],
    "episodes_retrieve": [
        Example(AN_EPISODE | {"totals": TOTALS, "decisions": [A_DECISION], "steps": [A_STEP]}, path={"id": EPISODE})
    ],
    "ask_episode": [Example(RERUN, 200, {"version": CHAMPION, "step": 1}, {"id": EPISODE})],
    "export_traces": [Example({}, 200, TRACES, name="a tool call")],
}
