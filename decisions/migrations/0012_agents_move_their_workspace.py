"""A change of an agent moves its workspace's row: whoever has read that row's stamp for a request need not ask for the
agents (`decisions.agents.current`, ADR 0010)."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION move_workspace_of_agent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE workspaces_workspace SET name = name WHERE id IN (OLD.workspace_id, NEW.workspace_id);
  RETURN NULL;
END $$
"""
TABLES = ("decisions_agent", "decisions_agentversion")


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0011_find_episodes_by_agent_and_unit"),
        ("workspaces", "0006_content_types_of_answers"),
    ]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION move_workspace_of_agent()"),
        *(
            migrations.RunSQL(
                f"CREATE TRIGGER {table}_moves_workspace AFTER INSERT OR UPDATE OR DELETE ON {table}"
                " FOR EACH ROW EXECUTE FUNCTION move_workspace_of_agent()",
                f"DROP TRIGGER {table}_moves_workspace ON {table}",
            )
            for table in TABLES
        ),
    ]
