"""OpenAPI examples of the notes app's paths; `workspaces.examples` tells the story behind them. PURE."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from decisions.api import examples as story
from workspaces.examples import Example

ID = story.DECISION
STATE = {"item": {"id": "item-1", "title": "Flights to Oslo"}, "assignedOpus": {"id": "opus-1", "name": "Travel"}}
ACTION = {"status": "TODO", "swimlane": "PROJECT", "priority": "HIGH", "labels": ["travel"], "confidence": 0.9}
MOMENT = "2026-11-20T08:00:00Z"
RECORD = {
    "agentType": "FILER",
    "state": STATE,
    "action": ACTION,
    "itemId": "item-1",
    "opusId": "opus-1",
    "userId": "user-1",
    "modelVersion": "gpt-4.1-mini-20250101",
    "reasoning": "It names a trip.",
    "alternativeActions": [{"status": "ON_HOLD"}],
}
DECISION = {
    "id": ID,
    "agentType": "FILER",
    "state": STATE,
    "action": ACTION,
    "nextState": None,
    "itemId": "item-1",
    "opusId": "opus-1",
    "userId": "user-1",
    "modelVersion": "gpt-4.1-mini-20250101",
    "confidence": 0.9,
    "reasoning": "It names a trip.",
    "alternativeActions": [{"action": {"status": "ON_HOLD"}, "probability": None}],
    "userFeedback": "CONFIRMED",
    "userCorrection": None,
    "feedbackAt": MOMENT,
    "outcomeMetrics": {"completion": "DONE", "cycles": 0},
    "outcomeObservedAt": MOMENT,
    "reward": 1.0,
    "rewardComponents": {"verdict": 1.0},
    "rewardComputedAt": MOMENT,
    "usedInTraining": False,
    "usedInValidation": False,
    "trainingRunId": None,
    "createdAt": MOMENT,
    "item": {"id": "item-1", "title": "Flights to Oslo", "status": "DONE"},
    "opus": {"id": "opus-1", "name": "Travel"},
}
IDS = {"decisionIds": [ID]}
REWARDED = {"updated": 1, "decisions": [{"id": ID, "reward": 1.0, "components": {"verdict": 1.0}}]}
PENDING = {"pendingRewards": 12, "message": "12 decisions wait for a reward."}
CALCULATED = {"success": True, "processed": 12, "errors": 0, "message": "12 rewards calculated, 0 with an error."}
PROCESSED = {"success": True, "processed": 2, "updated": 5, "rewardsCalculated": 5, "errors": 0}
PROCESSED_MESSAGE = "5 decisions received the outcome of their item; 5 rewards calculated."
METADATA = {
    "decisionId": ID,
    "agentType": "FILER",
    "itemId": "item-1",
    "opusId": "opus-1",
    "userFeedback": "CONFIRMED",
    "userCorrection": None,
    "outcomeMetrics": {"completion": "DONE", "cycles": 0},
    "createdAt": MOMENT,
    "rewardComputedAt": MOMENT,
}
CHAT_LINE = story.chat_line("You file items. …", STATE, ACTION, METADATA)
COMPLETION_LINE = story.completion_line("File this item. …", json.dumps(ACTION), METADATA)
_COUNTS = {
    "totalDecisions": 230,
    "decisionsWithReward": 120,
    "decisionsWithFeedback": 125,
    "avgReward": 0.42,
    "progressBlocks": 2,
    "progressInCurrentBlock": 30,
    "progressPercentage": 30.0,
    "readyForTraining": True,
}
STATS = {**_COUNTS, "byAgentType": {"FILER": _COUNTS}}
FEEDBACK = {"feedback": "CORRECTED", "correction": {"status": "ON_HOLD"}}
CHANGE_FEEDBACK = {"feedback": "CORRECTED", "correction": {"swimlane": "HOME", "priority": "LOW", "labels": ["later"]}}
CHANGE = {
    "id": story.CHANGE,
    "externalId": "change-1",
    "itemId": "item-1",
    "decisionId": None,
    "fromStatus": "TODO",
    "toStatus": "ON_HOLD",
    "userFeedback": "CORRECTED",
    "userCorrection": {"swimlane": "HOME", "priority": "LOW", "labels": ["later"]},
    "feedbackAt": MOMENT,
    "createdAt": MOMENT,
    "item": {
        "id": "item-1",
        "title": "Flights to Oslo",
        "status": "ON_HOLD",
        "swimlane": "HOME",
        "priority": "LOW",
        "labels": ["later"],
    },
}

_CHOICE = {"agentType": "FILER", "minReward": "-2", "requireFeedback": "false", "limit": "100"}
_CHANGED = {"id": story.CHANGE}
_TRACKED = PROCESSED | {"message": PROCESSED_MESSAGE}
_WAITING = {"pendingOutcomes": 3, "message": "3 decisions wait for the outcome of their item."}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "notes_record_decision": [Example(DECISION, 201, RECORD)],
    "notes_list_decisions": [Example([DECISION], query=_CHOICE | {"maxReward": "2", "requireReward": "true"})],
    "notes_reward_decisions": [Example(REWARDED, request=IDS)],
    "notes_count_pending": [Example(PENDING)],
    "notes_calculate_pending": [Example(CALCULATED)],
    "notes_count_outcomes": [Example({"pendingCount": 3})],
    "notes_process_outcomes": [Example(PROCESSED, request={"limit": 100})],
    "notes_count_tracked_outcomes": [Example(_WAITING)],
    "notes_track_outcomes": [Example(_TRACKED, query={"limit": "100"})],
    "notes_export_chats": [Example(CHAT_LINE, query=_CHOICE | {"requireReward": "true"}, media=story.NDJSON)],
    "notes_export_completions": [
        Example(COMPLETION_LINE, query=_CHOICE | {"requireReward": "true"}, media=story.NDJSON)
    ],
    "notes_training_stats": [Example(STATS, query={"agentType": "FILER"})],
    "notes_decision_feedback": [Example(DECISION, request=FEEDBACK, path={"id": ID})],
    "notes_status_change_feedback": [Example(CHANGE, request=CHANGE_FEEDBACK, path=_CHANGED)],
}
