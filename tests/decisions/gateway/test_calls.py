"""Calls of the gateway, and who answers where the champion cannot: on servers that answer as they are told."""

import datetime as dt

import pytest
from django.utils import timezone

from decisions.gateway.decide import decide
from decisions.ingest.schemas import DecideItem
from decisions.models import Decision
from models_registry.calls.records import Opening, close_abandoned, open_calls
from models_registry.errors import BackendUnavailable
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import AliasName, Backend, Call, Exposure
from models_registry.versions.services import move_alias
from tools.factories import CallFactory
from workspaces.storage.ids import uuid7

pytestmark = pytest.mark.django_db
TEXT = {"text": "flight hotel"}


def ask(by, **fields):
    [answer] = decide(by=by, agent="filer", items=[DecideItem(state=TEXT, **fields)])
    return answer


def test_a_pick_is_explored_around_and_its_propensity_is_exact(agent, by, remote):
    version, server = remote("gpt")
    answers = [ask(by) for _ in range(40)]
    setup = agent.versions.first()
    uniform = setup.epsilon / len(setup.options)
    for answer in answers:
        assert answer.probabilities == pytest.approx(
            (1 - setup.epsilon + uniform, *[uniform] * (len(setup.options) - 1))
        )
    for row in Decision.objects.all():
        assert row.propensity == pytest.approx(
            1 - setup.epsilon + uniform if row.action == setup.options[0] else uniform
        )
        assert (row.confidence, row.model_version, row.tokens_in, row.tokens_out) == (None, version, 20, 3)
        assert float(row.cost) == pytest.approx((20 * 1 + 3 * 10) / 1e6)
    assert len(server.asked) == 40


def test_each_decision_has_its_call(by, remote, api):
    version, _ = remote("gpt")
    answer = ask(by)
    call = Call.objects.get()
    assert (call.id, call.state, call.kind, call.fallback) == (answer.decision_id, "answered", "decide", "")
    assert (call.assigned, call.served, call.backend) == (version, version, Backend.objects.get())
    assert (call.tokens_in, call.tokens_out, float(call.cost)) == (20, 3, pytest.approx(50e-6))
    assert call.opened_at <= call.closed_at


class TestTheFallback:
    @pytest.fixture
    def both(self, agent, by, remote):
        champion, first = remote("gpt")
        spare, second = remote("llama")
        move_alias(by=by, version=spare, name=AliasName.FALLBACK)
        return champion, first, spare, second

    def test_answers_where_the_champion_cannot_and_that_is_recorded(self, by, both):
        champion, first, spare, _ = both
        first.stop()
        answer = ask(by, id=uuid7())
        assert (answer.model_version, answer.fallback) == (spare, True)
        call = Call.objects.get()
        assert (call.state, call.assigned, call.served) == ("answered", champion, spare)
        assert "gpt does not answer" in call.fallback
        assert Decision.objects.get().model_version == spare
        again = ask(by, id=answer.decision_id)
        assert (again.model_version, again.action, again.fallback) == (spare, answer.action, True)

    def test_answers_where_the_champion_is_silent(self, by, both, settings):
        settings.FALLBACK_SECONDS = 0.2
        _, first, spare, second = both
        first.held.clear()
        assert [ask(by).model_version for _ in range(3)] == [spare] * 3
        assert (len(first.asked), len(second.asked)) == (1, 3)

    def test_answers_in_an_experiment_too_and_counts_against_the_arm_assigned(self, agent, by, both, remote):
        champion, first, spare, _ = both
        treatment, tried = remote("tuned")
        start_experiment(by=by, treatment=treatment, plan=ExperimentPlan(), reason="a better one")
        tried.stop()
        first.stop()
        answers = [ask(by, unit=f"unit-{n}") for n in range(24)]  # all in one arm: once in eight million
        assert {answer.arm for answer in answers} == {"control", "treatment"}
        assert {answer.model_version for answer in answers} == {spare}
        found = Exposure.objects.values_list("arm", "served_arm", "fallback", "version")
        assert set(found) == {(arm, arm, True, spare.id) for arm in ("control", "treatment")}
        assert set(Call.objects.values_list("assigned", "served")) == {
            (champion.id, spare.id),
            (treatment.id, spare.id),
        }

    def test_where_nobody_answers_the_failure_is_recorded_and_no_decision(self, by, both):
        champion, first, _, second = both
        first.stop()
        second.stop()
        one = uuid7()
        with pytest.raises(BackendUnavailable):
            ask(by, id=one)
        call = Call.objects.get()
        assert (call.id, call.state, call.served, call.assigned) == (one, "failed", None, champion)
        assert "gpt does not answer" in call.error and "llama does not answer" in call.error
        assert call.backend.name == "llama"
        assert not Decision.objects.exists()


def test_a_question_that_failed_may_be_asked_again(by, remote):
    _, server = remote("gpt")
    right, server.pick = server.pick, "none of these"
    one = uuid7()
    with pytest.raises(BackendUnavailable, match="not one of the options"):
        ask(by, id=one)
    assert Call.objects.values_list("state", "backend__name").get() == ("failed", "gpt")
    server.pick = right
    assert ask(by, id=one).decision_id == one
    call = Call.objects.get()
    assert (call.state, call.error) == ("answered", "")


def test_a_call_of_a_killed_process_is_found_as_abandoned(by, agent, remote):
    version, _ = remote("gpt")
    now = timezone.now()
    old, new = uuid7(), uuid7()
    for one, age in ((old, 1000), (new, 10)):
        opened = now - dt.timedelta(seconds=age)
        open_calls(by=by, kind="decide", openings=[Opening(one, version)], now=opened)
    CallFactory(assigned=version, state="failed", error="x", closed_at=now, opened_at=now - dt.timedelta(days=1))
    assert close_abandoned(older_than=dt.timedelta(seconds=900), now=now) == 1
    assert dict(Call.objects.filter(id__in=[old, new]).values_list("id", "state")) == {old: "abandoned", new: "open"}
    assert ask(by, id=old).decision_id == old
    assert Call.objects.get(id=old).state == "answered"
