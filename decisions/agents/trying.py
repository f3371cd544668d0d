"""Starts experiments on versions of an agent: one version against the one that acts, of the prompt, the options, the
exploration or the limits, with another version of the model or with the same.

The API and the page call `start_agent_experiment`. What wins becomes the agent's current version in the transaction
that promotes it (`adopting`); nothing else moves it meanwhile (`revising`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction

from decisions.agents.current import current_versions, find_current_version
from decisions.agents.differences import TITLES
from decisions.agents.revising import find_changes, setup_of
from decisions.errors import UnknownAgent
from decisions.models import Agent, AgentVersion, ArmSetup
from models_registry.experiments.groups import check_tried, open_group
from models_registry.experiments.log import check_reason
from models_registry.experiments.plan import ExperimentPlan, check_plan
from models_registry.experiments.promotion import prepare_to_serve
from models_registry.experiments.services import Tried, open_experiment
from models_registry.experiments.variants import ArmSetupNames
from models_registry.models import Arm, Experiment, ExperimentGroup, ModelVersion, RegisteredModel
from models_registry.versions.services import get_champion
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput

FIXED = ("action_space", "state_schema")
"""What a question is, and what kind of answer it wants: the same in both arms."""
OFFERED = 20
"""Versions of one agent that the form offers."""
NOT_CONDITIONED = "the contrast is not conditioned: the versions do not choose from the same options"


def start_agent_experiment(
    *,
    by: Actor,
    agent_version: AgentVersion,
    plan: ExperimentPlan,
    reason: str,
    name: str = "",
    treatment: ModelVersion | None = None,
) -> Experiment:
    """The agent as it is against `agent_version` from now on, answered by the champion or by `treatment`.

    Only units of this agent meet an arm; other agents of the same model keep the champion. Where the versions do not
    choose from the same options, the contrast is not conditioned, and the log says so. Raises InvalidInput,
    ExperimentRunning, NoChampion, GateNotPassed, BackendRefused, UnknownAgent.
    """
    check_plan(plan)
    reason = check_reason(reason)
    treatment = _find_treatment(agent_version.agent, treatment)
    prepare_to_serve(treatment)
    with transaction.atomic():
        current = _lock_current(agent_version.agent)
        fit = fit_plan(current, [agent_version], plan)
        names = _check_versions(current, agent_version, treatment, dropped=fit != plan)
        started = open_experiment(by=by, treatment=treatment, plan=fit, reason=reason, name=name, setups=names)
        _keep_setups(by, started, current, agent_version)
    return started


def start_agent_group(
    *,
    by: Actor,
    tried: Sequence[tuple[AgentVersion, ModelVersion | None]],
    plan: ExperimentPlan,
    reason: str,
    name: str = "",
) -> ExperimentGroup:
    """The agent as it is against each of `tried` at the same time: a version of it, answered by the champion or by a
    version of the model. They share one plan, which is not conditioned where one of them chooses from other options.

    Raises what `start_agent_experiment` raises.
    """
    check_plan(plan)
    reason = check_reason(reason)
    agent = tried[0][0].agent
    asked = [(version, _find_treatment(agent, treatment)) for version, treatment in tried]
    for treatment in {treatment for _, treatment in asked}:
        prepare_to_serve(treatment)
    with transaction.atomic():
        current = _lock_current(agent)
        fit = fit_plan(current, [version for version, _ in asked], plan)
        candidates = [
            Tried(treatment, _check_versions(current, version, treatment, dropped=fit != plan))
            for version, treatment in asked
        ]
        check_tried(candidates, fit, field="agent_versions")
        group = open_group(by=by, tried=candidates, plan=fit, reason=reason, name=name)
        for experiment, (version, _) in zip(group.experiments.order_by("lane_low"), asked, strict=True):
            _keep_setups(by, experiment, current, version)
    return group


def _find_treatment(agent: Agent, treatment: ModelVersion | None) -> ModelVersion:
    """Raises UnknownAgent, InvalidInput, NoChampion."""
    if agent.registered_model is None:
        raise UnknownAgent(f"The agent {agent.slug!r} has no model.")
    if treatment is None:
        return get_champion(agent.registered_model)
    if treatment.registered_model_id != agent.registered_model_id:
        fault = FieldFault(
            "treatment", f"{treatment} belongs to another model", f"a version of {agent.registered_model}"
        )
        raise InvalidInput("The experiment cannot start.", faults=[fault])
    return treatment


def _lock_current(agent: Agent) -> AgentVersion:
    """In this order everywhere: experiments start under the model's row, versions are made under the agent's."""
    RegisteredModel.objects.select_for_update().get(id=agent.registered_model_id)
    current = find_current_version(Agent.objects.select_for_update().get(id=agent.id))
    assert current is not None  # whoever asks names a version of it
    return current


def _keep_setups(by: Actor, experiment: Experiment, current: AgentVersion, tried: AgentVersion) -> None:
    acts = {Arm.CONTROL: current, Arm.TREATMENT: tried}
    ArmSetup.objects.bulk_create(
        ArmSetup(workspace=by.workspace, variant=variant, agent_version=acts[Arm(variant.arm)])
        for variant in experiment.variants.all()
    )


def _check_versions(
    current: AgentVersion, tried: AgentVersion, treatment: ModelVersion, *, dropped: bool
) -> ArmSetupNames:
    """dropped: the plan is not conditioned, for the options. Raises InvalidInput."""
    changed = find_changes(setup_of(current), setup_of(tried))
    faults = []
    if not changed and treatment == get_champion(treatment.registered_model):
        faults.append(FieldFault("agent_version", f"{tried} and {current} are the same", "another version"))
    faults += [
        FieldFault("agent_version", f"{tried} has another {TITLES[name].lower()} than {current}", "the same")
        for name in FIXED
        if name in changed
    ]
    if faults:
        raise InvalidInput("The experiment cannot start.", faults=faults)
    titles = ", ".join(TITLES[name].lower() for name in changed)
    notes = [f"{tried} differs from {current} in: {titles or 'nothing'}", *([NOT_CONDITIONED] if dropped else [])]
    return ArmSetupNames(str(current), str(tried), current.agent.slug, tuple(notes))


def fit_plan(current: AgentVersion, tried: Sequence[AgentVersion], plan: ExperimentPlan) -> ExperimentPlan:
    """The plan, not conditioned where one of `tried` chooses from other options: the probability of an action is then
    not known in both arms. What the versions ask a model, and how they explore, may differ (docs/adr/0037)."""
    own = (current.options, current.action_schema)
    same = all((one.options, one.action_schema) == own for one in tried)
    return plan if same else replace(plan, conditioned=False)


def list_triable(model: RegisteredModel) -> dict[AgentVersion, str]:
    """The newest versions of the model's agents that an experiment can try, with what each differs in from the one that
    acts."""
    found: dict[AgentVersion, str] = {}
    agents = Agent.objects.filter(registered_model=model).order_by("name")
    for current in current_versions(agents):
        for version in AgentVersion.objects.filter(agent=current.agent_id).exclude(id=current.id)[:OFFERED]:
            changed = find_changes(setup_of(current), setup_of(version))
            if changed and not set(FIXED) & set(changed):
                found[version] = ", ".join(TITLES[name].lower() for name in changed)
    return found
