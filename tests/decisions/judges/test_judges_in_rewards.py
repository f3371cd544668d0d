"""Judges in rewards: named in a spec only while calibrated, left out once they drift, and nothing changes unasked."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from decisions.errors import InvalidRewardSpec
from decisions.judges.calibrating import calibrate_judge
from decisions.judges.ledger import JudgeName
from decisions.models import Decision, JudgeCalibration, Reward, RewardProgress
from decisions.pages.reward_form import write_content
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.revising import revise_reward_spec
from decisions.rewards.spec_content import SpecContent, compare_contents, read_content
from decisions.rewards.specs import content_of, current_reward_spec
from decisions.rewards.what_if import draft_reward_spec, try_draft
from tests.decisions.judges.conftest import feedback
from tools.factories import EpisodeFactory, JudgeCalibrationFactory

pytestmark = pytest.mark.django_db
HELPFUL = JudgeName("helpful")


def content(*judges: str, named: bool = True) -> SpecContent:
    rules = [
        {"name": f"rule.{name}", "weight": 1.0, "rule": {"text": f"measures.{name}", "low": 0, "high": 1}}
        for name in ("helpful", "polite")
    ]
    return read_content({"components": rules} | ({"judges": list(judges)} if named else {}))


def revise(by: Any, agent: Any, wanted: SpecContent) -> Any:
    newest = current_reward_spec(agent)
    return revise_reward_spec(by=by, agent=agent, expected=newest.number, content=wanted).spec


def valued(spec: Any) -> set[tuple[str, ...]]:
    """The components that the newest rewards have a value of."""
    newest = Reward.objects.filter(spec=spec).order_by("decision_id", "-version").distinct("decision_id")
    return {tuple(sorted(one.components)) for one in newest}


def judge(agent: Any, verdict: str, *reasons: str) -> None:
    """Its next calibration."""
    JudgeCalibrationFactory(agent=agent, verdict=verdict, reasons=list(reasons), assessment={})


def test_a_spec_names_calibrated_judges_alone_and_leaves_out_those_that_drift(
    agent: Any, by: Any, score: Callable[..., None]
) -> None:
    score(300, labels=99)
    calibrate_judge(by=by, agent=agent, judge=HELPFUL)
    with pytest.raises(InvalidRewardSpec) as refused:
        revise(by, agent, content("helpful", "polite"))
    told = {fault.field: fault for fault in refused.value.faults}
    assert set(told) == {"judges[0]", "judges[1]"} and agent.reward_specs.count() == 1
    assert told["judges[0]"].reason == "helpful is refused: 99 scored decisions have a label, 100 are needed."
    assert told["judges[1]"].reason == "polite was never calibrated against people."
    assert "manage.py calibrate_judge filer polite" in told["judges[1]"].expected

    score(100, labels=60, seed=5)
    assert calibrate_judge(by=by, agent=agent, judge=HELPFUL).verdict == "calibrated"
    said = [feedback(one, "polite", "llm", 1.0, timezone.now()) for one in Decision.objects.all()[:5]]
    said += [feedback(Decision.objects.order_by("-id")[0], "polite", "human", 0.5, timezone.now())]
    type(said[0]).objects.bulk_create(said)
    spec = revise(by, agent, content("helpful"))
    assert calculate_rewards(spec).processed == 400
    # Nobody named polite: of it a person counts, and no judge model.
    assert valued(spec) == {("rule.helpful",), ("rule.helpful", "rule.polite")}
    assert Reward.objects.filter(spec=spec, components__has_key="rule.polite").count() == 1

    # It drifts an hour after the last search: what it said is looked at again, although none of it is new.
    back = timezone.now() - dt.timedelta(hours=1)
    JudgeCalibration.objects.update(made_at=back - dt.timedelta(hours=1))
    RewardProgress.objects.filter(spec=spec).update(searched_until=back)
    judge(agent, "drifted", "Its errors have changed since 2026-11-20.")
    out = io.StringIO()
    call_command("calculate_rewards", "--json", stdout=out)
    done = json.loads(out.getvalue())
    assert done["processed"] == 400 and valued(spec) == {(), ("rule.polite",)}
    assert Reward.objects.filter(spec=spec, version=2, value__isnull=True).count() == 399  # unknown, not 0
    (left,) = done["judges_left_out"]
    assert (left["agent"], left["judge"]) == ("filer", "helpful")
    assert left["reason"] == "helpful is drifted: Its errors have changed since 2026-11-20."
    assert calculate_rewards(spec).processed == 0
    with pytest.raises(InvalidRewardSpec):
        revise(by, agent, content("helpful", "helpful"))

    RewardProgress.objects.filter(spec=spec).update(searched_until=back)
    judge(agent, "calibrated")
    assert calculate_rewards(spec).processed == 400
    assert valued(spec) == {("rule.helpful",), ("rule.helpful", "rule.polite")}


def test_a_spec_that_names_no_judges_counts_all_feedback_as_before(
    agent: Any, by: Any, score: Callable[..., None]
) -> None:
    score(6)
    before = revise(by, agent, content(named=False))
    assert (before.judges, content_of(before).judges) == (None, None)
    assert calculate_rewards(before).processed == 6 and valued(before) == {("rule.helpful",)}
    # An empty list is something else: no judge model counts, on episodes neither.
    episode = EpisodeFactory(agent=agent, workspace=agent.workspace)
    Decision.objects.update(episode=episode)
    on_episode = feedback(Decision.objects.all()[0], "outcome", "llm", 1.0, timezone.now())
    on_episode.decision, on_episode.episode = None, episode
    on_episode.save(force_insert=True)
    outcome = {"name": "episode.outcome", "parameters": {"metric": "outcome"}}
    helpful = {"name": "rule.helpful", "rule": {"text": "measures.helpful", "low": 0, "high": 1}}
    told = {"components": [helpful, outcome]}
    draft = draft_reward_spec(by=by, agent=agent, expected=before.number, content=read_content(told | {"judges": []}))
    found = try_draft(draft)
    assert (found.before.valued, found.after.valued) == (6, 0)
    everyone = read_content(told)
    spec = revise(by, agent, everyone)
    calculate_rewards(spec)
    assert valued(spec) == {("episode.outcome", "rule.helpful")}
    changes = compare_contents(content_of(spec), read_content(told | {"judges": []}))
    assert ("judges", None, []) in [(one.field, one.before, one.after) for one in changes]


def test_the_page_and_the_api_say_which_judge_is_left_out(agent: Any, owner: Any, page_client: Any, api: Any) -> None:
    judge(agent, "calibrated")
    client, path = page_client(owner), reverse("pages:agent-rewards-edit", args=[agent.workspace.slug, agent.slug])
    shown = {"base": 1, "seen": "", **write_content(content_of(current_reward_spec(agent)))}
    posted = {name: "" if value is None else value for name, value in shown.items() if value is not False}
    page = client.post(path, posted | {"judged": "named", "judges": "helpful\npolite\n"}).content.decode()
    assert "polite was never calibrated against people" in page and "helpful was" not in page
    assert "All feedback counts; choose" in client.post(path, posted | {"judges": "helpful"}).content.decode()

    url = f"/api/v1/agents/{agent.slug}/reward-specs"
    told = {"expected_number": 1, "components": [{"name": "verdict"}], "judges": ["helpful"]}
    answer = api("admin").post(url, told, format="json")
    assert answer.status_code == 201 and answer.json()["judges"] == ["helpful"]
    judge(agent, "drifted", "It errs otherwise.")
    read = api("export:read").get(f"{url}/2").json()
    assert read["judges_left_out"] == {"helpful": "helpful is drifted: It errs otherwise."}
    page = client.get(reverse("pages:agent-rewards", args=[agent.workspace.slug, agent.slug])).content.decode()
    assert "A judge is left out of the rewards. helpful is drifted: It errs otherwise." in page
