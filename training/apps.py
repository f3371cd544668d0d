from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"

    def ready(self) -> None:
        # Job kinds register themselves; whoever enqueues needs them known, not only the worker.
        import training.tasks  # noqa: F401
