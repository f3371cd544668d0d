"""Adapters that are deployed on a vLLM server are loaded there over its API; a small server speaks vLLM's paths."""

import shutil

import pytest

from models_registry.backends.checking import check_backends
from models_registry.backends.places import find_places
from models_registry.backends.services import (
    BackendSetup,
    add_backend,
    change_deployment,
    deploy_version,
    remove_deployment,
)
from tools.factories import ArtifactFactory, ModelVersionFactory, RegisteredModelFactory, put_files
from workspaces.errors import InvalidInput

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(serve):
    one = serve()
    one.adapters = {"somebody-elses": "/elsewhere"}
    return one


@pytest.fixture
def vllm(by, server):
    """`vllm(…)`: the backend; fields as of BackendSetup."""

    def add(**fields):
        setup = BackendSetup(
            **{"name": "vllm", "kind": "vllm", "url": server.url, "capabilities": ("adapters",)} | fields
        )
        return add_backend(by=by, setup=setup)

    return add


@pytest.fixture
def version(workspace, store):
    put = put_files({"adapter_config.json": "{}", "adapter_model.safetensors": "x"}, kind="adapter")
    artifact = ArtifactFactory(workspace=workspace, kind="adapter", digest=put.digest)
    model = RegisteredModelFactory(workspace=workspace, name="filer")
    base = ModelVersionFactory(registered_model=model, number=1)
    return ModelVersionFactory(registered_model=model, number=2, artifact=artifact, base=base)


def places(version):
    return [(one.endpoint.name, one.model) for one in find_places([version])[version.id]]


def test_what_is_deployed_is_loaded_also_after_a_restart_and_unloaded_when_it_is_not(by, server, vllm, version, store):
    deployment = deploy_version(by=by, version=version, backend=vllm())
    assert "not loaded" in deployment.error
    check_backends()
    deployment.refresh_from_db()
    assert deployment.error == ""
    assert set(server.adapters) == {"somebody-elses", "filer-2"} and server.adapters["filer-2"].startswith(str(store))
    assert places(version)[0] == ("vllm", "filer-2")
    count = len(server.asked)
    check_backends()
    assert len(server.asked) == count  # what is there is not loaded twice
    server.adapters.clear()
    check_backends()
    assert "filer-2" in server.adapters
    change_deployment(by=by, deployment=deployment, enabled=False)
    server.adapters["somebody-elses"] = "/elsewhere"
    check_backends()
    assert server.adapters == {"somebody-elses": "/elsewhere"}
    remove_deployment(by=by, deployment=deployment)
    check_backends()
    assert server.adapters == {"somebody-elses": "/elsewhere"}


def test_the_server_may_see_the_artifacts_under_another_path(by, server, vllm, version, store, tmp_path):
    shutil.copytree(store, tmp_path / "mounted")
    deploy_version(by=by, version=version, backend=vllm(artifacts_path=str(tmp_path / "mounted")))
    check_backends()
    assert server.adapters["filer-2"].startswith(str(tmp_path / "mounted"))


@pytest.mark.parametrize(
    ("adapters", "path", "reason"),
    [(None, "", "VLLM_ALLOW_RUNTIME_LORA_UPDATING"), ({}, "/nowhere", "/nowhere")],
    ids=["it does not load any", "it does not see them"],
)
def test_one_that_cannot_be_loaded_says_why_and_is_asked_last(by, server, vllm, version, adapters, path, reason):
    server.adapters = adapters
    deployment = deploy_version(by=by, version=version, backend=vllm(artifacts_path=path))
    other = deploy_version(by=by, version=version, backend=vllm(name="other", capabilities=()), priority=5)
    check_backends()
    deployment.refresh_from_db()
    other.refresh_from_db()
    assert reason in deployment.error and other.error == ""
    assert [name for name, _ in places(version)][:2] == ["other", "vllm"]


def test_a_path_there_is_absolute(by, vllm):
    with pytest.raises(InvalidInput, match="cannot be added") as error:
        vllm(artifacts_path="artifacts")
    assert [one.field for one in error.value.faults] == ["artifacts_path"]
