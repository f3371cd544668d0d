"""What an agent's first model begins with, and how it learns people's verdicts: chosen before anything is queued.

A base that is trained whole needs several times the memory of one under an adapter, so the adapter stands in where
every weight has no room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from decisions.models import Agent, AgentVersion
from decisions.queries.first_labels import FirstLabels
from training.errors import InvalidRun
from training.models import DatasetKind, DatasetSnapshot
from training.runs.base_models import TINY, is_allowed_base
from training.runs.defaults.named import choose_named_base
from training.runs.defaults.values import FROM_LABELS, FROM_REWARDED_TEXTS, FROM_TEXTS, choose_settings
from training.runs.services import RunPlan, check_plan
from workspaces.errors import FieldFault

NO_ROOM = "memory"
"""The field of the fault of a run that the machine has too little memory for."""


@dataclass(frozen=True, slots=True)
class Teaching:
    """How the first run learns: `method` on rows of `kind`, from the base named `root`. `lora`: whether an adapter is
    trained, None: the measured recipe, which trains a real base whole and then an adapter over it. `compares`: whether
    policies of other kinds learn the same rows."""

    root: str
    method: str
    kind: DatasetKind
    lora: bool | None = None
    compares: bool = False

    def settings(self, method: str, rows: int, version: AgentVersion | None) -> Mapping[str, Any]:
        """Of a run by this method, which may be the second one."""
        lora = self.lora is not False
        return choose_settings(method, root=self.root, rows=rows, agent_version=version, lora=lora)

    def as_payload(self) -> dict[str, Any]:
        """For the job."""
        return {
            "base_model": self.root,
            "method": self.method,
            "kind": str(self.kind),
            "lora": self.lora,
            "compares": self.compares,
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Teaching:
        """Jobs that were queued by an earlier release name no more than the base."""
        kind = DatasetKind(payload.get("kind", DatasetKind.LABELLED))
        return cls(
            payload["base_model"],
            payload.get("method", FROM_LABELS),
            kind,
            payload.get("lora"),
            bool(payload.get("compares")),
        )


def choose_teaching(
    agent: Agent, version: AgentVersion | None, first: FirstLabels, *, root: str, named: str, lora: bool | None
) -> Teaching:
    """`named` is the base that somebody asked for, "" for the default `root`. Raises InvalidRun with every fault of the
    last that was tried."""
    base = named or (root if root != TINY or not first.writes else choose_named_base())
    if first.writes and base in ("", TINY):
        fault = FieldFault("base_model", f"{agent.name} writes texts, which a new tiny model cannot", _say_named())
        raise InvalidRun("The first model cannot start from this base.", faults=[fault])
    if base == TINY and lora:
        raise InvalidRun(
            "The first model cannot start from this base.",
            faults=[FieldFault("lora", "the tiny model is trained whole", "a named base, or leave it out")],
        )
    *others, last = _list_teachings(base, first, lora, compares=named == "" and lora is None)
    for teaching in others:
        try:
            _check(agent, version, first, teaching)
        except InvalidRun as error:
            if {fault.field for fault in error.faults} != {NO_ROOM}:
                raise
        else:
            return teaching
    _check(agent, version, first, last)
    return last


def _say_named() -> str:
    return f"{name}, or another pretrained base" if (name := choose_named_base()) else "a base in RECKONER_BASE_MODELS"


def _list_teachings(base: str, first: FirstLabels, lora: bool | None, compares: bool) -> Iterator[Teaching]:
    """The first that has room is taken."""
    if first.writes:
        yield Teaching(base, FROM_REWARDED_TEXTS, DatasetKind.TEXT, lora)
        return
    if lora is not True:
        yield Teaching(base, FROM_LABELS, DatasetKind.LABELLED, lora, compares)
    if lora is True or (lora is None and base != TINY):
        yield Teaching(base, FROM_TEXTS, DatasetKind.LABELLED, True, compares)


def _check(agent: Agent, version: AgentVersion | None, first: FirstLabels, teaching: Teaching) -> None:
    """Raises InvalidRun."""
    to_come = DatasetSnapshot(workspace_id=agent.workspace_id, agent=agent, kind=teaching.kind, rows=first.labels)
    plan = RunPlan(teaching.method, to_come, base_model=teaching.root)
    if is_allowed_base(teaching.root):  # of another one nothing is read, and the check refuses it
        plan = replace(plan, settings=teaching.settings(teaching.method, first.labels, version))
    check_plan(agent, plan)
