"""The classifier behind `trace.learned`: what it learns, that it never saw the label of what it scores, and when it is
trained again."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.utils import timezone

from decisions.labelling.labels import label_decision
from decisions.models import Decision, Feedback, MeasurementDue, Reward, TraceClassifier
from decisions.rewards.calculate import Calculated, calculate_rewards
from decisions.rewards.learned_classifier import FEWEST, Judged, TooFewLabels, fit, write_document
from decisions.rewards.measuring import MEASURE
from decisions.rewards.spec_content import ComponentSetup, SpecContent
from decisions.rewards.specs import create_reward_spec
from jobs.models import Job, JobState
from jobs.runner import run_job
from tools.factories import DecisionFactory, EpisodeFactory, FeedbackFactory

GOOD, BAD = ("tested", "checked", "verified", "complete"), ("guessed", "maybe", "unsure", "skipped")
pytestmark = pytest.mark.slow
ANY = ("run", "task", "report", "notes", "short", "long", "there", "were", "some", "results")
OPTIONS = ("finance", "travel")
WORDS = {"finance": ("invoice", "payment", "salary", "refund"), "travel": ("flight", "hotel", "ticket", "passport")}


def respond(rng: random.Random, good: bool) -> str:
    return " ".join([*rng.choices(ANY, k=5), *rng.sample(GOOD if good else BAD, 2)])


def auc(pairs: list[tuple[float, bool]]) -> float:
    """The share of pairs of a right and a wrong one in which the right one scores higher; ties count half."""
    right, wrong = ([score for score, is_right in pairs if is_right is end] for end in (True, False))
    return sum((a > b) + 0.5 * (a == b) for a in right for b in wrong) / (len(right) * len(wrong))


class TestClassifier:
    def test_it_is_calibrated_where_one_label_in_five_is_noise(self) -> None:
        rng = random.Random(1)
        goods = [rng.random() < 0.5 for _ in range(400)]
        documents = [write_document(respond(rng, good)) for good in goods]
        rights = [good if rng.random() < 0.8 else not good for good in goods]
        known = [Judged(place, documents[place], rights[place]) for place in range(200)]
        fitted = fit(known, seed=1)
        scores = [fitted.score(place, documents[place]) for place in range(400)]
        for first, end in ((0, 200), (200, 400)):  # those that it learnt from, cross-fitted; and new ones
            order = sorted(range(first, end), key=lambda place: scores[place])
            shares = []
            for half in (order[:100], order[100:]):
                shares.append(sum(rights[place] for place in half) / 100)
                assert sum(scores[place] for place in half) / 100 == pytest.approx(shares[-1], abs=0.15)
            assert shares[1] - shares[0] > 0.3

    def test_no_trace_is_scored_by_what_saw_its_own_label(self) -> None:
        """Every text has words of its own and labels are coins: who saw a label can only have learnt it by heart."""
        rng = random.Random(1)
        judged = [Judged(place, write_document(f"w{place} v{place}"), rng.random() < 0.5) for place in range(60)]
        assert 0.25 < self.auc_of(judged) < 0.75
        # Another trace of the same text and label, in another fold, is all that it takes.
        twins = [*judged, *(Judged(-1 - one.key, one.document, one.right) for one in judged)]
        assert self.auc_of(twins) > 0.8

    def auc_of(self, judged: list[Judged[int]]) -> float:
        fitted = fit(judged, seed=1)
        return auc([(fitted.score(one.key, one.document), one.right) for one in judged])

    def test_an_action_is_right_or_wrong_for_its_state(self) -> None:
        rng = random.Random(5)

        def draw(key: int) -> Judged[int]:
            topic, action = rng.choice(OPTIONS), rng.choice(OPTIONS)
            return Judged(key, write_document(" ".join(rng.sample(WORDS[topic], 2)), action), topic == action)

        fitted = fit([draw(key) for key in range(200)])
        new = [draw(key) for key in range(1000, 1100)]
        assert auc([(fitted.score(one.key, one.document), one.right) for one in new]) > 0.95

    @pytest.mark.parametrize(("right", "wrong"), [(0, 0), (50, FEWEST - 1), (FEWEST - 1, 50)])
    def test_too_few_labels_of_either_kind_are_refused(self, right: int, wrong: int) -> None:
        judged = [Judged(place, write_document(f"text {place}"), place < right) for place in range(right + wrong)]
        with pytest.raises(TooFewLabels, match=f"{right} traces right and {wrong} wrong; at least 10 of each"):
            fit(judged)


@pytest.mark.django_db
class TestMeasuring:
    @pytest.fixture
    def spec(self, agent: Any, by: Any) -> Any:
        return create_reward_spec(by=by, agent=agent, content=SpecContent([ComponentSetup("trace.learned")]))

    @pytest.fixture
    def trace(self, agent: Any, by: Any) -> Any:
        rng = random.Random(1)

        def make(good: bool, *, judged: bool = True, **fields: Any) -> Decision:
            episode = EpisodeFactory(agent=agent, query="do it", final_response=respond(rng, good))
            decision = DecisionFactory(agent=agent, episode=episode, **fields)
            if judged:
                label_decision(by=by, decision=decision, verdict="confirmed" if good else "corrected")
            return decision

        return make

    def measure(self, spec: Any) -> Any:
        """A calculation, the jobs that it queued, and what the last of them says."""
        calculate_rewards(spec)
        said = None
        for job in Job.objects.filter(kind=MEASURE, state=JobState.QUEUED):
            run_job(job.id)
            job.refresh_from_db()
            assert job.queue == "measuring"
            said = job.result
        return said

    def scores(self) -> dict[Any, dict[str, Any]]:
        """The newest measurement of each decision."""
        found = Feedback.objects.filter(metric="measured.trace.learned").order_by("id")
        return {feedback.decision_id: feedback.value for feedback in found}

    @pytest.mark.slow
    def test_labels_become_rewards_of_traces_that_nobody_judged(self, spec: Any, trace: Any, agent: Any) -> None:
        judged = [trace(place % 2 == 0) for place in range(40)]
        good, bad = trace(True, judged=False), trace(False, judged=False)
        second = DecisionFactory(agent=agent, episode=good.episode)
        assert self.measure(spec) == {"decisions": 43, "refused": {}}
        found = self.scores()
        assert len(found) == 43 and {one["classifier"] for one in found.values()} == {1}
        assert found[good.id]["value"] > 0.6 > 0.4 > found[bad.id]["value"]
        assert found[second.id]["value"] == found[good.id]["value"]  # of the episode
        assert auc([(found[one.id]["value"], place % 2 == 0) for place, one in enumerate(judged)]) > 0.95
        assert calculate_rewards(spec) == Calculated(43, 0)
        assert Reward.objects.get(decision=good).raw == found[good.id]["value"]
        classifier = TraceClassifier.objects.get()
        assert (classifier.version, classifier.right, classifier.wrong, classifier.reason) == (1, 20, 20, "")

    def test_too_few_labels_leave_it_unmeasured_and_more_of_them_measure_all(self, spec: Any, trace: Any) -> None:
        for place in range(18):
            trace(place % 2 == 0)
        refused = self.measure(spec)["refused"]["filer"]
        assert "9 traces right and 9 wrong; at least 10 of each" in refused
        assert TraceClassifier.objects.get().reason == refused
        # Not measured is neither a value nor an error, and asks for nothing until there is something to learn from.
        assert not self.scores() and not Reward.objects.exists() and not MeasurementDue.objects.exists()
        for place in range(10):
            trace(place % 2 == 0)
        self.measure(spec)
        assert len(self.scores()) == 28 and TraceClassifier.objects.get().version == 2

    @pytest.mark.slow
    def test_more_labels_train_the_next_version_which_measures_again(self, spec: Any, trace: Any, agent: Any) -> None:
        for place in range(30):
            trace(place % 2 == 0)
        new = trace(True, judged=False)
        self.measure(spec)
        first = self.scores()[new.id]
        # A later trace is measured by the same classifier, and the others are not measured again.
        later = trace(True, judged=False)
        count = Feedback.objects.filter(metric="measured.trace.learned").count()
        self.measure(spec)
        assert self.scores()[later.id]["classifier"] == 1 and len(self.scores()) == count + 1
        # Verdicts of programs teach nothing, whatever their number.
        for _ in range(12):
            FeedbackFactory(decision=DecisionFactory(agent=agent), value="corrected", source="llm")
        self.measure(spec)
        assert TraceClassifier.objects.get().version == 1
        for place in range(10):
            trace(place % 2 == 0)
        self.measure(spec)
        found = self.scores()
        assert {one["classifier"] for one in found.values()} == {2}
        assert found[new.id]["number"] == 2 and first["number"] == 1
        kept = Feedback.objects.filter(metric="measured.trace.learned", decision=new)
        assert [one.value["classifier"] for one in kept.order_by("id")] == [1, 2]  # only added
        assert calculate_rewards(spec).errors == 0
        assert Reward.objects.filter(decision=new).latest("version").raw == found[new.id]["value"]

    def test_a_trace_is_wrong_if_one_of_its_decisions_was_and_a_withdrawn_verdict_says_nothing(
        self, spec: Any, trace: Any, agent: Any, by: Any
    ) -> None:
        for place in range(22):
            decision = trace(place % 2 == 0)
            if place < 2:  # one right and one wrong trace: both are wrong in the end
                second = DecisionFactory(agent=agent, episode=decision.episode)
                label_decision(by=by, decision=second, verdict="overridden" if place == 0 else "confirmed")
        # What is said of a whole episode counts more than what was said of its decisions.
        for good, verdict in ((True, "corrected"), (True, "corrected"), (False, "confirmed")):
            episode = trace(good).episode
            FeedbackFactory(decision=None, episode=episode, workspace=agent.workspace, value=verdict)
        measured = EpisodeFactory(agent=agent, session="held-out/1", query="do it", final_response="tested and checked")
        FeedbackFactory(decision=None, episode=measured, workspace=agent.workspace, value="confirmed")
        undone = trace(True)
        said = Feedback.objects.get(decision=undone)
        FeedbackFactory(
            decision=undone, metric="verdict_withdrawn", supersedes=said.id, observed_at=timezone.now(), value="x"
        )
        self.measure(spec)
        classifier = TraceClassifier.objects.get()
        assert (classifier.right, classifier.wrong) == (11, 14)
