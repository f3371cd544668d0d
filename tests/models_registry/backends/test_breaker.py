"""When a server is not asked, by a clock of the test's own."""

from models_registry.backends.breaker import Breaker


def test_it_opens_after_failures_in_a_row_and_lets_one_caller_try_after_the_rest():
    breaker = Breaker(most=3, rest=5.0)
    for now in (0.0, 0.1):
        breaker.failed(now)
    assert breaker.allows(0.2)
    breaker.failed(0.2)
    assert [breaker.allows(now) for now in (0.3, 5.1, 5.2, 5.3, 9.0)] == [False, False, True, False, False]
    assert breaker.allows(10.3)
    breaker.succeeded()
    assert breaker.allows(10.4) and breaker.allows(10.5)


def test_an_answer_in_between_starts_the_count_again():
    breaker = Breaker(most=2, rest=5.0)
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(1.0)
    assert breaker.allows(1.1)


def test_one_that_did_not_come_in_time_opens_it_at_once():
    breaker = Breaker(most=3, rest=5.0)
    breaker.failed(1.0, at_once=True)
    assert not breaker.allows(5.9) and breaker.allows(6.0)
