"""One seed of a rehearsal, stage by stage, through the product's own paths: gateway, ledger, rewards, datasets, runs.

Like the demo's loop, each look finds in the ledger what is done, goes on from there, and defers while an engine works:
a killed worker or a cancelled rehearsal loses nothing. The labels stay with the person; decisions carry only what a
live system would know. Called by `training.rehearsal.services`.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings

from decisions.agents.services import AgentSetup, create_agent, create_agent_version
from decisions.gateway.decide import decide
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import DecideItem, FeedbackIn
from decisions.models import Agent, AgentVersion, Decision
from decisions.rewards.calculate import reckon_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.errors import Defer, JobCancelled, Permanent
from models_registry.models import ModelVersion
from models_registry.promotion import promote_version
from models_registry.services import get_champion
from training.datasets import import_labelled, snapshot_ledger
from training.models import DatasetSnapshot, Rehearsal, TrainingRun
from training.rehearsal import recipe
from training.rehearsal.person import react
from training.rehearsal.plan import Plan, split_rows
from training.rehearsal.source import Example, Source
from training.run_states import RunState
from training.runs import RunPlan, start_run
from workspaces.actors import system
from workspaces.ids import uuid7_of

CHUNK = 256
LOOK_AGAIN_SECONDS = 1.5
SEED_LABELS, HELDOUT, EVERY_LABEL, GATE_LOG = "seed labels", "held-out rows", "every label", "log for the gate"
# A gate's log has to try what the acting policy would hardly do.
GATE_TEMPERATURE, GATE_EPSILON = 1.0, 0.2
BASE_SHARE, ROUNDS_SHARE = 0.15, 0.7


def round_name(number: int) -> str:
    """What the dataset of a round is called, counted from 1."""
    return f"decisions until round {number}"


class SeedLoop:
    """One look at one seed. `advance` returns once everything the report needs is in the ledger; raises Defer before.

    Raises Permanent when a run failed, JobCancelled when the rehearsal is to stop.
    """

    def __init__(self, context: JobContext, rehearsal: Rehearsal, source: Source, seed: int) -> None:
        self.context = context
        self.rehearsal = rehearsal
        self.seed = seed
        self.plan = Plan.from_plain(rehearsal.plan)
        self.labels = source.labels
        self.by = system(rehearsal.workspace)
        self.split = split_rows(source, self.plan, seed)
        self.prompt_tokens = recipe.prompt_tokens(source.examples)
        self.label_of = {row.id: row.label for row in (*self.split.stream, *self.split.gate)}
        self.agent = self._agent()

    def advance(self) -> None:
        base = self._await(self._base_run(), "teaching the base", 0.0, BASE_SHARE)
        ceiling = self._ceiling_run(base)
        for number in range(1, self.plan.rounds + 1):
            at = BASE_SHARE + ROUNDS_SHARE * (number - 1) / self.plan.rounds
            self._await(self._round(number, base), f"round {number}: training", at, ROUNDS_SHARE / self.plan.rounds)
        self._await(ceiling, "training on every label, for the ceiling", 0.85, 0.05)
        self._log_for_gate(base)
        self._serve_by(self.final_version())

    # What is there already, by its name.

    def _agent(self) -> Agent:
        slug = f"seed-{self.seed}"
        found = Agent.objects.for_workspace(self.by.workspace).filter(slug=slug).first()
        if found is not None:
            return found
        setup = self._setup(self.plan.temperature, self.plan.epsilon)
        return create_agent(by=self.by, slug=slug, name=f"Seed {self.seed}", unit="row", setup=setup)

    def _setup(self, temperature: float, epsilon: float) -> AgentSetup:
        return AgentSetup(
            prompt_template="{{ text }}",
            options=self.labels,
            max_prompt_tokens=self.prompt_tokens,
            temperature=temperature,
            epsilon=epsilon,
        )

    def dataset(self, name: str) -> DatasetSnapshot | None:
        return DatasetSnapshot.objects.filter(agent=self.agent, name=name).order_by("id").first()

    def run(self, dataset: str) -> TrainingRun | None:
        """The run on the dataset of this name; one that was cancelled with its rehearsal does not count."""
        runs = TrainingRun.objects.filter(agent=self.agent, dataset__name=dataset)
        runs = runs.exclude(state=RunState.CANCELLED).select_related("produced_version__artifact", "evaluation")
        return runs.order_by("-id").first()

    def final_version(self) -> ModelVersion:
        run = self.run(round_name(self.plan.rounds))
        assert run is not None and run.produced_version is not None
        return run.produced_version

    def gate_version(self) -> AgentVersion | None:
        return self.agent.versions.filter(number=2).first()

    def _labelled(self, name: str, rows: Sequence[Example]) -> DatasetSnapshot:
        plain = ({"id": row.id, "prompt": row.text, "options": self.labels, "answer": row.label} for row in rows)
        return self.dataset(name) or import_labelled(by=self.by, agent=self.agent, name=name, rows=plain)

    def _start(self, plan: RunPlan) -> TrainingRun:
        return start_run(by=self.by, agent=self.agent, plan=plan)

    def _settings(self, specific: Mapping[str, Any], *, free_rows: int = 0) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "max_prompt_tokens": self.prompt_tokens,
            "serving": {"temperature": self.plan.temperature, "epsilon": self.plan.epsilon},
            "evaluate": {"free_rows": free_rows},
            **specific,
        }

    # Training.

    def _base_run(self) -> TrainingRun:
        found = self.run(SEED_LABELS)
        if found is not None:
            return found
        rows = self._labelled(SEED_LABELS, self.split.seed_rows)
        return self._start(
            RunPlan(
                method="pretrain",
                dataset=rows,
                base_model=settings.BASE_MODEL,
                heldout=self._labelled(HELDOUT, self.split.heldout),
                settings=self._settings(recipe.base_settings(settings.BASE_MODEL, rows.rows)),
            )
        )

    def _ceiling_run(self, base: ModelVersion) -> TrainingRun:
        found = self.run(EVERY_LABEL)
        if found is not None:
            return found
        rows = self._labelled(EVERY_LABEL, (*self.split.stream, *self.split.seed_rows))
        return self._start(
            RunPlan(
                method="pretrain",
                dataset=rows,
                base_version=base,
                heldout=self._labelled(HELDOUT, self.split.heldout),
                settings=self._settings(recipe.ceiling_settings(settings.BASE_MODEL, rows.rows)),
            )
        )

    def _round(self, number: int, base: ModelVersion) -> TrainingRun:
        found = self.run(round_name(number))
        if found is not None:
            return found
        dataset = self.dataset(round_name(number)) or self._collect(number)
        last = number == self.plan.rounds
        rows = dataset.rows + len(self.split.seed_rows)
        return self._start(
            RunPlan(
                method="posterior",
                dataset=dataset,
                replay=self._labelled(SEED_LABELS, self.split.seed_rows),
                heldout=self._labelled(HELDOUT, self.split.heldout),
                base_version=base,
                settings=self._settings(
                    recipe.round_settings(settings.BASE_MODEL, rows),
                    free_rows=recipe.FREE_ROWS if last else 0,
                ),
            )
        )

    def _await(self, run: TrainingRun, message: str, at: float, share: float) -> ModelVersion:
        if run.state == RunState.SUCCEEDED:
            assert run.produced_version is not None
            return run.produced_version
        if run.is_terminal:
            raise Permanent(f"seed {self.seed}: the {run.method} run {run.id} {run.state}: {run.error}")
        said = f"seed {self.seed}: {message} ({run.message or run.state})"
        raise Defer(LOOK_AGAIN_SECONDS, progress=self._overall(at + share * (0.5 + 0.5 * run.progress)), message=said)

    def _overall(self, fraction: float) -> float:
        """How far the whole rehearsal is, when this seed is so far."""
        return (self.seed + fraction) / self.plan.seeds

    # Deciding, and what the person says of it.

    def _collect(self, number: int) -> DatasetSnapshot:
        """The round's decisions by the newest model, their feedback and rewards, and everything so far as a dataset."""
        earlier = self.run(round_name(number - 1)) or self.run(SEED_LABELS)
        assert earlier is not None and earlier.produced_version is not None
        self._serve_by(earlier.produced_version)
        ends = [0, *self.split.round_ends(self.plan.rounds)]
        at = BASE_SHARE + ROUNDS_SHARE * (number - 1) / self.plan.rounds
        self._decide(self.split.stream[ends[number - 1] : ends[number]], f"round {number}", at)
        if number > 1:
            self._say(self.split.stream[ends[number - 2] : ends[number - 1]], "late")
        self._say(self.split.stream[ends[number - 1] : ends[number]], "at_once")
        with self.context.fenced():
            reckon_rewards(current_reward_spec(self.agent))
        with self.context.fenced():
            return snapshot_ledger(by=self.by, agent=self.agent, name=round_name(number))

    def _log_for_gate(self, base: ModelVersion) -> None:
        """Decisions by the base on rows that nobody trained on, exploring more: the log that a gate would ask for."""
        if self.dataset(GATE_LOG) is not None:
            return
        version = self.gate_version() or create_agent_version(
            by=self.by, agent=self.agent, setup=self._setup(GATE_TEMPERATURE, GATE_EPSILON)
        )
        self._serve_by(base)
        self._decide(self.split.gate, "log for the gate", 0.9)
        self._say(self.split.gate, "at_once")
        self._say(self.split.gate, "late")
        with self.context.fenced():
            reckon_rewards(current_reward_spec(self.agent))
        with self.context.fenced():
            snapshot_ledger(by=self.by, agent=self.agent, name=GATE_LOG, agent_version=version)

    def _serve_by(self, version: ModelVersion) -> None:
        assert self.agent.registered_model is not None
        if get_champion(self.agent.registered_model) != version:
            promote_version(by=self.by, version=version, reason="the rehearsal's round")

    def decision_id(self, row: Example) -> Any:
        """Follows from the rehearsal, the seed and the row: asking again gives the recorded decision back."""
        place = dt.timedelta(milliseconds=int(row.id.removeprefix("row-")) % 60_000)
        return uuid7_of(self.rehearsal.created_at + place, f"{self.rehearsal.id}/{self.seed}/{row.id}".encode())

    def _decide(self, rows: Sequence[Example], what: str, at: float) -> None:
        ids = [self.decision_id(row) for row in rows]
        known = set(Decision.objects.filter(id__in=ids).values_list("id", flat=True))
        # A chunk is recorded whole or not at all, so its draws follow from the seed whatever was cut off.
        for start, chunk in _chunks(rows):
            if known.issuperset(ids[start : start + CHUNK]):
                continue
            if self.context.cancel_requested():
                raise JobCancelled
            items = [
                DecideItem(id=given, state={"text": row.text}, unit=row.id, external_id=row.id)
                for given, row in zip(ids[start : start + CHUNK], chunk, strict=True)
            ]
            rng = random.Random(f"{self.seed}/{what}/{start}")  # noqa: S311 - reproducible draws
            decide(by=self.by, agent=self.agent.slug, items=items, rng=rng)
            self.context.progress(
                self._overall(at), f"seed {self.seed}: {what}: {start + len(chunk)} of {len(rows)} decisions"
            )

    def _say(self, rows: Sequence[Example], when: str) -> None:
        """The person's verdicts that are due; the key makes a repeated send harmless."""
        for _, chunk in _chunks(rows):
            ids = {self.decision_id(row): row for row in chunk}
            items = []
            for given, action in Decision.objects.filter(id__in=ids).values_list("id", "action"):
                row = ids[given]
                reaction = react(self.plan, self.seed, row.id, right=action == row.label)
                if reaction.when == when:
                    items.append(
                        FeedbackIn(
                            metric="verdict",
                            value=reaction.verdict,
                            decision_id=given,
                            idempotency_key=f"person:{given}",
                        )
                    )
            if items:
                outcome = record_feedback(by=self.by, items=list(enumerate(items)))
                if outcome.errors:
                    raise RuntimeError(f"the rehearsal's feedback was refused: {outcome.errors[0]}")


def _chunks(rows: Sequence[Example]) -> Iterator[tuple[int, Sequence[Example]]]:
    for start in range(0, len(rows), CHUNK):
        yield start, rows[start : start + CHUNK]
