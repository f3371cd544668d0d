"""A session that the database server ended while it was idle is noticed before a request's first statement."""

import psycopg
import pytest
from django.db import connection

from decisions.models import Decision


@pytest.mark.django_db(transaction=True)
def test_a_request_after_a_restart_of_the_database_is_answered_and_asks_nothing_more_before_it(
    agent, api, django_assert_num_queries
):
    client = api("decisions:write")
    decision = {"agent": agent.slug, "state": {"text": "a"}, "action": "travel", "policy_name": "outside"}
    assert client.post("decisions", decision).status_code == 201
    ended = connection.connection.info.backend_pid
    with psycopg.connect(connection.connection.info.dsn, password=connection.connection.info.password) as other:
        assert other.execute("SELECT pg_terminate_backend(%s, 5000)", [ended]).fetchone() == (True,)
    assert client.post("decisions", decision).status_code == 201
    assert Decision.objects.count() == 2 and connection.connection.info.backend_pid != ended
    with django_assert_num_queries(3):
        assert client.post("decisions", decision).status_code == 201
