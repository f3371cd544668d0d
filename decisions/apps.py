from django.apps import AppConfig


class DecisionsConfig(AppConfig):
    name = "decisions"

    def ready(self) -> None:
        # Job kinds register themselves; whoever enqueues needs them known, not only the worker.
        import decisions.tasks  # noqa: F401
