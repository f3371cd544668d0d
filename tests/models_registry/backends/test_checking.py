"""What the watch over backends notes on their rows."""

import datetime as dt

import pytest
from django.utils import timezone

from models_registry.backends.checking import check_backends
from models_registry.models import Backend, BackendState, CallState
from models_registry.tasks import watch
from tools.factories import BackendFactory, CallFactory

pytestmark = pytest.mark.django_db


def states():
    return {one.name: (one.state, bool(one.error)) for one in Backend.objects.all()}


def test_each_backend_is_asked_and_its_state_noted(serve, workspace):
    up, down = serve(), serve()
    for name, server in (("up", up), ("down", down)):
        BackendFactory(workspace=workspace, name=name, url=server.url)
    BackendFactory(workspace=workspace, name="off", enabled=False)
    down.stop()
    assert check_backends() == {"up": 1, "down": 1}
    assert states() == {"up": ("up", False), "down": ("down", True), "off": ("unknown", False)}
    since = dict(Backend.objects.values_list("name", "state_since"))
    up.stop()
    watch()
    assert states()["up"] == ("down", True)
    later = dict(Backend.objects.values_list("name", "state_since"))
    assert later["down"] == since["down"] and later["up"] > since["up"]


@pytest.mark.parametrize("wrong", ["\n/v1", "\r\nHost: x", "/v1\t", "/\u2028v1", "99999/v1", "/v1/\u00a0", "]/[v1"])
def test_a_backend_that_cannot_even_be_asked_takes_no_other_along(serve, workspace, wrong):
    """Rows of before such addresses were refused; the watch's other step has its turn, too."""
    broken = BackendFactory(workspace=workspace, name="a-broken", url=f"http://127.0.0.1:1{wrong}")
    well = BackendFactory(workspace=workspace, name="b-well", url=serve().url)
    long_ago = timezone.now() - dt.timedelta(days=1)
    call = CallFactory(opened_at=long_ago)
    watch()
    states = dict(Backend.objects.values_list("name", "state"))
    assert states == {broken.name: BackendState.DOWN, well.name: BackendState.UP}
    call.refresh_from_db()
    assert call.state == CallState.ABANDONED
