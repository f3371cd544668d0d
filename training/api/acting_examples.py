"""Examples of environments, and of agents that act in them, for the OpenAPI document. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from training.api.examples import A_FREEZING
from workspaces.http.examples import MOMENT, Example

SOLVED_IN = "01a217b0-c2a8-704d-a877-d2aace86ceab"
SOLVED_BY = "01a217b0-c50b-7134-9993-ed1a27022d04"

PROBLEM = {"environment": "equations", "problem": "3x + 7 = 16"}
A_STEP = {
    "observation": "Solve 3x + 7 = 16. Now: x = 3. Done: subtract 7, divide 3",
    "action": "answer 3",
    "probability": 0.91,
    "confidence": 0.94,
    "reward": 3.0,
    "next_observation": "Solve 3x + 7 = 16. Now: x = 3. Done: subtract 7, divide 3, answer 3",
    "model_version": "filer:2",
    "decision_id": SOLVED_BY,
    "error": None,
}
A_SOLUTION = {
    "environment": "equations",
    "problem": "Solve 3x + 7 = 16",
    "task": "equations-3x+7=16",
    "success": True,
    "score": 1.0,
    "total_reward": 3.0,
    "steps": 1,
    "progress": 1.0,
    "finished": True,
    "trajectory": [A_STEP],
    "episode_id": SOLVED_IN,
    "greedy": False,
    "seed": 0,
    "cached": False,
    "latency_ms": 84.2,
}
NOT_READ = {
    "code": "invalid_input",
    "message": "The problem cannot be used.",
    "fields": [
        {
            "field": "problem",
            "reason": "'3x + 7 = 17': x would be 10/3, and must be a whole number",
            "expected": "a problem of equations",
        }
    ],
    "episode_id": None,
    "decided": 0,
}
QUALITY: dict[str, Any] = {
    "start": "2026-10-05T00:00:00Z",
    "model_version": None,
    "episodes": 42,
    "left_out": 1,
    "solved": 0.81,
    "solved_low": 0.68,
    "solved_high": 0.94,
    "score": 0.81,
    "steps": 4.6,
    "progress": 0.77,
    "finished": 0.95,
    "solved_by_domain": {"math": 0.81},
    "feedback": [{"metric": "verdict", "count": 6, "mean": 0.83}],
}
AN_ENVIRONMENT = {
    "name": "equations",
    "does": "Linear equations, solved in steps that are each checked.",
    "max_steps": 8,
    "most_reward": 9.5,
    "package": None,
    "has_demonstrations": True,
    "example": {
        "id": "equations-train-0",
        "text": "Solve x + 7 = 16",
        "domain": "math",
        "template": "shift",
        "level": 1,
        "observation": "Solve x + 7 = 16. Now: x + 7 = 16. Done: nothing",
        "actions": ["identify linear", "subtract 7", "answer 16", "identify quadratic", "add 7"],
    },
    "fault": "",
}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "solve": [
        Example(A_SOLUTION, 201, PROBLEM, {"slug": "filer"}, name="in words"),
        Example(
            A_SOLUTION | {"greedy": True, "cached": True},
            201,
            {
                "environment": "equations",
                "problem": {"factor": 3, "shift": 7, "right": 16},
                "text": "Solve 3x + 7 = 16",
                "greedy": True,
                "max_steps": 6,
            },
            {"slug": "filer"},
            name="facts, greedily",
        ),
    ],
    "solve_batch": [
        Example(
            {"answers": [{"index": 0, "solution": A_SOLUTION, "error": None}]},
            201,
            [PROBLEM],
            {"slug": "filer"},
            name="solved",
        ),
        Example(
            {
                "answers": [
                    {"index": 0, "solution": A_SOLUTION, "error": None},
                    {"index": 1, "solution": None, "error": NOT_READ},
                ]
            },
            207,
            [PROBLEM, PROBLEM | {"problem": "3x + 7 = 17"}],
            {"slug": "filer"},
            name="one that cannot be read",
        ),
    ],
    "action_quality": [
        Example(
            {
                "agent": "filer",
                "since": "30d",
                "by": "day",
                "complete": True,
                "total": QUALITY,
                "rows": [QUALITY | {"start": MOMENT, "model_version": "filer:2"}],
            },
            path={"slug": "filer"},
            query={"since": "30d"},
        )
    ],
    "list_environments": [Example({"results": [AN_ENVIRONMENT]})],
    "draw_tasks": [
        Example(
            A_FREEZING | {"name": "equations"},
            202,
            {"agent": "filer", "name": "equations", "tasks": 960, "held_out": 300, "demonstrations": 400},
            path={"name": "equations"},
        )
    ],
}
