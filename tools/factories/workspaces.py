"""Factories of people, workspaces, keys, invitations and the audit."""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Any

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from workspaces.models import (
    ApiKey,
    AuditEntry,
    Invitation,
    KeptAnswer,
    Membership,
    Role,
    Scope,
    User,
    Workspace,
)

PASSWORD = "correct horse battery staple"


class WorkspaceFactory(DjangoModelFactory[Workspace]):
    class Meta:
        model = Workspace

    slug = factory.Sequence(lambda n: f"workspace-{n}")
    name = factory.LazyAttribute(lambda o: o.slug.replace("-", " ").title())


class UserFactory(DjangoModelFactory[User]):
    class Meta:
        model = User
        skip_postgeneration_save = True

    email = factory.Sequence(lambda n: f"person{n}@example.org")
    name = factory.Sequence(lambda n: f"Person {n}")

    @classmethod
    def _create(cls, model_class: type[User], *args: Any, **kwargs: Any) -> User:
        password = kwargs.pop("password", PASSWORD)
        return model_class.objects.create_user(kwargs.pop("email"), password, **kwargs)


class MembershipFactory(DjangoModelFactory[Membership]):
    class Meta:
        model = Membership

    workspace = factory.SubFactory(WorkspaceFactory)
    user = factory.SubFactory(UserFactory)
    role = Role.ADMIN


class InvitationFactory(DjangoModelFactory[Invitation]):
    """An open one, whose link nobody knows."""

    class Meta:
        model = Invitation

    workspace = factory.SubFactory(WorkspaceFactory)
    email = factory.Sequence(lambda n: f"invited{n}@example.org")
    role = Role.LABELLER
    token_hmac = factory.LazyFunction(lambda: secrets.token_bytes(32))
    expires_at = factory.LazyFunction(lambda: timezone.now() + dt.timedelta(days=7))


class ApiKeyFactory(DjangoModelFactory[ApiKey]):
    """A row whose secret nobody knows; the fixture `api` makes keys that can be used."""

    class Meta:
        model = ApiKey

    workspace = factory.SubFactory(WorkspaceFactory)
    name = factory.Sequence(lambda n: f"key {n}")
    prefix = factory.LazyFunction(lambda: secrets.token_hex(6))
    secret_hmac = factory.LazyFunction(lambda: secrets.token_bytes(32))
    scopes = factory.LazyFunction(lambda: [Scope.EXPORT_READ.value])


class KeptAnswerFactory(DjangoModelFactory[KeptAnswer]):
    class Meta:
        model = KeptAnswer

    workspace = factory.SubFactory(WorkspaceFactory)
    sender = "key:0123456789ab"
    key = factory.Sequence(lambda n: f"request-{n}")
    request_hash = factory.LazyFunction(lambda: secrets.token_bytes(32))
    status = 201
    body = b"{}"
    created_at = factory.LazyFunction(timezone.now)


class AuditEntryFactory(DjangoModelFactory[AuditEntry]):
    class Meta:
        model = AuditEntry

    workspace = factory.SubFactory(WorkspaceFactory)
    actor = "system"
    action = "test.happened"
    target = "test:1"
