"""Feedback and rewards stay append-only, but for an erasure, which says so for its own transaction only."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION refuse_change_but_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('reckoner.erasing', true) = 'on' THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
TABLES = ("decisions_feedback", "decisions_reward")


def trigger(table: str, function: str) -> str:
    return (
        f"DROP TRIGGER {table}_append_only ON {table};"
        f" CREATE TRIGGER {table}_append_only BEFORE UPDATE ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION {function}()"
    )


class Migration(migrations.Migration):
    dependencies = [("decisions", "0007_items_and_references")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION refuse_change_but_erasure()"),
        *(
            migrations.RunSQL(trigger(table, "refuse_change_but_erasure"), trigger(table, "refuse_ledger_change"))
            for table in TABLES
        ),
    ]
