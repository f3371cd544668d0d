"""Routes that are kept in the process follow every change of a row behind them."""

import pytest

from models_registry.errors import NoChampion
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import AliasName, Backend, Deployment, Experiment
from models_registry.routing.routes import find_routes
from models_registry.versions.services import NewVersion, move_alias, register_version
from tools.factories import BackendFactory, DeploymentFactory

pytestmark = pytest.mark.django_db


def test_routes_are_kept_until_something_changes(agent, by, serve):
    model = agent.registered_model

    def make(name):
        version = register_version(by=by, model=model, new=NewVersion(remote_name=name, method="remote"))
        server = serve()
        server.models = [name]
        backend = BackendFactory(workspace=by.workspace, name=name, url=server.url)
        DeploymentFactory(version=version, backend=backend)
        return version

    def servers(version):
        return [place.endpoint.name for place in find_routes(model).places[version.id]]

    with pytest.raises(NoChampion):
        find_routes(model)
    first = make("first")
    kept = find_routes(model)
    assert (kept.router.champion, servers(first)) == (first, ["first"])
    assert find_routes(model) is kept
    second = make("second")
    move_alias(by=by, version=second, name=AliasName.FALLBACK)
    assert (find_routes(model).router.fallback, servers(second)) == (second, ["second"])
    DeploymentFactory(version=first, backend=Backend.objects.get(name="second"), priority=1)
    assert servers(first) == ["first", "second"]
    Backend.objects.filter(name="first").update(state="down")
    assert servers(first) == ["second", "first"]
    Deployment.objects.filter(version=first, backend__name="first").delete()
    assert servers(first) == ["second"]
    start_experiment(by=by, treatment=second, plan=ExperimentPlan(), reason="a better one")
    assert set(find_routes(model).router.running[0].versions.values()) == {first, second}
    Experiment.objects.update(state="stopped", ended_at="2026-01-01T00:00:00Z")
    assert find_routes(model).router.running == []
    move_alias(by=by, version=second, name=AliasName.CHAMPION)
    assert find_routes(model).router.champion == second
