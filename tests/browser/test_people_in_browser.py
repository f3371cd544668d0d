"""A second person comes in by a link, works, and is let go again; and every page of it fits and is accessible."""

from __future__ import annotations

import re
from typing import Any

from django.urls import reverse
from playwright.sync_api import expect

from tests.authenticator import code_of
from tests.browser.accessibility import look_at
from workspaces.models import Membership, User

OWN_PASSWORD = "a harbour full of kites"


def test_a_person_is_invited_joins_protects_the_account_and_is_deactivated(
    open_tab: Any, admin: Any, scene: Any, workspace: Any, log_in: Any, complaints: list[str]
) -> None:
    found: list[str] = []
    office, home = open_tab(), open_tab(width=390, dark=True)
    log_in(office, admin)
    office.goto(reverse("pages:people", args=[workspace.slug]))
    office.get_by_label("E-mail address").fill("ben@example.org")
    office.get_by_label("Role", exact=True).select_option("labeller")
    office.get_by_role("button", name="Make an invitation link").click()
    link = office.locator("#link").inner_text().strip()
    found += look_at(office, "people")

    home.goto(link)
    found += look_at(home, "person-invitation")
    home.get_by_label("Your name").fill("Ben")
    home.get_by_label("Password", exact=True).fill(OWN_PASSWORD)
    home.get_by_label("The same password again").fill(OWN_PASSWORD)
    home.get_by_role("button", name="Create the account and join").click()
    home.wait_for_url("**/w/acme/")
    assert Membership.objects.get(user__email="ben@example.org").role == "labeller"

    home.goto("/profile")
    found += look_at(home, "person-profile")
    home.get_by_role("link", name="turn it on").click()
    home.get_by_role("link", name="Turn it on").click()
    home.get_by_label("Password").fill(OWN_PASSWORD)
    home.get_by_role("button", name="Confirm").click()
    secret = home.get_by_label("Secret, for an app that cannot scan").input_value()
    found += look_at(home, "person-two-factor")
    home.get_by_label("Authenticator code").fill(code_of(secret))
    home.get_by_role("button", name="Turn it on").click()
    expect(home.get_by_role("heading", name="Recovery codes")).to_be_visible()
    recovery = re.findall(r"\d{8}", home.locator("pre").inner_text())[0]
    found += look_at(home, "person-recovery-codes")

    away = open_tab()
    away.goto("/log-in")
    away.get_by_label("Email").fill("ben@example.org")
    away.get_by_label("Password").fill(OWN_PASSWORD)
    away.get_by_role("button", name="Log in").click()
    expect(away.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
    found += look_at(away, "person-code")
    away.get_by_label("Code").fill(recovery)
    away.get_by_role("button", name="Log in").click()
    away.wait_for_url("**/w/acme/")

    office.reload()
    row = office.get_by_role("row").filter(has_text="ben@example.org")
    expect(row).to_contain_text("on")
    row.get_by_role("button", name="Deactivate").click()
    office.get_by_role("button", name="Deactivate").click()
    expect(office.get_by_role("row").filter(has_text="ben@example.org")).to_contain_text("deactivated")
    away.goto("/")
    expect(away.get_by_role("heading", name="Log in")).to_be_visible()  # it was the last workspace: the session ended
    assert User.objects.get(email="ben@example.org").is_active

    office.goto(reverse("pages:audit", args=[workspace.slug]))
    office.get_by_label("Action", exact=True).select_option("person.joined")
    office.get_by_role("button", name="Filter").click()
    expect(office.get_by_role("row")).to_have_count(2)
    found += look_at(office, "audit")
    office.goto("/workspaces/new")
    found += look_at(office, "person-workspace-new")
    assert found == [], "\n".join(found)
