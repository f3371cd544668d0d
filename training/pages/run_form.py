"""The form that starts a run: common settings with the engine's defaults, and a field for the rest of the spec.

It builds the same `RunPlan` as the API's body; `training.runs.services.start_run` checks it, and its faults are shown
beside their fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.db.models import Q

from decisions.models import Agent
from models_registry.models import ArtifactKind, ModelVersion
from training.engine.spec.methods import TRAINING, Method, Need, RowKind
from training.engine.spec.settings import Kto, Lora, Online, Optimiser
from training.models import DatasetSnapshot, TrainingRun
from training.pages.judge_fields import JUDGE_PATHS, JudgeFields, MarkedSelect
from training.runs.base_models import TINY, WORDS, hub_ids, is_allowed_base, list_folders
from training.runs.reward_models import resolve_reward_version
from training.runs.services import RunPlan
from workspaces.errors import FieldFault
from workspaces.http.json_field import JsonObjectField
from workspaces.models import Workspace

WHOLE_BASES = (ArtifactKind.MODEL, ArtifactKind.CLASSIFIER, ArtifactKind.ENCODER)
"""Kinds of weights that a run can begin with by themselves."""
DATASETS, VERSIONS = 200, 200
"""The newest so many can be chosen on the page; the API takes any."""
_optimiser, _online, _lora, _kto = Optimiser(), Online(), Lora(), Kto()
# Where the form's fields stand in the engine's spec.
PATHS: Mapping[str, tuple[str, ...]] = {
    "learning_rate": ("optimiser", "learning_rate"),
    "epochs": ("optimiser", "epochs"),
    "batch_size": ("optimiser", "batch_size"),
    "steps": ("online", "steps"),
    "curriculum": ("online", "curriculum", "order"),
    "group": ("online", "group"),
    "credit": ("online", "credit"),
    "gamma": ("online", "gamma"),
    "undesirable_weight": ("kto", "undesirable_weight"),
    "penalty": ("classifier", "penalty"),
    "words_beside": ("classifier", "words_beside"),
    "seed": ("seed",),
    "lora_r": ("lora", "r"),
    "lora_targets": ("lora", "targets"),
    "lora_dropout": ("lora", "dropout"),
    **JUDGE_PATHS,
}
OF_METHODS = {
    **dict.fromkeys(("curriculum", "group", "credit", "gamma"), "online"),
    "undesirable_weight": "kto",
    **dict.fromkeys(("penalty", "words_beside"), "classifier"),
}
"""Fields that only methods with these settings of the spec have."""
OF_LANGUAGE_MODELS = frozenset({"optimiser", "lora"})
"""Settings of the spec that a classifier does not have."""


def _has_field(method: Method, name: str) -> bool:
    """Whether the page shows this field for the method; what it hides may still hold another method's value."""
    if method.makes_classifier and PATHS[name][0] in OF_LANGUAGE_MODELS:
        return False
    return OF_METHODS.get(name, method.settings) == method.settings


def _online_methods() -> str:
    return _listed(name for name, method in TRAINING.items() if method.settings == "online")


def _listed(names: Iterable[str]) -> str:
    """a, b and c"""
    *others, last = ("", *names)
    return f"{', '.join(others[1:])} and {last}" if others[1:] else last


class RunForm(JudgeFields):
    """Choices are of one workspace; whoever asks must be an admin of it."""

    agent = forms.ChoiceField(help_text="The new version belongs to the model of this agent.")
    method = forms.ChoiceField(choices=[(name, name) for name in TRAINING], widget=MarkedSelect)
    dataset = forms.ChoiceField(
        label="Training data",
        widget=MarkedSelect,
        help_text="The rows that the run learns from.",
    )
    base = forms.ChoiceField(
        label="Base model",
        help_text="A version or a new small model. With a LoRA rank an adapter is trained further, else merged.",
    )
    heldout = forms.ChoiceField(
        label="Held-out data",
        required=False,
        help_text="Without held-out data, only decisions of the log can show that the version is better.",
    )
    replay = forms.ChoiceField(
        label="Replay data", required=False, help_text="Labelled rows to mix into the logged rows."
    )
    learning_rate = forms.FloatField(required=False, help_text=f"Default: {_optimiser.learning_rate:g}.")
    epochs = forms.IntegerField(required=False, help_text=f"Passes over the rows. Default: {_optimiser.epochs}.")
    batch_size = forms.IntegerField(required=False, help_text=f"Rows per step. Default: {_optimiser.batch_size}.")
    steps = forms.IntegerField(
        label="Online steps",
        required=False,
        help_text=f"For {_online_methods()} on labelled rows, and grpo on tasks. Default: {_online.steps}.",
    )
    curriculum = forms.TypedChoiceField(
        label="Order of prompts",
        required=False,
        choices=[("", "Random"), ("easy_first", "Easy ones first"), ("uncertain", "Uncertain ones more often")],
        empty_value=None,
        help_text=f"For {_online_methods()} on labelled rows, and grpo on tasks. By the model's own success.",
    )
    group = forms.IntegerField(
        required=False, help_text=f"For grpo: answers per prompt, or episodes per task. Default: {_online.group}."
    )
    credit = forms.TypedChoiceField(
        required=False,
        choices=[
            ("", "Default"),
            ("return_to_go", "Each step what came after it"),
            ("episode", "All steps of an episode alike"),
        ],
        empty_value=None,
        help_text="For grpo on tasks: by what a step is compared with others of its group.",
    )
    gamma = forms.FloatField(
        label="Discount",
        required=False,
        help_text=f"0 to 1. For tasks, a value below 1 favours short episodes. Default: {_online.gamma:g}.",
    )
    undesirable_weight = forms.FloatField(
        label="Weight of wrong rows",
        required=False,
        help_text="For kto: the weight of all wrong rows together, where all right ones together weigh 1. Default: "
        f"{_kto.undesirable_weight:g}.",
    )
    penalty = forms.FloatField(
        required=False,
        help_text="For classifier: on large weights, 0 to 10,000. Default: the best of three on rows kept back.",
    )
    words_beside = forms.TypedChoiceField(
        label="Words as well",
        required=False,
        choices=[("", "Default"), ("True", "Yes"), ("False", "No")],
        coerce=lambda value: value == "True",
        empty_value=None,
        help_text="For classifier on a sentence encoder: learn from words and pairs of words, too. Default: No.",
    )
    lora_r = forms.IntegerField(
        label="LoRA rank", required=False, help_text=f"Leave empty to train all weights. Usual: {_lora.r}."
    )
    lora_targets = forms.TypedChoiceField(
        label="LoRA on",
        required=False,
        choices=[
            ("", "All matrices"),
            ("attention", "Attention"),
            ("query-value", "Queries and values"),
        ],
        empty_value=None,
        help_text="Matrices that get an adapter. It needs a LoRA rank.",
    )
    lora_dropout = forms.FloatField(
        label="LoRA dropout",
        required=False,
        help_text=f"0 to below 1. It needs a LoRA rank. Default: {_lora.dropout:g}.",
    )
    seed = forms.IntegerField(required=False, help_text="The same seed gives the same run. Default: 0.")
    more = JsonObjectField(
        label="Further settings",
        example='{"text_weight": 0.3}',
        widget=forms.Textarea(attrs={"rows": 5, "spellcheck": "false"}),
        help_text="JSON with other fields of the training spec. The fields above take precedence.",
    )

    def __init__(self, data: Mapping[str, Any] | None = None, *, workspace: Workspace, **options: Any) -> None:
        super().__init__(data, **options)
        self.workspace = workspace
        self.order_fields([name for name in self.fields if name not in JUDGE_PATHS])  # those come last
        self.agents = {str(one.pk): one for one in Agent.objects.for_workspace(workspace).order_by("name")}
        datasets = DatasetSnapshot.objects.for_workspace(workspace).select_related("agent").order_by("-id")[:DATASETS]
        self.datasets = {str(one.pk): one for one in datasets}
        versions = (
            ModelVersion.objects.for_workspace(workspace)
            .filter(Q(artifact__kind__in=WHOLE_BASES) | Q(artifact__kind=ArtifactKind.ADAPTER, base__isnull=False))
            .select_related("registered_model", "artifact", "base__artifact")
            .order_by("-id")[:VERSIONS]
        )
        self.versions = {str(one.pk): one for one in versions}
        self._choose("agent", [(key, one.name) for key, one in self.agents.items()])
        labelled = [one for one in self.datasets.values() if one.has_answers]
        self._choose("dataset", _by_agent([one for one in self.datasets.values() if one.can_teach]))
        # Of pairs: for a reward model.
        shown = (RowKind.LOGGED, RowKind.TEXT, RowKind.PREFERENCES, RowKind.TASKS)
        measured = [one for one in self.datasets.values() if one.has_answers or one.row_kind in shown]
        self._choose("heldout", [("", "None"), *_by_agent(measured)])
        self._choose("replay", [("", "None"), *_by_agent(labelled)])
        # Folders that runs of this workspace have begun with; the API takes others that are allowed, too.
        known = TrainingRun.objects.for_workspace(workspace).filter(base_model__startswith="/").order_by("base_model")
        folders = filter(is_allowed_base, known.values_list("base_model", flat=True).distinct())
        elsewhere = list(dict.fromkeys([*hub_ids(), *list_folders(), *folders]))
        self._choose(
            "base",
            [
                ("Versions", [(key, f"{one}, {one.method}") for key, one in self.versions.items()]),
                (
                    "Models",
                    [
                        (TINY, "New tiny model (pretrain only)"),
                        (WORDS, "Words (classifier only)"),
                        *((name, name) for name in elsewhere),
                    ],
                ),
            ],
        )
        self.offer_judges(workspace)

    @property
    def chosen_dataset(self) -> DatasetSnapshot | None:
        """The training data that the form shows."""
        return self.datasets.get(str(self["dataset"].value() or ""))

    def clean_more(self) -> dict[str, Any]:
        return self.cleaned_data["more"] or {}

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        for name in ("lora_targets", "lora_dropout"):
            if given.get(name) is not None and given.get("lora_r") is None:
                self.add_error(name, "Also give a LoRA rank: without one, all weights are trained.")
        self.check_judge(given)
        return given

    def read_plan(self) -> tuple[Agent, RunPlan] | None:
        """Of a form that was checked, what is valid of it; None where that is too little for a plan."""
        given = self.cleaned_data
        if not {"agent", "method", "dataset", "base"} <= given.keys():
            return None
        method = TRAINING[given["method"]]
        told: dict[str, Any] = {
            name: value
            for name, value in given.get("more", {}).items()
            # They were filled in for another method, and their fields are hidden now.
            if not (method.makes_classifier and name in OF_LANGUAGE_MODELS)
        }
        for name, path in PATHS.items():
            if given.get(name) is None or not _has_field(method, name):
                continue
            if name in JUDGE_PATHS and not given.get("judge"):
                continue
            *above, last = path
            place = told
            for part in above:
                inner = place.get(part)
                place[part] = dict(inner) if isinstance(inner, dict) else {}
                place = place[part]
            place[last] = given[name]
        dataset = self.datasets[given["dataset"]]
        needs = method.needs(dataset.row_kind)
        if Need.REWARD_FUNCTION in needs and "reward" not in told:
            told["reward"] = [{"name": "matches_answer"}]
        plan = RunPlan(
            method=given["method"],
            dataset=dataset,
            heldout=self.datasets.get(given.get("heldout", "")),
            replay=self.datasets.get(given.get("replay", "")),
            base_version=self.versions.get(given["base"]),
            base_model="" if given["base"] in self.versions else given["base"],
            settings=resolve_reward_version(self.workspace, told),
        )
        return self.agents[given["agent"]], plan

    def add_faults(self, faults: Sequence[FieldFault]) -> None:
        """Each beside its field; of a field that the form does not have, beside the further settings."""
        by_path = {".".join(path): name for name, path in PATHS.items()}
        for fault in faults:
            place = fault.field.removeprefix("settings.")
            of_base = dict.fromkeys(("base_version", "base_model", "memory", "disk"), "base")
            name = of_base.get(place, by_path.get(place, place))
            if name in JUDGE_PATHS:
                if name in self.errors:
                    continue  # it says already what is missing
                if not self.cleaned_data.get("judge"):
                    name = ""  # the further settings name a judge
            told = fault.expected and not fault.expected.startswith(
                "see docs/"
            )  # of the API's answer; no page leads there
            says = fault.says if told else fault.reason
            if name in self.fields:
                self.add_error(name, says)
            else:
                self.add_error("more", f"{place}: {says}" if place else says)


def _by_agent(datasets: Sequence[DatasetSnapshot]) -> list[tuple[str, list[tuple[str, str]]]]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for one in datasets:
        groups.setdefault(one.agent.name, []).append((str(one.pk), str(one)))
    return list(groups.items())


def values_of_run(run: TrainingRun) -> dict[str, Any]:
    """What the form shows of a run's own plan, to be changed."""
    base = str(run.base_version_id) if run.base_version_id else run.base_model
    return _as_values(run.agent_id, run.method, run.dataset_id, run.heldout_id, run.replay_id, base, run.spec)


def values_of_plan(agent: Agent, plan: RunPlan) -> dict[str, Any]:
    """What the form shows of a plan (`training.runs.defaults`)."""
    heldout, replay = (dataset.pk if dataset is not None else None for dataset in (plan.heldout, plan.replay))
    base = str(plan.base_version.pk) if plan.base_version is not None else plan.base_model
    return _as_values(agent.pk, plan.method, plan.dataset.pk, heldout, replay, base, plan.settings)


def _as_values(
    agent: UUID,
    method: str,
    dataset: UUID,
    heldout: UUID | None,
    replay: UUID | None,
    base: str,
    spec: Mapping[str, Any],
) -> dict[str, Any]:
    rest: dict[str, Any] = {
        name: value
        for name, value in spec.items()
        if name != "method" and (name, value) != ("checkpoint_every_seconds", settings.CHECKPOINT_SECONDS)
    }
    values: dict[str, Any] = {
        "agent": str(agent),
        "method": method,
        "dataset": str(dataset),
        "heldout": str(heldout or ""),
        "replay": str(replay or ""),
        "base": base,
    }
    if isinstance(rest.get("lora"), dict):
        rest["lora"] = {"r": _lora.r, **rest["lora"]}  # an adapter without a rank has the default one
    for name, path in PATHS.items():
        place: Any = rest
        for part in path:
            place = place.get(part) if isinstance(place, dict) else None
        if place is not None:
            values[name] = place
            rest = _without(rest, path)
    if "judge" in values:
        values["judge"] = f"{agent}:{values['judge']}"
    values["more"] = json.dumps(rest, indent=2) if rest else ""
    return values


def _without(settings: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The settings without the one at the path, and without an object that is empty then."""
    head, *tail = path
    if not tail:
        return {name: value for name, value in settings.items() if name != head}
    inner = _without(settings[head], tuple(tail))
    return {name: (inner if name == head else value) for name, value in settings.items() if name != head or inner}
