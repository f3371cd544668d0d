"""ToolBox's traces and checkpoints of the agent isaa: eight questions, each asked several times with other outcomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

QUESTIONS = (
    "How large is the archive on disk?",
    "Which city hosts the spring meeting?",
    "When does the invoice from Oslo fall due?",
    "Who wrote the parser for calendars?",
    "List every overdue ticket of the printer team",
    "Translate the greeting into Norwegian please",
    "What colour has the roof of the barn?",
    "Sum up last week's sales by region",
)


def trace(number: int, *, went_well: bool, **fields: Any) -> dict[str, Any]:
    """An ExecutionTrace as JSON, with every field that it has."""
    call = {"tool_name": "look_up", "arguments": {"word": "x"}, "result": "1", "duration_ms": 4.5}
    told = {
        "trace_id": f"{number:012x}",
        "session_id": f"session-{number}",
        "timestamp": f"2025-11-02T{10 + number // 60}:{number % 60:02}:00",
        "user_query": QUESTIONS[number % len(QUESTIONS)],
        "tool_calls": [call | {"success": went_well, "error": None if went_well else "not found"}],
        "reasoning_steps": [
            {"step_type": "internal_reasoning", "content": "Look it up.", "confidence": 0.7, "insights": ["a fact"],
             "issues": []}
        ],
        "tasks_created": [{"task_id": "t"}],
        "tasks_completed": [{"task_id": "t"}] if went_well else [],
        "tasks_failed": [] if went_well else [{"task_id": "t", "error": "not found"}],
        "final_response": f"The answer is {number % 8}." if went_well else "<answer>I do not know</answer>",
        "total_tokens_in": 120,
        "total_tokens_out": 30,
        "total_cost": 0.01,
        "execution_duration_ms": 900.0,
        "llm_calls_count": 2,
        "label": None,
        "reward_score": None,
        "manual_review": False,
        "review_notes": "",
    }  # fmt: skip
    return told | fields


def write_traces(folder: Path, count: int = 32) -> Path:
    """`rl_traces/` with a folder a day, as the original leaves them; every second round went wrong."""
    day = folder / "rl_traces" / "2025-11-02"
    day.mkdir(parents=True)
    for number in range(count):
        went_well = number // len(QUESTIONS) % 2 == 0
        (day / f"{number:012x}.json").write_text(json.dumps(trace(number, went_well=went_well)))
    return day.parent
