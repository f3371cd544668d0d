"""OpenAPI examples of the notes app's paths; `workspaces.http.examples` tells the story behind them. PURE."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from decisions.api import examples as story
from workspaces.http.examples import Example

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
    "alternativeActions": [{"status": "ON_HOLD"}],
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
    "agent": "filer",
    "itemId": "item-1",
    "opusId": "opus-1",
    "userFeedback": "CONFIRMED",
    "userCorrection": None,
    "outcomeMetrics": {"completion": "DONE", "cycles": 0},
    "createdAt": MOMENT,
    "rewardComputedAt": MOMENT,
}
_OPTIONS = [f'{{"priority":"HIGH","status":"{status}","swimlane":"PROJECT"}}' for status in ("TODO", "TRASH")]
_ROW = story.choice_row(ID, "File this item. …", _OPTIONS)
CHAT_LINE = story.chat_line("You file items. …", STATE, ACTION, METADATA, _ROW)
COMPLETION_LINE = story.completion_line("File this item. …", json.dumps(ACTION), METADATA, _ROW)
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
VERSION_STATS = {
    "totalDecisions": 820,
    "decisionsWithReward": 640,
    "decisionsWithFeedback": 610,
    "avgReward": 0.61,
    "avgRewardInterval": [0.55, 0.67],
    "avgConfidence": 0.83,
    "acceptanceRate": 0.87,
    "acceptanceInterval": [0.84, 0.9],
    "feedbackBreakdown": {"confirmed": 520, "corrected": 78, "overridden": 4, "ignored": 8},
}
COMPARED = {
    "agentType": "FILER",
    "abTestingEnabled": True,
    "experimentId": None,
    "totalDecisions": 820,
    "overallAvgReward": 0.61,
    "versions": [
        {"version": "filer:2", "description": "", "weight": 1.0, "stats": VERSION_STATS},
        {"version": "gpt-4.1-mini-20250101", "description": "", "weight": 0.0, "stats": VERSION_STATS},
    ],
    "comparison": {
        "bestReward": "filer:2",
        "bestRewardIsClear": True,
        "bestAcceptanceRate": "filer:2",
        "bestAcceptanceRateIsClear": False,
        "mostDecisions": "filer:2",
    },
}
TODO = [{"id": "item-1", "title": "Book flights"}, {"id": "item-2", "title": "Pay the rent"}]
BY_MODEL = {"confidence": 0.81, "reasoning": None, "decisionId": ID}
WRITTEN = {"confidence": 0.8, "reasoning": "The section lists flights.", "decisionId": ID}
FILED = {"status": "TODO", "swimlane": "PROJECT", "priority": "HIGH", "labels": []} | BY_MODEL
PRIORITIZED = {
    "recommended_item_id": "item-1",
    "alternatives": [{"item_id": "item-2", "confidence": 0.19}],
} | BY_MODEL
STORED = {
    "integrationDecision": "INTEGRATE",
    "location": "Flights",
    "method": "APPEND",
    "newSectionHeading": None,
    "suggestedContent": "Booked for 3 May.",
} | WRITTEN
RETRIEVED = {"generatedContent": "You fly on 3 May.", "sourceCitations": ["opus-1"]} | WRITTEN
RELATED = {
    "findings": [{"type": "DEPENDENCY", "relatedIds": ["item-2"], "description": "The rent is due first."}]
} | WRITTEN
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


def _asked(**state: object) -> dict[str, object]:
    return {"input": state, "userId": "user-1"}


_DONE = {"completedItem": {"id": "item-1", "title": "Book flights"}, "targetOpus": {"id": "opus-1", "name": "Travel"}}
_NEW = {"newItem": {"id": "item-1", "title": "Book flights"}, "corpus": [{"id": "item-2", "title": "Pay the rent"}]}
_QUERY = {"query": "When do we fly?", "relevantOpuses": [{"id": "opus-1", "text": "Oslo, 3 May"}], "userId": "user-1"}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "notes_file": [Example(FILED, request=_asked(**STATE))],
    "notes_prioritize": [Example(PRIORITIZED, request=_asked(todoItems=TODO))],
    "notes_store": [Example(STORED, request=_asked(**_DONE))],
    "notes_retrieve": [Example(RETRIEVED, request=_QUERY)],
    "notes_relate": [Example(RELATED, request=_asked(**_NEW))],
    "notes_ab_test": [Example(COMPARED, query={"agentType": "FILER"})],
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
