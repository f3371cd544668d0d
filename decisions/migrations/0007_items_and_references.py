"""Items, projects and changes of status; what decisions say of them; schemas of states."""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0006_partitions_of_steps"),
        ("models_registry", "0003_drop_challengers_of_ended_experiments"),
        ("workspaces", "0002_audit_append_only"),
    ]

    operations = [
        migrations.CreateModel(
            name="Item",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("ref", models.CharField(max_length=200)),
                ("title", models.CharField(blank=True, max_length=500)),
                ("status", models.CharField(blank=True, max_length=32)),
                ("swimlane", models.CharField(blank=True, max_length=32)),
                ("priority", models.CharField(blank=True, max_length=32)),
                ("labels", models.JSONField(default=list)),
                ("project_ref", models.CharField(blank=True, max_length=200)),
                ("cycles", models.PositiveIntegerField(default=0)),
                ("blocked", models.BooleanField(default=False)),
                ("changed_at", models.DateTimeField(help_text="The client's clock, of the newest change", null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("ref", models.CharField(max_length=200)),
                ("name", models.CharField(blank=True, max_length=500)),
            ],
        ),
        migrations.CreateModel(
            name="StatusChange",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("external_id", models.CharField(blank=True, max_length=200, null=True)),
                ("from_status", models.CharField(blank=True, max_length=32)),
                ("to_status", models.CharField(max_length=32)),
                (
                    "outcome",
                    models.CharField(
                        blank=True, choices=[("DONE", "Done"), ("COLD_STORAGE", "Put away")], max_length=16
                    ),
                ),
                ("cycles", models.PositiveIntegerField(default=0)),
                ("blocked", models.BooleanField(default=False)),
                ("abandoned", models.BooleanField(default=False)),
                ("time_ratio", models.FloatField(help_text="Minutes spent over minutes expected", null=True)),
                ("alignment", models.FloatField(help_text="With the project's goals, 0 to 1", null=True)),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("confirmed", "Confirmed"),
                            ("corrected", "Corrected"),
                            ("overridden", "Overridden"),
                            ("ignored", "Ignored"),
                        ],
                        max_length=16,
                    ),
                ),
                ("correction", models.JSONField(blank=True, null=True)),
                ("judged_at", models.DateTimeField(null=True)),
                ("spread_at", models.DateTimeField(null=True)),
                ("observed_at", models.DateTimeField(help_text="The client's clock")),
                ("recorded_at", models.DateTimeField(help_text="The server's clock")),
                ("content_hash", models.BinaryField(max_length=32)),
            ],
        ),
        migrations.AddField(
            model_name="agentversion",
            name="state_schema",
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="decision",
            name="item_ref",
            field=models.CharField(blank=True, max_length=200, null=True),
        ),
        migrations.AddField(
            model_name="decision",
            name="next_state",
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="decision",
            name="project_ref",
            field=models.CharField(blank=True, max_length=200, null=True),
        ),
        migrations.AddField(
            model_name="decision",
            name="user_ref",
            field=models.CharField(blank=True, max_length=200, null=True),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(
                condition=models.Q(("item_ref__isnull", False)),
                fields=["workspace", "item_ref", "-id"],
                name="decision_item",
            ),
        ),
        migrations.AddField(
            model_name="item",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
            ),
        ),
        migrations.AddField(
            model_name="project",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
            ),
        ),
        migrations.AddField(
            model_name="statuschange",
            name="decision",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="status_changes",
                to="decisions.decision",
            ),
        ),
        migrations.AddField(
            model_name="statuschange",
            name="item",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="changes", to="decisions.item"
            ),
        ),
        migrations.AddField(
            model_name="statuschange",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
            ),
        ),
        migrations.AddConstraint(
            model_name="item",
            constraint=models.UniqueConstraint(fields=("workspace", "ref"), name="item_once"),
        ),
        migrations.AddConstraint(
            model_name="project",
            constraint=models.UniqueConstraint(fields=("workspace", "ref"), name="project_once"),
        ),
        migrations.AddIndex(
            model_name="statuschange",
            index=models.Index(
                condition=models.Q(models.Q(("outcome", ""), _negated=True), ("spread_at__isnull", True)),
                fields=["workspace"],
                name="change_unspread",
            ),
        ),
        migrations.AddIndex(
            model_name="statuschange",
            index=models.Index(
                condition=models.Q(("spread_at__isnull", False)), fields=["spread_at"], name="change_spread"
            ),
        ),
        migrations.AddConstraint(
            model_name="statuschange",
            constraint=models.UniqueConstraint(
                condition=models.Q(("external_id__isnull", False)),
                fields=("workspace", "external_id"),
                name="status_change_external_id_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="statuschange",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome__in", ["", "DONE", "COLD_STORAGE"])), name="status_change_outcome_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="statuschange",
            constraint=models.CheckConstraint(
                condition=models.Q(("verdict__in", ["", "confirmed", "corrected", "overridden", "ignored"])),
                name="status_change_verdict_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="statuschange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("judged_at__isnull", True), ("verdict", "")),
                    models.Q(models.Q(("verdict", ""), _negated=True), ("judged_at__isnull", False)),
                    _connector="OR",
                ),
                name="status_change_judged_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="statuschange",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("alignment__isnull", True),
                        models.Q(("alignment__gte", 0), ("alignment__lte", 1)),
                        _connector="OR",
                    ),
                    models.Q(("time_ratio__isnull", True), ("time_ratio__gte", 0), _connector="OR"),
                ),
                name="status_change_measures_in_range",
            ),
        ),
    ]
