"""What the watch over backends notes on their rows."""

import pytest

from models_registry.backends.checking import check_backends
from models_registry.models import Backend
from models_registry.tasks import watch
from tools.factories import BackendFactory

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
