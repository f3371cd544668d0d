"""Suggestions by page and by command: how good they are, and that a person accepts what they were shown."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from decisions.models import Label, LabelSuggestion
from jobs.models import Job
from tests.decisions.labelling.test_suggestions import WORDS, say
from tools.factories import (
    AgentFactory,
    AutoLabelerFactory,
    DecisionFactory,
    EpisodeFactory,
    LabelFactory,
    LabelSuggestionFactory,
)

pytestmark = pytest.mark.django_db
OPTIONS = ["finance", "travel", "health"]


def press(client: Any, decision: Any, **form: Any) -> Any:
    return client.post(reverse("pages:decision-label", args=[decision.workspace.slug, decision.id]), form)


@pytest.fixture
def decision(agent: Any) -> Any:
    return DecisionFactory(agent=agent, options=OPTIONS, action="travel")


class TestAccepting:
    @pytest.mark.parametrize(
        ("suggested", "verdict", "corrected"),
        [
            ({"action": "finance", "verdict": "corrected"}, "corrected", "finance"),
            ({"action": "travel", "verdict": "confirmed"}, "confirmed", None),
            ({"action": None, "verdict": "corrected"}, "corrected", None),
        ],
    )
    @pytest.mark.quick_cases(1)
    def test_the_button_labels_as_it_says(
        self, suggested: Any, verdict: str, corrected: Any, decision: Any, labeller: Any, page_client: Any
    ) -> None:
        client, one = page_client(labeller), LabelSuggestionFactory(decision=decision, **suggested)
        page = client.get(reverse("pages:decision", args=[decision.workspace.slug, decision.id])).content.decode()
        assert f'name="suggested" value="{one.id}"' in page and "by the auto-labeler" in page
        assert press(client, decision, suggested=one.id).status_code == 302
        label = Label.objects.get()
        assert (label.verdict, label.corrected_action, label.reviewer) == (verdict, corrected, labeller)

    def test_what_has_changed_since_is_refused(self, decision: Any, labeller: Any, page_client: Any) -> None:
        client = page_client(labeller)
        seen = LabelSuggestionFactory(decision=decision, action="finance", verdict="corrected").id
        LabelSuggestion.objects.all().delete()
        LabelSuggestionFactory(decision=decision, action="health", verdict="corrected")
        for given in (seen, "", "x"):
            answer = press(client, decision, suggested=given)
            assert answer.status_code == 400
        assert b"The suggestion has changed" in answer.content
        assert not Label.objects.exists()

    def test_fields_alone_are_shown_and_not_accepted(self, decision: Any, labeller: Any, page_client: Any) -> None:
        fields = [{"field": "method", "value": "APPEND", "confidence": 0.975}]
        one = LabelSuggestionFactory(decision=decision, action=None, fields=fields)
        client = page_client(labeller)
        page = client.get(reverse("pages:label", args=[decision.workspace.slug])).content.decode()
        assert "method APPEND 97.5%" in page and 'name="suggested"' not in page
        assert press(client, decision, suggested=one.id).status_code == 400


class TestPage:
    def test_it_says_how_good_it_is_and_lists_the_surest(
        self, agent: Any, decision: Any, viewer: Any, owner: Any, page_client: Any
    ) -> None:
        path = reverse("pages:agent-suggestions", args=[agent.workspace.slug, agent.slug])
        page = page_client(viewer).get(path).content.decode()
        assert "It suggests the right option." in page and "never learnt" in page and "Learn now" not in page
        AutoLabelerFactory(
            agent=agent, labels=640, accuracy=0.894, baseline=0.31, threshold=0.93, precision=0.971, coverage=0.68
        )
        LabelSuggestionFactory(decision=decision, action="finance", verdict="corrected", confidence=0.98)
        episode = EpisodeFactory(agent=agent, query="Where is it?")
        LabelSuggestionFactory(
            decision=None, episode=episode, agent=agent, workspace=agent.workspace, action=None, verdict="corrected"
        )
        page = page_client(owner).get(path).content.decode()
        assert "its likeliest answer is right in 89.4%; a guess without reading is right in 31.0%." in page
        assert "From a confidence of 93.0% on it suggests: 97.1% of that was right, for 68.0% of the labels." in page
        assert "finance" in page and "Where is it?" in page and "wrong" in page
        assert "Learn now" in page

    def test_an_admin_has_it_learn(self, agent: Any, owner: Any, labeller: Any, page_client: Any) -> None:
        path = reverse("pages:agent-suggestions-learn", args=[agent.workspace.slug, agent.slug])
        assert page_client(labeller).post(path).status_code == 403
        assert not Job.objects.exists()
        assert page_client(owner).post(path).status_code == 302
        assert Job.objects.get().kind == "decisions.suggest_labels"

    def test_what_cannot_be_suggested_has_its_reason(self, workspace: Any, owner: Any, page_client: Any) -> None:
        AgentFactory(workspace=workspace, slug="bare")
        page = page_client(owner).get(reverse("pages:agent-suggestions", args=[workspace.slug, "bare"]))
        assert "it has no version, so it cannot decide." in page.content.decode()
        assert "Learn now" not in page.content.decode()


def call(*arguments: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("suggest_labels", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue() + err.getvalue()
    return 0, out.getvalue()


@pytest.mark.slow
def test_the_command_learns_and_tells(agent: Any, workspace: Any) -> None:
    code, told = call("filer")
    assert code == 1 and "0 labels; at least 50 are needed" in told
    rng = random.Random(1)
    for number in range(102):
        topic = list(WORDS)[number % 3]
        decision = DecisionFactory(agent=agent, state={"text": say(rng, topic)}, options=OPTIONS, action=topic)
        if number < 90:
            LabelFactory(decision=decision)
    code, told = call("filer", "--json")
    report = json.loads(told)
    assert code == 0 and report["suggested"] == LabelSuggestion.objects.count() > 5
    assert (report["agent"], report["suggests"], report["labels"]) == ("filer", "option", 90)
    code, told = call("filer")
    assert code == 0 and "On labels that it had not seen, its likeliest answer is right in" in told
    AgentFactory(workspace=workspace, slug="bare")
    assert call("bare") == (2, "Nothing can be suggested for bare: it has no version, so it cannot decide.\n")
    assert call("nobody")[0] == 2
