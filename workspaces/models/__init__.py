"""Tables of workspaces, people, keys and audit: the lowest floor."""

from workspaces.models.api_key import ApiKey, Scope
from workspaces.models.audit import AuditEntry
from workspaces.models.idempotency import KeptAnswer
from workspaces.models.invitation import Invitation
from workspaces.models.user import User
from workspaces.models.workspace import Membership, Role, Workspace, WorkspaceOwned, WorkspaceQuerySet

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Invitation",
    "KeptAnswer",
    "Membership",
    "Role",
    "Scope",
    "User",
    "Workspace",
    "WorkspaceOwned",
    "WorkspaceQuerySet",
]
