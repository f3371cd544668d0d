"""What-if: a draft is compared with the current reward spec over history, writes no reward, and is published or
dropped."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from decisions.errors import DraftPublished, OutdatedVersion
from decisions.models import Reward, RewardDraft, RewardDue
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.comparison import BINS, Case, compare_cases
from decisions.rewards.revising import revise_reward_spec
from decisions.rewards.specs import ComponentSetup, SpecContent, current_reward_spec
from decisions.rewards.valuing import Valued, normalise
from decisions.rewards.what_if import draft_reward_spec, drop_draft, publish_draft, try_draft
from jobs.models import Job
from jobs.runner import run_job
from tools.factories import DecisionFactory, FeedbackFactory, ModelVersionFactory
from workspaces.models import AuditEntry

DRAFT = {"components": [{"name": "verdict", "weight": -1}], "expected_number": 1}


def valued(raw: float | None) -> Valued:
    if raw is None:
        return Valued({"verdict": {"error": "unknown"}}, None, None)
    return Valued({"verdict": {"value": raw}}, raw, normalise(raw))


def case(number: int, before: float | None, after: float | None, actor: str = "a:1") -> Case:
    return Case(f"d{number:03}", actor, f"u{number}", valued(before), valued(after))


class TestComparing:
    def test_means_ranks_and_movers_are_those_worked_out_by_hand(self) -> None:
        cases = [case(1, 0.0, 2.0), case(2, 1.0, 1.0), case(3, 2.0, 0.0), case(4, None, 1.0), case(5, 1.0, None)]
        found = compare_cases(cases, population=9, seed=1)
        assert (found.sampled, found.population, found.both, found.changed) == (5, 9, 3, 2)
        assert found.rank_correlation == pytest.approx(-1.0)
        assert [one.decision for one in found.movers] == ["d001", "d003"]  # d002 keeps its rank
        first = found.movers[0]
        assert (first.before, first.after) == (0.5, 1.0)
        assert (first.rank_before, first.rank_after) == (pytest.approx(0.5 / 3), pytest.approx(2.5 / 3))
        assert (found.before.valued, found.before.failed, found.before.failures) == (4, 1, (("verdict", 1),))
        assert found.before.reward is not None and found.before.reward.mean == pytest.approx(0.75)
        assert sum(found.before.histogram) == 4 and len(found.before.histogram) == BINS
        assert found.before.histogram[-1] == 1  # a reward of 1 is in the last bin

    def test_equal_rewards_share_a_rank(self) -> None:
        found = compare_cases([case(n, float(n // 2), float(n)) for n in range(4)], population=4, seed=1)
        # Ranks 1.5, 1.5, 3.5, 3.5 against 1, 2, 3, 4.
        assert found.rank_correlation == pytest.approx(4 / (4 * 5) ** 0.5)

    def test_where_nothing_differs_there_is_no_order_to_correlate(self) -> None:
        found = compare_cases([case(n, 1.0, 1.0) for n in range(3)], population=3, seed=1)
        assert (found.rank_correlation, found.movers, found.changed) == (None, (), 0)
        assert compare_cases([], population=0, seed=1).before.reward is None

    def test_a_version_wins_clearly_where_its_interval_lies_above_the_others(self) -> None:
        better = [case(n, 0.2 + n / 1000, 0.1, "a:2") for n in range(30)]
        worse = [case(n + 50, -0.2 - n / 1000, (n % 5) / 10, "a:1") for n in range(30)]
        found = compare_cases([*better, *worse], population=60, seed=1)
        assert found.leader_before is not None and (found.leader_before.actor, found.leader_before.clear) == (
            "a:2",
            True,
        )
        assert found.leader_after is not None and found.leader_after.actor == "a:1"
        assert [line.before.n for line in found.versions] == [30, 30]
        alone = compare_cases(better, population=30, seed=1)
        assert alone.leader_before is None and alone.leader_after is None


@pytest.mark.django_db
class TestDrafts:
    @pytest.fixture
    def judged(self, agent: Any) -> list[Any]:
        """Eight decisions of two versions: the second is confirmed more often; and one that nobody judged."""
        first, second = ModelVersionFactory.create_batch(2, registered_model=agent.registered_model)
        made = []
        for number in range(8):
            version = first if number < 4 else second
            decision = DecisionFactory(agent=agent, model_version=version, policy_name=None, unit=f"u{number}")
            FeedbackFactory(decision=decision, value="confirmed" if number >= 3 else "corrected")
            made.append(decision)
        DecisionFactory(agent=agent)
        calculate_rewards(current_reward_spec(agent))
        return made

    def state(self, agent: Any) -> tuple[Any, ...]:
        specs = list(agent.reward_specs.values_list("number", "spec_hash"))
        return specs, list(Reward.objects.order_by("decision_id").values_list("decision_id", "spec", "version", "raw"))

    def test_a_draft_is_valued_published_and_calculated(self, api: Any, agent: Any, judged: Any) -> None:
        client, before = api(), self.state(agent)
        made = client.post("agents/filer/reward-drafts", DRAFT)
        assert made.status_code == 202 and made.json()["state"] == "queued" and made.json()["result"] is None
        path = f"agents/filer/reward-drafts/{made.json()['id']}"
        run_job(RewardDraft.objects.get().job_id)
        assert self.state(agent) == before and not RewardDue.objects.exists()  # nothing but the draft
        found = client.get(path).json()
        result = found["result"]
        assert (found["state"], found["base"], found["published"]) == ("succeeded", 1, None)
        assert (result["population"], result["sampled"], result["both"]) == (8, 8, 8)
        assert result["before"]["reward"]["mean"] == pytest.approx((5 * 0.75 + 3 * 0.375) / 8)
        assert result["after"]["reward"]["mean"] == pytest.approx((5 * 0.25 + 3 * 0.625) / 8)
        assert result["rank_correlation"] == pytest.approx(-1.0)
        assert result["leader_before"]["actor"] != result["leader_after"]["actor"]
        assert [line["before"]["n"] for line in result["versions"]] == [4, 4]
        done = client.post(f"{path}/publish")
        assert (done.status_code, done.json()["number"]) == (201, 2), done.content
        run_job(Job.objects.get(id=done.json()["calculation"]["id"]).id)
        assert set(Reward.objects.filter(spec__number=2).values_list("raw", flat=True)) == {-1.0, 0.5}
        again = client.post(f"{path}/publish")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "draft_published")
        assert client.post(f"{path}/drop").status_code == 409
        assert agent.reward_specs.count() == 2 and RewardDraft.objects.get().published.number == 2

    def test_a_dropped_draft_leaves_nothing_but_its_audit(self, api: Any, agent: Any, judged: Any) -> None:
        client, before = api(), self.state(agent)
        made = client.post("agents/filer/reward-drafts", DRAFT).json()
        job = RewardDraft.objects.get().job
        dropped = client.post(f"agents/filer/reward-drafts/{made['id']}/drop")
        assert (dropped.status_code, dropped.json()["id"]) == (200, made["id"])
        assert not RewardDraft.objects.exists() and self.state(agent) == before
        assert Job.objects.get(id=job.id).state == "cancelled"
        assert client.get(f"agents/filer/reward-drafts/{made['id']}").status_code == 404
        assert AuditEntry.objects.filter(action="reward_draft.dropped").count() == 1

    def test_a_draft_of_an_older_version_is_not_published(self, agent: Any, by: Any) -> None:
        draft = draft_reward_spec(
            by=by, agent=agent, expected=1, content=SpecContent((ComponentSetup("verdict", 3.0),))
        )
        revise_reward_spec(by=by, agent=agent, expected=1, content=SpecContent((ComponentSetup("verdict", 2.0),)))
        with pytest.raises(OutdatedVersion):
            publish_draft(by=by, draft=draft)
        draft.refresh_from_db()
        assert draft.published is None and agent.reward_specs.count() == 2
        drop_draft(by=by, draft=draft)

    def test_a_draft_of_no_change_is_refused(self, api: Any, agent: Any) -> None:
        same = {"components": [{"name": "verdict"}], "expected_number": 1}
        answer = api().post("agents/filer/reward-drafts", same)
        assert answer.status_code == 400 and "nothing differs" in answer.json()["error"]["fields"][0]["reason"]
        assert not RewardDraft.objects.exists() and not Job.objects.exists()

    def test_of_more_than_the_most_a_seeded_sample_is_valued(self, agent: Any, by: Any, judged: Any) -> None:
        content = SpecContent((ComponentSetup("verdict", 2.0),))
        draft = draft_reward_spec(by=by, agent=agent, expected=1, content=content)
        first, again = (try_draft(draft, most=3) for _ in range(2))
        assert first == again and (first.sampled, first.population) == (3, 8)

    def test_what_needs_no_feedback_is_valued_for_every_decision(self, agent: Any, by: Any, judged: Any) -> None:
        content = SpecContent((ComponentSetup("verdict", 1.0, {}, 1.0, 0.0),))
        draft = draft_reward_spec(by=by, agent=agent, expected=1, content=content)
        found = try_draft(draft)
        assert (found.population, found.both, found.after.valued) == (9, 8, 8)  # the window of the ninth is open

    def test_publishing_twice_is_refused(self, agent: Any, by: Any) -> None:
        content = SpecContent((ComponentSetup("verdict", 2.0),))
        draft = draft_reward_spec(by=by, agent=agent, expected=1, content=content)
        publish_draft(by=by, draft=draft)
        with pytest.raises(DraftPublished):
            drop_draft(by=by, draft=draft)
        assert RewardDraft.objects.count() == 1 and agent.reward_specs.count() == 2


@pytest.mark.django_db
def test_the_page_shows_the_comparison_and_publishes_or_drops(
    agent: Any, admin: Any, viewer: Any, by: Any, page_client: Any
) -> None:
    for number in range(4):
        FeedbackFactory(decision=DecisionFactory(agent=agent), value="confirmed" if number else "corrected")
    content = SpecContent((ComponentSetup("verdict", -1.0),))
    draft = draft_reward_spec(by=by, agent=agent, expected=1, content=content)

    def at(name: str) -> str:
        return reverse(f"pages:{name}", args=[agent.workspace.slug, agent.slug, draft.id])

    client = page_client(admin)
    waiting = client.get(at("reward-draft")).content.decode()
    assert "Waiting for a worker" in waiting and "every 2s" in waiting and "Publish as version 2" in waiting
    assert client.get(at("reward-draft-status")).status_code == 200
    run_job(draft.job_id)
    done = client.get(at("reward-draft-status"))
    text = done.content.decode()
    assert done.status_code == 286 and "all that can have a reward" in text and "every 2s" not in text
    assert text.count('class="after"') >= 2 and "This comparison is exploratory" in text and "Rank before" in text
    seen = page_client(viewer).get(at("reward-draft")).content.decode()
    assert "Publish as" not in seen and "Drop" not in seen and "exploratory" in seen
    for name in ("publish", "drop"):
        assert page_client(viewer).post(at(f"reward-draft-{name}")).status_code == 403
    assert agent.reward_specs.count() == 1 and RewardDraft.objects.count() == 1
    published = client.post(at("reward-draft-publish"))
    assert published.status_code == 302 and agent.reward_specs.count() == 2
    assert "Published as" in client.get(at("reward-draft")).content.decode()
    other = draft_reward_spec(by=by, agent=agent, expected=2, content=SpecContent((ComponentSetup("verdict", 3.0),)))
    path = reverse("pages:reward-draft-drop", args=[agent.workspace.slug, agent.slug, other.id])
    assert client.post(path).status_code == 302 and RewardDraft.objects.count() == 1
