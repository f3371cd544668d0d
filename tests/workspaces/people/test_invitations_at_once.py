"""Invitations by two browsers at the same moment, and for somebody who is a member already."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tools.factories import PASSWORD, MembershipFactory, UserFactory
from workspaces.access.actors import person
from workspaces.errors import Conflict
from workspaces.models import AuditEntry, Invitation, Membership, User
from workspaces.people.invitations import invite_person

GOOD = "a quiet harbour in the north"


def token_of(admin: Any, workspace: Any, email: str, role: str = "viewer") -> str:
    return invite_person(by=person(admin, workspace, "admin"), email=email, role=role).token


def accept(token: str) -> Any:
    form = {"token": token, "name": "Ben", "password1": GOOD, "password2": GOOD}
    return Client().post("/invitation", form)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_one_link_lets_one_browser_in(self, workspace: Any, admin: Any, at_once: Any) -> None:
        token = token_of(admin, workspace, "ben@example.org")
        answers = at_once(4, lambda: accept(token))
        assert sorted(answer.status_code for answer in answers)[0] == 302
        assert {answer.status_code for answer in answers} <= {302, 409, 410}
        assert [answer.status_code for answer in answers].count(302) == 1
        assert User.objects.filter(email="ben@example.org").count() == 1
        assert AuditEntry.objects.filter(action="person.joined").count() == 1

    def test_links_of_two_workspaces_make_one_account(
        self, workspace: Any, other_workspace: Any, admin: Any, outsider: Any, at_once: Any
    ) -> None:
        for number in range(5):  # they need not meet every time
            email = f"ben{number}@example.org"
            tokens = [token_of(admin, workspace, email), token_of(outsider, other_workspace, email)]
            answers = at_once(2, lambda tokens=tokens: accept(tokens.pop()))
            assert sorted(answer.status_code for answer in answers) == [302, 409]
            assert User.objects.filter(email=email).count() == Membership.objects.filter(user__email=email).count() == 1
            assert Invitation.objects.filter(email=email, accepted_at=None).count() == 1  # is there for the account

    def test_a_link_that_is_replaced_while_it_is_accepted_is_one_or_the_other(
        self, workspace: Any, admin: Any, at_once: Any
    ) -> None:
        for number in range(5):
            email = f"cleo{number}@example.org"
            first, turns = token_of(admin, workspace, email), [False, True]

            def act(email: str = email, first: str = first, turns: list[bool] = turns) -> Any:
                if turns.pop():
                    return accept(first).status_code
                try:
                    return token_of(admin, workspace, email)
                except Conflict:
                    return "a member already"

            results = at_once(2, act)
            row = Invitation.objects.filter(email=email).earliest("created_at")
            accepted = 302 in results
            assert (row.accepted_at is not None, row.revoked_at is not None) == (accepted, not accepted)
            assert accepted == Membership.objects.filter(user__email=email).exists()
            assert ("a member already" in results) == accepted


@pytest.mark.django_db
def test_a_link_of_a_member_changes_nothing_of_the_membership(workspace: Any, admin: Any) -> None:
    """Somebody added them meanwhile, with more rights than the link has, or fewer."""
    ann = UserFactory(email="ann@example.org")
    token = token_of(admin, workspace, ann.email, role="admin")
    MembershipFactory(workspace=workspace, user=ann, role="viewer")
    client = Client()
    client.post("/log-in", {"login": ann.email, "password": PASSWORD})
    answer = client.post("/invitation", {"token": token})
    assert answer.status_code == 302
    assert Membership.objects.get(user=ann).role == "viewer"
    assert client.post("/invitation", {"token": token}).status_code == 410
