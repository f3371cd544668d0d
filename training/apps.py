from typing import Any

from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"

    def ready(self) -> None:
        # Importing them registers which runs used a decision, which artifacts are held, and what exports are to models.
        from decisions.queries.exported import Exported, row_writer
        from training.lineage import decisions, holders  # noqa: F401
        from training.models import DatasetSnapshot, Erasure, EvaluationSuite, ExportJob, Rehearsal, TrainingRun
        from workspaces.audit.targets import name_targets

        @row_writer
        def write_exported(row: Exported) -> list[dict[str, Any]] | None:
            from training.rows.exported import write_exported  # numbers, which most commands do without

            return write_exported(row)

        name_targets("dataset", DatasetSnapshot, name=lambda dataset: str(dataset.name))
        name_targets("erasure", Erasure)
        name_targets("export", ExportJob, "version__registered_model")
        name_targets("rehearsal", Rehearsal)
        name_targets("run", TrainingRun, "agent")
        name_targets("suite", EvaluationSuite)
