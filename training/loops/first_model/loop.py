"""The first model as a list of stages: rewards, people's verdicts as labelled rows, policies that learn them, all
decisions as a log to go on learning from, and what may serve. Where nobody chose a base, policies of every kind learn
both, and the best for its price is taken. Of an agent that writes texts, a pretrained base
learns those that were rewarded, and that is all.

A fifth of the labelled rows is held out, and what belongs together with them stays out of the log, so both runs are
measured on the same decisions and learn from none of them. The base's version serves at once, being the first. The
second one replaces it unless these decisions show it to be worse: nobody was served by a model before, so there is
nothing that a gate would have to protect.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from decisions.agents.current import find_current_version
from decisions.models import Agent
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.queueing import ask_for_help
from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.errors import JobCancelled, Permanent
from models_registry.experiments.promotion import promote_version
from models_registry.models import AliasName, ModelVersion
from models_registry.versions.services import get_champion
from training.datasets.freezing import freeze_rows
from training.engine.spec.methods import CLASSIFIER, METHODS
from training.errors import EmptyDataset, InvalidRun
from training.loops.comparison import MEASURES, choose_best
from training.loops.first_model.plans import Teaching
from training.loops.stages import Progress, Stage, run_stages
from training.models import DatasetKind, DatasetSnapshot, TrainingRun
from training.rows.selection import Filters
from training.run_states import RunState
from training.runs.candidates import PolicyKind, find_candidates, find_tagged_runs, kind_of, start_candidates
from training.runs.defaults.values import FROM_LOGS
from training.runs.reached import tell_reached
from training.runs.services import RunPlan, start_run
from workspaces.access.actors import system
from workspaces.errors import FieldFault, ReckonerError
from workspaces.templatetags.show import points

HELD_OUT = 0.2
LOG = " (log)"
UNMEASURED = (
    "Nothing measures it: nearly all decisions are of one unit or episode, or of nearly the same text, so none could be"
    " held out."
)

NOTHING_RIGHT = "Nothing measures it: none of the texts that were held out is known to be right."


class FirstModelLoop:
    """One look at the job. `advance` returns once every stage is done, and raises Defer before that, Permanent where
    there is no version in the end, JobCancelled when it is to stop."""

    def __init__(self, context: JobContext) -> None:
        assert context.workspace is not None
        self.context = context
        self.payload = context.payload
        agents = Agent.objects.for_workspace(context.workspace).select_related("workspace", "registered_model")
        self.agent = agents.get(slug=self.payload["agent"])
        self.by = replace(system(context.workspace), name=self.payload["requested_by"])
        self.teaching = Teaching.from_payload(self.payload)
        self.without_log = ""
        """Why there is no second version, for people."""
        self.lost: list[str] = []
        """What failed beside others that did not, for people."""
        self.because = ""
        """Which version serves, and why."""

    def advance(self) -> None:
        stages = (
            Stage(0.05, self._calculate_rewards),
            Stage(0.10, self._freeze_labels),
            Stage(0.50, self._teach_base),
            Stage(0.55, self._freeze_log),
            Stage(0.95, self._learn_log),
            Stage(1.00, self._deploy),
        )
        run_stages(self.context, stages)

    def build_result(self) -> tuple[dict[str, Any], str]:
        """The job's result, and its last message."""
        last = self._log_run or self._base_run
        if last is not None and last.produced_version is None:
            last = self._base_run
        assert last is not None and last.produced_version is not None
        labels = self._find_labels()
        assert labels is not None
        none_held_out = NOTHING_RIGHT if "held_out" in labels.statistics else UNMEASURED
        unmeasured = none_held_out if last.heldout is None else ""
        reached = tell_reached(last) or f"Made {last.produced_version}."
        sentences = [reached, self.because, unmeasured, self.without_log, *self.lost]
        result = {"dataset": str(labels.id), "run": str(last.id), "version": str(last.produced_version)}
        if last.heldout is not None:
            result["held_out"] = str(last.heldout.id)
        return result, " ".join(filter(None, sentences))

    @property
    def _base_runs(self) -> list[TrainingRun]:
        return [run for run in self._find_runs() if run.dataset.name == self.payload["name"]]

    @property
    def _log_runs(self) -> list[TrainingRun]:
        return [run for run in self._find_runs() if run.dataset.name == self.payload["name"] + LOG]

    def _find_runs(self) -> Sequence[TrainingRun]:
        return find_tagged_runs(self.by.workspace, self.payload["tag"])

    @property
    def _base_run(self) -> TrainingRun | None:
        """The best on the verdicts, once there are versions."""
        return choose_best(self._base_runs) or next(iter(self._base_runs), None)

    @property
    def _log_run(self) -> TrainingRun | None:
        """The best on all decisions, once there are versions."""
        return choose_best(self._log_runs) or next(iter(self._log_runs), None)

    def _find_labels(self) -> DatasetSnapshot | None:
        found = DatasetSnapshot.objects.filter(agent=self.agent, name=self.payload["name"])
        return found.select_related("agent").order_by("id").first()

    def _calculate_rewards(self, progress: Progress) -> None:
        if self._base_run is not None:
            return

        def tell(done: int) -> None:
            progress.report(f"calculating rewards: {done:,} decisions", done=0.5)

        calculate_rewards(current_reward_spec(self.agent), step=self.context.fenced, tell=tell, share=ask_for_help)

    def _note(self, progress: Progress, share: float, message: str) -> None:
        """Inside the transaction that makes the dataset, which a request to stop undoes."""
        if self.context.cancel_requested():
            raise JobCancelled
        self.context.check_owned()
        self.context.note_progress(progress.at(share), f"reading decisions: {message}")

    def _freeze_labels(self, progress: Progress) -> None:
        """Rows and run are made together or not at all. Where nearly all decisions belong together, none is held out:
        a model that nothing measures is better than none, and the job says so."""
        if self._base_run is not None:
            return
        try:
            try:
                self._freeze_parts(progress, HELD_OUT)
            except EmptyDataset as error:
                if not any(fault.field == "held_out" for fault in error.faults):
                    raise
                self._freeze_parts(progress, None)
        except (EmptyDataset, InvalidRun) as error:
            raise Permanent(f"{error.message} {_tell(error.faults)}. No run was started.") from error

    def _freeze_parts(self, progress: Progress, held_out: float | None) -> None:
        freeze_rows(
            by=self.by,
            agent=self.agent,
            name=self.payload["name"],
            kind=self.teaching.kind,
            held_out=held_out,
            note_progress=lambda share, message: self._note(progress, share, message),
            on_made=self._start_base,
        )

    def _start_base(self, made: list[DatasetSnapshot]) -> None:
        labels, heldout = made[0], made[1] if len(made) > 1 else None
        if heldout is not None and heldout.rows > labels.rows:
            fault = FieldFault("held_out", "most rows belong together", "none")
            raise EmptyDataset("No rows can be held out.", faults=[fault])
        method = self.teaching.method
        if heldout is not None and not heldout.can_measure:
            heldout = None
        plan = RunPlan(
            method,
            labels,
            base_model=self.teaching.root,
            heldout=heldout,
            settings=self._settings(method, labels.rows),
        )
        self._start(plan)

    def _start(self, plan: RunPlan, compared_with: ModelVersion | None = None) -> None:
        """The run, and where nobody chose a base those of the other kinds of policy. Raises InvalidRun."""
        with self.context.fenced():
            if not self.teaching.compares:
                start_run(by=self.by, agent=self.agent, plan=plan, tags=[self.payload["tag"]])
                return
            candidates = find_candidates(self.by.workspace, plan, compared_with=compared_with)
            start_candidates(by=self.by, agent=self.agent, candidates=candidates, tag=self.payload["tag"])

    def _settings(self, method: str, rows: int) -> Any:
        return self.teaching.settings(method, rows, find_current_version(self.agent))

    def _teach_base(self, progress: Progress) -> None:
        """The best of what was made serves, which need not be the first that was."""
        self._wait(progress, self._base_runs, "learning the verdicts")
        best = self._base_run
        assert best is not None and best.produced_version is not None
        made = [run.produced_version for run in self._base_runs]
        champion = get_champion(best.produced_version.registered_model)
        if champion in made and champion != best.produced_version and not self._log_runs:
            with suppress(ReckonerError):  # an approval is missing, or the model server cannot serve it
                promote_version(by=self.by, version=best.produced_version, reason=f"{self.payload['tag']}: the best")

    def _freeze_log(self, progress: Progress) -> None:
        base = self._base_run
        assert base is not None
        if self._log_run is not None or self.teaching.kind == DatasetKind.TEXT:  # its texts were all decisions
            return
        try:
            freeze_rows(
                by=self.by,
                agent=self.agent,
                name=self.payload["name"] + LOG,
                kind=DatasetKind.LOGGED,
                apart_from=str(base.heldout_id) if base.heldout_id is not None else None,
                filters=Filters(unjudged=METHODS[FROM_LOGS].learns_unjudged),
                note_progress=lambda share, message: self._note(progress, share, message),
                on_made=self._start_on_log,
            )
        except (EmptyDataset, InvalidRun) as error:
            self.without_log = f"It learnt from no more than the verdicts: {error.message} {_tell(error.faults)}."

    def _start_on_log(self, made: list[DatasetSnapshot]) -> None:
        base, log = self._base_run, made[0]
        assert base is not None
        runs = (run for run in self._base_runs if kind_of(run) is PolicyKind.LANGUAGE_MODEL)
        language = next((run.produced_version for run in runs), None)
        method = FROM_LOGS if language is not None else CLASSIFIER
        plan = RunPlan(
            method,
            log,
            base_version=language or base.produced_version,
            heldout=base.heldout,
            replay=base.dataset,
            settings=self._settings(method, log.rows + base.dataset.rows),
        )
        self._start(plan, compared_with=base.produced_version)

    def _learn_log(self, progress: Progress) -> None:
        """The base serves already, so a run that fails here leaves an agent with a model."""
        self._wait(progress, self._log_runs, "learning from all decisions", strict=False)

    def _wait(self, progress: Progress, runs: Sequence[TrainingRun], message: str, *, strict: bool = True) -> None:
        """Raises Defer until all runs have ended, and with `strict` Permanent where none has made a version. Notes what
        failed."""
        lost = [run for run in runs if run.state in (RunState.FAILED, RunState.CANCELLED)]
        for run in runs:
            if run not in lost or (strict and len(lost) == len(runs)):
                progress.wait_for_run(run, message)
        self.lost += [f"A run of {run.method} {run.state}: {run.error}".rstrip(": ") + "." for run in lost]

    def _deploy(self, _: Progress) -> None:
        run, base_run = self._log_run, self._base_run
        if run is None or run.produced_version is None or base_run is None or base_run.produced_version is None:
            return
        version, base = run.produced_version, base_run.produced_version
        gained = _find_gain(run, base_run)
        if version.aliases.filter(name=AliasName.CHAMPION).exists():
            self.because = f"It serves in place of {base}."
        elif gained is None or gained < 0:
            says = f": {points(gained)} points on the same held-out rows" if gained is not None else ""
            self.because = f"{base} stays champion{says}."
        elif not base.aliases.filter(name=AliasName.CHAMPION).exists():
            self.because = f"It does not serve: {base} has been replaced."
        else:
            because = f"{points(gained)} points against {base} on the same held-out rows"
            try:
                promote_version(by=self.by, version=version, reason=f"{self.payload['tag']}: {because}")
            except ReckonerError as error:  # an approval is missing, or the model server cannot serve it
                self.because = f"{base} stays champion: {error.message}"
            else:
                self.because = f"It serves: {because}."


def _find_gain(run: TrainingRun, base: TrainingRun) -> float | None:
    """What the gate would judge by: of rankings NDCG@10, else accuracy; on the same held-out rows."""
    scores = [getattr(one, "evaluation", None) for one in (run, base)]
    reached = [one.scores.get("trained", {}) if one is not None else {} for one in scores]
    measure = next((name for name in MEASURES if all(name in one for one in reached)), None)
    return float(reached[0][measure]["mean"] - reached[1][measure]["mean"]) if measure is not None else None


def _tell(faults: Sequence[FieldFault]) -> str:
    return "; ".join(fault.reason for fault in faults).rstrip(".")
