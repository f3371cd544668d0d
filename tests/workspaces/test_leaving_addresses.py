"""Addresses that a form or a link brings along lead to no other site, however they are written."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from tools.factories import PASSWORD
from workspaces.pages.guard import safe_next

SITE = "http://testserver"
ELSEWHERE = (
    *("https://evil.example", "//evil.example", "///evil.example", "////evil.example", "/\\evil.example"),
    *("\\\\evil.example", "\\/evil.example", "https:evil.example", "https:/evil.example", "http:///evil.example"),
    *("javascript:alert(1)//", "data:text/html,/", "//evil.example\\@testserver", "https://testserver@evil.example/"),
    *(
        "https://testserver.evil.example/",
        " //evil.example",
        "\t//evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
    ),
    *("//evil%2eexample", "/%09/evil.example", "/\r\nLocation: https://evil.example", "\x00//evil.example"),
)


def leads_to(place: str) -> str | None:
    """The site that a browser goes to: it reads a backslash as a slash, and drops tabs, line ends and outer spaces."""
    read = place.strip(" \0").translate({ord(letter): None for letter in "\t\r\n"}).replace("\\", "/")
    while read.startswith("///"):
        read = read[1:]
    return urlsplit(urljoin(f"{SITE}/here", read)).netloc


@pytest.mark.parametrize("place", ELSEWHERE, ids=repr)
def test_a_form_s_next(place: str) -> None:
    request = RequestFactory().post("/", {"next": place})
    assert leads_to(safe_next(request, "/fallback")) == "testserver"


@pytest.mark.slow
@pytest.mark.django_db
def test_the_log_in_s_next(viewer: Any) -> None:
    client = Client()
    for place in ELSEWHERE[::4]:  # each hashes a password
        answer = client.post("/log-in", {"login": viewer.email, "password": PASSWORD, "next": place})
        assert answer.status_code == 302 and leads_to(answer["Location"]) == "testserver", place
        assert "\n" not in answer["Location"]
        logged_in = client.get(f"/log-in?{'next'}={place}") if "\n" not in place and "\r" not in place else answer
        assert leads_to(logged_in.headers.get("Location", "/")) == "testserver", place
        client.post(reverse("log-out"), {"next": place})


@pytest.mark.django_db
def test_paths_that_are_completed_with_a_slash_and_paths_of_pages(owner: Any, page_client: Any) -> None:
    client = page_client(owner)
    for path in (
        "//evil.example/",
        "//evil.example/w/acme",
        "/\\evil.example",
        "/%2f/evil.example",
        "/w/acme//evil.example",
    ):
        answer = client.get("/", PATH_INFO=path) if path.startswith("//") else client.get(path)
        assert leads_to(answer.headers.get("Location", "/")) == "testserver", path
