"""Starts experiments on versions of an agent: one version against the one that acts, of the prompt, the options, the
exploration or the limits, with another version of the model or with the same.

The API and the page call `start_agent_experiment`. What wins becomes the agent's current version in the transaction
that promotes it (`adopting`); nothing else moves it meanwhile (`revising`).
"""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction

from decisions.agents.current import current_versions, find_current_version
from decisions.agents.differences import TITLES
from decisions.agents.revising import find_changes, setup_of
from decisions.errors import UnknownAgent
from decisions.models import Agent, AgentVersion, ArmSetup
from models_registry.experiment_log import check_reason
from models_registry.experiment_plan import ExperimentPlan, check_plan
from models_registry.experiments import open_experiment
from models_registry.models import Arm, Experiment, ModelVersion, RegisteredModel
from models_registry.promotion import prepare_to_serve
from models_registry.services import get_champion
from models_registry.variants import ArmSetupNames
from workspaces.actors import Actor
from workspaces.errors import FieldFault, InvalidInput

FIXED = ("action_space", "state_schema")
"""What a question is, and what kind of answer it wants: the same in both arms."""
OFFERED = 20
"""Versions of one agent that the form offers."""
NOT_CONDITIONED = "the contrast is not conditioned: the two versions do not choose from the same options"


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
    agent = agent_version.agent
    if agent.registered_model is None:
        raise UnknownAgent(f"The agent {agent.slug!r} has no model.")
    if treatment is None:
        treatment = get_champion(agent.registered_model)
    elif treatment.registered_model_id != agent.registered_model_id:
        fault = FieldFault("treatment", f"{treatment} is of another model", f"a version of {agent.registered_model}")
        raise InvalidInput("The experiment cannot start.", faults=[fault])
    prepare_to_serve(treatment)
    with transaction.atomic():
        # In this order everywhere: experiments start under the model's row, versions are made under the agent's.
        RegisteredModel.objects.select_for_update().get(id=agent.registered_model_id)
        current = find_current_version(Agent.objects.select_for_update().get(id=agent.id))
        assert current is not None  # agent_version is one of its versions
        names = _check_versions(current, agent_version, treatment)
        fit = fit_plan(current, agent_version, plan)
        if fit != plan:
            names = replace(names, notes=(*names.notes, NOT_CONDITIONED))
        started = open_experiment(by=by, treatment=treatment, plan=fit, reason=reason, name=name, setups=names)
        acts = {Arm.CONTROL: current, Arm.TREATMENT: agent_version}
        ArmSetup.objects.bulk_create(
            ArmSetup(workspace=by.workspace, variant=variant, agent_version=acts[Arm(variant.arm)])
            for variant in started.variants.all()
        )
    return started


def _check_versions(current: AgentVersion, tried: AgentVersion, treatment: ModelVersion) -> ArmSetupNames:
    """Raises InvalidInput."""
    changed = find_changes(setup_of(current), setup_of(tried))
    faults = []
    if not changed and treatment == get_champion(treatment.registered_model):
        faults.append(FieldFault("agent_version", f"{tried} and {current} are the same", "a version that differs"))
    faults += [
        FieldFault("agent_version", f"{tried} has another {TITLES[name].lower()} than {current}", "the same")
        for name in FIXED
        if name in changed
    ]
    if faults:
        raise InvalidInput("The experiment cannot start.", faults=faults)
    titles = ", ".join(TITLES[name].lower() for name in changed)
    return ArmSetupNames(str(current), str(tried), (f"{tried} differs from {current} in: {titles or 'nothing'}",))


def fit_plan(current: AgentVersion, tried: AgentVersion, plan: ExperimentPlan) -> ExperimentPlan:
    """The plan, not conditioned where the versions choose from other options: the probability of an action is then not
    known in both arms. What the versions ask a model, and how they explore, may differ (docs/adr/0037)."""
    same = (current.options, current.action_schema) == (tried.options, tried.action_schema)
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
