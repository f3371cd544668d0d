"""Whether what a run has made can serve, before it becomes the first champion."""

from __future__ import annotations

import logging

from models_registry.backends.asking import ready_version
from models_registry.errors import BackendRefused, BackendUnavailable
from models_registry.models import Alias, AliasName, Artifact, ModelVersion, RegisteredModel

log = logging.getLogger(__name__)


def find_serving_fault(model: RegisteredModel, artifact: Artifact, base: ModelVersion | None) -> str | None:
    """Has the model server load the weights and answer; returns why it cannot, None where it can.

    Nobody is asked where the model has a champion, which stays. Where no server answers nobody is served at all: that
    is logged, and the first decision loads the version.
    """
    if Alias.objects.filter(registered_model=model, name=AliasName.CHAMPION).exists():
        return None
    candidate = ModelVersion(
        workspace_id=model.workspace_id, registered_model=model, number=1, artifact=artifact, base=base
    )
    try:
        ready_version(candidate)
    except BackendRefused as error:
        return error.message
    except BackendUnavailable as error:
        log.warning("the first version of %s was not loaded before it serves: %s", model, error)
    return None
