from django.apps import AppConfig


class DecisionsConfig(AppConfig):
    name = "decisions"

    def ready(self) -> None:
        import decisions.rewards.checks  # noqa: F401 - for `manage.py check`
        from decisions.models import Agent, AgentVersion, BulkLabel, RewardSpec
        from decisions.registry_ledger import RegistryLedger
        from models_registry.experiments.ledger import set_ledger
        from workspaces.audit.targets import name_targets

        set_ledger(RegistryLedger())
        name_targets("agent", Agent)
        name_targets("agent_version", AgentVersion, "agent")
        name_targets("bulk_label", BulkLabel)
        name_targets("reward_spec", RewardSpec, "agent")
