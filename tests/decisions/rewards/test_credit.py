"""What an episode earned reaches its decisions by the spec's scheme, whatever comes late."""

import datetime as dt

import pytest
from django.utils import timezone

from decisions.models import CreditScheme, Reward, RewardSpec
from decisions.rewards.calculate import Calculated, calculate_rewards
from decisions.rewards.credit import SCHEMES, credit
from decisions.rewards.specs import current_reward_spec
from tools.factories import DecisionFactory, EpisodeFactory, FeedbackFactory, StepFactory

HOUR = dt.timedelta(hours=1)


def test_the_schemes_are_those_that_a_spec_may_name():
    assert set(SCHEMES) == set(CreditScheme.values)


@pytest.mark.parametrize(
    ("scheme", "others", "expected"),
    [
        ("equal", [], [2.0, 2.0, 2.0]),
        ("last_step", [], [0.0, 0.0, 2.0]),
        ("return_to_go", [], [0.5, 1.0, 2.0]),
        ("leave_one_out", [1.0, 0.0], [1.5, 1.5, 1.5]),
        ("leave_one_out", [], [None, None, None]),
    ],
)
def test_golden(scheme, others, expected):
    found = [credit(scheme, 2.0, place=place, count=3, discount=0.5, others=others) for place in range(3)]
    assert found == expected


def test_leave_one_out_sums_to_nothing_over_a_group():
    values = [0.2, 1.0, 0.5, 0.9]
    rest = [[one for n, one in enumerate(values) if n != place] for place in range(4)]
    found = [
        credit("leave_one_out", value, place=0, count=1, discount=1.0, others=others)
        for value, others in zip(values, rest, strict=True)
    ]
    assert sum(found) == pytest.approx(0.0)


@pytest.mark.django_db
class TestRewards:
    @pytest.fixture
    def spec_of(self, agent):
        def make(scheme, discount=1.0):
            first = current_reward_spec(agent)
            return RewardSpec.objects.create(
                agent=agent,
                workspace=agent.workspace,
                number=first.number + 1,
                components=[{"name": "trace.tool_success", "weight": 1.0, "parameters": {}}],
                credit=scheme,
                discount=discount,
                spec_hash="0" * 64,
            )

        return make

    def episode(self, agent, *successes, decisions=2, query="Find the invoice", session=""):
        episode = EpisodeFactory(agent=agent, query=query, session=session)
        for success in successes:
            StepFactory(episode=episode, success=success)
        return episode, [DecisionFactory(agent=agent, episode=episode, step_number=n) for n in range(decisions)]

    def credits(self, decisions):
        found = {}
        for reward in Reward.objects.filter(decision__in=decisions).order_by("version"):
            [part] = reward.components.values()
            found[reward.decision_id] = part.get("credit", part["value"])
        return [found.get(decision.id) for decision in decisions]

    def test_each_decision_by_its_place_and_a_later_one_changes_those_before(self, spec_of, agent):
        spec = spec_of("return_to_go", 0.5)
        episode, decisions = self.episode(agent, True, False)
        assert calculate_rewards(spec) == Calculated(2, 0)
        assert self.credits(decisions) == [0.25, 0.5]
        decisions.append(DecisionFactory(agent=agent, episode=episode, step_number=2))
        assert calculate_rewards(spec) == Calculated(3, 0)
        assert self.credits(decisions) == [0.125, 0.25, 0.5]
        assert calculate_rewards(spec) == Calculated()

    def test_a_late_step_reaches_every_decision(self, spec_of, agent):
        spec = spec_of("last_step")
        episode, decisions = self.episode(agent, True)
        calculate_rewards(spec)
        StepFactory(episode=episode, success=False)
        calculate_rewards(spec)
        assert self.credits(decisions) == [0.0, 0.5]

    def test_episodes_of_one_query_are_compared_and_another_one_changes_them(self, spec_of, agent):
        spec = spec_of("leave_one_out")
        _, good = self.episode(agent, True, True)
        assert calculate_rewards(spec) == Calculated()  # nothing to compare with: the reward waits
        _, bad = self.episode(agent, False, query=" find the INVOICE ")
        self.episode(agent, False, query="Pay it")
        self.episode(agent, True, session="held-out/1", decisions=0)  # a run's measurement served nobody
        calculate_rewards(spec)
        assert (self.credits(good), self.credits(bad)) == ([1.0, 1.0], [-1.0, -1.0])
        self.episode(agent, True)
        calculate_rewards(spec)
        assert (self.credits(good), self.credits(bad)) == ([0.5, 0.5], [-1.0, -1.0])

    def test_feedback_on_the_episode_is_a_fact_of_its_trace(self, spec_of, agent):
        spec = spec_of("equal")
        spec = RewardSpec.objects.create(
            agent=agent,
            workspace=agent.workspace,
            number=spec.number + 1,
            components=[{"name": "episode.outcome", "weight": 1.0, "parameters": {}}],
            spec_hash="1" * 64,
        )
        episode, decisions = self.episode(agent)
        calculate_rewards(spec)
        assert self.credits(decisions) == [None, None]
        early = timezone.now() - HOUR
        FeedbackFactory(decision=None, workspace=agent.workspace, episode=episode, metric="reward", value=1)
        FeedbackFactory(
            decision=None, workspace=agent.workspace, episode=episode, metric="reward", value=0, observed_at=early
        )
        calculate_rewards(spec)
        assert self.credits(decisions) == [1.0, 1.0]
