from django.apps import AppConfig


class DecisionsConfig(AppConfig):
    name = "decisions"

    def ready(self) -> None:
        # Says to the floor below which outcomes a model's units can have, how long feedback takes, how many units there
        # are and what a promoted version of an agent makes happen, and to `manage.py check` what is broken.
        import decisions.agents.adopting
        import decisions.rewards.attainable
        import decisions.rewards.checks
        import decisions.rewards.feedback_lag
        import decisions.rewards.recent_traffic  # noqa: F401
        from decisions.models import Agent, AgentVersion, BulkLabel, RewardSpec
        from workspaces.audit.targets import name_targets

        name_targets("agent", Agent)
        name_targets("agent_version", AgentVersion, "agent")
        name_targets("bulk_label", BulkLabel)
        name_targets("reward_spec", RewardSpec, "agent")
