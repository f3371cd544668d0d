"""What the evidence allows to be done with a new version, and doing it: an experiment on live traffic, or promotion.

Logged decisions allow an experiment and never a promotion (docs/learning.md, "Two gates"): only held-out rows do.
"""

from __future__ import annotations

from dataclasses import dataclass

from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import promote_version
from models_registry.experiments.services import start_experiment
from models_registry.models import Alias, AliasName, Experiment, GateKind, GateVerdict, ModelVersion
from models_registry.versions.gates import Gate, read_gate
from training.loops.pipeline.plan import CHAMPION, EXPERIMENT
from workspaces.access.actors import Actor
from workspaces.errors import ReckonerError
from workspaces.templatetags.show import points

SERVES = "It is already the champion and serves."


@dataclass(frozen=True, slots=True)
class Deployment:
    """`done`: what the version does now, EXPERIMENT, CHAMPION or "". `allowed`: what its evidence allows. `because`:
    why, in whole sentences."""

    done: str
    allowed: tuple[str, ...]
    because: str

    def as_plain(self) -> dict[str, object]:
        return {"done": self.done, "allowed": list(self.allowed), "because": self.because}


def deploy_version(*, by: Actor, version: ModelVersion, wanted: str, name: str) -> Deployment:
    """Does what is `wanted` ("" for nothing) where the evidence allows it, once: asked again, it says what is done.
    `name` is that of the experiment, and of the reason in the audit."""
    found = read_deployment(version)
    if not wanted or found.done or wanted not in found.allowed:
        return found
    try:
        if wanted == CHAMPION:
            promote_version(by=by, version=version, reason=f"{name}: {found.because}")
        else:
            start_experiment(by=by, treatment=version, plan=ExperimentPlan(), reason=found.because, name=name)
    except ReckonerError as error:  # another experiment runs, or the model server cannot serve it
        return Deployment("", found.allowed, f"{found.because} It was not deployed: {error.message}")
    return Deployment(wanted, found.allowed, found.because)


def read_deployment(version: ModelVersion) -> Deployment:
    """What the version does now, and what its gates allow."""
    if version.aliases.filter(name=AliasName.CHAMPION).exists():
        return Deployment(CHAMPION, (CHAMPION,), SERVES)
    gate = read_gate(version)
    allowed, because = _judge(gate)
    if not Alias.objects.filter(registered_model=version.registered_model_id, name=AliasName.CHAMPION).exists():
        allowed = tuple(one for one in allowed if one != EXPERIMENT)  # there is nothing to compare it with
    tried = Experiment.objects.filter(variants__version=version, variants__arm="treatment").exists()
    return Deployment(EXPERIMENT if tried else "", allowed, because)


def _judge(gate: Gate) -> tuple[tuple[str, ...], str]:
    deciding = gate.deciding
    if deciding is None:
        reasons = " ".join(str(reason) for verdict in gate.verdicts for reason in verdict.refusals)
        return (EXPERIMENT,), f"No gate could judge it. {reasons}".strip()
    if gate.blocks:
        return (), f"It did not pass its gate: {_tell(deciding)}."
    by_rows = any(verdict.passed and verdict.kind == GateKind.HELD_OUT for verdict in gate.answered)
    if by_rows:
        return (EXPERIMENT, CHAMPION), f"It passed its gate: {_tell(deciding)}."
    return (EXPERIMENT,), f"Logged decisions allow an experiment, and no promotion: {_tell(deciding)}."


def _tell(verdict: GateVerdict) -> str:
    interval = f"{points(verdict.estimate)} points [{points(verdict.low)}, {points(verdict.high)}]"
    return f"{interval} against {verdict.better_than}"
