"""Steps get ids of their own, since one may belong to an episode without a decision; episodes get what is said of them.

The table of steps is made anew: its partition key changes, and nothing has written to it so far.
"""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids
from decisions.partitions.partitioning import CreatePartitionedModel


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0004_find_decisions_by_arrival"),
        ("workspaces", "0002_audit_append_only"),
    ]

    operations = [
        migrations.DeleteModel(name="Step"),
        migrations.AddField(
            model_name="episode",
            name="cost",
            field=models.DecimalField(blank=True, decimal_places=8, max_digits=14, null=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="duration_ms",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="final_response",
            field=models.TextField(blank=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="llm_calls",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="query",
            field=models.TextField(blank=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="session",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AddField(
            model_name="episode",
            name="tasks_completed",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="tasks_created",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="tasks_failed",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="tokens_in",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="tokens_out",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="episode",
            name="trace",
            field=models.CharField(
                blank=True, help_text="OpenTelemetry trace id, 32 hex digits", max_length=32, null=True
            ),
        ),
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(fields=["workspace", "-id"], name="episode_newest"),
        ),
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(
                condition=models.Q(("session", ""), _negated=True),
                fields=["workspace", "session"],
                name="episode_session",
            ),
        ),
        migrations.AddConstraint(
            model_name="episode",
            constraint=models.UniqueConstraint(
                condition=models.Q(("trace__isnull", False)), fields=("workspace", "trace"), name="episode_trace_once"
            ),
        ),
        CreatePartitionedModel(
            name="Step",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "number",
                    models.PositiveIntegerField(
                        blank=True, help_text="Order among steps that began together", null=True
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("tool_call", "Tool call"),
                            ("llm_call", "Model call"),
                            ("reasoning", "Reasoning"),
                            ("span", "Span"),
                        ],
                        max_length=16,
                    ),
                ),
                ("name", models.CharField(blank=True, max_length=200)),
                ("external_id", models.CharField(blank=True, max_length=200, null=True)),
                ("parent", models.CharField(blank=True, max_length=200, null=True)),
                ("arguments", models.JSONField(blank=True, null=True)),
                ("result", models.JSONField(blank=True, null=True)),
                ("success", models.BooleanField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
                ("reasoning_type", models.CharField(blank=True, max_length=64)),
                ("content", models.TextField(blank=True, help_text="The reasoning's text")),
                ("confidence", models.FloatField(blank=True, null=True)),
                ("insights", models.JSONField(blank=True, null=True)),
                ("issues", models.JSONField(blank=True, null=True)),
                ("model", models.CharField(blank=True, help_text="The model that was called", max_length=200)),
                ("tokens_in", models.PositiveIntegerField(blank=True, null=True)),
                ("tokens_out", models.PositiveIntegerField(blank=True, null=True)),
                ("cost", models.DecimalField(blank=True, decimal_places=8, max_digits=14, null=True)),
                ("started_at", models.DateTimeField(help_text="The client's clock")),
                ("duration_ms", models.FloatField(blank=True, null=True)),
                ("attributes", models.JSONField(blank=True, help_text="What else the sender said", null=True)),
                ("recorded_at", models.DateTimeField(help_text="The server's clock")),
                ("content_hash", models.BinaryField(max_length=32)),
                (
                    "decision",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="steps",
                        to="decisions.decision",
                    ),
                ),
                (
                    "episode",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="steps",
                        to="decisions.episode",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="workspaces.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace", "-id"], name="step_newest"),
                    models.Index(
                        condition=models.Q(("episode__isnull", False)), fields=["episode", "id"], name="step_episode"
                    ),
                    models.Index(
                        condition=models.Q(("decision__isnull", False)),
                        fields=["decision", "id"],
                        name="step_decision",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["tool_call", "llm_call", "reasoning", "span"])),
                        name="step_kind_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("decision__isnull", False), ("episode__isnull", False), _connector="OR"),
                        name="step_belongs_somewhere",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("confidence__isnull", True),
                            models.Q(("confidence__gte", 0), ("confidence__lte", 1)),
                            _connector="OR",
                        ),
                        name="step_confidence_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("duration_ms__isnull", True), ("duration_ms__gte", 0), _connector="OR"),
                        name="step_duration_not_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("error", ""), models.Q(("success", False), ("success__isnull", False)), _connector="OR"
                        ),
                        name="step_error_means_failure",
                    ),
                ],
            },
            partition_by="id",
        ),
    ]
