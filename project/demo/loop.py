"""The demo world's loop as one background job: serve, record, judge, reward, train, evaluate, export, try, promote.

Every stage looks at what the ledger already holds, does a little, and defers; a killed worker therefore goes on where
it was. Nothing here knows more than the product does, except the reader (project.demo.reader), who stands for people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from decisions.agents.services import AgentSetup, create_agent
from decisions.gateway.decide import decide
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import DecideItem, FeedbackIn
from decisions.models import Agent, Decision, Feedback
from decisions.tasks import MATURE_OUTCOMES, RECKON_REWARDS
from jobs.context import JobContext
from jobs.errors import Defer, Permanent
from jobs.models import Job, JobState
from jobs.services import enqueue_job
from models_registry.experiments import ExperimentPlan, start_experiment
from models_registry.guardrails import GuardrailPlan
from models_registry.models import Experiment, ExperimentState, GateVerdict, GuardrailMeasure, ModelVersion
from models_registry.promotion import stop_experiment
from project.demo.passages import Passage, World
from project.demo.reader import labelled_row, load_world, react
from project.demo.report import build_report
from training.datasets import import_labelled, snapshot_ledger
from training.exports import start_export
from training.models import DatasetKind, DatasetSnapshot, TrainingRun
from training.models.export import ExportState
from training.run_states import RunState
from training.runs import RunPlan, start_run
from workspaces.actors import Actor, system

KIND = "project.demo_loop"
AGENT = "filer"
CHUNK = 128
LOOK_AGAIN_SECONDS = 0.5
MAX_PROMPT_TOKENS = 40
TEMPERATURE = 0.5
EPSILON = 0.1

# The demo's shorter bounds: seconds for days, 150 units an arm for 500, wider margins. The e-values
# needed are those of every experiment, so an error is no likelier here. Without any failure, non-inferiority by 5
# points takes some 250 units at E = 20, by 1 point some 1,300 (statistics/guardrails.py). A passage waits for the
# other 127 that are asked with it, hence the long budget. A quarter of the passages gets no answer in time.
EXPERIMENT_PLAN = ExperimentPlan(
    treatment_share=0.5,
    attribution_window_seconds=4.0,
    exposure_window_seconds=1.0,
    min_units_per_arm=150,
    min_seconds=5.0,
    guardrails=(
        GuardrailPlan(GuardrailMeasure.ERROR_RATE.value, margin=0.05),
        GuardrailPlan(GuardrailMeasure.LATENCY.value, margin=0.05, budget_ms=10_000.0),
        GuardrailPlan(GuardrailMeasure.MISSING_FEEDBACK.value, margin=0.15),
    ),
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a base is taught and then trained: settings of the engine's spec."""

    pretrain: Mapping[str, Any]
    posterior: Mapping[str, Any]


# The tiny model, made on the spot, learns from scratch and in full; measured in docs/results.md.
TINY = Recipe(
    pretrain={"optimiser": {"learning_rate": 3e-3, "epochs": 8, "token_dropout": 0.1}},
    posterior={"optimiser": {"learning_rate": 2e-3, "epochs": 4, "token_dropout": 0.1}},
)
# A model that knows its language is only nudged, and then gets an adapter.
REAL = Recipe(
    pretrain={"optimiser": {"learning_rate": 2e-5, "epochs": 1, "batch_size": 16}},
    posterior={"lora": {"r": 16, "alpha": 32}, "optimiser": {"learning_rate": 2e-4, "epochs": 2, "batch_size": 16}},
)
COMMON: Mapping[str, Any] = {"max_prompt_tokens": MAX_PROMPT_TOKENS, "evaluate": {"free_rows": 300}}


def choose_recipe() -> Recipe:
    return TINY if settings.BASE_MODEL == "tiny" else REAL


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of the world each stage uses, in passages."""

    seed_labels: int
    decisions: int
    experiment_units: int

    @classmethod
    def from_settings(cls) -> Sizes:
        return cls(settings.DEMO_SEED_LABELS, settings.DEMO_DECISIONS, settings.DEMO_EXPERIMENT_UNITS)


class DemoLoop:
    """One look at the loop. `advance` runs the first stage that is not done; stages raise Defer while they wait."""

    def __init__(self, context: JobContext) -> None:
        assert context.workspace is not None
        self.context = context
        self.by: Actor = system(context.workspace)
        self.seed = int(context.payload["seed"])
        self.sizes = Sizes.from_settings()
        self.world: World = load_world(settings.VAR / "demo", self.seed)
        train = self.world.train
        self.seed_passages = train[: self.sizes.seed_labels]
        log_end = self.sizes.seed_labels + self.sizes.decisions
        self.log_passages = train[self.sizes.seed_labels : log_end]
        self.experiment_passages = train[log_end : log_end + self.sizes.experiment_units]
        self.topic_of = {passage.id: passage.topic for passage in train}
        self.agent = self._agent()

    def advance(self) -> dict[str, Any]:
        stages: Sequence[tuple[float, Callable[[], None]]] = (
            (0.05, self.teach_base),
            (0.25, self.serve_and_record),
            (0.40, self.reckon_rewards),
            (0.45, self.train),
            (0.75, self.export),
            (0.80, self.try_on_traffic),
            (0.98, self.answer_late),
        )
        for fraction, stage in stages:
            self.fraction = fraction
            stage()
        return build_report(self.agent)

    def wait(self, message: str, *, within: float = 0.0, seconds: float = LOOK_AGAIN_SECONDS) -> Defer:
        return Defer(seconds, progress=self.fraction + within, message=message)

    def _agent(self) -> Agent:
        found = Agent.objects.for_workspace(self.by.workspace).filter(slug=AGENT).first()
        if found is not None:
            return found
        return create_agent(
            by=self.by,
            slug=AGENT,
            name="Filer",
            kind="FILER",
            unit="passage",
            setup=AgentSetup(
                prompt_template="{{ text }}",
                options=self.world.topics,
                max_prompt_tokens=MAX_PROMPT_TOKENS,
                temperature=TEMPERATURE,
                epsilon=EPSILON,
            ),
        )

    # A base model that is useful but clearly improvable.

    def teach_base(self) -> None:
        run = self._run("pretrain")
        if run is None:
            plan = RunPlan(
                method="pretrain",
                dataset=self._labelled("seed labels", self.seed_passages),
                base_model=settings.BASE_MODEL,
                heldout=self._labelled("held-out passages", self.world.heldout),
                settings={**COMMON, **choose_recipe().pretrain, "seed": self.seed},
            )
            run = start_run(by=self.by, agent=self.agent, plan=plan)
        self._await(run, "teaching the base model", 0.2)

    def _labelled(self, name: str, passages: Sequence[Passage]) -> DatasetSnapshot:
        found = DatasetSnapshot.objects.filter(agent=self.agent, name=name, kind=DatasetKind.LABELLED).first()
        rows = (labelled_row(passage, self.world.topics) for passage in passages)
        return found or import_labelled(by=self.by, agent=self.agent, name=name, rows=rows)

    def _run(self, method: str) -> TrainingRun | None:
        return TrainingRun.objects.filter(agent=self.agent, method=method).order_by("id").first()

    def _await(self, run: TrainingRun, message: str, share: float) -> None:
        if run.state == RunState.SUCCEEDED:
            return
        if run.is_terminal:
            raise Permanent(f"the {run.method} run {run.state}: {run.error}")
        raise self.wait(f"{message}: {run.message or run.state}", within=share * run.progress)

    # Decisions by the base, and what the reader says of them.

    def serve_and_record(self) -> None:
        done = Decision.objects.filter(agent=self.agent, exposure__isnull=True).count()
        if done < len(self.log_passages):
            self._decide(self.log_passages[done : done + CHUNK])
            share = (done + CHUNK) / len(self.log_passages)
            message = f"filing passages: {min(done + CHUNK, len(self.log_passages))} of {len(self.log_passages)}"
            raise self.wait(message, within=0.15 * share, seconds=0)

    def _decide(self, passages: Sequence[Passage]) -> None:
        items = [
            DecideItem(state={"text": passage.text}, unit=passage.id, external_id=passage.id) for passage in passages
        ]
        answers = decide(by=self.by, agent=AGENT, items=items)
        self._say(
            [
                (answer.decision_id, passage.id, answer.action)
                for answer, passage in zip(answers, passages, strict=True)
            ],
            when="at_once",
        )

    def _say(self, decided: Sequence[tuple[Any, str, str]], *, when: str) -> None:
        """The reader's verdicts that are due; the key makes a repeated send harmless."""
        items = []
        for decision_id, passage_id, action in decided:
            reaction = react(self.seed, passage_id, self.topic_of[passage_id], action)
            if reaction.when == when:
                items.append(
                    FeedbackIn(
                        metric="verdict",
                        value=reaction.verdict,
                        decision_id=decision_id,
                        idempotency_key=f"reader:{decision_id}",
                    )
                )
        if items:
            outcome = record_feedback(by=self.by, items=list(enumerate(items)))
            if outcome.errors:
                raise RuntimeError(f"the reader's feedback was refused: {outcome.errors[0]}")

    # Rewards, dataset, training, evaluation.

    def reckon_rewards(self) -> None:
        job = enqueue_job(kind=RECKON_REWARDS, workspace=self.by.workspace, dedupe_key=f"demo:{self.agent.id}")
        self._await_job(job, "reckoning rewards")

    def _await_job(self, job: Job, message: str) -> None:
        job.refresh_from_db()
        if job.state == JobState.SUCCEEDED:
            return
        if job.is_terminal:
            raise Permanent(f"{job.kind} is {job.state}: {job.error}")
        raise self.wait(message)

    def train(self) -> None:
        run = self._run("posterior")
        if run is None:
            base = self._base()
            plan = RunPlan(
                method="posterior",
                dataset=snapshot_ledger(by=self.by, agent=self.agent, name="first decisions"),
                replay=self._labelled("seed labels", self.seed_passages),
                heldout=self._labelled("held-out passages", self.world.heldout),
                base_version=base,
                settings={
                    **COMMON,
                    **choose_recipe().posterior,
                    "seed": self.seed,
                    "serving": {"temperature": TEMPERATURE, "epsilon": EPSILON},
                },
            )
            run = start_run(by=self.by, agent=self.agent, plan=plan)
        self._await(run, "training on what was learnt", 0.3)

    def _base(self) -> ModelVersion:
        run = self._run("pretrain")
        assert run is not None and run.produced_version is not None
        return run.produced_version

    def _trained(self) -> ModelVersion:
        run = self._run("posterior")
        assert run is not None and run.produced_version is not None
        return run.produced_version

    def export(self) -> None:
        export = start_export(by=self.by, version=self._trained())
        if export.state == ExportState.FAILED:
            raise Permanent(f"the export failed: {export.error}")
        if export.state != ExportState.READY:
            raise self.wait("exporting merged weights")

    # The experiment on live traffic.

    def try_on_traffic(self) -> None:
        trained = self._trained()
        gate = GateVerdict.objects.filter(version=trained).first()
        if gate is None or not gate.passed:
            return  # no evidence of improvement: the report says so, and live traffic is left alone
        experiment = Experiment.objects.filter(registered_model=trained.registered_model).order_by("id").first()
        if experiment is None:
            start_experiment(by=self.by, treatment=trained, plan=EXPERIMENT_PLAN)
            raise self.wait("starting the experiment", seconds=0)
        if experiment.state != ExperimentState.RUNNING:
            return
        done = Decision.objects.filter(agent=self.agent, exposure__experiment=experiment).count()
        matured = experiment.observations.count()
        share = 0.15 * min(1.0, done / max(1, len(self.experiment_passages)))
        message = f"experiment: {done} units met a variant, {matured} matured"
        if done < len(self.experiment_passages):
            self._decide(self.experiment_passages[done : done + CHUNK])
        elif matured >= done:
            stop_experiment(by=self.by, experiment=experiment, reason="undecided")
            return
        enqueue_job(kind=MATURE_OUTCOMES, workspace=self.by.workspace)
        raise self.wait(message, within=share, seconds=1.0)

    def answer_late(self) -> None:
        """The late verdicts: they make new rewards for training, and change no observation."""
        answered = Feedback.objects.for_workspace(self.by.workspace).values("decision_id")
        silent = Decision.objects.filter(agent=self.agent).exclude(id__in=answered)
        self._say(list(silent.values_list("id", "external_id", "action")), when="late")
        job = enqueue_job(kind=RECKON_REWARDS, workspace=self.by.workspace, dedupe_key=f"demo-late:{self.agent.id}")
        self._await_job(job, "reckoning late feedback")


def run_demo_loop(context: JobContext) -> dict[str, Any]:
    """The job's handler."""
    report = DemoLoop(context).advance()
    experiment = report["experiment"]
    verdict = experiment["state"].replace("_", " ") if experiment else "not shown to be better"
    context.progress(1.0, f"{report['trained']} {verdict}; champion {report['champion']}")
    return report
