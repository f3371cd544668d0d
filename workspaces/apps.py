from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "workspaces"

    def ready(self) -> None:
        from workspaces.accounts import security_events  # noqa: F401 - importing it connects its receivers
        from workspaces.audit.targets import name_targets
        from workspaces.models import ApiKey, Invitation, User, Workspace

        name_targets("api_key", ApiKey)
        name_targets("invitation", Invitation)
        name_targets("user", User, name=lambda user: f"{user.name}, {user.email}" if user.name else user.email)
        name_targets("workspace", Workspace)
