"""Who acts, and in which workspace: the value that every service takes as `by=`. Also the roles and their scopes."""

from __future__ import annotations

from dataclasses import dataclass

from workspaces.models import ApiKey, Role, Scope, User, Workspace

ROLE_SCOPES: dict[str, frozenset[str]] = {
    Role.VIEWER: frozenset({Scope.EXPORT_READ}),
    Role.LABELLER: frozenset({Scope.EXPORT_READ, Scope.FEEDBACK_WRITE}),
    Role.ADMIN: frozenset(Scope.values),
}
"""What each role may do, in the words of key scopes: people and programs pass the same gate."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A person through a role, a program through a key, or the system itself."""

    workspace: Workspace
    name: str
    scopes: frozenset[str]
    user: User | None = None
    key: ApiKey | None = None

    @property
    def is_authenticated(self) -> bool:
        """Django REST Framework asks this of whatever stands in `request.user`."""
        return True

    def may(self, scope: str) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


def person(user: User, workspace: Workspace, role: str) -> Actor:
    return Actor(workspace=workspace, name=user.email, scopes=ROLE_SCOPES[role], user=user)


def program(key: ApiKey) -> Actor:
    return Actor(workspace=key.workspace, name=f"key:{key.prefix}", scopes=frozenset(key.scopes), key=key)


def internal(workspace: Workspace) -> Actor:
    """The notes app's server by its internal key: what the app does with decisions, and nothing of an admin."""
    scopes = {Scope.DECISIONS_WRITE, Scope.FEEDBACK_WRITE, Scope.ROUTE_READ, Scope.EXPORT_READ}
    return Actor(workspace=workspace, name="internal", scopes=frozenset(scope.value for scope in scopes))


def system(workspace: Workspace) -> Actor:
    """Background jobs and commands."""
    return Actor(workspace=workspace, name="system", scopes=frozenset({Scope.ADMIN}))
