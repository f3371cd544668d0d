from django.apps import AppConfig


class DecisionsConfig(AppConfig):
    name = "decisions"

    def ready(self) -> None:
        # Says to the floor below which outcomes a model's units can have, and to `manage.py check` what is broken.
        import decisions.rewards.attainable
        import decisions.rewards.checks  # noqa: F401
