"""Datasets, runs, evaluations, rehearsals, exports, suites and erasures."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    # Their files are gone: an instance that has applied all of them records this one only.
    replaces = [
        ("training", "0001_datasets_runs_exports"),
        ("training", "0002_rehearsals"),
        ("training", "0003_erasures"),
        ("training", "0004_datasets_of_labels"),
        ("training", "0005_datasets_of_texts"),
        ("training", "0006_evaluation_suites"),
        ("training", "0007_estimates_of_runs"),
        ("training", "0008_tags_and_notes_of_runs"),
        ("training", "0009_plain_baseline_of_evaluations"),
        ("training", "0010_decisions_left_out_of_evaluations"),
        ("training", "0011_texts_left_out_of_suites"),
        ("training", "0012_datasets_of_tasks"),
        ("training", "0013_options_and_reports_of_exports"),
        ("training", "0014_exports_for_ollama"),
    ]
    initial = True
    dependencies = [
        ("decisions", "0002_months_of_the_ledger"),
        ("jobs", "0001_jobs_with_an_outbox"),
        ("models_registry", "0001_registry_calls_and_experiments"),
        ("workspaces", "0001_people_keys_and_audit"),
    ]

    operations = [
        migrations.CreateModel(
            name="DatasetSnapshot",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("logged", "Decisions with a reward"),
                            ("labelled", "Inputs with the right answer"),
                            ("preferences", "Pairs of a better and a worse action"),
                            ("text", "Texts with a reward"),
                            ("tasks", "Tasks of an environment"),
                        ],
                        max_length=16,
                    ),
                ),
                ("rows", models.PositiveIntegerField()),
                ("query", models.JSONField(default=dict)),
                ("statistics", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="datasets", to="decisions.agent"
                    ),
                ),
                (
                    "artifact",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="datasets",
                        to="models_registry.artifact",
                    ),
                ),
                (
                    "reward_spec",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="decisions.rewardspec",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("erased_rows", models.PositiveIntegerField(default=0)),
                ("marked_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["logged", "labelled", "preferences", "text", "tasks"])),
                        name="dataset_kind_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "logged"), _negated=True), ("reward_spec__isnull", False), _connector="OR"
                        ),
                        name="dataset_logged_has_reward_spec",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("erased_rows", 0), ("marked_at__isnull", True)),
                            models.Q(("erased_rows__gt", 0), ("marked_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="dataset_marked_exactly_when_rows_are_erased",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DatasetItem",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("reward_version", models.PositiveIntegerField(null=True)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="dataset_items",
                        to="decisions.decision",
                    ),
                ),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="items", to="training.datasetsnapshot"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["decision"], name="dataset_item_decision")],
                "constraints": [models.UniqueConstraint(fields=("dataset", "decision"), name="dataset_item_once")],
            },
        ),
        migrations.CreateModel(
            name="ExportJob",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "format",
                    models.CharField(
                        choices=[
                            ("merged", "Merged weights (safetensors)"),
                            ("lora", "LoRA adapter (peft)"),
                            ("onnx", "ONNX"),
                            ("gguf", "GGUF (llama.cpp)"),
                            ("ollama", "Ollama"),
                        ],
                        default="merged",
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("ready", "Ready"),
                            ("refused", "Refused"),
                            ("failed", "Failed"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("error", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "artifact",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="exports",
                        to="models_registry.artifact",
                    ),
                ),
                (
                    "job",
                    models.OneToOneField(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="export", to="jobs.job"
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="exports",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("options", models.JSONField(blank=True, default=dict)),
                (
                    "options_hash",
                    models.CharField(
                        default="44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
                        editable=False,
                        max_length=64,
                    ),
                ),
                ("report", models.JSONField(blank=True, default=dict)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["queued", "ready"])),
                        fields=("version", "format", "options_hash"),
                        name="export_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("artifact__isnull", False), ("state", "ready")),
                            models.Q(models.Q(("state", "ready"), _negated=True), ("artifact__isnull", True)),
                            _connector="OR",
                        ),
                        name="export_artifact_exactly_when_ready",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "refused"), _negated=True),
                            models.Q(("report", {}), _negated=True),
                            _connector="OR",
                        ),
                        name="export_report_when_refused",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TrainingRun",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("method", models.CharField(max_length=32)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("stopping", "Stopping"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                (
                    "base_model",
                    models.CharField(
                        blank=True, help_text="Folder or hub id where no version is the base", max_length=300
                    ),
                ),
                ("spec", models.JSONField(help_text="The engine's run spec without its paths")),
                ("progress", models.FloatField(default=0.0)),
                ("message", models.CharField(blank=True, max_length=500)),
                ("metrics", models.JSONField(default=dict)),
                ("error", models.TextField(blank=True)),
                ("requested_by", models.CharField(max_length=254)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="decisions.agent"
                    ),
                ),
                (
                    "base_version",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs_from",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="runs", to="training.datasetsnapshot"
                    ),
                ),
                (
                    "heldout",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="training.datasetsnapshot",
                    ),
                ),
                (
                    "job",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="training_run",
                        to="jobs.job",
                    ),
                ),
                (
                    "produced_version",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="produced_by",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "replay",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="training.datasetsnapshot",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                (
                    "estimate",
                    models.JSONField(
                        default=dict,
                        help_text="What it was expected to need (training.runs.estimates); empty of a base of unknown size",
                    ),
                ),
                ("notes", models.TextField(blank=True, max_length=5000)),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=50), blank=True, default=list, size=None
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["queued", "running", "stopping", "succeeded", "failed", "cancelled"])
                        ),
                        name="run_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("finished_at__isnull", False), ("state__in", ["cancelled", "failed", "succeeded"])
                            ),
                            models.Q(
                                models.Q(("state__in", ["cancelled", "failed", "succeeded"]), _negated=True),
                                ("finished_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="run_finished_at_exactly_when_terminal",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("produced_version__isnull", False), ("state", "succeeded")),
                            models.Q(
                                models.Q(("state", "succeeded"), _negated=True), ("produced_version__isnull", True)
                            ),
                            _connector="OR",
                        ),
                        name="run_version_exactly_when_succeeded",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("base_model", ""), ("base_version__isnull", False)),
                            models.Q(("base_version__isnull", True), models.Q(("base_model", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="run_one_base",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("progress__gte", 0), ("progress__lte", 1)), name="run_progress_is_a_share"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RunMetric",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("attempt", models.PositiveIntegerField()),
                ("step", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=64)),
                ("value", models.FloatField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="run_metrics",
                        to="training.trainingrun",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "attempt", "name", "step"), name="run_metric_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="RunEvent",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                ("sequence", models.PositiveIntegerField()),
                ("kind", models.CharField(max_length=32)),
                ("details", models.JSONField(default=dict)),
                ("at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="training.trainingrun"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("run", "attempt", "sequence"), name="run_event_once")],
            },
        ),
        migrations.CreateModel(
            name="Evaluation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("rows", models.PositiveIntegerField()),
                ("scores", models.JSONField(help_text="{base|trained: {accuracy, reward, valid_share: interval}}")),
                ("differences", models.JSONField(help_text="{accuracy, reward: interval of trained − base, paired}")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "against",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="evaluations",
                        to="training.datasetsnapshot",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="evaluations",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="evaluation",
                        to="training.trainingrun",
                    ),
                ),
                (
                    "plain",
                    models.JSONField(
                        blank=True,
                        help_text="Words on the same feedback: training.evaluation.plain_baseline.compare_with_words",
                        null=True,
                    ),
                ),
                ("unanswered", models.PositiveIntegerField(db_default=0, default=0)),
                ("without_feedback", models.PositiveIntegerField(db_default=0, default=0)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Rehearsal",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "digest",
                    models.CharField(
                        help_text="SHA-256 over the cleaned rows, their fields and the plan", max_length=64
                    ),
                ),
                ("plan", models.JSONField()),
                (
                    "about",
                    models.JSONField(default=dict, help_text="File, fields, labels, and what was left out of the file"),
                ),
                ("results", models.JSONField(default=list)),
                ("report", models.JSONField(blank=True, null=True)),
                ("requested_by", models.CharField(max_length=254)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "job",
                    models.OneToOneField(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="rehearsal", to="jobs.job"
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rehearsals",
                        to="models_registry.artifact",
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
                "indexes": [models.Index(fields=["digest"], name="rehearsal_digest")],
            },
        ),
        migrations.CreateModel(
            name="Erasure",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(choices=[("unit", "Unit"), ("user", "User reference")], max_length=8)),
                ("subject", models.CharField(blank=True, max_length=200, null=True)),
                ("secret", models.BinaryField(blank=True, max_length=32, null=True)),
                ("fingerprint", models.CharField(max_length=64)),
                ("counts", models.JSONField(default=dict)),
                ("requested_by", models.CharField(max_length=254)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "job",
                    models.OneToOneField(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="erasure", to="jobs.job"
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
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["unit", "user"])), name="erasure_kind_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("finished_at__isnull", True), ("secret__isnull", False), ("subject__isnull", False)
                            ),
                            models.Q(
                                ("finished_at__isnull", False), ("secret__isnull", True), ("subject__isnull", True)
                            ),
                            _connector="OR",
                        ),
                        name="erasure_forgets_when_finished",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("finished_at__isnull", True)),
                        fields=("workspace", "fingerprint"),
                        name="erasure_once_at_a_time",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EvaluationSuite",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("slice_by", models.CharField(blank=True, max_length=63)),
                ("scorer", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="suites", to="decisions.agent"
                    ),
                ),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="suites",
                        to="training.datasetsnapshot",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("left_out", models.PositiveIntegerField(db_default=0, default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "name"), name="suite_name_once_per_agent"),
                    models.CheckConstraint(condition=models.Q(("name", ""), _negated=True), name="suite_has_a_name"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SuiteScore",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("rows", models.PositiveIntegerField()),
                ("scores", models.JSONField(help_text="training.evaluation.suites.scoring.summarise")),
                ("learnt", models.BooleanField(default=False)),
                ("differences", models.JSONField(default=dict, help_text="training.evaluation.suites.scoring.compare")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "against",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "answers",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="models_registry.artifact"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="suite_scores",
                        to="training.trainingrun",
                    ),
                ),
                (
                    "suite",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="scores",
                        to="training.evaluationsuite",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="suite_scores",
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
                "constraints": [
                    models.UniqueConstraint(fields=("suite", "version"), name="suite_scored_once_per_version")
                ],
            },
        ),
    ]
