from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self) -> None:
        # Every process that enqueues must know the broker: without an application Celery would ask a default one.
        import project.celery
        import project.database  # noqa: F401
