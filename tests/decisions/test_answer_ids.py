"""The id of a decision in the forms that clients of the gateway have it, wherever one is taken."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.urls import reverse

from decisions.answer_ids import FORMS, read_decision_id
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.schemas import FeedbackIn
from decisions.models import BulkLabel, Decision, Feedback, Label, StatusChange, Step
from tools.factories import DecisionFactory

ID = uuid.UUID("0195e1d8-1111-7111-8111-1111111111aa")


def forms(decision: uuid.UUID) -> list[str]:
    return [
        str(decision),
        decision.hex,
        *(prefix + text for prefix in ("chatcmpl-", "resp_", "msg_") for text in (decision.hex, str(decision))),
    ]


def test_every_form_is_the_same_decision() -> None:
    assert {read_decision_id(text) for text in [*forms(ID), ID.hex.upper()]} == {ID}
    for wrong in ("", "chatcmpl-", ID.hex[:-1], f"{ID.hex}0", f"chatcmpl_{ID.hex}", f"resp_resp_{ID.hex}", f"{{{ID}}}"):
        with pytest.raises(ValueError, match="is not the id of a decision"):
            read_decision_id(wrong)


def test_a_list_with_such_ids_is_read_item_by_item_and_other_faults_are_told() -> None:
    sent = [{"metric": "m", "value": 1, "decision_id": text} for text in forms(ID)]
    sent += [{"metric": "m", "value": 1, "decision_id": "chatcmpl-x"}, {"metric": "", "decision_id": f"resp_{ID.hex}"}]
    batch = BodyDecoder(FeedbackIn).decode(json.dumps(sent).encode())
    assert {item.decision_id for _, item in batch.items} == {ID}
    assert [(error.index, error.faults[0].field) for error in batch.errors] == [(8, "decision_id"), (9, "metric")]
    assert batch.errors[0].faults[0].expected == FORMS


@pytest.mark.django_db
def test_what_is_no_id_of_a_decision_hears_what_one_looks_like(agent: Any, api: Any) -> None:
    client = api("admin")
    sent = {"metric": "verdict", "value": "confirmed", "decision_id": "chatcmpl-abc"}
    for refused in (client.post("feedback", sent), client.get("steps?decision=chatcmpl-abc")):
        [fault] = refused.json()["error"]["fields"]
        assert refused.status_code == 400 and "chatcmpl-" in fault["expected"], fault


@pytest.mark.django_db
def test_an_answers_id_is_taken_wherever_a_decisions_is(agent: Any, api: Any, page_client: Any, labeller: Any) -> None:
    decision = DecisionFactory(agent=agent, action="travel")
    client = api("admin")
    for name in forms(decision.id):
        assert client.get(f"decisions/{name}").json()["id"] == str(decision.id)
        assert client.get(f"decisions/{name}/similar").status_code == 200
        sent = {"metric": "verdict", "value": "corrected", "correction": "health", "decision_id": name}
        assert client.post("feedback", sent).status_code == 201, name
        assert client.post("feedback", [sent]).status_code == 201, name
        step = {"kind": "reasoning", "content": "It names a trip.", "decision_id": name}
        assert client.post("steps", step).status_code == 201, name
        change = {"item_ref": "i-1", "status": "TODO", "decision_id": name}
        assert client.post("status-changes", change).status_code == 201, name
    assert set(Feedback.objects.values_list("decision", flat=True)) == {decision.id}
    assert set(Step.objects.values_list("decision", flat=True)) == {decision.id}
    assert set(StatusChange.objects.values_list("decision", flat=True)) == {decision.id}
    name = f"chatcmpl-{decision.id.hex}"
    assert len(client.get(f"steps?decision={name}").json()["results"]) == len(forms(decision.id))
    chosen = {"decisions": [name], "verdict": "confirmed"}
    asked = client.post("bulk-labels", chosen | {"dry_run": True}).json()["asked"]
    bulk = client.post("bulk-labels", chosen | {"asked": asked})
    assert bulk.status_code < 300, bulk.content
    assert BulkLabel.objects.get().labelled == 1
    assert client.post(f"decisions/{name}/labels", {"verdict": "overridden"}).status_code == 201
    assert Label.objects.filter(decision=decision).count() == 2
    pages = page_client(labeller)
    assert pages.get(reverse("pages:decisions", args=[agent.workspace.slug]), {"q": name}).context["rows"]
    found = pages.get(f"/w/{agent.workspace.slug}/decisions/{name}")
    assert found.status_code == 200, found
    assert Decision.objects.count() == 1
