"""Wrong passwords: an account and an address are closed for a while, and open again by themselves."""

import datetime as dt

import pytest
from django.test import Client
from django.utils import timezone

from tests.factories import PASSWORD, FailedLogInFactory, UserFactory
from workspaces import log_in
from workspaces.models import AuditEntry, FailedLogIn

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def limit(settings):
    settings.LOG_IN_FAILURES = 3
    settings.LOG_IN_WINDOW_SECONDS = 600.0


def attempt(account, password="wrong", **headers):
    return Client().post("/log-in", {"username": account, "password": password}, **headers)


def is_in(answer):
    return answer.status_code == 302


def test_an_account_is_closed_after_some_failures_and_opens_again(viewer):
    viewer.set_password(PASSWORD)
    viewer.save()
    assert [attempt(viewer.email).status_code for _ in range(3)] == [200, 200, 200]
    closed = attempt(viewer.email.upper(), PASSWORD)  # the right one: nobody looks
    assert closed.status_code == 429
    assert 590 <= int(closed.headers["Retry-After"]) <= 600
    assert b"Too many failed attempts. Try again in 10 minutes." in closed.content
    assert FailedLogIn.objects.count() == 3  # the refused one was no attempt
    FailedLogIn.objects.update(at=timezone.now() - dt.timedelta(seconds=601))
    assert is_in(attempt(viewer.email, PASSWORD))


def test_the_right_password_starts_the_count_anew(viewer):
    viewer.set_password(PASSWORD)
    viewer.save()
    for _ in range(2):
        attempt(viewer.email)
        attempt(viewer.email)
        assert is_in(attempt(viewer.email, PASSWORD))
    assert not FailedLogIn.objects.exists()


def test_other_accounts_stay_open_until_the_address_is_closed(viewer):
    viewer.set_password(PASSWORD)
    viewer.save()
    for number in range(14):
        attempt(f"guess-{number}@example.org")
    assert is_in(attempt(viewer.email, PASSWORD))
    for number in range(1):
        attempt(f"more-{number}@example.org")
    assert attempt(viewer.email, PASSWORD).status_code == 429
    assert is_in(attempt(viewer.email, PASSWORD, REMOTE_ADDR="192.0.2.7"))


def test_closing_an_account_stands_in_its_workspaces_audit(viewer, workspace):
    for _ in range(4):
        attempt(viewer.email)
    entry = AuditEntry.objects.get(action="log_in.closed")
    assert (entry.workspace, entry.actor, entry.target) == (workspace, "system", f"user:{viewer.id}")
    assert entry.details == {"failures": 3, "address": "127.0.0.1"}


def test_an_unknown_account_is_closed_like_a_known_one(workspace):
    answers = [attempt("nobody@example.org").status_code for _ in range(4)]
    assert answers == [200, 200, 200, 429]
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "198.51.100.9", "127.0.0.1"),  # anybody may write that header
        (1, "198.51.100.9", "198.51.100.9"),
        (1, "203.0.113.1, 198.51.100.9", "198.51.100.9"),
        (2, "203.0.113.1, 198.51.100.9", "203.0.113.1"),
        (2, "198.51.100.9", "127.0.0.1"),
        (1, "nonsense", None),
    ],
)
def test_the_address_is_what_a_trusted_proxy_saw(rf, settings, proxies, forwarded, address):
    settings.TRUSTED_PROXIES = proxies
    assert log_in.client_address(rf.get("/", HTTP_X_FORWARDED_FOR=forwarded)) == address


def test_zero_is_no_limit(settings, viewer):
    settings.LOG_IN_FAILURES = 0
    assert {attempt(viewer.email).status_code for _ in range(6)} == {200}


def test_old_failures_are_swept():
    FailedLogInFactory(at=timezone.now() - dt.timedelta(seconds=601))
    FailedLogInFactory()
    assert log_in.drop_old_failures() == 1
    assert FailedLogIn.objects.count() == 1


def test_an_address_that_is_none_is_kept_as_unknown(settings):
    settings.TRUSTED_PROXIES = 1
    UserFactory(email="a@example.org")
    attempt("a@example.org", HTTP_X_FORWARDED_FOR="nonsense")
    assert FailedLogIn.objects.get().address is None
