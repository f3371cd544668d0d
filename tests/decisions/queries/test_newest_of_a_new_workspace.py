"""The newest decisions of a workspace that has just recorded many are read by the index, before any statistics."""

from typing import Any

import pytest
from django.db import connection

from decisions.agents.services import AgentSetup, create_agent
from decisions.queries.browse import Filters, find_page
from tests.decisions.conftest import body
from tools.factories import OPTIONS
from workspaces.access.actors import system
from workspaces.storage.index_order import read_in_index_order

pytestmark = pytest.mark.django_db
ROWS = 4000
FILL = """
INSERT INTO decisions_decision (id, workspace_id, agent_id, agent_version_id, state, options, action, policy_name,
                                observed_at, recorded_at, content_hash)
SELECT (left(d.id::text, 15) || lpad(to_hex(i), 3, '0') || '-8' || substr(md5(random()::text), 1, 3) || '-'
        || substr(md5(random()::text), 1, 12))::uuid,
       d.workspace_id, d.agent_id, d.agent_version_id, d.state, d.options, d.action, 'outside',
       d.observed_at, d.recorded_at, d.content_hash
  FROM decisions_decision d CROSS JOIN generate_series(1, %s) i
 WHERE d.workspace_id = %s
"""


def rows_read() -> int:
    """Rows of decisions that this transaction has read so far."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::int FROM pg_stat_xact_user_tables"
            " WHERE relname LIKE 'decisions_decision_%'"
        )
        return int(cursor.fetchone()[0])


@pytest.fixture
def filled(api: Any, agent: Any, other_workspace: Any) -> Any:
    """Statistics know one workspace; the other records as many rows after they were gathered."""
    setup = AgentSetup(prompt_template="{{ text }}", options=list(OPTIONS))
    create_agent(by=system(other_workspace), slug="filer", name="Filer", kind="FILER", setup=setup)
    for workspace in (api.workspace, other_workspace):
        assert api.of(workspace, "admin").post("decisions", body()).status_code == 201
        with connection.cursor() as cursor:
            cursor.execute(FILL, [ROWS, workspace.id])
            if workspace == api.workspace:
                cursor.execute("ANALYZE decisions_decision")
    return api.of(other_workspace, "admin")


def test_the_newest_are_read_without_the_others(filled: Any, other_workspace: Any) -> None:
    before = rows_read()
    assert len(filled.get("decisions?limit=50").json()["results"]) == 50
    with read_in_index_order():
        assert len(find_page(other_workspace, Filters(), size=50).ids) == 50
    assert rows_read() - before < 500
