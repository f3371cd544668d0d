"""A model with a champion, a version to try, and how an experiment starts."""

import pytest

from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.routing import lanes as routing
from tests.models_registry.experiment_units import SHORT
from tools.factories import AliasFactory, ModelVersionFactory, RegisteredModelFactory


@pytest.fixture
def same_split_every_time(monkeypatch):
    """Salt and id of an experiment are random; the figures of these tests must not be."""
    real = routing.assign
    monkeypatch.setattr(routing, "assign", lambda salt, name, unit, share: real("5" * 32, "experiment", unit, share))


@pytest.fixture
def model(workspace):
    model = RegisteredModelFactory(workspace=workspace, name="filer")
    AliasFactory(version=ModelVersionFactory(registered_model=model))
    return model


@pytest.fixture
def challenger(model):
    return ModelVersionFactory(registered_model=model)


@pytest.fixture
def start(by, challenger):
    def run(**fields):
        plan = ExperimentPlan(**{name: getattr(SHORT, name) for name in ExperimentPlan.__slots__} | fields)
        return start_experiment(by=by, treatment=challenger, plan=plan, reason="a better one")

    return run
