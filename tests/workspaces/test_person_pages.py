"""Log in, one-time passwords, the choice of a workspace, and the guard that every page wears."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tools.factories import PASSWORD, MembershipFactory, UserFactory
from workspaces.models import User

PAGES = ("overview", "loop", "agents", "decisions", "rewards", "datasets", "runs", "models", "experiments")
OWN_PASSWORD = "a harbour full of kites"


@pytest.fixture
def overview(workspace: Any) -> str:
    return reverse("pages:overview", args=[workspace.slug])


def test_the_log_in_takes_the_e_mail_in_any_case_and_leads_where_one_wanted_to_go(viewer: Any, overview: str) -> None:
    client = Client()
    asked = client.get(overview)
    assert asked.status_code == 302 and asked["Location"] == f"/log-in?next={overview}"
    wrong = client.post("/log-in", {"login": viewer.email, "password": "wrong"})
    assert wrong.status_code == 200 and "_auth_user_id" not in client.session
    right = client.post("/log-in", {"login": viewer.email.upper(), "password": PASSWORD, "next": overview})
    assert right["Location"] == overview
    assert client.get(overview).status_code == 200


def test_the_log_in_leads_to_no_other_site(viewer: Any) -> None:
    client = Client()
    sent = client.post("/log-in", {"login": viewer.email, "password": PASSWORD, "next": "https://example.com/"})
    assert sent["Location"] == "/"


def test_logging_out_takes_a_post(viewer: Any, page_client: Any, overview: str) -> None:
    client = page_client(viewer)
    assert client.get("/log-out").status_code == 405
    assert client.get(overview).status_code == 200
    assert client.post("/log-out")["Location"] == "/log-in"
    assert client.get(overview).status_code == 302


def test_a_one_time_password_is_changed_before_anything_else(viewer: Any, page_client: Any, overview: str) -> None:
    viewer.must_change_password = True
    viewer.save()
    client = page_client(viewer)
    for path in ("/", overview):
        assert client.get(path)["Location"] == "/change-password"
    for refused in ("12345678", PASSWORD):  # too common; the one-time password itself
        form = {"old_password": PASSWORD, "new_password1": refused, "new_password2": refused}
        assert client.post("/change-password", form).status_code == 200
        viewer.refresh_from_db()
        assert viewer.must_change_password and viewer.check_password(PASSWORD)
    form = {"old_password": PASSWORD, "new_password1": OWN_PASSWORD, "new_password2": OWN_PASSWORD}
    assert client.post("/change-password", form)["Location"] == "/"
    viewer.refresh_from_db()
    assert not viewer.must_change_password and viewer.check_password(OWN_PASSWORD)
    assert client.get(overview).status_code == 200


def test_the_first_admins_one_time_password_leaves_its_file_with_the_change(
    db: None, settings: Any, tmp_path: Any, page_client: Any
) -> None:
    settings.VAR = tmp_path
    call_command("bootstrap", "--no-demo", stdout=io.StringIO())
    path = tmp_path / "secrets" / "one_time_password"
    password, admin = path.read_text(), User.objects.get()
    form = {"old_password": password, "new_password1": password, "new_password2": password}
    client = page_client(admin)
    assert b"other than the current one" in client.post("/change-password", form).content
    assert path.exists() and User.objects.get().must_change_password
    form |= {"new_password1": OWN_PASSWORD, "new_password2": OWN_PASSWORD}
    assert client.post("/change-password", form)["Location"] == "/"
    assert not path.exists() and not User.objects.get().must_change_password


def test_home_opens_the_only_workspace_and_offers_a_choice_of_several(
    viewer: Any, other_workspace: Any, page_client: Any, overview: str
) -> None:
    client = page_client(viewer)
    assert client.get("/")["Location"] == overview
    MembershipFactory(workspace=other_workspace, user=viewer, role="viewer")
    page = client.get("/").content.decode()
    assert "Acme" in page and "Elsewhere" in page


def test_someone_without_a_workspace_is_told_what_to_do(db: None, page_client: Any) -> None:
    page = page_client(UserFactory()).get("/")
    assert page.status_code == 200 and "no workspace yet" in page.content.decode()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.quick_cases(3)
def test_every_section_opens_for_members_and_is_unknown_to_others(
    name: str, workspace: Any, viewer: Any, outsider: Any, page_client: Any
) -> None:
    path = reverse(f"pages:{name}", args=[workspace.slug])
    assert page_client(viewer).get(path).status_code in {200, 286}
    assert page_client(outsider).get(path).status_code == 404
    assert page_client().get(path).status_code == 302


def test_a_workspace_that_is_not_there_looks_like_a_foreign_one(
    viewer: Any, outsider: Any, overview: str, page_client: Any
) -> None:
    client = page_client(outsider)
    assert client.get("/w/nowhere/").status_code == client.get(overview).status_code == 404


def test_a_poll_after_the_session_ended_opens_the_log_in_as_a_page(overview: str) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{overview}"}
    answer = Client().get("/log-in", headers=headers)
    assert answer["HX-Redirect"] == f"/log-in?next={overview.replace('/', '%2F')}"


def test_pages_allow_no_inline_script_or_style(viewer: Any, page_client: Any, overview: str) -> None:
    page = page_client(viewer).get(overview)
    policy = page["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    body = page.content.decode()
    assert "style=" not in body and "<style" not in body and "onclick" not in body and "<script>" not in body


def test_what_pages_load_is_served_with_its_licence_beside_it(viewer: Any, page_client: Any, overview: str) -> None:
    client = page_client(viewer)
    page = client.get(overview).content.decode()
    loaded = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(loaded) >= 6
    for path in [*loaded, "/static/vendor/uplot/uPlot.iife.min.js", "/static/vendor/htmx/LICENSE"]:
        answer = client.get(path)
        answer.close()  # it holds the file
        assert answer.status_code == 200, path


def test_forms_without_their_token_change_nothing(viewer: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/log-in", {"login": viewer.email, "password": PASSWORD})
    assert answer.status_code == 403 and "has expired" in answer.content.decode()
    assert "_auth_user_id" not in client.session
