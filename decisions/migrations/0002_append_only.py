"""Agent versions, reward specs and feedback never change once written; rewards get new versions instead."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("decisions", "0001_ledger")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION refuse_ledger_change()"),
        migrations.RunSQL(
            "CREATE TRIGGER decisions_agentversion_append_only BEFORE UPDATE ON decisions_agentversion FOR EACH ROW EXECUTE FUNCTION refuse_ledger_change()",
            "DROP TRIGGER decisions_agentversion_append_only ON decisions_agentversion",
        ),
        migrations.RunSQL(
            "CREATE TRIGGER decisions_rewardspec_append_only BEFORE UPDATE ON decisions_rewardspec FOR EACH ROW EXECUTE FUNCTION refuse_ledger_change()",
            "DROP TRIGGER decisions_rewardspec_append_only ON decisions_rewardspec",
        ),
        migrations.RunSQL(
            "CREATE TRIGGER decisions_feedback_append_only BEFORE UPDATE ON decisions_feedback FOR EACH ROW EXECUTE FUNCTION refuse_ledger_change()",
            "DROP TRIGGER decisions_feedback_append_only ON decisions_feedback",
        ),
        migrations.RunSQL(
            "CREATE TRIGGER decisions_reward_append_only BEFORE UPDATE ON decisions_reward FOR EACH ROW EXECUTE FUNCTION refuse_ledger_change()",
            "DROP TRIGGER decisions_reward_append_only ON decisions_reward",
        ),
    ]
