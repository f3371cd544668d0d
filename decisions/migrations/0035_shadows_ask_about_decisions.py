"""Shadows: what a candidate version thinks of logged decisions, and the figures of it over time."""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0034_queues_of_episodes_have_indexes"),
        ("jobs", "0002_let_a_dead_job_be_asked_again"),
        ("models_registry", "0013_phases_of_a_ramp"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.CreateModel(
            name="Shadow",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("share", models.FloatField(default=1.0)),
                ("min_decisions", models.PositiveIntegerField(default=500)),
                (
                    "then",
                    models.CharField(
                        choices=[("tell", "Say so"), ("canary", "Open a canary")], default="tell", max_length=8
                    ),
                ),
                ("reason", models.CharField(max_length=500)),
                ("requested_by", models.CharField(max_length=254)),
                (
                    "state",
                    models.CharField(
                        choices=[("running", "Running"), ("canary", "Canary opened"), ("stopped", "Stopped")],
                        default="running",
                        max_length=8,
                    ),
                ),
                ("answered", models.PositiveIntegerField(default=0)),
                ("failed", models.PositiveIntegerField(default=0)),
                ("cost", models.DecimalField(decimal_places=8, default=0, max_digits=16)),
                ("looks", models.PositiveSmallIntegerField(default=0)),
                ("read_until", models.DateTimeField(null=True)),
                ("enough_at", models.DateTimeField(null=True)),
                ("enough_says", models.TextField(blank=True)),
                ("waits", models.CharField(blank=True, max_length=500)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("end_reason", models.CharField(blank=True, max_length=500)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="shadows", to="decisions.agent"
                    ),
                ),
                (
                    "experiment",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="shadow",
                        to="models_registry.experiment",
                    ),
                ),
                (
                    "job",
                    models.OneToOneField(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="shadow", to="jobs.job"
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="shadows",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="ShadowAnswer",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("probabilities", models.JSONField(null=True)),
                ("place", models.PositiveSmallIntegerField(null=True)),
                ("pick", models.JSONField(null=True)),
                ("agrees", models.BooleanField(null=True)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("answered_at", models.DateTimeField()),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="shadow_answers",
                        to="decisions.decision",
                    ),
                ),
                (
                    "shadow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="answers",
                        to="decisions.shadow",
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
        ),
        migrations.CreateModel(
            name="ShadowPoint",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField()),
                ("answered", models.PositiveIntegerField()),
                ("failed", models.PositiveIntegerField()),
                ("agreement", models.FloatField(null=True)),
                ("agreement_low", models.FloatField(null=True)),
                ("agreement_high", models.FloatField(null=True)),
                ("rewarded", models.PositiveIntegerField(default=0)),
                ("estimate", models.FloatField(null=True)),
                ("low", models.FloatField(null=True)),
                ("high", models.FloatField(null=True)),
                ("lower", models.FloatField(null=True)),
                ("logged", models.FloatField(null=True)),
                ("effective_sample_size", models.FloatField(null=True)),
                ("refusals", models.JSONField(default=list)),
                ("passed", models.BooleanField(default=False)),
                ("look", models.PositiveSmallIntegerField(null=True)),
                (
                    "shadow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="points", to="decisions.shadow"
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
                "ordering": ["id"],
            },
        ),
        migrations.AddConstraint(
            model_name="shadow",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "running")),
                fields=("agent", "version"),
                name="shadow_running_once_per_version",
            ),
        ),
        migrations.AddConstraint(
            model_name="shadow",
            constraint=models.CheckConstraint(
                condition=models.Q(("min_decisions__gte", 1), ("share__gt", 0), ("share__lte", 1)),
                name="shadow_ranges_make_sense",
            ),
        ),
        migrations.AddConstraint(
            model_name="shadow",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["running", "canary", "stopped"]), ("then__in", ["tell", "canary"])),
                name="shadow_choices_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="shadow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", True), ("state", "running")),
                    models.Q(models.Q(("state", "running"), _negated=True), ("ended_at__isnull", False)),
                    _connector="OR",
                ),
                name="shadow_ended_exactly_when_over",
            ),
        ),
        migrations.AddConstraint(
            model_name="shadow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("enough_at__isnull", False),
                        ("experiment__isnull", False),
                        ("state", "canary"),
                        ("then", "canary"),
                    ),
                    models.Q(models.Q(("state", "canary"), _negated=True), ("experiment__isnull", True)),
                    _connector="OR",
                ),
                name="shadow_canary_has_its_experiment",
            ),
        ),
        migrations.AddIndex(
            model_name="shadowanswer",
            index=models.Index(fields=["shadow", "-id"], name="shadow_answer_newest"),
        ),
        migrations.AddIndex(
            model_name="shadowanswer",
            index=models.Index(fields=["decision"], name="shadow_answer_decision"),
        ),
        migrations.AddConstraint(
            model_name="shadowanswer",
            constraint=models.UniqueConstraint(fields=("shadow", "decision"), name="shadow_answer_once"),
        ),
        migrations.AddConstraint(
            model_name="shadowanswer",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("agrees__isnull", False),
                        ("error", ""),
                        ("pick__isnull", False),
                        ("place__isnull", False),
                        ("probabilities__isnull", False),
                    ),
                    models.Q(
                        models.Q(("error", ""), _negated=True),
                        ("agrees__isnull", True),
                        ("pick__isnull", True),
                        ("place__isnull", True),
                        ("probabilities__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="shadow_answer_or_error",
            ),
        ),
        migrations.AddConstraint(
            model_name="shadowpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("passed", False), models.Q(("look__isnull", False), ("refusals", [])), _connector="OR"
                ),
                name="shadow_point_refuses_or_passes",
            ),
        ),
    ]
