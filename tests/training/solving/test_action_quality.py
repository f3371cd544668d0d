"""How well episodes went over time, over API and page: by version, of those with an outcome, with what people said."""

import datetime as dt

import pytest
from django.utils import timezone

from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import FeedbackIn
from tools.factories import AliasFactory, DecisionFactory, EpisodeFactory, ModelVersionFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def play(agent, by):
    """`play(version, …)`: an episode of so many steps, as `solve` records it."""

    def make(version, task, *rewards, days=0, domain="math", **outcome):
        moment = timezone.now() - dt.timedelta(days=days)
        episode = EpisodeFactory(agent=agent, external_id=f"solve:{task}{days}{version}", started_at=moment)
        told = [
            FeedbackIn(metric=name, value=value, episode_id=episode.id, source="code")
            for name, value in outcome.items()
        ]
        for number, reward in enumerate(rewards, start=1):
            state = {"domain": domain, "observation": "x", "text": "x"}
            row = DecisionFactory(
                agent=agent, episode=episode, step_number=number, model_version=version, policy_name=None,
                item_ref=task, state=state,
            )  # fmt: skip
            told.append(FeedbackIn(metric="step_reward", value=reward, decision_id=row.id, source="code"))
        assert record_feedback(by=by, items=list(enumerate(told))).errors == []
        return episode

    return make


@pytest.fixture
def versions(agent):
    first, second = ModelVersionFactory.create_batch(2, registered_model=agent.registered_model)
    AliasFactory(version=second)
    return first, second


def test_measures_are_of_episodes_with_an_outcome_by_day_and_version(
    play, versions, api, by, page_client, viewer, workspace
):
    first, second = versions
    play(first, "a", 1.0, 0.0, days=2, solved=False, score=0.25, finished=True)
    play(first, "b", 2.0, 0.0, days=2, solved=True, score=1.0, finished=True)
    good = play(second, "a", 1.0, 2.0, 3.0, solved=True, score=1.0, finished=True)
    play(second, "c", 0.0, domain="words", solved=False, score=0.5, finished=False)
    play(second, "d", 1.0, interrupted="backend_unavailable")
    decision = good.decisions.first()
    verdict = FeedbackIn(metric="verdict", value="confirmed", decision_id=decision.id)
    wrong = record_feedback(by=by, items=[(0, FeedbackIn(metric="stars", value=1, episode_id=good.id))]).kept[0].id
    better = FeedbackIn(metric="stars", value=4, episode_id=good.id, supersedes=wrong)
    assert record_feedback(by=by, items=[(0, verdict), (1, better)]).errors == []
    told = api("export:read").get("agents/filer/action-quality?since=7d").json()
    assert (told["by"], told["complete"], told["total"]["episodes"], told["total"]["left_out"]) == ("day", True, 4, 1)
    old, new = told["rows"]
    assert (old["model_version"], new["model_version"]) == (str(first), str(second))
    assert [old[name] for name in ("episodes", "solved", "score", "steps", "progress", "finished")] == [
        2,
        0.5,
        0.625,
        2,
        0.5,
        1,
    ]
    assert (new["episodes"], new["left_out"], new["steps"], new["progress"], new["finished"]) == (2, 1, 2, 0.75, 0.5)
    assert new["solved_by_domain"] == {"math": 1.0, "words": 0.0}
    assert new["feedback"] == [
        {"metric": "stars", "count": 1, "mean": 4.0},
        {"metric": "verdict", "count": 1, "mean": 1.0},
    ]
    page = page_client(viewer).get(f"/w/{workspace.slug}/agents/filer/action-quality?since=7d")
    assert page.status_code == 200
    text = page.content.decode()
    assert str(first) in text
    assert "62.5%" in text


def test_episodes_that_a_run_was_measured_by_are_no_live_ones(play, versions, agent, api, by):
    play(versions[1], "a", 1.0, solved=True, score=1.0, finished=True)
    for which in ("base", "trained"):
        measured = EpisodeFactory(agent=agent, external_id=f"1/{which}/b", session="held-out/1")
        said = [
            FeedbackIn(metric=name, value=value, episode_id=measured.id, source="code")
            for name, value in (("score", 0.0), ("solved", False), ("reward", 0.5))
        ]
        assert record_feedback(by=by, items=list(enumerate(said))).errors == []
    total = api("export:read").get("agents/filer/action-quality?since=7d").json()["total"]
    assert (total["episodes"], total["left_out"], total["solved"], total["score"]) == (1, 0, 1.0, 1.0)


def test_nothing_is_measured_without_episodes(agent, api, page_client, viewer, workspace):
    told = api("export:read").get("agents/filer/action-quality").json()
    assert (told["rows"], told["total"]["episodes"], told["total"]["solved"]) == ([], 0, None)
    page = page_client(viewer).get(f"/w/{workspace.slug}/agents/filer/action-quality")
    assert "No episodes with an outcome" in page.content.decode()
