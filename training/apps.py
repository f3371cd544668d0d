from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"

    def ready(self) -> None:
        # Job kinds register themselves; whoever enqueues needs them known, not only the worker. So does the reader that
        # tells the floor below which runs used a decision.
        from training import lineage, tasks  # noqa: F401
