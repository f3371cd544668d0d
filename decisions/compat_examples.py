"""Examples of the notes app's requests and answers, for the OpenAPI document. A test holds the answers' shapes."""

from __future__ import annotations

ID = "0195e1d8-6a3c-7c11-9c1f-2b7f5d6a1e90"
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
    "createdAt": MOMENT,
    "item": {"id": "item-1", "title": "Flights to Oslo", "status": "DONE"},
    "opus": {"id": "opus-1", "name": "Travel"},
}
IDS = {"decisionIds": [ID]}
REWARDED = {"updated": 1, "decisions": [{"id": ID, "reward": 1.0, "components": {"verdict": 1.0}}]}
PENDING = {"pendingRewards": 12, "message": "12 decisions wait for a reward."}
CALCULATED = {"success": True, "processed": 12, "errors": 0, "message": "12 rewards calculated, 0 with an error."}
PROCESSED = {"success": True, "processed": 2, "updated": 5, "rewardsCalculated": 5, "errors": 0}
PROCESSED_MESSAGE = "5 decisions heard of their item; 5 rewards calculated."
CHAT_LINE = (
    '{"messages": [{"role": "system", "content": "You file items. …"}, {"role": "user", "content": "{…}"}, '
    '{"role": "assistant", "content": "{…}"}], "reward": 1.0, "metadata": {"decisionId": "…", "agentType": "FILER"}}'
)
COMPLETION_LINE = '{"prompt": "File this item. …", "completion": "{…}", "reward": 1.0, "metadata": {"decisionId": "…"}}'
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
    "id": ID,
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
