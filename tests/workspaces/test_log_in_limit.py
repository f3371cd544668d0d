"""Wrong passwords: an account is closed for the address that guessed, an address for everybody, and nobody else is."""

import secrets
from ipaddress import ip_address

import pytest
from django.core.cache import caches
from django.test import Client

from tools.factories import PASSWORD, UserFactory
from workspaces.accounts import log_in
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db
FOREVER = 1e9  # seconds: no test meets the end of a window


@pytest.fixture(autouse=True)
def limit(settings):
    settings.LOG_IN_FAILURES = 3
    settings.LOG_IN_WINDOW_SECONDS = FOREVER


def fresh_address():
    """One that no other test has: the counts are shared by all processes."""
    return str(ip_address(f"2001:db8:{secrets.token_hex(2)}:{secrets.token_hex(2)}::1"))


@pytest.fixture
def here():
    return fresh_address()


def attempt(account, password="wrong", *, address, **headers):
    return Client(REMOTE_ADDR=address).post("/log-in", {"login": account, "password": password}, **headers)


def is_in(answer):
    return answer.status_code == 302


def test_an_account_is_closed_for_who_guessed_and_not_for_its_owner(viewer, here):
    assert [attempt(viewer.email, address=here).status_code for _ in range(3)] == [200, 200, 200]
    closed = attempt(viewer.email.upper(), PASSWORD, address=here)  # the right one: nobody looks
    assert closed.status_code == 429
    assert 0 < int(closed.headers["Retry-After"]) <= FOREVER
    assert (
        b"Too many failed attempts. Try again in " in closed.content and viewer.email.upper().encode() in closed.content
    )
    assert is_in(attempt(viewer.email, PASSWORD, address=fresh_address()))


def test_a_closed_one_costs_neither_a_question_nor_a_hash(viewer, here, django_assert_num_queries):
    for _ in range(4):
        attempt(viewer.email, address=here)
    with django_assert_num_queries(0):
        assert attempt(viewer.email, PASSWORD, address=here).status_code == 429


def test_it_opens_again_with_the_next_window(settings, here):
    settings.LOG_IN_WINDOW_SECONDS = 600.0
    waits = [log_in.begin_attempt(account="a@example.org", address=here, now=60_010.5).wait for _ in range(4)]
    assert waits == [0, 0, 0, 590]
    assert log_in.begin_attempt(account="a@example.org", address=here, now=60_010.5 + 590).wait == 0


def test_the_right_password_starts_the_count_anew(viewer, here):
    for _ in range(7):  # more than the address may fail
        attempt(viewer.email, address=here)
        attempt(viewer.email, address=here)
        assert is_in(attempt(viewer.email, PASSWORD, address=here))
    assert attempt(viewer.email, address=here).status_code == 200


def test_other_accounts_stay_open_until_the_address_is_closed(viewer, here):
    for number in range(14):
        attempt(f"guess-{number}@example.org", address=here)
    assert is_in(attempt(viewer.email, PASSWORD, address=here))
    attempt("one-more@example.org", address=here)
    assert attempt(viewer.email, PASSWORD, address=here).status_code == 429
    assert attempt(viewer.email, PASSWORD, address=f"{here}:beef").status_code == 429  # the same /64
    assert is_in(attempt(viewer.email, PASSWORD, address=fresh_address()))


def test_a_closed_account_does_not_close_the_address(viewer, here):
    for _ in range(30):
        attempt("someone@example.org", address=here)
    assert is_in(attempt(viewer.email, PASSWORD, address=here))


def test_closing_an_account_stands_once_in_its_workspaces_audit(viewer, workspace, here):
    for _ in range(6):
        attempt(viewer.email, address=here)
    entry = AuditEntry.objects.get(action="log_in.closed")
    assert (entry.workspace, entry.actor, entry.target) == (workspace, "system", f"user:{viewer.id}")
    assert entry.details == {"failures": 3, "address": here}


def test_an_unknown_account_is_closed_like_a_known_one(workspace, here):
    answers = [attempt(name, address=here).status_code for name in ("no@x.org", "ｎo@x.org", " NO@x.org", "no@x.org")]
    assert answers == [200, 200, 200, 429]
    assert not AuditEntry.objects.exists()


def test_the_present_password_is_not_guessed_by_the_form_that_changes_it(viewer, page_client, here):
    client = page_client(viewer)
    form = {"old_password": "wrong", "new_password1": "a harbour of kites", "new_password2": "a harbour of kites"}
    answers = [client.post("/change-password", form, REMOTE_ADDR=here).status_code for _ in range(4)]
    assert answers == [200, 200, 200, 429]
    right = client.post("/change-password", form | {"old_password": PASSWORD}, REMOTE_ADDR=here)
    assert right.status_code == 429 and b"Too many failed attempts" in right.content
    viewer.refresh_from_db()
    assert viewer.check_password(PASSWORD)


@pytest.mark.django_db(transaction=True)
def test_at_once_no_more_are_looked_at_than_one_after_the_other(viewer, here, at_once):
    answers = at_once(16, lambda: attempt(viewer.email, address=here).status_code)
    assert sorted(answers) == [200] * 3 + [429] * 13


def test_while_the_cache_is_away_every_process_counts_for_itself(settings, here):
    settings.CACHES = settings.CACHES | {"default": settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:9/0"}}
    try:
        waits = [log_in.begin_attempt(account="a@example.org", address=here).wait > 0 for _ in range(4)]
    finally:
        caches["process"].clear()
    assert waits == [False, False, False, True]


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


def test_an_address_that_is_none_is_one_place_of_its_own(settings):
    settings.TRUSTED_PROXIES = 1
    account = UserFactory().email
    answers = [attempt(account, address="192.0.2.1", HTTP_X_FORWARDED_FOR="nonsense").status_code for _ in range(4)]
    assert answers == [200, 200, 200, 429]


def test_zero_is_no_limit(settings, viewer, here):
    settings.LOG_IN_FAILURES = 0
    assert {attempt(viewer.email, address=here).status_code for _ in range(6)} == {200}


def test_nothing_that_was_typed_stands_in_the_cache_in_clear(here):
    log_in.begin_attempt(account="my-password-typed-by-mistake", address=here)
    with caches["default"]._cache.get_client() as client:  # the same server: all of its names
        assert not [key for key in client.scan_iter("*log-in*", count=1000) if b"mistake" in key]
