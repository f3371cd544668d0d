"""Which verdict counts: every page, export, reward and count says the same."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from decisions.labelling.labels import label_decision, withdraw_label
from decisions.models import Decision, Feedback, Label, Reward
from decisions.notes_app.ledger import describe_decisions
from decisions.queries.export import ExportChoice, export_rows
from decisions.queries.readiness import count_training_stats
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.components import VERDICT_VALUES
from decisions.rewards.specs import current_reward_spec
from tools.factories import DecisionFactory, FeedbackFactory
from training.rows.labels import LabelQuestion, read_label_rows
from workspaces.access.actors import Actor, person
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
FAR = "2199-12-31T23:59:59Z"


@pytest.fixture
def readers(agent: Any, viewer: Any, page_client: Any) -> Any:
    """What each reader takes for the verdict on the decision; None where it takes it for unjudged."""
    client = page_client(viewer)

    def ask(decision: Decision) -> dict[str, str | None]:
        workspace = decision.workspace
        detail = client.get(reverse("pages:decision", args=[workspace.slug, decision.pk])).context["shown"]
        pages = {
            verdict: client.get(reverse("pages:decisions", args=[workspace.slug]), {"verdict": verdict})
            for verdict in (*VERDICT_VALUES, "no_verdict")
        }
        [(listed, row)] = [(verdict, row) for verdict, page in pages.items() for row in page.context["rows"]]
        [exported] = [one for one in export_rows(workspace=workspace, chosen=ExportChoice()) if one.id == decision.id]
        [app] = describe_decisions(workspace, [decision.id])
        calculate_rewards(current_reward_spec(agent))
        reward = Reward.objects.filter(decision=decision).order_by("version").last()
        worth = {value: name for name, value in VERDICT_VALUES.items()}
        part = reward.components.get("verdict") if reward else None
        judged = count_training_stats(workspace)["FILER"].with_verdict
        assert judged == (exported.verdict is not None)
        correction = None if exported.correction is None else exported.correction.strip('"')
        told = [one.told for one in read_label_rows(agent, LabelQuestion("labelled"))]
        taught = told[0].correction if told else None
        assert detail.corrected_action == row.corrected_action == correction == app["userCorrection"] == taught
        return {
            "the decision's page": detail.verdict or None,
            "the list": None if listed == "no_verdict" else listed,
            "the list's row": row.verdict or None,
            "the export": exported.verdict,
            "the notes app": app["userFeedback"] and app["userFeedback"].lower(),
            "datasets of labels": told[0].verdict if told else None,
            "the reward": worth[part["value"]] if part else None,
        }

    return ask


def say(api: Any, decision: Decision, value: str, at: str | dt.timedelta | None = None, **more: Any) -> str:
    moment = (timezone.now() + at).isoformat() if isinstance(at, dt.timedelta) else at
    sent = {"metric": "verdict", "value": value, "decision_id": str(decision.id), "observed_at": moment} | more
    answer = api("feedback:write").post("feedback", {name: one for name, one in sent.items() if one is not None})
    assert answer.status_code == 201, answer.content
    return str(answer.json()["kept"][0]["id"])


@pytest.mark.slow
def test_every_reader_takes_the_same_verdict(agent: Any, api: Any, labeller: Any, workspace: Any, readers: Any) -> None:
    me: Actor = person(labeller, workspace, "labeller")
    decision = DecisionFactory(agent=agent, options=["a", "b"], action="a")

    def expect(verdict: str | None) -> None:
        assert set(readers(decision).values()) == {verdict}, readers(decision)

    expect(None)
    say(api, decision, "confirmed", FAR)
    expect("confirmed")
    first = say(api, decision, "overridden")  # a clock in the year 2199 holds until the next one speaks
    expect("overridden")
    say(api, decision, "corrected", -dt.timedelta(days=2))  # late: it was given before the others
    expect("overridden")
    label_decision(by=me, decision=decision, verdict="corrected", corrected_action="b")
    expect("corrected")
    say(api, decision, "confirmed", FAR)  # said after the label: a reviewer outranks it
    say(api, decision, "ignored", source="system")
    expect("corrected")
    withdraw_label(by=me, decision=decision)
    expect("confirmed")
    say(api, decision, "overridden", source="llm")  # later, by a weaker source
    expect("confirmed")
    say(api, decision, "ignored", -dt.timedelta(hours=1), supersedes=first)
    expect("confirmed")
    say(api, decision, "corrected", FAR, correction="b")  # the readers agree on the correction, too
    expect("corrected")
    assert Decision.objects.get().feedback.filter(correction="b").exists()
    say(api, decision, "ignored", FAR)
    expect("ignored")


def test_a_client_cannot_write_what_would_count_as_a_label_or_a_measurement(agent: Any, api: Any) -> None:
    decision = DecisionFactory(agent=agent)
    client = api("feedback:write")
    sent = {"metric": "verdict", "value": "confirmed", "decision_id": str(decision.id)}
    for more, field in (({"idempotency_key": "label:1"}, "idempotency_key"), ({"metric": "measured.x"}, "metric")):
        answer = client.post("feedback", sent | more)
        assert answer.status_code == 400, answer.content
        assert field in answer.content.decode()
    assert Feedback.objects.count() == 0


def test_an_app_cannot_supersede_a_label_and_the_reviewer_can_undo_it(
    agent: Any, api: Any, labeller: Any, workspace: Any, readers: Any
) -> None:
    me: Actor = person(labeller, workspace, "labeller")
    decision = DecisionFactory(agent=agent, options=["a", "b"], action="a")
    label_decision(by=me, decision=decision, verdict="confirmed")
    written = Feedback.objects.get()
    sent = {"decision_id": str(decision.id), "value": "ignored", "supersedes": str(written.id)}
    for metric in ("verdict", "note"):
        answer = api("feedback:write").post("feedback", sent | {"metric": metric})
        assert answer.status_code == 400, answer.content
        assert [fault["field"] for fault in answer.json()["error"]["fields"]] == ["supersedes"]
    assert Feedback.objects.get() == written
    assert set(readers(decision).values()) == {"confirmed"}
    withdraw_label(by=me, decision=decision)
    assert set(readers(decision).values()) == {None}


def test_what_another_workspace_said_of_an_id_before_there_was_a_decision_counts_nowhere(
    agent: Any, api: Any, other_workspace: Any, readers: Any
) -> None:
    early = uuid7()
    FeedbackFactory(decision_id=early, decision=None, workspace=other_workspace, value="overridden")
    decision = DecisionFactory(agent=agent, id=early)
    assert set(readers(decision).values()) == {None}
    assert Feedback.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_judgement_that_comes_twice_at_once_is_one_label(
    agent: Any, labeller: Any, admin: Any, page_client: Any, at_once: Any
) -> None:
    decision = DecisionFactory(agent=agent)
    path = reverse("pages:decision-label", args=[decision.workspace.slug, decision.pk])
    client = page_client(labeller)
    assert {answer.status_code for answer in at_once(6, lambda: client.post(path, {"verdict": "confirmed"}))} == {302}
    assert (Label.objects.count(), Feedback.objects.count()) == (1, 1)
    page_client(admin).post(path, {"verdict": "confirmed"})  # another person's is another label
    client.post(path, {"verdict": "confirmed", "note": "on second thoughts"})
    assert (Label.objects.count(), Feedback.objects.count()) == (3, 3)
