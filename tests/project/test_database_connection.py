"""A kept connection that has died is replaced before a request uses it, without asking the database first."""

import psycopg
import pytest
from django.db import DataError, connection, transaction

pytestmark = pytest.mark.django_db(transaction=True)


def end_session() -> None:
    """As an operator, a fail-over or a restart does, from outside."""
    with psycopg.connect(connection.connection.info.dsn, autocommit=True) as other:
        pid = connection.connection.info.backend_pid
        assert other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid]).fetchone() == (True,)


def test_a_living_connection_is_usable_and_asks_nothing(api, django_assert_num_queries) -> None:
    connection.ensure_connection()
    with django_assert_num_queries(0):
        assert connection.is_usable()


@pytest.mark.parametrize("how", ["ended by the server", "closed by us"])
def test_a_dead_connection_is_not(how) -> None:
    connection.ensure_connection()
    end_session() if how == "ended by the server" else connection.connection.close()
    assert not connection.is_usable()
    connection.close()


def test_a_failed_transaction_is_not_usable_until_it_is_taken_back() -> None:
    with transaction.atomic():
        with pytest.raises(DataError), connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
        assert not connection.is_usable()
        transaction.set_rollback(True)
    assert connection.is_usable()


def test_a_request_after_the_end_of_its_session_is_answered(api) -> None:
    client = api("export:read")
    assert client.get("decisions").status_code == 200
    connection.health_check_enabled = True
    connection.health_check_done = False
    end_session()
    assert client.get("decisions").status_code == 200
