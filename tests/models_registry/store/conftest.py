"""The two stores: on a local disk, and at OpenStack Swift's S3 interface."""

import uuid

import pytest

from models_registry.store.opening import open_store
from tools.object_store import BUCKET, find_swift, make_bucket, running_swift


@pytest.fixture(scope="session")
def swift(tmp_path_factory):
    """The environment by which a client finds a running OpenStack Swift with the bucket BUCKET."""
    if lacks := find_swift():
        pytest.skip(lacks)
    with running_swift(tmp_path_factory.mktemp("swift") / "server") as environment:
        make_bucket(environment)
        yield environment


@pytest.fixture
def s3(swift, monkeypatch):
    """The address of an empty store there; the environment leads to it."""
    for name, value in swift.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4()}"


@pytest.fixture
def remote(s3, tmp_path):
    """An empty store at S3 with an empty cache."""
    return open_store(s3, cache=tmp_path / "cache", cache_bytes=1 << 40)


@pytest.fixture(params=["local", pytest.param("s3", marks=[pytest.mark.xdist_group("swift"), pytest.mark.slow])])
def shelf(request, tmp_path):
    """Either store, empty."""
    if request.param == "local":
        return open_store(str(tmp_path / "store"), cache=tmp_path / "cache", cache_bytes=1 << 40)
    return request.getfixturevalue("remote")
