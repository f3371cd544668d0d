"""Erasure of a person whose chats were traced: what hangs together by links goes together."""

from __future__ import annotations

import pytest

from decisions.erasure.counts import count_person
from decisions.models import Decision, Episode, Step
from decisions.models.tombstones import ERASED_HASH
from tests.decisions.erasure.test_erased_decisions import ANN, erase, texts_of
from tools.factories import EpisodeFactory, ExposureFactory, StepFactory, uuid7

pytestmark = pytest.mark.django_db


def test_the_trace_of_an_erased_decision_goes_with_it_though_its_client_named_another_episode(agent, judged):
    named = EpisodeFactory(agent=agent, unit="ann")
    decision = judged("confirmed", unit="ann", episode=named, state={"text": "Ann's note"})
    words = {"query": "Where is Ann's file?", "final_response": "In Ann's folder."}
    trace = EpisodeFactory(agent=agent, trace="ab" * 16, **words)
    StepFactory(decision=decision, episode=trace, result={"found": "Ann"})
    StepFactory(episode=trace, kind="tool_call", arguments={"folder": "Ann"})
    other = EpisodeFactory(agent=agent, trace="cd" * 16, query="Where is Bob's file?")
    promised = count_person(workspace=agent.workspace, person=ANN)
    counts = erase(agent.workspace)
    assert (counts["episodes"], counts["steps"]) == (promised["episodes"], promised["steps"]) == (2, 2)
    assert texts_of("Ann") == []
    assert all(bytes(step.content_hash) == ERASED_HASH for step in Step.objects.all())
    assert Episode.objects.get(id=other.id).query == "Where is Bob's file?"


@pytest.mark.parametrize("in_experiment", [False, True])
def test_a_chat_that_had_no_unit_but_its_id_is_that_of_its_trace_s_person(agent, judged, in_experiment):
    episode = EpisodeFactory(agent=agent, unit="ann", trace="ab" * 16)
    key = uuid7()
    exposure = ExposureFactory(workspace=agent.workspace, unit=str(key)) if in_experiment else None
    decision = judged(
        "confirmed", id=key, unit=str(key), episode=episode, exposure=exposure, state={"text": "Ann's note"}
    )
    other = judged("confirmed", unit="bob", episode=episode, state={"text": "Bob's note"})
    erase(agent.workspace)
    assert bytes(Decision.objects.get(id=decision.id).content_hash) == ERASED_HASH
    assert texts_of("Ann") == []
    assert Decision.objects.get(id=other.id).state == {"text": "Bob's note"}
