"""One seed of a rehearsal as a list of stages: base, ceiling, rounds, the log for the gate.

Called by `training.loops.rehearsal.services`; `training.loops.rehearsal.report` reads what the stages left in the
ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from decisions.agents.services import AgentSetup, create_agent_version
from decisions.labelling.labels import label_decision
from decisions.models import AgentVersion, Decision, Verdict
from jobs.context import JobContext
from models_registry.models import ModelVersion
from training.loops.agent_loop import HELDOUT, SEED_LABELS, AgentLoop
from training.loops.person import WORTH_A_LABEL, Person
from training.loops.rehearsal.plan import Plan, split_rows
from training.loops.rehearsal.source import Source
from training.loops.stages import Progress, Stage, run_stages
from training.models import DatasetSnapshot, Rehearsal
from training.rows.labelled_texts import Example
from training.runs.defaults import recipes
from training.runs.defaults.matrices import adapt_usable_matrices
from workspaces.access.actors import system

EVERY_LABEL, GATE_LOG = "every label", "log for the gate"
# A gate's log must also try actions that the acting policy rarely takes.
GATE_TEMPERATURE, GATE_EPSILON = 1.0, 0.2
BASE_END, ROUNDS_END = 0.15, 0.85

__all__ = ["EVERY_LABEL", "GATE_LOG", "HELDOUT", "SEED_LABELS", "SeedLoop", "round_name"]


def round_name(number: int) -> str:
    """What the dataset of a round is called, counted from 1."""
    return f"decisions until round {number}"


class SeedLoop(AgentLoop):
    """One look at one seed. `advance` returns once everything the report needs is in the ledger.

    `advance` raises Defer before that, Permanent when a run failed, JobCancelled when the rehearsal is to stop.
    """

    def __init__(self, context: JobContext, rehearsal: Rehearsal, source: Source, seed: int) -> None:
        self.plan = plan = Plan.from_plain(rehearsal.plan)
        self.split = split_rows(source, plan, seed)
        self.prompt_tokens = recipes.prompt_tokens(source.examples)
        super().__init__(
            context,
            by=system(rehearsal.workspace),
            slug=f"seed-{seed}",
            name=f"Seed {seed}",
            unit="row",
            kind="CUSTOM",
            setup=self._setup(source.labels, plan.temperature, plan.epsilon),
            labels=source.labels,
            seed_rows=self.split.seed_rows,
            stream=(*self.split.stream, *self.split.gate),
            heldout=self.split.heldout,
            person=Person(seed, missing=plan.missing, late=plan.late, noise=plan.noise),
            base_model=plan.base,
        )

    def _setup(self, labels: tuple[str, ...], temperature: float, epsilon: float) -> AgentSetup:
        return AgentSetup(
            prompt_template="{{ text }}",
            options=labels,
            max_prompt_tokens=self.prompt_tokens,
            temperature=temperature,
            epsilon=epsilon,
        )

    def advance(self) -> None:
        seeds = self.plan.seeds
        run_stages(self.context, list(self._stages()), begin=self.seed / seeds, end=(self.seed + 1) / seeds)

    def _stages(self) -> Iterator[Stage]:
        yield Stage(BASE_END, self._teach_base)
        for number in range(1, self.plan.rounds + 1):
            end = BASE_END + (ROUNDS_END - BASE_END) * number / self.plan.rounds
            yield Stage(end, partial(self._learn, number))
        yield Stage(0.90, self._train_on_every_label)
        yield Stage(0.98, self._log_for_gate)
        yield Stage(1.00, lambda _: self.serve_by(self.final_version()))

    def _said(self, message: str) -> str:
        return f"seed {self.seed}: {message}"

    def final_version(self) -> ModelVersion:
        return self._produced(round_name(self.plan.rounds))

    def _produced(self, dataset: str) -> ModelVersion:
        run = self.run_on(dataset)
        assert run is not None and run.produced_version is not None
        return run.produced_version

    def _version_before(self, number: int) -> ModelVersion:
        """Who decides in the round of this number, counted from 1."""
        return self._produced(round_name(number - 1) if number > 1 else SEED_LABELS)

    def _teach_base(self, progress: Progress) -> None:
        self.teach_base()
        self.wait_for_best(progress, SEED_LABELS, self._said("teaching the base"))
        # It does not depend on the rounds, so it trains in parallel.
        self._start_ceiling()

    def _start_ceiling(self) -> None:
        if self.runs_on(EVERY_LABEL):
            return
        rows = self.labelled(EVERY_LABEL, (*self.split.stream, *self.split.seed_rows))
        recipe = recipes.ceiling_settings(self.base_model, rows.rows)
        base = self.language_model_of(SEED_LABELS)
        self.start_best(method="pretrain", dataset=rows, recipe=recipe, base_version=base)

    def _train_on_every_label(self, progress: Progress) -> None:
        self._start_ceiling()
        self.wait_for_best(progress, EVERY_LABEL, self._said("training on every label, for the ceiling"))

    def _learn(self, number: int, progress: Progress) -> None:
        """The round's decisions by the newest model, their feedback and rewards, and a run on everything so far."""
        if not self.runs_on(round_name(number)):
            self._start_round(number, progress)
        self.wait_for_best(progress, round_name(number), self._said(f"round {number}: training"))

    def _start_round(self, number: int, progress: Progress) -> None:
        dataset = self.dataset(round_name(number))
        before, last = self._version_before(number), number == self.plan.rounds
        if dataset is None:
            self.serve_by(before)
            self.decide_all(self._decided(number), self._said(f"round {number}"), progress)
            self.give_feedback(self._decided(number - 1), "late")
            self.give_feedback(self._decided(number), "at_once")
            self._label(number)
            self.calculate_rewards()
            dataset = self.logged(round_name(number), unjudged=True)
        replay = self._replay(number)
        recipe = recipes.round_settings(self.base_model, dataset.rows + replay.rows, lora=self.plan.lora, last=last)
        learnt = round_name(number - 1) if number > 1 and recipes.goes_on(self.base_model) else SEED_LABELS
        self.start_best(
            method="posterior",
            dataset=dataset,
            replay=replay,
            base_version=self.language_model_of(learnt),
            compared_with=self._produced(SEED_LABELS),
            recipe=adapt_usable_matrices(recipe, self.base_model),
            free_rows=recipes.FREE_ROWS if last else 0,
        )

    def _decided(self, number: int) -> Sequence[Example]:
        """What is decided in the round of this number, counted from 1; nothing in round 0."""
        ends = [0, 0, *self.split.round_ends(self.plan.rounds)]
        return self.split.stream[ends[number] : ends[number + 1]]

    def _reviewed(self, number: int) -> Sequence[Example]:
        """Of a round that is decided: what a reviewer labels. What the person rejected comes first, then what was not
        judged at once, the least confident decisions first."""
        decided = self._decided(number)
        quota = round(self.plan.labels * len(decided) / len(self.split.stream))
        of = {self.decision_id(example): example for example in decided} if quota else {}
        order = []
        for decision, action, confidence in Decision.objects.filter(id__in=of).values_list(
            "id", "action", "confidence"
        ):
            reaction = self.person.react(of[decision].id, right=action == of[decision].label)
            verdict = float(reaction.verdict == "confirmed") if reaction.when == "at_once" else None
            order.append((WORTH_A_LABEL.index(verdict), confidence, decision))
        return [of[decision] for _, _, decision in sorted(order)[:quota]]

    def _label(self, number: int) -> None:
        """The reviewer's labels of a round. Said again, each is the label that is there."""
        of = {self.decision_id(example): example for example in self._reviewed(number)}
        for decision in Decision.objects.filter(id__in=of):
            right = of[decision.id].label
            if decision.action == right:
                label_decision(by=self.by, decision=decision, verdict=Verdict.CONFIRMED)
            else:
                label_decision(by=self.by, decision=decision, verdict=Verdict.CORRECTED, corrected_action=right)

    def _replay(self, number: int) -> DatasetSnapshot:
        """The seed labels, and the reviewer's of the rounds until this one."""
        if not self.plan.labels:
            return self.labelled(SEED_LABELS, self.seed_rows)
        reviewed = [example for one in range(1, number + 1) for example in self._reviewed(one)]
        return self.labelled(f"labels until round {number}", [*self.seed_rows, *reviewed])

    def gate_version(self) -> AgentVersion | None:
        return self.agent.versions.filter(number=2).first()

    def _log_for_gate(self, progress: Progress) -> None:
        """Decisions by the version before the last on rows that nobody trained on, exploring more: the log that a gate
        would ask for. Of the base's own log few decisions would be what the last version does."""
        if self.dataset(GATE_LOG) is not None:
            return
        setup = self._setup(tuple(self.labels), GATE_TEMPERATURE, GATE_EPSILON)
        version = self.gate_version() or create_agent_version(by=self.by, agent=self.agent, setup=setup)
        self.serve_by(self._version_before(self.plan.rounds))
        self.decide_all(self.split.gate, self._said("log for the gate"), progress)
        self.give_feedback(self.split.gate, "at_once")
        self.give_feedback(self.split.gate, "late")
        self.calculate_rewards()
        self.logged(GATE_LOG, version)
