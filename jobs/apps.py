from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from jobs.models import Job
        from workspaces.audit.targets import name_targets

        name_targets("job", Job, name=lambda job: str(job.title))
