"""The audit is append-only, held by the database itself."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0001_people_workspaces_keys")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION refuse_audit_change()"),
        migrations.RunSQL(
            "CREATE TRIGGER workspaces_auditentry_append_only BEFORE UPDATE OR DELETE ON workspaces_auditentry FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()",
            "DROP TRIGGER workspaces_auditentry_append_only ON workspaces_auditentry",
        ),
    ]
