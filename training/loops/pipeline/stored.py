"""A pipeline as its job's payload keeps it, and what it has made so far.

The dataset has the pipeline's name; the run is the newest on that dataset. A resumed pipeline is a new job with the
same payload, so it finds both.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from decisions.models import Agent
from models_registry.models import ModelVersion
from training.loops.pipeline.plan import PipelinePlan, Prepared
from training.models import DatasetKind, DatasetSnapshot, ExportJob, TrainingRun
from training.models.export import ExportFormat
from workspaces.models import Workspace


@dataclass(frozen=True, slots=True)
class StoredPipeline:
    """`name` is pipeline-… and unlike that of any other."""

    agent: Agent
    name: str
    requested_by: str
    prepared: Prepared

    @property
    def base_version(self) -> ModelVersion | None:
        return self.prepared.base_version

    def as_payload(self) -> dict[str, Any]:
        prepared = self.prepared
        return {
            "pipeline": self.name,
            "agent": self.agent.slug,
            "requested_by": self.requested_by,
            "plan": prepared.plan.as_plain(),
            "kind": str(prepared.kind),
            "base_version": str(prepared.base_version.id) if prepared.base_version is not None else None,
            "base_model": prepared.base_model,
            "root": prepared.root,
            "heldout": str(prepared.heldout.id) if prepared.heldout is not None else None,
            "replay": str(prepared.replay.id) if prepared.replay is not None else None,
            "unused_at": prepared.unused_at.isoformat() if prepared.unused_at is not None else None,
        }

    @classmethod
    def from_payload(cls, workspace: Workspace, payload: Mapping[str, Any]) -> Self:
        """What was deleted meanwhile is None; the run's own check then says what is missing."""
        agent = Agent.objects.for_workspace(workspace).select_related("workspace").get(slug=payload["agent"])
        datasets = DatasetSnapshot.objects.for_workspace(workspace)
        versions = ModelVersion.objects.for_workspace(workspace).select_related("artifact", "registered_model")
        prepared = Prepared(
            plan=PipelinePlan.from_plain(payload["plan"]),
            kind=DatasetKind(payload["kind"]),
            base_version=versions.filter(id=payload["base_version"]).first() if payload["base_version"] else None,
            base_model=payload["base_model"],
            root=payload["root"],
            heldout=datasets.filter(id=payload["heldout"]).first() if payload["heldout"] else None,
            replay=datasets.filter(id=payload["replay"]).first() if payload["replay"] else None,
            unused_at=dt.datetime.fromisoformat(payload["unused_at"]) if payload["unused_at"] else None,
        )
        return cls(agent, payload["pipeline"], payload["requested_by"], prepared)

    def find_dataset(self) -> DatasetSnapshot | None:
        found = DatasetSnapshot.objects.filter(agent=self.agent, name=self.name).select_related("agent", "artifact")
        return found.order_by("id").first()

    def find_held_out(self, dataset: DatasetSnapshot) -> list[DatasetSnapshot]:
        """The dataset that was held out of this one, if there is one."""
        pk = dataset.statistics.get("held_out")
        return list(DatasetSnapshot.objects.filter(id=pk).select_related("agent")) if pk else []

    def find_run(self) -> TrainingRun | None:
        runs = TrainingRun.objects.filter(agent=self.agent, dataset__name=self.name)
        related = ("agent", "dataset", "evaluation", "produced_version__artifact", "produced_version__registered_model")
        return runs.select_related(*related).order_by("-id").first()

    def find_export(self, version: ModelVersion) -> ExportJob | None:
        """The newest of its merged exports."""
        found = ExportJob.objects.filter(version=version, format=ExportFormat.MERGED).select_related("artifact", "job")
        return found.order_by("-id").first()

    def find_gguf(self, version: ModelVersion) -> ExportJob | None:
        """The newest of its exports for Ollama; none where that is not asked for."""
        plan = self.prepared.plan
        found = ExportJob.objects.filter(version=version, format=ExportFormat.GGUF)
        found = found.filter(options__quantisation=plan.quantisation).select_related("artifact", "job")
        return found.order_by("-id").first() if plan.deploy_ollama else None
