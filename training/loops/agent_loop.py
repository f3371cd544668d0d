"""What every loop does with its agent, through the product's own paths: gateway, ledger, rewards, datasets, runs.

Names and ids of everything it makes follow from the loop's input, so a second run finds them. Only the simulated person
knows the labels; decisions hold what a real app would know.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings

from decisions.agents.services import AgentSetup, create_agent
from decisions.gateway.decide import decide
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import DecideItem, FeedbackIn
from decisions.models import Agent, AgentVersion, Decision
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.errors import Permanent
from models_registry.experiments.promotion import promote_version
from models_registry.models import ModelVersion
from models_registry.versions.services import get_champion
from training.datasets.snapshots import import_labelled, snapshot_ledger
from training.errors import InvalidRun
from training.loops.comparison import choose_best
from training.loops.person import Person, When
from training.loops.stages import Progress
from training.models import DatasetSnapshot, TrainingRun
from training.rows.labelled_texts import Example, labelled_row
from training.rows.selection import Filters
from training.run_states import RunState
from training.runs.candidates import PolicyKind, find_candidates, kind_of, start_candidates
from training.runs.defaults import recipes
from training.runs.services import RunPlan, check_plan
from workspaces.access.actors import Actor
from workspaces.storage.ids import uuid7_of

CHUNK = 256
SEED_LABELS, HELDOUT = "seed labels", "held-out rows"


class AgentLoop:
    """One agent, the examples it decides on (`stream`, in this order) and the person who answers.

    `labels` are the options. `heldout` is only ever measured on. `seed_rows` are the labels that warm the base, which
    is `base_model`: `tiny`, a folder or a hub id.
    """

    def __init__(
        self,
        context: JobContext,
        *,
        by: Actor,
        slug: str,
        name: str,
        unit: str,
        kind: str,
        setup: AgentSetup,
        labels: Sequence[str],
        seed_rows: Sequence[Example],
        stream: Sequence[Example],
        heldout: Sequence[Example],
        person: Person,
        base_model: str = "",
    ) -> None:
        self.context = context
        self.by = by
        self.labels = labels
        self.seed_rows = seed_rows
        self.heldout = heldout
        self.person = person
        self.base_model = base_model or settings.BASE_MODEL
        self.seed = person.seed
        self.label_of = {example.id: example.label for example in stream}
        self._place_of = {example.id: place for place, example in enumerate(stream)}
        assert setup.max_prompt_tokens is not None  # it chooses
        self.prompt_tokens = setup.max_prompt_tokens
        self.acting = {"temperature": setup.temperature, "epsilon": setup.epsilon}
        found = Agent.objects.for_workspace(by.workspace).filter(slug=slug).first()
        self.agent: Agent = found or create_agent(by=by, slug=slug, name=name, kind=kind, unit=unit, setup=setup)

    # Datasets and runs, found by the dataset's name.

    def dataset(self, name: str) -> DatasetSnapshot | None:
        return DatasetSnapshot.objects.filter(agent=self.agent, name=name).order_by("id").first()

    def labelled(self, name: str, rows: Sequence[Example]) -> DatasetSnapshot:
        plain = (labelled_row(row, self.labels) for row in rows)
        return self.dataset(name) or import_labelled(by=self.by, agent=self.agent, name=name, rows=plain)

    def logged(
        self, name: str, agent_version: AgentVersion | None = None, *, unjudged: bool = False
    ) -> DatasetSnapshot:
        """Every rewarded decision so far, and with `unjudged` those that nobody judged, as a dataset of this name."""
        found = self.dataset(name)
        if found is not None:
            return found
        with self.context.fenced():
            filters = Filters(unjudged=unjudged)
            return snapshot_ledger(
                by=self.by, agent=self.agent, name=name, agent_version=agent_version, filters=filters
            )

    def runs_on(self, dataset: str) -> list[TrainingRun]:
        """The runs on the dataset of this name, oldest first: one, or a candidate of each kind of policy. Those that
        were cancelled with their loop do not count."""
        runs = TrainingRun.objects.filter(agent=self.agent, dataset__name=dataset).exclude(state=RunState.CANCELLED)
        related = ("produced_version__artifact", "evaluation", "base_version__artifact")
        return list(runs.select_related(*related).order_by("id"))

    def run_on(self, dataset: str) -> TrainingRun | None:
        """The run on the dataset of this name; of candidates the best for its price, once they have made versions."""
        runs = self.runs_on(dataset)
        return choose_best(runs) or next(iter(runs), None)

    def language_model_of(self, dataset: str) -> ModelVersion | None:
        """The language model that a run on the dataset of this name has made."""
        made = (run for run in self.runs_on(dataset) if kind_of(run) is PolicyKind.LANGUAGE_MODEL)
        return next((run.produced_version for run in made if run.produced_version is not None), None)

    def wait_for_best(self, progress: Progress, dataset: str, message: str) -> ModelVersion:
        """The best version that the runs on the dataset of this name made. Raises Defer until all have ended, Permanent
        when one failed."""
        for run in self.runs_on(dataset):
            progress.wait_for_run(run, message)
        best = self.run_on(dataset)
        assert best is not None and best.produced_version is not None
        return best.produced_version

    def start_best(
        self,
        *,
        method: str,
        dataset: DatasetSnapshot,
        recipe: Mapping[str, Any],
        free_rows: int = 0,
        compared_with: ModelVersion | None = None,
        **plan: Any,
    ) -> None:
        """Runs of every kind of policy on the dataset, measured on the held-out examples. `recipe` and `plan`, further
        fields of the RunPlan, are the language model's. `compared_with`: what classifiers are compared with. Raises
        Permanent with every reason why none can start: trying again would not change them."""
        told = {
            "seed": self.seed,
            "max_prompt_tokens": self.prompt_tokens,
            "serving": self.acting,
            "evaluate": {"free_rows": free_rows},
            **recipe,
        }
        heldout = self.labelled(HELDOUT, self.heldout)
        whole = RunPlan(**{"method": method, "dataset": dataset, "heldout": heldout, "settings": told, **plan})
        try:
            check_plan(self.agent, whole)
            candidates = find_candidates(self.by.workspace, whole, compared_with=compared_with)
            start_candidates(by=self.by, agent=self.agent, candidates=candidates, tag=f"best-{dataset.id}")
        except InvalidRun as error:
            reasons = "; ".join(f"{fault.field}: {fault.reason}" for fault in error.faults)
            raise Permanent(f"{error.message} {reasons}") from error

    def teach_base(self, recipe: Mapping[str, Any] | None = None, free_rows: int = 0) -> None:
        """Has every kind of policy learn the seed labels, once."""
        if self.runs_on(SEED_LABELS):
            return
        rows = self.labelled(SEED_LABELS, self.seed_rows)
        recipe = recipe or recipes.base_settings(self.base_model, rows.rows)
        self.start_best(method="pretrain", dataset=rows, recipe=recipe, free_rows=free_rows, base_model=self.base_model)

    def serve_by(self, version: ModelVersion) -> None:
        """Makes the version the champion, if it is not."""
        assert self.agent.registered_model is not None
        if get_champion(self.agent.registered_model) != version:
            promote_version(by=self.by, version=version, reason="the best of its round")

    # Deciding, and what the person says of it.

    def decision_id(self, example: Example) -> uuid.UUID:
        """Follows from the agent and the example: asking again gives the recorded decision back."""
        place = dt.timedelta(milliseconds=self._place_of[example.id])
        return uuid7_of(self.agent.created_at + place, f"{self.agent.id}/{example.id}".encode())

    def undecided(self, examples: Sequence[Example], chunk: int = CHUNK) -> Iterator[tuple[int, Sequence[Example]]]:
        """Chunks that are not recorded yet, each with the place where it begins.

        A chunk is recorded whole or not at all, so its draws follow from the seed whatever was cut off.
        """
        ids = [self.decision_id(example) for example in examples]
        known = set(Decision.objects.filter(id__in=ids).values_list("id", flat=True))
        for begin in range(0, len(examples), chunk):
            if not known.issuperset(ids[begin : begin + chunk]):
                yield begin, examples[begin : begin + chunk]

    def decide(self, examples: Sequence[Example], draws: str) -> None:
        """One request to the gateway. `draws` names the stream of random numbers, together with the seed."""
        items = [
            DecideItem(
                id=self.decision_id(example), state={"text": example.text}, unit=example.id, external_id=example.id
            )
            for example in examples
        ]
        rng = random.Random(f"{self.seed}/{draws}")  # noqa: S311 - reproducible draws
        decide(by=self.by, agent=self.agent.slug, items=items, rng=rng)

    def decide_all(self, examples: Sequence[Example], what: str, progress: Progress) -> None:
        """Decides on what is not decided yet, chunk by chunk: the first half of a stage. Raises JobCancelled."""
        for begin, chunk in self.undecided(examples):
            self.decide(chunk, f"{what}/{begin}")
            reached = begin + len(chunk)
            progress.report(f"{what}: {reached} of {len(examples)} decisions", done=0.5 * reached / len(examples))

    def give_feedback(self, examples: Sequence[Example], when: When) -> None:
        """The person's verdicts that are due; the key makes a repeated send harmless."""
        for begin in range(0, len(examples), CHUNK):
            of = {self.decision_id(example): example for example in examples[begin : begin + CHUNK]}
            items = []
            for decision_id, action in Decision.objects.filter(id__in=of).values_list("id", "action"):
                example = of[decision_id]
                reaction = self.person.react(example.id, right=action == example.label)
                if reaction.when == when:
                    key = f"person:{decision_id}"
                    items.append(
                        FeedbackIn(
                            metric="verdict", value=reaction.verdict, decision_id=decision_id, idempotency_key=key
                        )
                    )
            if items:
                outcome = record_feedback(by=self.by, items=list(enumerate(items)))
                if outcome.errors:
                    raise RuntimeError(f"the person's feedback was refused: {outcome.errors[0]}")

    def calculate_rewards(self) -> None:
        with self.context.fenced():
            calculate_rewards(current_reward_spec(self.agent))
