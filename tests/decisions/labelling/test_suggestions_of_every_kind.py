"""What the auto-labeler suggests for each kind of action, what it says of its quality, and why it suggests no more."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from django.urls import reverse

from decisions.agents.kinds import KINDS, action_schema
from decisions.labelling.queues import QueueSetup, create_queue
from decisions.labelling.suggesting import suggest_labels
from decisions.labelling.targets import NothingToChoose, find_target
from decisions.models import AutoLabeler, LabelSuggestion
from tests.decisions.labelling.test_suggestions import WORDS, say
from tools.factories import (
    AgentFactory,
    AgentVersionFactory,
    DecisionFactory,
    EpisodeFactory,
    FeedbackFactory,
    LabelFactory,
    StepFactory,
)

FILED = {
    "finance": {"status": "TODO", "swimlane": "EXPEDITE", "priority": "HIGH"},
    "travel": {"status": "ON_HOLD", "swimlane": "PROJECT", "priority": "LOW"},
    "health": {"status": "COMPENDIUM", "priority": "LOW"},
}


class TestTargets:
    @pytest.mark.parametrize(
        ("kind", "suggests", "parts", "whole", "why"),
        [
            ("FILER", "fields", ["status", "swimlane", "priority"], True, ""),
            (
                "LIBRARIAN",
                "verdict",
                [""],
                False,
                "The action has a field findings that is array, which cannot be enumerated, so only the verdict is"
                " suggested.",
            ),
            ("PRIORITIZER", "fields", ["recommended_item_id"], True, ""),
            (
                "STORER",
                "fields",
                ["integrationDecision", "method"],
                False,
                "The action has a field location that is string, which cannot be enumerated, so only some fields"
                " are suggested.",
            ),
            (
                "RETRIEVER",
                "verdict",
                [""],
                False,
                "The action has a field generatedContent that is string, which cannot be enumerated, so only the"
                " verdict is suggested.",
            ),
            ("GUARDRAIL", "option", [""], True, ""),
        ],
    )
    def test_each_kind_of_agent_has_something_that_can_be_suggested(
        self, kind: str, suggests: str, parts: list[str], whole: bool, why: str
    ) -> None:
        setup = KINDS[kind]
        version = SimpleNamespace(
            action_space=setup.action_space, options=setup.options, action_schema=action_schema(setup)
        )
        target = find_target(version)
        assert (target.kind, [part.name for part in target.parts], target.whole) == (suggests, parts, whole)
        assert target.why == why

    @pytest.mark.parametrize(
        ("space", "options", "schema", "reason"),
        [
            ("choice", ["a"], None, "it has only one option"),
            ("structured", None, {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, "only one"),
        ],
    )
    def test_what_can_be_only_one_thing_is_not_suggested(
        self, space: str, options: Any, schema: Any, reason: str
    ) -> None:
        with pytest.raises(NothingToChoose, match=reason):
            find_target(SimpleNamespace(action_space=space, options=options, action_schema=schema))

    @pytest.mark.parametrize(
        ("space", "suggests"), [("ranking", "first"), ("text", "verdict"), ("tool_calls", "verdict")]
    )
    def test_other_actions(self, space: str, suggests: str) -> None:
        assert find_target(SimpleNamespace(action_space=space, options=None, action_schema=None)).kind == suggests


def make_agent(workspace: Any, slug: str, kind: str = "CUSTOM", **version: Any) -> Any:
    agent = AgentFactory(workspace=workspace, slug=slug, kind=kind)
    if kind != "CUSTOM":
        setup = KINDS[kind]
        version = {"action_space": setup.action_space, "action_schema": action_schema(setup), "options": setup.options}
    AgentVersionFactory(agent=agent, **version)
    return agent


def judge(decision: Any, right: Any) -> None:
    """As a reviewer who knows the right action."""
    agrees = decision.action == right
    LabelFactory(
        decision=decision,
        verdict="confirmed" if agrees else "corrected",
        corrected_action=None if agrees else right,
    )


def suggestions_of(agent: Any) -> dict[Any, LabelSuggestion]:
    return {one.decision_id or one.episode_id: one for one in LabelSuggestion.objects.filter(agent=agent)}


@pytest.mark.slow
@pytest.mark.django_db
class TestSuggestionsOfEveryKind:
    def test_fields_of_a_structured_action_and_the_whole(self, workspace: Any, api: Any) -> None:
        agent, rng, open_ones = make_agent(workspace, "notes-filer", "FILER"), random.Random(1), {}
        for number in range(132):
            topic = list(WORDS)[number % 3]
            right = FILED[topic]
            acted = {**(right if number % 4 else FILED["finance"]), "labels": [topic], "confidence": 0.7}
            decision = DecisionFactory(
                agent=agent, state={"item": {"title": say(rng, topic)}}, options=None, action=acted
            )
            if number < 120:
                wrong = {name: acted.get(name) for name in right} != right
                judge(decision, {**right, "labels": [topic]} if wrong else acted)
            else:
                open_ones[decision.id] = (decision, right)
        made = suggest_labels(agent)
        assert (made.suggests, made.labels, made.reason, made.about) == ("fields", 120, "", "")
        assert made.accuracy is not None and made.accuracy >= 0.9
        assert made.baseline == pytest.approx(1 / 3, abs=0.01)
        assert made.precision is not None and made.precision >= 0.95
        assert {one["field"] for one in made.fields} == {"status", "swimlane", "priority"}
        found = suggestions_of(agent)
        assert len(found) == made.suggested >= 6
        for pk, one in found.items():
            decision, right = open_ones[pk]
            if one.action is not None:
                kept = {name: value for name, value in one.action.items() if name in {"status", "swimlane", "priority"}}
                assert kept == right
                assert one.verdict == ("confirmed" if one.action == decision.action else "corrected")
                assert one.action["labels"] == decision.action["labels"]
            for field in one.fields:
                assert field["value"] == right.get(field["field"])
        client = api("export:read")
        told = client.get("agents/notes-filer/auto-labeler").json()
        assert (told["suggests"], len(told["fields"])) == ("fields", 3)
        shown = client.get("agents/notes-filer/suggestions").json()["results"][0]
        assert {"decision", "verdict", "action", "fields", "confidence"} <= set(shown)

    def test_fields_alone_where_the_rest_cannot_be_enumerated(self, workspace: Any) -> None:
        agent, rng = make_agent(workspace, "notes-storer", "STORER"), random.Random(1)
        for number in range(110):
            topic = ["finance", "travel"][number % 2]
            acted = {"integrationDecision": "INTEGRATE", "method": "APPEND", "location": f"part {number}"}
            if topic == "travel":
                acted = {"integrationDecision": "COLD_STORAGE"}
            decision = DecisionFactory(
                agent=agent,
                state={"completedItem": {"title": say(rng, topic)}, "targetOpus": {}},
                options=None,
                action=acted,
            )
            if number < 100:
                judge(decision, acted)
        made = suggest_labels(agent)
        assert made.suggested >= 5 and made.precision is None and made.reason == ""
        assert "location" in made.about
        for one in suggestions_of(agent).values():
            assert (one.action, one.verdict) == (None, "")
            assert all(field["confidence"] >= 0.9 for field in one.fields)

    @pytest.mark.parametrize("space", ["offered", "ranking"])
    def test_an_item_that_belongs_first(self, space: str, workspace: Any) -> None:
        """The shortest one does: no item is ever seen again, so what it is like has to tell."""
        if space == "offered":
            agent = make_agent(workspace, "notes-prioritizer", "PRIORITIZER")
        else:
            agent = make_agent(workspace, "ranker", action_space="ranking", options=None)
        rng, right_of = random.Random(1), {}
        for number in range(140):
            items = [
                {"id": f"i{number}-{place}", "title": say(rng, rng.choice(list(WORDS))), "minutes": minutes}
                for place, minutes in enumerate(rng.sample(range(5, 200), 4))
            ]
            ids = [item["id"] for item in items]
            shortest = min(items, key=lambda item: item["minutes"])["id"]
            chosen = shortest if number % 2 else rng.choice(ids)
            others = [one for one in ids if one != chosen]
            acted: Any = {"recommended_item_id": chosen, "confidence": 0.5} if space == "offered" else [chosen, *others]
            right: Any = {"recommended_item_id": shortest}
            if space == "ranking":
                right = [shortest, *(one for one in ids if one != shortest)]
            decision = DecisionFactory(
                agent=agent,
                state={"todoItems": items, "userContext": "tired"},
                options=None if space == "offered" else ids,
                action=acted,
            )
            if number < 120:
                judge(decision, acted if chosen == shortest else right)
            else:
                right_of[decision.id] = (decision, shortest)
        made = suggest_labels(agent)
        assert made.suggests == ("fields" if space == "offered" else "first")
        assert made.accuracy is not None and made.accuracy >= 0.9 and made.baseline == pytest.approx(0.25)
        found = suggestions_of(agent)
        assert len(found) == made.suggested >= 10
        for pk, one in found.items():
            decision, shortest = right_of[pk]
            first = one.action["recommended_item_id"] if space == "offered" else one.action[0]
            assert first == shortest
            assert (one.action == decision.action) == (one.verdict == "confirmed")
            if space == "ranking":
                assert sorted(one.action) == sorted(decision.options)

    def test_labels_of_traces_of_decisions_and_of_whole_episodes(self, workspace: Any) -> None:
        """A trace was right unless its tool failed; half of the verdicts come from an app, some are on episodes."""
        agent = make_agent(workspace, "isaa", action_space="text", options=None)
        rng, right_of = random.Random(1), {}
        for number in range(150):
            right = number % 3 != 0
            state, answer = {"query": say(rng, "travel")}, say(rng, rng.choice(["finance", "health"]))
            if number % 5 == 4:
                subject = EpisodeFactory(agent=agent, query=state["query"], final_response=answer)
                known: dict[str, Any] = {"episode": subject}
            else:
                subject = DecisionFactory(agent=agent, state=state, options=None, action=answer)
                known = {"decision": subject, "episode": None, "workspace": workspace}
            StepFactory(**known, name="search", success=right)
            if number >= 125:
                right_of[subject.id] = right
            elif number % 2 and "decision" in known:
                FeedbackFactory(decision=subject, value="confirmed" if right else "corrected", source="human")
            else:
                of = {"decision": None, "episode": subject, "workspace": workspace}
                of = {"decision": subject} if known["episode"] is None else of
                LabelFactory(**of, verdict="confirmed" if right else "overridden")
        made = suggest_labels(agent)
        assert (made.suggests, made.labels, made.about) == (
            "verdict",
            125,
            "The action is free text, so only the verdict is suggested.",
        )
        assert made.accuracy is not None and made.accuracy >= 0.95 and made.baseline == pytest.approx(2 / 3, abs=0.02)
        found = suggestions_of(agent)
        assert len(found) == made.suggested >= 20
        assert {one.verdict for one in found.values()} == {"confirmed", "corrected"}
        for pk, one in found.items():
            assert (one.verdict == "confirmed") == right_of[pk]
            assert (one.action is not None) == (one.verdict == "confirmed" and one.decision_id is not None)
        assert {one.episode_id is None for one in found.values()} == {True, False}

    def test_an_episode_of_one_decision_is_asked_about_once(
        self, workspace: Any, by: Any, owner: Any, page_client: Any
    ) -> None:
        """By its decision, whose suggestion stands on the episode's card, too; one whose decision was judged is not."""
        agent, rng = make_agent(workspace, "isaa", action_space="text", options=None), random.Random(1)
        made = []
        for number in range(130):
            episode = EpisodeFactory(agent=agent, query=f"q{number}")
            answer = say(rng, "finance" if number % 2 else "health", noise=0)
            decision = DecisionFactory(agent=agent, episode=episode, options=None, action=answer)
            if number < 120:
                LabelFactory(decision=decision, verdict="confirmed" if number % 2 else "corrected")
            made.append(decision)
        suggest_labels(agent)
        found = LabelSuggestion.objects.all()
        assert {one.decision_id for one in found} == {one.id for one in made[120:]}
        create_queue(
            by=by,
            slug="whole",
            setup=QueueSetup(name="Whole", subject="episode", filters={"agent": "isaa"}, strategy="sequential"),
        )
        LabelSuggestion.objects.filter(decision=made[120]).update(confidence=0.987)
        for decision in made[:120]:
            LabelFactory(decision=None, episode=decision.episode, workspace=workspace)
        page = page_client(owner).get(reverse("pages:label-queue-work", args=[workspace.slug, "whole"]))
        assert "q120" in page.content.decode() and "98.7%" in page.content.decode()

    def test_options_that_come_with_each_decision_are_told_apart_by_what_they_are_like(self, workspace: Any) -> None:
        agent, rng = make_agent(workspace, "picker", options=None), random.Random(1)
        for number in range(110):
            items = [{"id": f"o{number}-{place}", "urgent": place == number % 3} for place in range(3)]
            right = items[number % 3]["id"]
            state = {"choices": items, "text": say(rng, "travel")}
            decision = DecisionFactory(agent=agent, state=state, options=[one["id"] for one in items], action=right)
            if number < 100:
                judge(decision, right)
        made = suggest_labels(agent)
        assert made.suggested == 10 and made.accuracy == 1.0

    def test_labels_that_tell_nothing_suggest_nothing_and_say_so(self, workspace: Any) -> None:
        agent, rng = make_agent(workspace, "ranker", action_space="ranking", options=["a", "b", "c"]), random.Random(1)
        for number in range(90):
            acted = rng.sample(["a", "b", "c"], 3)
            decision = DecisionFactory(
                agent=agent, state={"text": say(rng, "travel")}, options=["a", "b", "c"], action=acted
            )
            if number < 80:
                judge(decision, acted)
        made = suggest_labels(agent)
        assert made.suggested == 0 and made.precision is None
        assert made.reason.startswith("No confidence is high enough")
        assert made.accuracy is not None and made.accuracy < 0.7


@pytest.mark.django_db
def test_what_cannot_be_suggested_has_its_reason_before_anybody_asks(workspace: Any, api: Any) -> None:
    make_agent(workspace, "single", options=["only"])
    AgentFactory(workspace=workspace, slug="bare")
    client = api("admin", "export:read")
    for slug, reason in (("single", "it has only one option"), ("bare", "it has no version, so it cannot decide")):
        answer = client.post(f"agents/{slug}/suggestions")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "nothing_to_suggest")
        assert answer.json()["error"]["message"] == f"Nothing can be suggested for {slug}: {reason}."
        assert client.get(f"agents/{slug}/auto-labeler").json()["reason"] == answer.json()["error"]["message"]
    make_agent(workspace, "writer", action_space="text", options=None)
    assert client.get("agents/writer/auto-labeler").json()["suggests"] == "verdict"
    assert client.post("agents/writer/suggestions").status_code == 202
    assert not AutoLabeler.objects.exists()
