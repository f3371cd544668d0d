"""Versions that are served by servers which answer as they are told."""

import pytest

from models_registry.versions.services import NewVersion, register_version
from tools.factories import BackendFactory, DeploymentFactory


@pytest.fixture
def remote(agent, by, serve):
    """`remote(name)` makes a remote version on a server of its own; the first one is the champion."""

    def make(name, **fields):
        new = NewVersion(remote_name=name, method="remote")
        version = register_version(by=by, model=agent.registered_model, new=new)
        server = serve()
        server.models = [name]
        server.pick = (agent.versions.first().options or [""])[0]
        backend = BackendFactory(
            workspace=by.workspace, url=server.url, retries=0, price_in=1, price_out=10, name=name, **fields
        )
        DeploymentFactory(version=version, backend=backend)
        return version, server

    return make
