"""What the log and the audit say of log-ins, and what neither repeats."""

from __future__ import annotations

import importlib
import json
import logging
import pickle
import re
import secrets
from typing import Any

import pytest
import structlog
from django.conf import global_settings as django_defaults
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.core.cache import cache, caches
from django.test import Client
from structlog.testing import capture_logs

from project import logging as project_logging
from tools.factories import PASSWORD
from workspaces.models import AuditEntry, User

NEW = "a harbour full of kites"


def test_log_ins_failures_and_log_outs_are_logged_without_what_was_typed(viewer: Any) -> None:
    client = Client()
    with capture_logs() as lines:
        for account, password in ((viewer.email, "wrong"), ("my-own-secret@typed.here", "x"), (viewer.email, PASSWORD)):
            client.post("/log-in", {"login": account, "password": password})
        client.post("/log-out")
    told = [line for line in lines if line["event"] != "request"]
    assert [line["event"] for line in told] == ["log_in_failed", "log_in_failed", "logged_in", "logged_out"]
    assert told[0]["account"] != told[1]["account"] and told[0]["address"] == "127.0.0.1"
    assert (told[2]["person"], told[2]["methods"]) == (str(viewer.pk), ["password"])
    assert not [text for text in (viewer.email, "secret", PASSWORD) if text in str(told)]
    assert not AuditEntry.objects.exists()


def test_a_new_password_stands_in_the_audit(viewer: Any, workspace: Any, page_client: Any) -> None:
    form = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    page_client(viewer).post("/change-password", form)
    entry = AuditEntry.objects.get(action="person.password_changed")
    assert (entry.workspace, entry.actor, entry.target) == (workspace, viewer.email, f"user:{viewer.pk}")


def test_a_refused_request_says_who_and_from_where(viewer: Any, workspace: Any, page_client: Any, api: Any) -> None:
    with capture_logs(processors=[_with_context]) as lines:
        page_client(viewer).get(f"/w/{workspace.slug}/audit")
        api("export:read").get("members")
        Client().get("/api/v1/members", headers={"Authorization": "Bearer not.right"})
    page, call, unknown = (line for line in lines if line["event"] == "request")
    assert (page["status"], page["actor"], page["address"]) == (403, f"person:{viewer.pk}", "127.0.0.1")
    assert call["status"] == 403 and call["actor"].startswith("key:")
    assert (unknown["status"], unknown["address"]) == (401, "127.0.0.1")
    assert "actor" not in unknown and "right" not in str(unknown)


def _with_context(logger: Any, name: str, line: Any) -> Any:
    return structlog.contextvars.merge_contextvars(logger, name, line)


def test_lines_are_json_in_utc_and_hold_no_line_break() -> None:
    formatter = project_logging.LOGGING["formatters"]["json"]
    made = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=formatter["foreign_pre_chain"], processors=formatter["processors"]
    )
    line = made.format(logging.LogRecord("x", logging.INFO, "", 0, 'a\nb" {"event": "forged"}', None, None))
    assert "\n" not in line
    told = json.loads(line)
    assert told["event"].startswith("a\nb") and told["timestamp"].endswith("Z")


def test_an_error_of_ours_says_nothing_of_the_inside(
    viewer: Any, workspace: Any, page_client: Any, monkeypatch: Any, caplog: Any
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("the inside: a query and a token")

    monkeypatch.setattr("workspaces.people.views._context", fails)
    answer = page_client(viewer).get(f"/w/{workspace.slug}/people")
    assert answer.status_code == 500 and b"inside" not in answer.content and b"Traceback" not in answer.content
    assert answer["X-Request-Id"].encode() in answer.content
    assert "the inside: a query and a token" in caplog.text  # whoever runs the instance reads it


def test_the_cache_holds_no_pickles() -> None:
    name = "test-" + secrets.token_hex(8)
    cache.set(name, [1.5, "text", None], 60)
    assert cache.get(name) == [1.5, "text", None]
    with caches["default"]._cache.get_client() as client:
        key = caches["default"].make_and_validate_key(name)
        assert client.get(key) == b'[1.5, "text", null]'
        client.set(key, pickle.dumps("somebody else's"), 60)
    with pytest.raises(ValueError):
        cache.get(name)


def test_passwords_are_hashed_slowly() -> None:
    assert (
        django_defaults.PASSWORD_HASHERS[0].endswith("PBKDF2PasswordHasher")
        and PBKDF2PasswordHasher.iterations >= 600_000
    )
    assert "PASSWORD_HASHERS" not in vars(importlib.import_module("project.settings"))


def test_password_fields_are_masked_and_take_what_is_pasted(viewer: Any, page_client: Any) -> None:
    fields = re.findall(r"<input[^>]*password[^>]*>", page_client().get("/log-in").content.decode())
    fields += re.findall(r"<input[^>]*password[^>]*>", page_client(viewer).get("/change-password").content.decode())
    assert len(fields) == 4
    for field in fields:
        assert 'type="password"' in field and 'autocomplete="' in field and "onpaste" not in field
        assert 'autocomplete="off"' not in field and "maxlength" not in field


@pytest.mark.parametrize(
    "password",
    [
        "elevenchars",
        "reckoner-admin-2026!",
        "acmeacmeacme1!",
        "viewer@example.org",
        "q1w2e3r4t5y6",
        "!!sunshine2026!!",
        "passwordpassword",
    ],
)
def test_a_password_that_is_short_known_or_of_this_place_is_refused(
    password: str, viewer: Any, page_client: Any
) -> None:
    form = {"old_password": PASSWORD, "new_password1": password, "new_password2": password}
    assert page_client(viewer).post("/change-password", form).status_code == 200
    assert User.objects.get(pk=viewer.pk).check_password(PASSWORD)


@pytest.mark.parametrize(
    "password", ["🪁 ½" * 43, "  spaces stay as they are  ", "84629 17350 29471", "!" * 7 + "?" * 8]
)
def test_a_password_of_any_letters_and_of_64_or_more_is_taken_as_it_is(
    password: str, viewer: Any, page_client: Any
) -> None:
    form = {"old_password": PASSWORD, "new_password1": password, "new_password2": password}
    assert page_client(viewer).post("/change-password", form).status_code == 302
    assert not User.objects.get(pk=viewer.pk).check_password(password.strip() + "x")
    assert User.objects.get(pk=viewer.pk).check_password(password)
    assert Client().post("/log-in", {"login": viewer.email, "password": password}).status_code == 302
