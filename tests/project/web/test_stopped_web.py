"""A web worker that is stopped leaves no call of `decide` open."""

import datetime as dt
import threading
from decimal import Decimal

import httpx
import pytest
from django.db import connection

from models_registry.calls.records import close_abandoned
from models_registry.models import Call, KeySpend
from models_registry.versions.services import NewVersion, register_version
from tests.project.embedded.waiting import wait_for
from tests.project.web.web_process import Web
from tools.factories import BackendFactory, DeploymentFactory
from workspaces.access.services import KeyLimits, create_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.xdist_group("embedded")]


def day():
    return KeySpend.objects.values_list("spent", "reserved").get()


def test_calls_that_a_stop_cuts_short_are_settled_before_the_process_ends(tmp_path, agent, by, serve):
    version = register_version(by=by, model=agent.registered_model, new=NewVersion(remote_name="gpt", method="remote"))
    server = serve()
    backend = BackendFactory(workspace=by.workspace, url=server.url, price_in=1, price_out=10, timeout_seconds=60)
    DeploymentFactory(version=version, backend=backend)
    limits = KeyLimits(spend_a_day=Decimal(1))
    token = create_api_key(by=by, name="decides", scopes=["route:read"], limits=limits).token
    server.held.clear()
    faults = []
    web = Web(tmp_path, database=connection.settings_dict["NAME"])

    def ask():
        try:
            answer = httpx.post(
                f"http://127.0.0.1:{web.port}/api/v1/agents/{agent.slug}/decide",
                json={"state": {"text": "flight hotel"}},
                headers={"Authorization": f"Bearer {token}"},
                timeout=60,
                trust_env=False,
            )
            faults.append(answer.text)
        except httpx.TransportError as error:
            faults.append(error)

    try:
        wait_for(web.lives)
        client = threading.Thread(target=ask)
        client.start()
        wait_for(lambda: server.asked or faults)
        assert not faults
        call = Call.objects.get()
        assert (call.state, day()) == ("open", (0, call.reserved)) and call.reserved > 0
    finally:
        assert web.stop() == 0
    client.join(30)
    assert [type(fault) for fault in faults] == [httpx.RemoteProtocolError]
    call.refresh_from_db()
    assert (call.state, call.cost, day()) == ("abandoned", None, (call.reserved, 0))
    assert close_abandoned(older_than=dt.timedelta(0)) == 0  # the sweep does not count it again
    assert day() == (call.reserved, 0)
