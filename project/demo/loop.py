"""The demo's loop: serve, record, feedback, reward, train, evaluate, export, experiment, promote.

It uses the product as an app would. Only the simulated reader knows the right answers.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from decisions.agents.services import AgentSetup
from decisions.models import Decision
from decisions.tasks import MATURE_OUTCOMES
from jobs.context import JobContext
from jobs.services import enqueue_job
from models_registry.experiments.guardrails import GuardrailPlan
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import stop_experiment
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment, ExperimentState, GuardrailMeasure, ModelVersion
from models_registry.versions.gates import read_gate
from project.demo.passages import Passage
from project.demo.report import LOG, build_report
from project.demo.world import load_world
from training.exports.services import await_export
from training.loops.agent_loop import SEED_LABELS, AgentLoop
from training.loops.person import Person
from training.loops.stages import Progress, Stage, run_stages
from training.models.export import ExportState
from training.rows.labelled_texts import Example
from training.runs.defaults import recipes
from training.runs.defaults.matrices import adapt_usable_matrices
from workspaces.access.actors import system

KIND = "project.demo_loop"
AGENT = "filer"
# Asked together during the experiment, so that outcomes mature between requests.
EXPERIMENT_CHUNK = 128
MAX_PROMPT_TOKENS = 40
TEMPERATURE = 0.5
EPSILON = 0.1
# Measured for these passages, which are longer and wordier than most texts (docs/results.md).
PASSES, TOKEN_DROPOUT = 4, 0.1
# 15 % are never answered, 12 % of the rest late; 5 % of the answers say the opposite of the truth.
MISSING, LATE, NOISE = 0.15, 0.12, 0.05

# The demo's shorter bounds: seconds for days, 150 units an arm for 500, wider margins. The e-values needed are those of
# every experiment, so an error is no likelier here. Half of such experiments, simulated on the demo's own predictions,
# are promoted within some 430 units, and all of them within those that are left (benchmarks/demo_experiment.py).
# Without any failure, non-inferiority by 5 points takes some 250 units at E = 20, by 1 point some 1,300
# (statistics/guardrails.py). A passage waits for the others that are asked with it, hence the long budget. A quarter of
# the passages gets no answer in time.
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


class DemoLoop(AgentLoop):
    """One look at the loop. `advance` returns the report once every stage is done, and raises Defer before that."""

    def __init__(self, context: JobContext) -> None:
        assert context.workspace is not None
        seed = int(context.payload["seed"])
        world = load_world(settings.VAR / "demo", seed)
        train = [as_example(passage) for passage in world.train]
        log_begins = settings.DEMO_SEED_LABELS
        log_ends = log_begins + settings.DEMO_DECISIONS
        self.log = train[log_begins:log_ends]
        self.tried = train[log_ends : log_ends + settings.DEMO_EXPERIMENT_UNITS]
        super().__init__(
            context,
            by=system(context.workspace),
            slug=AGENT,
            name="Filer",
            unit="passage",
            kind="FILER",
            setup=AgentSetup(
                prompt_template="{{ text }}",
                options=world.topics,
                max_prompt_tokens=MAX_PROMPT_TOKENS,
                temperature=TEMPERATURE,
                epsilon=EPSILON,
            ),
            labels=world.topics,
            seed_rows=train[:log_begins],
            stream=[*self.log, *self.tried],
            heldout=[as_example(passage) for passage in world.heldout],
            person=Person(seed, missing=MISSING, late=LATE, noise=NOISE),
        )

    def advance(self) -> dict[str, Any]:
        stages = (
            Stage(0.25, self._teach_base),
            Stage(0.40, self._serve_and_record),
            Stage(0.75, self._train),
            Stage(0.80, self._export),
            Stage(0.98, self._try_on_traffic),
            Stage(1.00, self._answer_late),
        )
        run_stages(self.context, stages)
        return build_report(self.agent)

    def _teach_base(self, progress: Progress) -> None:
        """A base model that is useful but clearly improvable."""
        recipe = recipes.base_settings(settings.BASE_MODEL, len(self.seed_rows))
        recipe = recipes.for_tiny(recipe, settings.BASE_MODEL, token_dropout=TOKEN_DROPOUT)
        self.teach_base(recipe, free_rows=recipes.FREE_ROWS)
        base = self.wait_for_best(progress, SEED_LABELS, "teaching the base")
        if self.dataset(LOG) is None:  # else a later version may serve by now
            self.serve_by(base)

    def _serve_and_record(self, progress: Progress) -> None:
        if self.dataset(LOG) is not None:
            return
        self.decide_all(self.log, "filing passages", progress)
        self.give_feedback(self.log, "at_once")
        self.calculate_rewards()
        self.logged(LOG, unjudged=True)

    def _train(self, progress: Progress) -> None:
        if not self.runs_on(LOG):
            dataset, base = self.logged(LOG), self.run_on(SEED_LABELS)
            assert base is not None
            recipe = recipes.round_settings(settings.BASE_MODEL, dataset.rows + len(self.seed_rows))
            recipe = recipes.for_tiny(recipe, settings.BASE_MODEL, epochs=PASSES, token_dropout=TOKEN_DROPOUT)
            recipe = adapt_usable_matrices(recipe, settings.BASE_MODEL)
            self.start_best(
                method="posterior",
                dataset=dataset,
                replay=self.labelled(SEED_LABELS, self.seed_rows),
                base_version=self.language_model_of(SEED_LABELS),
                compared_with=base.produced_version,
                recipe=recipe,
                free_rows=recipes.FREE_ROWS,
            )
        self.wait_for_best(progress, LOG, "training on the feedback")

    def _trained(self) -> ModelVersion:
        run = self.run_on(LOG)
        assert run is not None and run.produced_version is not None
        return run.produced_version

    def _export(self, progress: Progress) -> None:
        version = self._trained()
        if version.is_classifier:  # has no weights to merge
            return
        export = await_export(by=self.by, version=version, since=self.context.created_at)
        if export.state != ExportState.READY:
            raise progress.wait("exporting merged weights")

    def _try_on_traffic(self, progress: Progress) -> None:
        trained = self._trained()
        if not read_gate(trained).passed:
            return  # no evidence of improvement: the report says so, and live traffic is left alone
        experiment = Experiment.objects.filter(registered_model=trained.registered_model).order_by("id").first()
        if experiment is None:
            start_experiment(
                by=self.by, treatment=trained, plan=EXPERIMENT_PLAN, reason="trained on the demo's decisions"
            )
            raise progress.wait("starting the experiment", seconds=0)
        if experiment.state != ExperimentState.RUNNING:
            return
        done = Decision.objects.filter(agent=self.agent, exposure__experiment=experiment).count()
        matured = experiment.observations.count()
        begin, chunk = next(self.undecided(self.tried, EXPERIMENT_CHUNK), (len(self.tried), ()))
        if chunk:
            self.decide(chunk, f"experiment/{begin}")
        # The chunk before as well: a killed worker may not have come to its feedback.
        self.give_feedback(self.tried[max(0, begin - EXPERIMENT_CHUNK) : begin + EXPERIMENT_CHUNK], "at_once")
        if not chunk and matured >= done:
            stop_experiment(by=self.by, experiment=experiment, reason="undecided")
            return
        enqueue_job(kind=MATURE_OUTCOMES, workspace=self.by.workspace)
        message = f"experiment: {done} units met a variant, {matured} matured"
        raise progress.wait(message, done=min(1.0, done / max(1, len(self.tried))))

    def _answer_late(self, _: Progress) -> None:
        """The late verdicts: they make new rewards for training, and change no observation."""
        self.give_feedback([*self.log, *self.tried], "late")
        self.calculate_rewards()


def as_example(passage: Passage) -> Example:
    """Passages of one module are one cluster."""
    return Example(passage.id, passage.text, passage.topic, group=passage.module)


def run_demo_loop(context: JobContext) -> dict[str, Any]:
    """The job's handler."""
    report = DemoLoop(context).advance()
    experiment = report["experiment"]
    verdict = experiment["state"].replace("_", " ") if experiment else "not shown to be better"
    context.progress(1.0, f"{report['trained']} {verdict}; champion {report['champion']}")
    return report
