"""The judge in the form that starts a run: which can be chosen, why others cannot, and what is asked of one.

`training.pages.run_form` holds these fields beside the others. They make the spec's `judge`, which
`training.runs.judges` checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms

from decisions.judges.calibrating import list_newest_models, read_assessment
from decisions.judges.ledger import find_judges
from decisions.models import Agent, JudgeCalibration, JudgeVerdict
from models_registry.models import Backend
from training.engine.spec.methods import TRAINING, RowKind
from training.models import DatasetSnapshot
from training.runs.on_tasks import find_class
from workspaces.models import Workspace

JUDGE_PATHS: Mapping[str, tuple[str, ...]] = {
    "judge": ("judge", "metric"),
    "judge_backend": ("judge", "backend"),
    "judge_model": ("judge", "model"),
    "judge_share": ("judge", "share"),
    "judge_prompt": ("judge", "prompt"),
}
NEEDED = {
    "judge_backend": "Choose the server that answers as the judge.",
    "judge_model": "Enter the name of the judge’s model on its server.",
    "judge_prompt": "Enter the prompt that asks the judge.",
}
ACTING = tuple(name for name, method in TRAINING.items() if RowKind.TASKS in method.learns_from)
"""Methods that act on tasks."""


class MarkedSelect(forms.Select):
    """A select with attributes on options: `marks`, by their values. The style sheet shows fields by them."""

    marks: Mapping[str, Mapping[str, Any]] = {}

    def create_option(self, name: str, value: Any, *rest: Any, **options: Any) -> dict[str, Any]:
        option: dict[str, Any] = super().create_option(name, value, *rest, **options)
        option["attrs"] |= self.marks.get(str(value), {})
        return option


@dataclass(frozen=True, slots=True)
class Unusable:
    """A judge of the chosen agent that cannot be chosen."""

    metric: str
    why: str


class JudgeFields(forms.Form):
    """A judge is off unless one is chosen; then its server, model and prompt are needed, too."""

    judge = forms.ChoiceField(
        label="Calibrated judge",
        required=False,
        help_text="A model that scores what each episode made, where the environment cannot.",
    )
    judge_backend = forms.TypedChoiceField(
        label="Server", required=False, empty_value=None, help_text="The server that answers as the judge."
    )
    judge_model = forms.CharField(
        label="Model", required=False, empty_value=None, max_length=200, help_text="Its name on the server."
    )
    judge_share = forms.FloatField(
        label="Share of the reward", required=False, help_text="0 to 1. Default: 0, the score is only recorded."
    )
    judge_prompt = forms.CharField(
        label="Prompt",
        required=False,
        empty_value=None,
        help_text="{task} and {work} are filled in. Server, model and prompt must be those of the calibrated scores.",
        widget=forms.Textarea(
            attrs={
                "rows": 5,
                "placeholder": "How good is this text, from 0 to 1? Answer with the number alone.\n\n{task}\n\n{work}",
            }
        ),
    )

    agents: Mapping[str, Agent]
    datasets: Mapping[str, DatasetSnapshot]
    has_judged_tasks = False
    """Whether some dataset that can be chosen has tasks with a criterion that only a judge can say."""
    _judges: Sequence[JudgeCalibration] = ()

    def offer_judges(self, workspace: Workspace) -> None:
        """Sets the choices, once `agents` and `datasets` are known. Two statements, none without such tasks."""
        tasks = {key: one.environment for key, one in self.datasets.items() if one.is_of_tasks}
        environments = {name for name in set(tasks.values()) if _is_judged(name)}
        judged = [key for key, name in tasks.items() if name in environments]
        self.has_judged_tasks = bool(judged)
        self._choose("judge", [("", "None")])
        self._choose("judge_backend", [("", "Choose a server")])
        if not judged:
            return
        self._mark("method", {name: {"data-acts": True} for name in ACTING})
        self._mark("dataset", {key: {"data-judged": True} for key in judged})
        self._judges = list_newest_models(workspace)
        self._choose("judge", [("", "None"), *self._list_choices()])
        servers = Backend.objects.for_workspace(workspace).filter(enabled=True).order_by("name")
        names = servers.values_list("name", flat=True)
        self._choose("judge_backend", [("", "Choose a server"), *((name, name) for name in names)])

    def _list_choices(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Judges that may be used, by agent; and the one that the form has, so that it is refused by name."""
        current = str(self["judge"].value() or "")
        known = {f"{row.agent_id}:{row.metric}": row for row in self._judges}
        for key, agent in self.agents.items():
            offered = [
                (value, _describe(row))
                for value, row in known.items()
                if str(row.agent_id) == key and (row.verdict == JudgeVerdict.CALIBRATED or value == current)
            ]
            of_agent, _, metric = current.partition(":")
            if of_agent == key and metric and current not in known:
                offered.append((current, f"{metric}, never calibrated"))
            if offered:
                yield agent.name, offered

    def _choose(self, name: str, choices: list[Any]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices

    def _mark(self, name: str, marks: Mapping[str, Mapping[str, Any]]) -> None:
        widget = self.fields[name].widget
        assert isinstance(widget, MarkedSelect)
        widget.marks = marks

    @property
    def chosen_agent(self) -> Agent | None:
        return self.agents.get(str(self["agent"].value() or ""))

    def list_unusable(self) -> list[Unusable]:
        """Judges of the chosen agent that cannot be chosen, with the reasons. One statement."""
        agent = self.chosen_agent
        if agent is None:
            return []
        rows = [row for row in self._judges if row.agent_id == agent.id]
        told = [
            Unusable(row.metric, f"{row.verdict}. {' '.join(row.reasons)}")
            for row in rows
            if row.verdict != JudgeVerdict.CALIBRATED
        ]
        known = {row.metric for row in rows}
        return told + [
            Unusable(one.metric, "never calibrated against people.")
            for one in find_judges(agent)
            if one.metric not in known
        ]

    def check_judge(self, given: dict[str, Any]) -> None:
        """Of what was given. Where the page shows no judge, its fields do not count; without one the other fields of
        it do not."""
        dataset = self.datasets.get(given.get("dataset", ""))
        shown = given.get("method") in ACTING and dataset is not None and _is_judged(dataset.environment)
        if shown and "judge" in self.errors:
            return
        of_agent, _, metric = (given.get("judge") or "").partition(":")
        if not shown or not metric:
            for name in JUDGE_PATHS:
                given[name] = None
                self.errors.pop(name, None)
            return
        given["judge"] = metric
        if of_agent != given.get("agent", of_agent):
            self.add_error("judge", f"It judges {self.agents[of_agent].name}. Choose a judge of the run’s agent.")
        for name, says in NEEDED.items():
            if name not in self.errors and given.get(name) is None:
                self.add_error(name, says)


def _is_judged(environment: str) -> bool:
    found = find_class(environment)
    return found is not None and bool(found.judged)


def _describe(row: JudgeCalibration) -> str:
    found = read_assessment(row)
    if row.verdict != JudgeVerdict.CALIBRATED or found is None:
        return f"{row.metric}, {row.verdict}"
    return f"{row.metric}, α {found.alpha.mean:.2f}, {row.labels:,} labels"
