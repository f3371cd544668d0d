"""What a decision asks the database."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from decisions.gateway.decide import decide
from decisions.ingest.schemas import DecideItem
from models_registry.errors import BackendUnavailable
from models_registry.models import Deployment

pytestmark = pytest.mark.django_db


def test_servers_are_looked_up_again_only_when_they_change(agent, by, remote):
    version, server = remote("outside")
    items = [DecideItem(state={"text": "flight"})]
    decide(by=by, agent=agent.slug, items=items)

    with CaptureQueriesContext(connection) as queries:
        decide(by=by, agent=agent.slug, items=items)
    assert not [one["sql"] for one in queries if 'FROM "models_registry_deployment"' in str(one["sql"])]

    asked = len(server.asked)
    Deployment.objects.filter(version=version).update(enabled=False)
    with pytest.raises(BackendUnavailable):
        decide(by=by, agent=agent.slug, items=items)
    assert len(server.asked) == asked
