from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self) -> None:
        # Job kinds register themselves; whoever enqueues needs them known, not only the worker.
        import project.tasks  # noqa: F401
