"""How long a session lives: not used for the setting's hours it ends, and at the setting's age whatever happens."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from tools.factories import PASSWORD
from workspaces.tasks import tidy

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def client(viewer: Any, settings: Any) -> Client:
    settings.SESSION_IDLE_HOURS, settings.SESSION_DAYS = 2.0, 3.0
    client = Client()
    client.post("/log-in", {"login": viewer.email, "password": PASSWORD})
    return client


def left(client: Client) -> dt.timedelta:
    return Session.objects.get(session_key=client.cookies["sessionid"].value).expire_date - timezone.now()


def test_use_puts_the_end_off_and_a_pause_ends_it(client: Client) -> None:
    assert client.cookies["sessionid"]["max-age"] == 3 * 86_400  # the row knows of the pause, the cookie of the age
    Session.objects.update(expire_date=timezone.now() + HOUR)
    assert client.get("/profile").status_code == 200 and left(client) > 1.9 * HOUR
    Session.objects.update(expire_date=timezone.now() - dt.timedelta(seconds=1))
    assert client.get("/profile").status_code == 302


def test_a_use_within_the_grain_writes_nothing(client: Client, django_assert_num_queries: Any) -> None:
    client.get("/profile")
    before = Session.objects.get().expire_date
    client.get("/profile")
    assert Session.objects.get().expire_date == before


def test_at_its_age_it_ends_however_much_it_was_used(client: Client, viewer: Any) -> None:
    session = client.session
    session["began"] -= 3 * 86_400 - 60
    session.save()
    assert client.get("/profile").status_code == 200
    session["began"] -= 61
    session.save()
    assert client.get("/profile").status_code == 302
    assert not Session.objects.filter(session_key=session.session_key).exists()


def test_one_without_a_beginning_ends(client: Client) -> None:
    session = client.session
    del session["began"]
    session.save()
    assert client.get("/profile").status_code == 302


def test_one_that_ended_is_listed_no_more_and_removed_within_the_hour(client: Client, viewer: Any) -> None:
    old, now = client.cookies["sessionid"].value, timezone.now()
    client = Client()
    client.post("/log-in", {"login": viewer.email, "password": PASSWORD})
    Session.objects.filter(session_key=old).update(expire_date=now - 2 * HOUR)
    UserSession.objects.filter(session_key=old).update(last_seen_at=now - 3 * HOUR)
    assert len(client.get("/profile").context["sessions"]) == 1 and UserSession.objects.count() == 2
    tidy()
    assert not Session.objects.filter(session_key=old).exists() and UserSession.objects.count() == 1
    assert client.get("/profile").status_code == 200


def test_confirming_the_password_makes_a_new_key(client: Client) -> None:
    stolen = Client()
    stolen.cookies["sessionid"] = client.cookies["sessionid"].value
    client.post("/account/confirm?next=/profile", {"password": PASSWORD})
    assert client.get("/profile").status_code == 200 and len(client.get("/profile").context["sessions"]) == 1
    assert stolen.get("/profile").status_code == 302


def test_every_page_offers_the_log_out(client: Client, workspace: Any) -> None:
    for path in ("/profile", f"/w/{workspace.slug}/", "/change-password"):
        assert b'action="/log-out"' in client.get(path).content, path


def test_a_log_in_makes_a_new_key_and_a_log_out_ends_it_on_the_server(viewer: Any, client: Client) -> None:
    old = client.cookies["sessionid"].value
    stolen = Client()
    stolen.cookies["sessionid"] = old
    assert stolen.get("/profile").status_code == 200
    client.post("/log-out")
    assert stolen.get("/profile").status_code == 302
    client.post("/log-in", {"login": viewer.email, "password": PASSWORD})
    assert client.cookies["sessionid"].value != old and len(old) == 32
