"""What browsers are told with every answer, and what changes with RECKONER_HTTPS=1."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

ROOT = Path(__file__).resolve().parents[2]
EVERYWHERE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def test_every_answer_has_its_headers_and_only_static_files_are_kept(
    workspace: Any, admin: Any, api: Any, page_client: Any
) -> None:
    client = page_client(admin)
    pages = [
        client.get(reverse(f"pages:{name}", args=[workspace.slug])) for name in ("overview", "people", "audit-csv")
    ]
    others = [client.get("/log-in"), client.get("/nothing"), client.get("/livez"), api("admin").get("members")]
    for answer in [*pages, *others, Client().get("/profile")]:
        assert {name: answer[name] for name in EVERYWHERE} == EVERYWHERE
        assert "camera=()" in answer["Permissions-Policy"]
        assert "no-store" in answer["Cache-Control"], answer.request
        assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]
        assert answer["Content-Type"] in ("text/html; charset=utf-8", "text/csv; charset=utf-8", "application/json")
    policy = pages[0]["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "base-uri 'none'" in policy
    kept = client.get("/static/css/tokens.css")
    kept.close()
    assert "no-store" not in kept["Cache-Control"] and kept["X-Content-Type-Options"] == "nosniff"
    assert not [answer for answer in pages + others if "Access-Control-Allow-Origin" in answer]


def test_scripts_make_no_html_of_text_and_the_browser_keeps_no_page() -> None:
    scripts = "".join(path.read_text() for path in (ROOT / "static" / "js").glob("*.js"))
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|__proto__|\beval\(|new Function",
        scripts,
    )
    frame = (ROOT / "templates" / "base.html").read_text()
    assert '"historyCacheSize": 0' in frame and '"allowEval": false' in frame


def test_nothing_is_listed_or_traced(viewer: Any, page_client: Any) -> None:
    client = page_client(viewer)
    assert [client.get(path).status_code for path in ("/static/", "/static/css/", "/.git/config")] == [404] * 3
    assert [client.trace(path).status_code for path in ("/", "/profile", "/api/v1/agents")] == [405] * 3


def test_a_program_without_tls_is_refused_and_a_browser_led_to_it(db: None, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    client = Client(headers={"Authorization": "Bearer a.b"})
    refused = client.post("/api/v1/decisions", "{}", content_type="application/json")
    assert refused.status_code == 403 and "https" in refused.json()["error"]["message"]
    assert Client().get("/log-in")["Location"] == "https://testserver/log-in"
    assert [Client().get(path).status_code for path in ("/livez", "/readyz")] == [200, 200]
    assert client.get("/api/v1/agents", headers={"X-Forwarded-Proto": "https"}).status_code == 401


TOLD = """
import json, django; django.setup()
from django.conf import settings as s
from workspaces.pages.shown_once import COOKIE
print(json.dumps([COOKIE, *(getattr(s, name) for name in (
    "SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_HTTPONLY",
    "CSRF_COOKIE_HTTPONLY", "SESSION_COOKIE_SAMESITE", "CSRF_COOKIE_SAMESITE", "SECURE_HSTS_SECONDS",
    "SECURE_HSTS_INCLUDE_SUBDOMAINS", "SECURE_SSL_REDIRECT"))]))
"""


@pytest.fixture
def told(tmp_path: Path) -> Any:
    def ask(**more: str) -> subprocess.CompletedProcess[str]:
        settings = {"RECKONER_VAR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "project.settings", "RECKONER_HTTPS": "1"}
        return subprocess.run(
            [sys.executable, "-c", TOLD],
            env={**os.environ, **settings, **more},
            capture_output=True,
            text=True,
            cwd=ROOT,
        )

    return ask


@pytest.mark.slow
def test_over_tls_cookies_belong_to_this_host_alone(told: Any) -> None:
    names = ["__Host-shown_once", "__Host-sessionid", "__Host-csrftoken"]
    assert json.loads(told().stdout) == [*names, True, True, True, True, "Lax", "Lax", 31_536_000, True, True]


def test_over_tls_a_provider_without_it_is_refused(told: Any) -> None:
    given = {"RECKONER_OIDC_SERVER": "http://id.example.org", "RECKONER_OIDC_CLIENT_ID": "x"}
    assert "begins with https://" in told(**given).stderr
