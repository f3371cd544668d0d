"""An agent may have versions that do not act yet, and the arms of an experiment may act with versions of its own."""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids

# A version of another agent can never act for this one.
ITS_OWN = """
ALTER TABLE decisions_agent ADD CONSTRAINT agent_current_version_is_its_own
  FOREIGN KEY (current_version_id, id) REFERENCES decisions_agentversion (id, agent_id) DEFERRABLE INITIALLY DEFERRED
"""


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0035_shadows_ask_about_decisions"),
        ("models_registry", "0019_variants_name_their_setup"),
        ("workspaces", "0001_people_workspaces_keys"),
    ]

    operations = [
        migrations.AddConstraint(
            model_name="agentversion",
            constraint=models.UniqueConstraint(fields=("id", "agent"), name="agent_version_of_its_agent"),
        ),
        migrations.AddField(
            model_name="agent",
            name="current_version",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="decisions.agentversion",
            ),
        ),
        migrations.RunSQL(ITS_OWN, "ALTER TABLE decisions_agent DROP CONSTRAINT agent_current_version_is_its_own"),
        migrations.CreateModel(
            name="ArmSetup",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "agent_version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="arms", to="decisions.agentversion"
                    ),
                ),
                (
                    "variant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="arm_setup",
                        to="models_registry.variant",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
        ),
    ]
