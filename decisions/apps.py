from django.apps import AppConfig


class DecisionsConfig(AppConfig):
    name = "decisions"

    def ready(self) -> None:
        # Says to the floor below which outcomes a model's units can have.
        import decisions.rewards.attainable  # noqa: F401
