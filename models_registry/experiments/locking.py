"""Takes the rows under which a running experiment is decided on, in one order everywhere: the model's, then its own.

Whoever promotes by hand has the model's first, since that is the lock under which experiments start. A look that took
its experiment first, and the model's row at a promotion, could wait for that one while it waits for the look.
"""

from __future__ import annotations

from models_registry.errors import NoExperiment
from models_registry.models import Experiment, ExperimentGroup, ExperimentState, RegisteredModel


def lock_running(experiment: Experiment) -> Experiment:
    """The experiment as it is now. Call inside a transaction. Raises NoExperiment when it is over.

    No key of either row changes: calls and decisions of other units, which refer to them, do not wait.
    """
    RegisteredModel.objects.select_for_update(no_key=True).get(id=experiment.registered_model_id)
    locked: Experiment = Experiment.objects.select_for_update(no_key=True).get(id=experiment.id)
    if locked.state != ExperimentState.RUNNING:
        raise NoExperiment(f"The experiment is {locked.state}.")
    return locked


def lock_running_group(group: ExperimentGroup) -> list[Experiment]:
    """The running experiments of the group, under the same locks. Raises NoExperiment where there is none."""
    RegisteredModel.objects.select_for_update(no_key=True).get(id=group.registered_model_id)
    running = Experiment.objects.filter(group=group, state=ExperimentState.RUNNING).order_by("id")
    locked = list(running.select_for_update(no_key=True))
    if not locked:
        raise NoExperiment("All experiments of the group are over.")
    return locked
