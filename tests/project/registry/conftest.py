"""The versions of an agent whose pages are looked at, and an experiment with them."""

from typing import Any

import pytest

from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment
from tools.factories import AliasFactory, ModelVersionFactory


@pytest.fixture
def versions(agent: Any) -> list[Any]:
    """filer:1, the champion, and filer:2."""
    made = [ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2)]
    AliasFactory(version=made[0])
    return made


@pytest.fixture
def experiment(versions: list[Any], by: Any) -> Experiment:
    return start_experiment(
        by=by, treatment=versions[1], plan=ExperimentPlan(), reason="a better one", name="posterior against base"
    )
