"""A pipeline as a list of stages: rewards, dataset and run, evaluation, export, deployment, Ollama.

Called by `training.loops.pipeline.services`; `training.loops.pipeline.report` reads what the stages left. Each stage
does what is still missing: its dataset is found by the pipeline's name, its run by the dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from decisions.models import Agent
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.queueing import ask_for_help
from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.errors import JobCancelled, Permanent
from jobs.models import JobState
from models_registry.models import ModelVersion
from training.datasets.freezing import freeze_rows
from training.errors import EmptyDataset, InvalidRun
from training.evaluation.suites.services import find_suites, start_scoring
from training.exports import ollama
from training.exports.hosting import PROFILES, STANDARD
from training.exports.services import await_export
from training.loops.pipeline.deployment import Deployment, deploy_version
from training.loops.pipeline.stored import StoredPipeline
from training.loops.stages import Progress, Stage, run_stages
from training.models import DatasetSnapshot, SuiteScore, TrainingRun
from training.models.export import ExportFormat, ExportState
from training.run_states import RunState
from training.runs.services import start_run
from workspaces.access.actors import system
from workspaces.errors import FieldFault, InvalidInput


class PipelineLoop:
    """One look at a pipeline. `advance` returns once every stage is done, and raises Defer before that, Permanent where
    one failed, JobCancelled when it is to stop."""

    def __init__(self, context: JobContext) -> None:
        assert context.workspace is not None
        self.context = context
        self.stored = StoredPipeline.from_payload(context.workspace, context.payload)
        self.agent: Agent = self.stored.agent
        self.name = self.stored.name
        self.by = replace(system(context.workspace), name=self.stored.requested_by)
        self.deployment: Deployment | None = None
        self.ollama: ollama.Deployed | None = None

    def advance(self) -> None:
        stages = (
            Stage(0.05, self._calculate_rewards),
            Stage(0.15, self._score_base),
            Stage(0.25, self._freeze),
            Stage(0.85, self._train),
            Stage(0.90, self._evaluate),
            Stage(0.95, self._export),
            Stage(0.96, self._deploy),
            Stage(0.98, self._export_gguf),
            Stage(1.00, self._deploy_to_ollama),
        )
        run_stages(self.context, stages)

    def find_run(self) -> TrainingRun | None:
        """Of this pipeline; one that failed or was cancelled before it was resumed does not count."""
        run = self.stored.find_run()
        if run is not None and run.state in (RunState.FAILED, RunState.CANCELLED):
            return run if run.created_at > self.context.created_at else None
        return run

    def _produced(self) -> ModelVersion:
        run = self.find_run()
        assert run is not None and run.produced_version is not None
        return run.produced_version

    def _calculate_rewards(self, progress: Progress) -> None:
        if self.stored.find_dataset() is not None:
            return

        def tell(done: int) -> None:
            progress.report(f"calculating rewards: {done:,} decisions", done=0.5)

        calculate_rewards(current_reward_spec(self.agent), step=self.context.fenced, tell=tell, share=ask_for_help)

    def _score_base(self, progress: Progress) -> None:
        """On the suites that it has no score of: else the new version could not be compared with it."""
        if self.stored.base_version is not None and self.find_run() is None:
            self._score(self.stored.base_version, progress)

    def _score(self, version: ModelVersion, progress: Progress) -> None:
        scored = set(SuiteScore.objects.filter(version=version).values_list("suite_id", flat=True))
        for suite in find_suites(self.agent):
            if suite.id in scored or version.registered_model_id != self.agent.registered_model_id:
                continue
            job = start_scoring(by=self.by, suite=suite, version=version)
            if job.state in (JobState.DEAD, JobState.CANCELLED):
                raise Permanent(f"scoring {version} on {suite}: {job.error or job.state}")
            raise progress.wait(f"scoring {version} on {suite}", done=0.5)

    def _freeze(self, progress: Progress) -> None:
        """Dataset and run are made together or not at all: rows that teach nothing leave no dataset behind."""
        if self.find_run() is not None:
            return
        dataset = self.stored.find_dataset()
        try:
            if dataset is not None:  # its run was cancelled or failed
                self._start([dataset, *self.stored.find_held_out(dataset)])
                return
            prepared = self.stored.prepared
            freeze_rows(
                by=self.by,
                agent=self.agent,
                name=self.name,
                kind=prepared.kind,
                unused_at=prepared.unused_at,
                filters=prepared.plan.filters,
                held_out=prepared.held_out,
                note_progress=lambda share, message: self._note(progress, share, message),
                on_made=self._start,
            )
        except (EmptyDataset, InvalidRun) as error:
            raise Permanent(f"{error.message} {tell_faults(error.faults)}. No run was started.") from error

    def _note(self, progress: Progress, share: float, message: str) -> None:
        """Inside the transaction that makes the dataset, which a request to stop undoes."""
        if self.context.cancel_requested():
            raise JobCancelled
        self.context.check_owned()
        self.context.note_progress(progress.at(share), f"reading decisions: {message}")

    def _start(self, made: Sequence[DatasetSnapshot]) -> None:
        dataset, *held_out = made
        plan = self.stored.prepared.run_plan(dataset, held_out[0] if held_out else None)
        with self.context.fenced():
            start_run(by=self.by, agent=self.agent, plan=plan, tags=[self.name])

    def _train(self, progress: Progress) -> None:
        run = self.find_run()
        assert run is not None
        progress.wait_for_run(run, "training")

    def _evaluate(self, progress: Progress) -> None:
        """The run has measured the version on held-out rows, by the log and on the suites of its time."""
        self._score(self._produced(), progress)

    def _export(self, progress: Progress) -> None:
        version = self._produced()
        if version.is_classifier:  # has no weights to merge
            return
        export = await_export(by=self.by, version=version, since=self.context.created_at)
        if export.state != ExportState.READY:
            raise progress.wait(f"exporting {version}", done=0.5)

    def _deploy(self, _: Progress) -> None:
        wanted = self.stored.prepared.plan.deploy
        self.deployment = deploy_version(by=self.by, version=self._produced(), wanted=wanted, name=self.name)

    def _export_gguf(self, progress: Progress) -> None:
        plan, version = self.stored.prepared.plan, self._produced()
        if not plan.deploy_ollama:
            return
        since, options = self.context.created_at, {"quantisation": plan.quantisation}
        try:
            export = await_export(by=self.by, version=version, since=since, format=ExportFormat.GGUF, **options)
        except InvalidInput as error:
            raise Permanent(f"exporting {version} as GGUF: {tell_faults(error.faults) or error.message}") from error
        if export.state != ExportState.READY:
            raise progress.wait(f"exporting {version} as GGUF {plan.quantisation}", done=0.5)

    def _deploy_to_ollama(self, progress: Progress) -> None:
        plan, version = self.stored.prepared.plan, self._produced()
        if not plan.deploy_ollama:
            return
        progress.report(f"making a model of {version} in Ollama", done=0.0)
        try:
            gguf = ollama.find_gguf(version, plan.quantisation)
            self.ollama = ollama.deploy(plan.ollama_host, export=gguf, profile=PROFILES[STANDARD])
        except InvalidInput as error:
            raise Permanent(f"{version} is not in Ollama: {error.message}") from error


def tell_faults(faults: Sequence[FieldFault]) -> str:
    return "; ".join(f"{fault.field}: {fault.reason}" if fault.field else fault.reason for fault in faults)
