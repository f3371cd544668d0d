from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"

    def ready(self) -> None:
        # Registers the reader that tells the floor below which runs used a decision.
        # And those that tell which artifacts are held.
        from training.models import DatasetSnapshot, Erasure, EvaluationSuite, ExportJob, Rehearsal, TrainingRun
        from workspaces.audit.targets import name_targets

        name_targets("dataset", DatasetSnapshot, name=lambda dataset: str(dataset.name))
        name_targets("erasure", Erasure)
        name_targets("export", ExportJob, "version__registered_model")
        name_targets("rehearsal", Rehearsal)
        name_targets("run", TrainingRun, "agent")
        name_targets("suite", EvaluationSuite)
