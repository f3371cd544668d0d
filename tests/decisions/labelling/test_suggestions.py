"""The auto-labeler: what it learns, when it abstains, and that a suggestion is no label."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.urls import reverse

from decisions.labelling.classifier import TooFewLabels, fit
from decisions.labelling.promises import wilson_low
from decisions.labelling.suggesting import suggest_labels
from decisions.models import AutoLabeler, Feedback, Label, LabelSuggestion
from decisions.rewards.calculate import Calculated, calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from jobs.runner import run_job
from tools.factories import DecisionFactory, LabelFactory, LabelSuggestionFactory

WORDS = {
    "finance": "invoice payment salary budget account transfer refund bank",
    "travel": "flight hotel passport train ticket museum luggage airport",
    "health": "doctor dentist medicine pain hospital vaccine exercise sleep",
}


def say(rng: random.Random, topic: str, noise: int = 1) -> str:
    """Words of the topic, and of any."""
    anything = " ".join(WORDS.values()).split()
    return " ".join([*rng.sample(WORDS[topic].split(), 3), *rng.choices(anything, k=noise)])


@pytest.mark.slow
class TestClassifier:
    def test_suggestions_keep_the_precision_that_was_asked_for(self) -> None:
        rng = random.Random(1)
        rows = [(say(rng, topic, noise=5), topic) for topic in rng.choices(list(WORDS), k=700)]
        fitted = fit([text for text, _ in rows[:300]], [topic for _, topic in rows[:300]], seed=1)
        found = fitted.suggest([text for text, _ in rows[300:]])
        given = [one.action == topic for one, (_, topic) in zip(found, rows[300:], strict=True) if one is not None]
        assert len(given) >= 0.4 * 400
        assert sum(given) / len(given) >= 0.93
        assert fitted.precision is not None and fitted.precision >= 0.95

    def test_it_abstains_where_labels_say_nothing_of_the_text(self) -> None:
        rng = random.Random(0)
        texts = [say(rng, rng.choice(list(WORDS))) for _ in range(200)]
        fitted = fit(texts, rng.choices(["a", "b"], k=200))
        assert (fitted.precision, fitted.coverage) == (None, 0.0)
        assert fitted.suggest(texts[:20]) == [None] * 20

    @pytest.mark.parametrize("actions", [[], ["a"] * 60, ["a", "b"] * 20, ["a"] * 60 + ["b"] * 4])
    def test_too_few_labels_are_said_to_be(self, actions: list[str]) -> None:
        with pytest.raises(TooFewLabels, match="at least 50 are needed, of two actions"):
            fit(["text"] * len(actions), actions)

    def test_wilsons_interval(self) -> None:
        # One-sided 95 % for 98 of 100 (Wilson 1927).
        assert wilson_low(98, 100) == pytest.approx(0.94135, abs=1e-5)
        assert wilson_low(1, 1) == pytest.approx(1 / (1 + 1.6448536269514722**2))


@pytest.mark.django_db
class TestSuggestions:
    @pytest.fixture
    def labelled(self, agent: Any) -> list[Any]:
        """90 decisions with labels, a third of them corrected; then 12 without a verdict."""
        rng = random.Random(1)
        topics = [topic for _ in range(34) for topic in WORDS]
        made = []
        for number, topic in enumerate(topics):
            wrong = number % 3 == 0
            action = next(one for one in WORDS if one != topic) if wrong else topic
            decision = DecisionFactory(agent=agent, state={"text": say(rng, topic)}, options=list(WORDS), action=action)
            if number < 90:
                corrected = topic if wrong else None
                LabelFactory(
                    decision=decision, verdict="corrected" if wrong else "confirmed", corrected_action=corrected
                )
            made.append((decision, topic))
        return made[90:]

    @pytest.mark.slow
    def test_a_program_asks_for_them_and_reads_them(self, agent: Any, api: Any, labelled: list[Any]) -> None:
        client = api("admin", "export:read")
        assert client.get("agents/filer/auto-labeler").json()["trained_at"] is None
        queued = client.post("agents/filer/suggestions")
        assert queued.status_code == 202
        assert client.post("agents/filer/suggestions").json() == queued.json()
        assert run_job(Job.objects.get(id=queued.json()["id"]).id) == "succeeded"
        told = client.get("agents/filer/auto-labeler").json()
        assert (told["labels"], told["actions"], told["looked_at"], told["reason"]) == (90, 3, 12, "")
        found = client.get("agents/filer/suggestions").json()["results"]
        right = {str(decision.id): topic for decision, topic in labelled}
        assert len(found) == told["suggested"] >= 6
        assert all(right[one["decision"]] == one["action"] for one in found)

    def test_a_suggestion_is_neither_a_label_nor_feedback(
        self, agent: Any, labelled: list[Any], labeller: Any, page_client: Any
    ) -> None:
        before = (Label.objects.count(), Feedback.objects.count())
        calculate_rewards(current_reward_spec(agent))
        made = suggest_labels(agent)
        assert made.suggested > 0
        assert (Label.objects.count(), Feedback.objects.count()) == before
        assert calculate_rewards(current_reward_spec(agent)) == Calculated()
        page = page_client(labeller).get(reverse("pages:label", args=[agent.workspace.slug]))
        assert "by the auto-labeler" in page.content.decode()

    def test_again_replaces_what_was_suggested_and_too_few_labels_say_so(self, agent: Any) -> None:
        old = LabelSuggestionFactory(decision=DecisionFactory(agent=agent))
        elsewhere = LabelSuggestionFactory()
        suggest_labels(agent)
        assert [one.id for one in LabelSuggestion.objects.all()] == [elsewhere.id] != [old.id]
        assert AutoLabeler.objects.get(agent=agent).reason.startswith("0 labels; at least 50")
