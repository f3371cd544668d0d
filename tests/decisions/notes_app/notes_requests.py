"""Requests as the notes app sends them, and what its answers look like."""

import json

T = "/api/training"
KEY = "internal-key-of-the-notes-app-0123456789"
FILER = {
    "agentType": "FILER",
    "state": {"item": {"id": "item-1", "title": "Flights"}, "assignedOpus": {"id": "opus-1", "name": "Travel"}},
    "action": {"status": "TODO", "swimlane": "PROJECT", "priority": "HIGH", "labels": ["travel"], "confidence": 0.9},
    "itemId": "item-1",
    "opusId": "opus-1",
    "userId": "user-1",
    "modelVersion": "gpt-4.1-mini-20250101",
    "reasoning": "It names a trip.",
    "alternativeActions": [{"status": "ON_HOLD"}],
}
RETRIEVER = {
    "agentType": "RETRIEVER",
    "state": {"query": "When do we fly?", "relevantOpuses": [{"id": "o1"}]},
    "action": {"generatedContent": "On Friday.", "sourceCitations": ["o1"]},
    "userId": "user-1",
    "modelVersion": "retriever:1",
}


def recorded(app, **fields):
    answer = app.post(f"{T}/decisions/record", FILER | fields)
    assert answer.status_code == 201, answer.content
    return answer.json()


def judge(app, decision, feedback, **more):
    return app.request("PATCH", f"/api/decisions/{decision['id']}/feedback", {"feedback": feedback} | more)


def lines(answer):
    assert answer.status_code == 200, answer.content
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert "attachment" in answer.headers["Content-Disposition"]
    return [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]


def shape(value):
    """Names of fields, all the way down."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None
