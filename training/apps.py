from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"

    def ready(self) -> None:
        # Registers the reader that tells the floor below which runs used a decision.
        from training import lineage  # noqa: F401
