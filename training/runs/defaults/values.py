"""Default values of a run, from what the workspace has: base, rows, held-out rows, settings.

The form of a run shows them, and *Train on new decisions* uses them. A run with these values passes
`training.runs.services.check_plan`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from decisions.agents.current import current_versions
from decisions.models import Agent, AgentVersion
from models_registry.models import BASE_METHOD, Alias, AliasName, ArtifactKind, ModelVersion
from models_registry.models.version import VersionState
from training.engine.machine.facts import fit_settings
from training.engine.spec.methods import CLASSIFIER, METHODS, Need, RowKind
from training.engine.spec.run_spec import HELD_OUT, RunSpec, TinyShape
from training.models import DatasetKind, DatasetSnapshot, TrainingRun
from training.rows.shapes_of.shapes import shape_for
from training.run_states import RunState
from training.runs.base_models import MADE_HERE, TINY, WORDS, is_allowed_base
from training.runs.defaults import recipes
from training.runs.defaults.matrices import adapt_usable_matrices
from training.runs.defaults.named import choose_named_base
from training.runs.estimates.capacity import find_shape_of_model, recommend_here
from training.runs.on_tasks import FROM_TASKS, choose_task_settings, demonstration_settings
from training.runs.services import RunPlan
from workspaces.models import Workspace

FROM_LOGS, FROM_LABELS, FROM_PAIRS = "posterior", "pretrain", "dpo"
CLASSIFIED = (RowKind.LABELLED, RowKind.LOGGED)
FROM_REWARDED_TEXTS, FROM_TEXTS = "reward_weighted", "sft"
"""The methods of choice (docs/learning.md)."""
MOST = 200
"""The newest so many datasets, runs and versions are looked at."""
TEXT_TOKENS = 256
"""Texts that are longer are not learnt from, unless the run says more."""
LONG_PROMPT = 1024
"""Tokens that the batches of an agent without a limit are chosen for."""
PROMPT_TOKENS: int = RunSpec.model_fields["max_prompt_tokens"].default
MOST_OF_TINY: int = TinyShape().max_positions - RunSpec.model_fields["max_completion_tokens"].default - 16
"""Tokens of a prompt that a tiny model reads beside the template and the answer."""
ENOUGH_TO_HOLD_BACK, HELD_BACK = 5_000, 0.1
"""From so many logged rows on, this share is kept for the gate by the log, which needs an effective 200."""
FOR_MEASURING = re.compile(r"(?<![a-z])(held.?out|test|eval|evaluation|validation)(?![a-z])", re.IGNORECASE)
"""Names that people give to rows that are to be measured on."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """Of one agent.

    `base`: the champion, which may be an adapter over another version, or else the newest version with full weights, or
    the newest adapter; None before the first. `root`: the model that
    `base`, or the first version, comes from (`tiny`, a hub id or a folder); "" where nobody knows. `logged`: the newest
    dataset of decisions, one that no run has learnt from before the others. `labelled`: labelled rows to teach a first
    model. `heldout`: imported labelled rows that no run has learnt from (rows of the ledger may be of decisions that
    one has). `replay`: labelled rows that one has learnt from. `parts`: what was held out of the agent's datasets, by
    the dataset's id, where a model can be measured on it. `tasks`: the newest tasks of an environment to learn from.
    `kept_apart`: labelled rows of the ledger that runs were measured on and none has learnt from; decisions that are
    new since belong to no such row. `language_model`: the newest version that writes, with its `language_root`, where
    `base` is a classifier.
    """

    agent: Agent
    agent_version: AgentVersion | None
    base: ModelVersion | None
    root: str
    logged: DatasetSnapshot | None
    labelled: DatasetSnapshot | None
    heldout: DatasetSnapshot | None
    replay: DatasetSnapshot | None
    parts: Mapping[str, DatasetSnapshot] = field(default_factory=dict)
    tasks: DatasetSnapshot | None = None
    kept_apart: DatasetSnapshot | None = None
    language_model: ModelVersion | None = None
    language_root: str = ""

    def plan(self, dataset: DatasetSnapshot | None = None) -> RunPlan | None:
        """Learning from this dataset, or from the one of choice; None where something is missing for it."""
        newest = self.logged or self.tasks if self.base is not None else None
        chosen = dataset or newest or self.labelled
        if chosen is None:
            return None
        named = self._find_named_base(chosen) if self.base is None else ""
        if chosen.row_kind is not RowKind.LABELLED and self.base is None and not named:
            return None
        if chosen.environment:
            return self._plan_in_environment(chosen)
        if self.base is not None and self.base.is_classifier and chosen.row_kind in CLASSIFIED:
            return self._plan_classifier(chosen)
        root = named or self.root
        heldout = self.parts.get(str(chosen.pk), self.heldout if self.heldout != chosen else None)
        if chosen.kind == DatasetKind.LOGGED:
            method, replay, measured = FROM_LOGS, self.replay, heldout
        elif chosen.kind == DatasetKind.PREFERENCES:
            method, replay, measured = FROM_PAIRS, None, heldout
        elif chosen.row_kind is RowKind.TEXT:
            method = FROM_REWARDED_TEXTS if Need.REWARDS in chosen.find_has() else FROM_TEXTS
            replay, measured = None, heldout if heldout is not None and heldout.row_kind is RowKind.TEXT else None
        else:
            return self._plan_first_model(chosen, heldout)
        rows = chosen.rows + (replay.rows if replay is not None else 0)
        told = choose_settings(method, root=root, rows=rows, agent_version=self.agent_version)
        version = self.agent_version
        unlimited = version is not None and version.max_completion_tokens is None and root != TINY
        if chosen.row_kind is RowKind.TEXT and not unlimited:  # else the engine takes the room that the model has
            told = {**told, "max_completion_tokens": TEXT_TOKENS}
        return RunPlan(method, chosen, self.base, named, heldout=measured, replay=replay, settings=told)

    def _plan_classifier(self, chosen: DatasetSnapshot) -> RunPlan:
        """The champion's successor: its features, on all rows again."""
        heldout = self.parts.get(str(chosen.pk), self.heldout if self.heldout != chosen else None)
        replay = self.replay if chosen.row_kind is RowKind.LOGGED else None
        told = choose_settings(CLASSIFIER, root=WORDS, rows=chosen.rows, agent_version=self.agent_version)
        return RunPlan(CLASSIFIER, chosen, self.base, heldout=heldout, replay=replay, settings=told)

    def _plan_first_model(self, chosen: DatasetSnapshot, heldout: DatasetSnapshot | None) -> RunPlan:
        told = choose_settings(FROM_LABELS, root=self._new_base, rows=chosen.rows, agent_version=self.agent_version)
        return RunPlan(FROM_LABELS, chosen, base_model=self._new_base, heldout=heldout, settings=told)

    def _find_named_base(self, chosen: DatasetSnapshot) -> str:
        """What such rows can teach before there is a version: a pretrained model; "" where that is none. To choose
        among options, the labelled rows of a first model teach a tiny one better."""
        if chosen.row_kind is RowKind.LABELLED or chosen.is_of_tasks:
            return ""
        if self.root != TINY:
            return self.root
        return choose_named_base() if chosen.row_kind is RowKind.TEXT else ""

    @property
    def writes(self) -> bool:
        """True where the actions of the agent's current version are texts and make no other rows."""
        return self.agent_version is not None and shape_for(self.agent_version, DatasetKind.LOGGED) is None

    @property
    def _new_base(self) -> str:
        """What a first model begins with."""
        return self.root if self.root and is_allowed_base(self.root) else TINY

    def _plan_in_environment(self, chosen: DatasetSnapshot) -> RunPlan:
        """Acting on its tasks, or a first model from demonstrations; both are measured on the held-out tasks."""
        longest = chosen.statistics.get("longest_observation")
        version = self.agent_version
        serving = version.acting if version is not None else {}
        if chosen.is_of_tasks:
            most = MOST_OF_TINY if self.root == TINY else None
            told = choose_task_settings(is_tiny=self.root == TINY, longest=longest, most=most) | {"serving": serving}
            heldout = self.parts.get(str(chosen.pk))
            return RunPlan(FROM_TASKS, chosen, base_version=self.base, heldout=heldout, settings=told)
        base = self._new_base
        told = dict(choose_settings(FROM_LABELS, root=base, rows=chosen.rows, agent_version=version))
        told |= demonstration_settings(longest, MOST_OF_TINY if base == TINY else None) | {"evaluate": {"free_rows": 0}}
        heldout = self.parts.get(str(chosen.statistics.get("demonstrates")))
        return RunPlan(FROM_LABELS, chosen, base_model=base, heldout=heldout, settings=told)


def choose_settings(
    method: str, *, root: str, rows: int, agent_version: AgentVersion | None, lora: bool = True
) -> Mapping[str, Any]:
    """Fields of the engine's spec: the measured recipe for so many rows, in batches that suit this machine where the
    base is a real one, and the agent's own prompt and exploration. Without `lora` every weight of a real base is
    trained by methods that could train an adapter."""
    if METHODS[method].makes_classifier:
        told: dict[str, Any] = {}
    elif METHODS[method].makes_model:
        told = dict(recipes.base_settings(root, max(1, rows)))
    else:
        told = dict(recipes.round_settings(root, max(1, rows), lora=lora))
    if RowKind.LOGGED in METHODS[method].learns_from and rows >= ENOUGH_TO_HOLD_BACK:
        told["held_back"] = HELD_BACK
    if root not in MADE_HERE:
        most = agent_version.max_prompt_tokens if agent_version is not None else PROMPT_TOKENS
        shape = find_shape_of_model(root) if root else None
        parameters = shape.parameters if shape is not None else None
        fitted = fit_settings(told, recommend_here(), tokens=most or LONG_PROMPT, parameters=parameters)
        told = dict(adapt_usable_matrices(fitted, root))
    if agent_version is not None:
        tokens = agent_version.max_prompt_tokens
        if root == TINY:  # its positions hold the template and the answer, too
            tokens = min(tokens or MOST_OF_TINY, MOST_OF_TINY)
        if tokens is not None:  # else the engine takes the room that the model has
            told["max_prompt_tokens"] = tokens
        told["serving"] = agent_version.acting
    return told


def find_defaults(workspace: Workspace, agents: Sequence[Agent]) -> dict[uuid.UUID, Defaults]:
    """By agent. Five statements, however many agents there are."""
    datasets = list(
        DatasetSnapshot.objects.for_workspace(workspace)
        .filter(agent__in=agents, marked_at=None)
        .select_related("agent")
        .order_by("-id")[:MOST]
    )
    runs = list(
        TrainingRun.objects.for_workspace(workspace)
        .exclude(state__in=[RunState.FAILED, RunState.CANCELLED])
        .defer("spec", "metrics", "estimate")
        .order_by("-id")[:MOST]
    )
    models = [agent.registered_model_id for agent in agents]
    versions = {
        version.id: version
        for version in ModelVersion.objects.for_workspace(workspace)
        .filter(registered_model__in=models, state=VersionState.READY, marked_at=None)
        .select_related("registered_model", "artifact", "base__artifact", "base__registered_model")
        .order_by("-id")[:MOST]
    }
    champions = dict(
        Alias.objects.filter(registered_model__in=models, name=AliasName.CHAMPION).values_list(
            "registered_model_id", "version_id"
        )
    )
    acting = {version.agent_id: version for version in current_versions(agents)}
    made_by = {run.produced_version_id: run for run in runs if run.produced_version_id is not None}
    found = {}
    for agent in agents:
        own = [version for version in versions.values() if version.registered_model_id == agent.registered_model_id]
        base = _choose_base(own, champions.get(agent.registered_model_id))
        root = _find_root(base, made_by) if base is not None else settings.BASE_MODEL
        mine = [one for one in datasets if one.agent_id == agent.id]
        parts = {one.statistics["held_out_of"]: one for one in mine if "held_out_of" in one.statistics}
        whole = [one for one in mine if one not in parts.values()]
        logged, labelled, heldout, replay = _choose_rows(whole, runs, has_base=base is not None)
        tasks = next((one for one in whole if one.is_of_tasks), None)
        measurable = {whole: one for whole, one in parts.items() if one.row_kind in HELD_OUT and one.can_measure}
        learnt = {run.dataset_id for run in runs} | {run.replay_id for run in runs}
        measured = {run.heldout_id for run in runs} - learnt
        kept_apart = next((one for one in parts.values() if one.id in measured and one.has_answers), None)
        writer = _find_writer(own) if base is not None and base.is_classifier else None
        found[agent.id] = Defaults(
            agent, acting.get(agent.id), base, root, logged, labelled, heldout, replay, measurable, tasks, kept_apart,
            writer, _find_root(writer, made_by) if writer is not None else "",
        )  # fmt: skip
    return found


def _choose_base(own: Sequence[ModelVersion], champion: uuid.UUID | None) -> ModelVersion | None:
    """The champion, with full weights or as an adapter over a version's, which a run trains further or merges; else, as
    where another server holds the champion, the newest full weights that a run has made, or the newest adapter. A named
    base as it came is none of these. `own`: newest first, none of them marked."""
    first = [version for version in own if version.id == champion]
    kinds = (ArtifactKind.MODEL, ArtifactKind.CLASSIFIER)
    usable = [one for one in first if one.kind in kinds or one in _find_adapters(own)]
    return next(iter(usable), None) or _find_writer(own)


def _find_writer(own: Sequence[ModelVersion]) -> ModelVersion | None:
    """The newest full weights of a language model that a run has made, or the newest adapter. `own`: newest first."""
    full = [one for one in own if one.kind == ArtifactKind.MODEL and one.method != BASE_METHOD]
    return next(iter([*full, *_find_adapters(own)]), None)


def _find_adapters(own: Sequence[ModelVersion]) -> list[ModelVersion]:
    return [one for one in own if one.is_adapter and one.base is not None and one.base.marked_at is None]


def _find_root(version: ModelVersion, made_by: Mapping[uuid.UUID, TrainingRun]) -> str:
    """The model that the first of its ancestors was made from; "" for one that was imported."""
    place: uuid.UUID | None = version.id
    for _ in range(len(made_by)):
        run = made_by.get(place) if place is not None else None
        if run is None:
            return ""
        if run.base_model:
            return run.base_model
        place = run.base_version_id
    return ""


def _choose_rows(
    own: Sequence[DatasetSnapshot], runs: Collection[TrainingRun], *, has_base: bool
) -> tuple[DatasetSnapshot | None, ...]:
    """Logged, labelled, heldout, replay, of the agent's `own` datasets; these and the runs newest first. Rows that were
    learnt from are never measured on."""
    learnt = {run.dataset_id for run in runs} | {run.replay_id for run in runs}
    measured = [run.heldout_id for run in runs if run.heldout_id is not None]
    logged = [one for one in own if one.kind == DatasetKind.LOGGED]
    labelled = [one for one in own if one.has_answers]
    fresh = [one for one in labelled if one.is_imported and one.id not in learnt]

    def fitness(one: DatasetSnapshot) -> tuple[bool, bool]:
        return one.id in measured, bool(FOR_MEASURING.search(one.name))

    # The newest of the fittest: max takes the first of equals.
    heldout = max(fresh, key=fitness, default=None)
    if heldout is not None and labelled == [heldout] and not has_base and not any(fitness(heldout)):
        heldout = None  # the only labelled rows are needed to teach the first model
    others = [one for one in labelled if one != heldout]
    return (
        next((one for one in logged if one.id not in learnt), next(iter(logged), None)),
        next(iter(others), None),
        heldout,
        next((one for one in others if one.id in learnt), None),
    )
