"""Models with their versions and backends, calls, and experiments with all that they keep."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    # Their files are gone: an instance that has applied all of them records this one only.
    replaces = [
        ("models_registry", "0001_registry_and_experiments"),
        ("models_registry", "0002_guardrails_and_failed_requests"),
        ("models_registry", "0003_drop_challengers_of_ended_experiments"),
        ("models_registry", "0004_marks_of_erasure"),
        ("models_registry", "0005_conditioned_contrasts"),
        ("models_registry", "0006_who_ended_an_experiment"),
        ("models_registry", "0007_off_policy_verdicts"),
        ("models_registry", "0008_reward_models"),
        ("models_registry", "0009_backends_calls_and_remote_versions"),
        ("models_registry", "0010_artifacts_say_when_they_were_stored_and_versions_when_retired"),
        ("models_registry", "0011_experiments_keep_sums_and_a_log"),
        ("models_registry", "0012_exposures_are_settled"),
        ("models_registry", "0013_phases_of_a_ramp"),
        ("models_registry", "0014_versions_have_notes_and_an_approval"),
        ("models_registry", "0015_experiments_have_an_outlook"),
        ("models_registry", "0016_experiments_explore_beside"),
        ("models_registry", "0017_calls_count_unusable_answers"),
        ("models_registry", "0018_spend_of_keys"),
        ("models_registry", "0019_variants_name_their_setup"),
        ("models_registry", "0020_adapters_are_loaded_at_vllm"),
        ("models_registry", "0021_groups_of_experiments"),
        ("models_registry", "0022_holdouts"),
        ("models_registry", "0023_artifacts_of_exports"),
        ("models_registry", "0024_grammar_of_backends"),
        ("models_registry", "0025_grammar_is_how_it_is_asked"),
    ]
    initial = True
    dependencies = [
        ("workspaces", "0001_people_keys_and_audit"),
    ]

    operations = [
        migrations.CreateModel(
            name="Artifact",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("model", "Model"),
                            ("adapter", "Adapter"),
                            ("reward_model", "Reward model"),
                            ("dataset", "Dataset"),
                            ("export", "Export"),
                        ],
                        max_length=16,
                    ),
                ),
                ("digest", models.CharField(max_length=64)),
                ("size_bytes", models.BigIntegerField()),
                ("meta", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "stored_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "digest"), name="artifact_once"),
                    models.CheckConstraint(
                        condition=models.Q(("digest__regex", "^[0-9a-f]{64}$")), name="artifact_digest_is_sha256"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["model", "adapter", "reward_model", "dataset", "export"])),
                        name="artifact_kind_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RegisteredModel",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.SlugField(max_length=63)),
                ("description", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("workspace", "name"), name="registered_model_once")],
            },
        ),
        migrations.CreateModel(
            name="ModelVersion",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[("ready", "Ready"), ("retired", "Retired")], default="ready", max_length=16
                    ),
                ),
                (
                    "method",
                    models.CharField(help_text="How it came to be: a training method, or import", max_length=32),
                ),
                ("description", models.CharField(blank=True, max_length=500)),
                ("metrics", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "artifact",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="versions",
                        to="models_registry.artifact",
                    ),
                ),
                (
                    "base",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="adapters",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
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
                    "registered_model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="models_registry.registeredmodel",
                    ),
                ),
                ("marked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "remote_name",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Of a remote model: gpt-4o-mini, for example",
                        max_length=200,
                    ),
                ),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
                ("approval_note", models.CharField(blank=True, db_default="", default="", max_length=500)),
                ("approved_at", models.DateTimeField(blank=True, null=True)),
                ("approved_by", models.CharField(blank=True, db_default="", default="", max_length=254)),
                ("notes", models.TextField(blank=True, db_default="", default="", max_length=5000)),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=50), blank=True, db_default=[], default=list, size=None
                    ),
                ),
            ],
            options={
                "ordering": ["-number"],
                "constraints": [
                    models.UniqueConstraint(fields=("registered_model", "number"), name="model_version_number_once"),
                    models.CheckConstraint(
                        condition=models.Q(("number__gte", 1)), name="model_version_numbers_from_one"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["ready", "retired"])), name="model_version_state_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("base", models.F("id")), _negated=True),
                            models.Q(("parent", models.F("id")), _negated=True),
                        ),
                        name="model_version_not_own_base",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("artifact__isnull", False), ("remote_name", "")),
                            models.Q(
                                ("artifact__isnull", True),
                                ("base__isnull", True),
                                models.Q(("remote_name", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="model_version_stored_or_remote",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("retired_at__isnull", False), ("state", "retired")),
                            models.Q(models.Q(("state", "retired"), _negated=True), ("retired_at__isnull", True)),
                            _connector="OR",
                        ),
                        name="model_version_retired_at_exactly_when_retired",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("approval_note", ""), ("approved_at__isnull", True), ("approved_by", "")),
                            models.Q(("approved_at__isnull", False), models.Q(("approved_by", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="model_version_approved_by_somebody",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ExperimentGroup",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("salt", models.CharField(max_length=32)),
                ("started_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "registered_model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="experiment_groups",
                        to="models_registry.registeredmodel",
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
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("registered_model",),
                        name="experiment_group_one_running_per_model",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("salt__regex", "^[0-9a-f]{32}$")), name="experiment_group_salt_is_128_bits"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Experiment",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("promoted", "Promoted"),
                            ("rolled_back", "Rolled back"),
                            ("stopped", "Stopped"),
                            ("superseded", "Superseded"),
                        ],
                        default="running",
                        max_length=16,
                    ),
                ),
                ("salt", models.CharField(max_length=32)),
                ("promote_e", models.FloatField(default=40.0, help_text="Promote at E⁺ of at least this")),
                ("rollback_e", models.FloatField(default=20.0, help_text="Roll back at E⁻ of at least this")),
                ("min_units_per_arm", models.PositiveIntegerField(default=500)),
                ("min_seconds", models.FloatField(default=604800)),
                ("exposure_window_seconds", models.FloatField(default=86400.0)),
                (
                    "missing",
                    models.CharField(
                        choices=[
                            ("exclude", "Leave out units without a reward"),
                            ("zero", "Count units without a reward as 0"),
                        ],
                        default="exclude",
                        max_length=16,
                    ),
                ),
                ("units_control", models.PositiveIntegerField(default=0)),
                ("units_treatment", models.PositiveIntegerField(default=0)),
                ("log_e_plus", models.FloatField(default=0.0)),
                ("log_e_minus", models.FloatField(default=0.0)),
                ("estimate", models.FloatField(blank=True, null=True)),
                ("low", models.FloatField(blank=True, null=True)),
                ("high", models.FloatField(blank=True, null=True)),
                ("sample_ratio_mismatch", models.BooleanField(default=False)),
                ("verdict", models.CharField(blank=True, max_length=500)),
                ("started_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                (
                    "registered_model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="experiments",
                        to="models_registry.registeredmodel",
                    ),
                ),
                ("failed_control", models.PositiveIntegerField(default=0)),
                ("failed_treatment", models.PositiveIntegerField(default=0)),
                (
                    "guardrail_e",
                    models.FloatField(default=20.0, help_text="Each guardrail non-inferior at E of at least this"),
                ),
                ("guardrail_evidence", models.JSONField(blank=True, default=dict)),
                ("guardrails", models.JSONField(blank=True, default=list)),
                (
                    "max_excess_failures",
                    models.FloatField(default=0.05, help_text="Roll back at this excess share of failed requests"),
                ),
                (
                    "min_requests_for_failures",
                    models.PositiveIntegerField(default=100, help_text="Requests an arm before that"),
                ),
                ("requests_control", models.PositiveIntegerField(default=0)),
                ("requests_treatment", models.PositiveIntegerField(default=0)),
                ("conditioned", models.BooleanField(default=False)),
                ("outcome_high", models.FloatField(default=1.0, help_text="The highest")),
                (
                    "outcome_low",
                    models.FloatField(default=0.0, help_text="The lowest outcome that could be attained at the start"),
                ),
                ("plain_estimate", models.FloatField(blank=True, null=True)),
                ("plain_high", models.FloatField(blank=True, null=True)),
                ("plain_log_e_minus", models.FloatField(default=0.0)),
                ("plain_log_e_plus", models.FloatField(default=0.0)),
                ("plain_low", models.FloatField(blank=True, null=True)),
                ("rescaled", models.BooleanField(default=False)),
                (
                    "units_conditioned",
                    models.PositiveIntegerField(
                        default=0, help_text="Units whose contrast stands on both arms' probabilities"
                    ),
                ),
                (
                    "ended_by",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Who stopped it; empty for the rule",
                        max_length=254,
                    ),
                ),
                (
                    "promoted_version",
                    models.ForeignKey(
                        blank=True,
                        help_text="Promoted by hand, which stopped it",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="models_registry.modelversion",
                    ),
                ),
                ("counted_requests", models.JSONField(blank=True, default=dict)),
                ("running", models.JSONField(blank=True, default=dict)),
                ("attribution_auto", models.BooleanField(default=False)),
                ("ramp", models.JSONField(blank=True, default=list)),
                (
                    "ramp_e",
                    models.FloatField(default=4.0, help_text="The share stays at an E of harm of at least this"),
                ),
                (
                    "ramp_units",
                    models.PositiveIntegerField(default=250, help_text="Matured units before the next phase"),
                ),
                (
                    "expected_seconds",
                    models.FloatField(blank=True, help_text="Time until a promotion, as expected first", null=True),
                ),
                (
                    "smallest_effect",
                    models.FloatField(blank=True, help_text="The difference that is worth finding", null=True),
                ),
                ("secondary", models.JSONField(blank=True, default=list)),
                ("slices", models.JSONField(blank=True, default=list)),
                ("lane_high", models.FloatField(db_default=1.0, default=1.0)),
                ("lane_low", models.FloatField(db_default=0.0, default=0.0)),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="experiments",
                        to="models_registry.experimentgroup",
                    ),
                ),
                ("holdout_seconds", models.FloatField(db_default=2419200.0, default=2419200.0)),
                (
                    "holdout_share",
                    models.FloatField(db_default=0.0, default=0.0, help_text="Of the units, that keep the control"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("group__isnull", True), ("state", "running")),
                        fields=("registered_model",),
                        name="experiment_one_running_per_model",
                    ),
                    models.UniqueConstraint(fields=("group", "lane_low"), name="experiment_one_per_lane"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("lane_high__lte", 1), ("lane_low__gte", 0), ("lane_low__lt", models.F("lane_high"))
                        ),
                        name="experiment_lane_makes_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("group__isnull", False), models.Q(("lane_high", 1), ("lane_low", 0)), _connector="OR"
                        ),
                        name="experiment_lane_only_in_a_group",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["running", "promoted", "rolled_back", "stopped", "superseded"])
                        ),
                        name="experiment_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("missing__in", ["exclude", "zero"])), name="experiment_missing_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("salt__regex", "^[0-9a-f]{32}$")), name="experiment_salt_is_128_bits"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("exposure_window_seconds__gte", 0),
                            ("min_seconds__gte", 0),
                            ("promote_e__gt", 1),
                            ("rollback_e__gt", 1),
                        ),
                        name="experiment_bounds_make_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("holdout_seconds__gt", 0), ("holdout_share__gte", 0), ("holdout_share__lte", 0.5)
                        ),
                        name="experiment_holdout_makes_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("ramp_e__gt", 1), ("ramp_units__gte", 1)),
                        name="experiment_ramp_bounds_make_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("smallest_effect__isnull", True),
                                models.Q(("smallest_effect__gt", 0), ("smallest_effect__lte", 1)),
                                _connector="OR",
                            ),
                            models.Q(("expected_seconds__isnull", True), ("expected_seconds__gte", 0), _connector="OR"),
                        ),
                        name="experiment_outlook_makes_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("guardrail_e__gt", 1),
                            ("max_excess_failures__gt", 0),
                            ("max_excess_failures__lte", 1),
                            ("min_requests_for_failures__gte", 1),
                        ),
                        name="experiment_guardrail_bounds_make_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("failed_control__lte", models.F("requests_control")),
                            ("failed_treatment__lte", models.F("requests_treatment")),
                        ),
                        name="experiment_failed_are_requests",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("outcome_high__lte", 1),
                            ("outcome_low__gte", 0),
                            ("outcome_low__lt", models.F("outcome_high")),
                        ),
                        name="experiment_outcome_range_makes_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", True), ("state", "running")),
                            models.Q(models.Q(("state", "running"), _negated=True), ("ended_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="experiment_ended_at_exactly_when_over",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("promoted_version__isnull", True), ("state", "stopped"), _connector="OR"),
                        name="experiment_promoted_by_hand_only_when_stopped",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GateVerdict",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("held_out", "Paired difference on held-out inputs"),
                            ("off_policy", "Estimate from logged decisions"),
                        ],
                        max_length=32,
                    ),
                ),
                ("passed", models.BooleanField()),
                ("estimate", models.FloatField(null=True)),
                ("low", models.FloatField(null=True)),
                ("high", models.FloatField(null=True)),
                ("details", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
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
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="gate_verdicts",
                        to="models_registry.modelversion",
                    ),
                ),
                ("refusals", models.JSONField(default=list)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("estimate__lte", models.F("high")), ("low__lte", models.F("estimate"))),
                            models.Q(
                                ("estimate__isnull", True),
                                ("high__isnull", True),
                                ("low__isnull", True),
                                ("passed", False),
                            ),
                            _connector="OR",
                        ),
                        name="gate_interval_holds_estimate",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("passed", False), ("refusals", []), _connector="OR"),
                        name="gate_refuses_or_passes",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Phase",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField(default=1)),
                ("treatment_share", models.FloatField()),
                ("attribution_window_seconds", models.FloatField()),
                ("started_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "experiment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="phases",
                        to="models_registry.experiment",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("settled", models.JSONField(blank=True, default=dict)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("experiment", "number"), name="phase_number_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("experiment",),
                        name="phase_one_open_per_experiment",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("treatment_share__gt", 0), ("treatment_share__lt", 1)),
                        name="phase_share_strictly_inside",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("attribution_window_seconds__gte", 0)), name="phase_window_not_negative"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Exposure",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("unit", models.CharField(max_length=200)),
                ("arm", models.CharField(choices=[("control", "Control"), ("treatment", "Treatment")], max_length=16)),
                ("assignment_probability", models.FloatField()),
                (
                    "served_arm",
                    models.CharField(choices=[("control", "Control"), ("treatment", "Treatment")], max_length=16),
                ),
                ("fallback", models.BooleanField(default=False)),
                ("exposed_at", models.DateTimeField()),
                (
                    "experiment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="exposures",
                        to="models_registry.experiment",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="exposures",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "phase",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="exposures",
                        to="models_registry.phase",
                    ),
                ),
                ("settled", models.BooleanField(db_default=False, default=False)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("settled", False)),
                        fields=["experiment", "exposed_at"],
                        include=("phase", "arm"),
                        name="exposure_not_settled",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("experiment", "phase", "unit"), name="exposure_once_per_phase"),
                    models.CheckConstraint(
                        condition=models.Q(("assignment_probability__gt", 0), ("assignment_probability__lte", 1)),
                        name="exposure_probability_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("fallback", False), ("served_arm", models.F("arm"))),
                            ("fallback", True),
                            _connector="OR",
                        ),
                        name="exposure_fallback_is_said",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Observation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("unit", models.CharField(max_length=200)),
                ("position", models.PositiveIntegerField()),
                ("outcome", models.FloatField(null=True)),
                ("log_e_plus", models.FloatField(null=True)),
                ("log_e_minus", models.FloatField(null=True)),
                ("matured_at", models.DateTimeField()),
                (
                    "experiment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="observations",
                        to="models_registry.experiment",
                    ),
                ),
                (
                    "exposure",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="observation",
                        to="models_registry.exposure",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("guardrails", models.JSONField(blank=True, default=dict)),
                ("log_l_control", models.FloatField(null=True)),
                ("log_l_treatment", models.FloatField(null=True)),
            ],
            options={
                "ordering": ["position"],
                "constraints": [
                    models.UniqueConstraint(fields=("experiment", "unit"), name="observation_once_per_unit"),
                    models.UniqueConstraint(fields=("experiment", "position"), name="observation_position_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("outcome__isnull", True),
                            models.Q(("outcome__gte", 0), ("outcome__lte", 1)),
                            _connector="OR",
                        ),
                        name="observation_outcome_in_range",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Alias",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=63)),
                ("moved_at", models.DateTimeField(auto_now=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="aliases",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "registered_model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="aliases",
                        to="models_registry.registeredmodel",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "aliases",
                "constraints": [
                    models.UniqueConstraint(fields=("registered_model", "name"), name="alias_once_per_model"),
                    models.CheckConstraint(
                        condition=models.Q(("name__regex", "^[a-z][a-z0-9-]{0,62}$")), name="alias_name_is_a_slug"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Variant",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("arm", models.CharField(choices=[("control", "Control"), ("treatment", "Treatment")], max_length=16)),
                (
                    "experiment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="variants",
                        to="models_registry.experiment",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="variants",
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
                    "setup",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="The agent's version, such as “filer v3”",
                        max_length=80,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("experiment", "arm"), name="variant_once_per_arm"),
                    models.CheckConstraint(
                        condition=models.Q(("arm__in", ["control", "treatment"])), name="variant_arm_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="FailedRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("failed_at", models.DateTimeField()),
                (
                    "exposure",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="failed_requests",
                        to="models_registry.exposure",
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
                "indexes": [models.Index(fields=["failed_at"], name="failed_request_moment")],
            },
        ),
        migrations.CreateModel(
            name="AliasMove",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=63)),
                ("by", models.CharField(max_length=254)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("moved_at", models.DateTimeField(auto_now_add=True)),
                (
                    "after",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "before",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "registered_model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alias_moves",
                        to="models_registry.registeredmodel",
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
                "indexes": [models.Index(fields=["registered_model", "name", "-id"], name="alias_move_newest")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("after__isnull", False), ("before__isnull", True)),
                            models.Q(("after__isnull", True), ("before__isnull", False)),
                            models.Q(
                                ("after__isnull", False),
                                ("before__isnull", False),
                                models.Q(("before", models.F("after")), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="alias_move_changes_something",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Backend",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.SlugField(max_length=63)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("model_server", "Reckoner's model server"),
                            ("openai", "OpenAI-compatible server"),
                            ("vllm", "vLLM"),
                        ],
                        max_length=16,
                    ),
                ),
                ("url", models.CharField(help_text="Up to and with /v1, where the server has it", max_length=500)),
                ("key_variable", models.CharField(blank=True, max_length=100)),
                (
                    "capabilities",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("score", "Probabilities of given options"),
                                ("stream", "Streams"),
                                ("tools", "Tool calls"),
                                ("json_schema", "Answers that fit a JSON schema"),
                                ("choice", "Answers that are one of given options"),
                                ("logprobs", "Log-probabilities of tokens"),
                                ("adapters", "Loads adapters over its API"),
                                ("grammar", "Models trained here, asked as in training"),
                            ],
                            max_length=16,
                        ),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                ("connect_seconds", models.FloatField(default=1.0)),
                ("timeout_seconds", models.FloatField(default=20.0)),
                ("retries", models.PositiveSmallIntegerField(default=1)),
                ("price_in", models.DecimalField(decimal_places=6, default=0, max_digits=12)),
                ("price_out", models.DecimalField(decimal_places=6, default=0, max_digits=12)),
                ("enabled", models.BooleanField(default=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("unknown", "Not asked yet"), ("up", "Answers"), ("down", "Does not answer")],
                        default="unknown",
                        max_length=16,
                    ),
                ),
                ("error", models.CharField(blank=True, max_length=500)),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
                ("state_since", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("artifacts_path", models.CharField(blank=True, db_default="", default="", max_length=500)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "name"), name="backend_once"),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["model_server", "openai", "vllm"])), name="backend_kind_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["unknown", "up", "down"])), name="backend_state_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "capabilities__contained_by",
                                [
                                    "score",
                                    "stream",
                                    "tools",
                                    "json_schema",
                                    "choice",
                                    "logprobs",
                                    "adapters",
                                    "grammar",
                                ],
                            )
                        ),
                        name="backend_capabilities_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("key_variable", ""),
                            ("key_variable__regex", "^[A-Z][A-Z0-9_]{0,90}_API_KEY$"),
                            _connector="OR",
                        ),
                        name="backend_key_is_a_variable",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("connect_seconds__gt", 0),
                            ("price_in__gte", 0),
                            ("price_out__gte", 0),
                            ("retries__lte", 5),
                            ("timeout_seconds__gt", 0),
                        ),
                        name="backend_limits_make_sense",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Call",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("decide", "Decision"), ("chat", "Chat completion"), ("response", "Response")],
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Being answered"),
                            ("answered", "Answered"),
                            ("failed", "Failed"),
                            ("left", "The client left"),
                            ("abandoned", "Abandoned"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("fallback", models.CharField(blank=True, max_length=500)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("cached", models.BooleanField(default=False)),
                ("tokens_in", models.PositiveIntegerField(blank=True, null=True)),
                ("tokens_out", models.PositiveIntegerField(blank=True, null=True)),
                ("cost", models.DecimalField(blank=True, decimal_places=8, max_digits=14, null=True)),
                ("opened_at", models.DateTimeField()),
                ("first_byte_at", models.DateTimeField(blank=True, null=True)),
                ("closed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "api_key",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="workspaces.apikey",
                    ),
                ),
                (
                    "assigned",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "backend",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="models_registry.backend",
                    ),
                ),
                (
                    "registered_model",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="models_registry.registeredmodel",
                    ),
                ),
                (
                    "served",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="models_registry.modelversion",
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
                ("unusable_answers", models.PositiveSmallIntegerField(db_default=0, default=0)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace", "-id"], name="call_newest"),
                    models.Index(condition=models.Q(("state", "open")), fields=["opened_at"], name="call_open"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["decide", "chat", "response"])), name="call_kind_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["open", "answered", "failed", "left", "abandoned"])),
                        name="call_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("closed_at__isnull", True), ("state", "open")),
                            models.Q(models.Q(("state", "open"), _negated=True), ("closed_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="call_closed_at_exactly_when_over",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "answered"), _negated=True), ("served__isnull", False), _connector="OR"
                        ),
                        name="call_answered_by_a_version",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "failed"), _negated=True),
                            models.Q(("error", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="call_failed_for_a_reason",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("cost__isnull", True), ("cost__gte", 0), _connector="OR"),
                        name="call_cost_not_negative",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Deployment",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("remote_name", models.CharField(blank=True, max_length=200)),
                ("priority", models.PositiveSmallIntegerField(default=0)),
                ("enabled", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "backend",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deployments",
                        to="models_registry.backend",
                    ),
                ),
                (
                    "export",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deployments",
                        to="models_registry.artifact",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deployments",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("error", models.CharField(blank=True, db_default="", default="", max_length=500)),
            ],
            options={
                "ordering": ["priority", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("version", "backend", "remote_name"), name="deployment_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Look",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("start", "Started"),
                            ("continue", "Look"),
                            ("promote", "Promoted"),
                            ("roll_back", "Rolled back"),
                            ("supersede", "Superseded"),
                            ("open_phase", "Next phase"),
                            ("change_share", "Share changed"),
                            ("stop", "Stopped"),
                            ("promote_by_hand", "Promoted by hand"),
                        ],
                        max_length=16,
                    ),
                ),
                ("by", models.CharField(blank=True, default="", help_text="Empty for the rule", max_length=254)),
                ("reasons", models.JSONField(default=list)),
                ("phase", models.PositiveIntegerField(help_text="Number of the phase that runs from then on")),
                ("treatment_share", models.FloatField()),
                ("units_control", models.PositiveIntegerField(default=0)),
                ("units_treatment", models.PositiveIntegerField(default=0)),
                ("log_e_plus", models.FloatField(default=0.0)),
                ("log_e_minus", models.FloatField(default=0.0)),
                ("estimate", models.FloatField(null=True)),
                ("low", models.FloatField(null=True)),
                ("high", models.FloatField(null=True)),
                ("plain_log_e_plus", models.FloatField(default=0.0)),
                ("plain_log_e_minus", models.FloatField(default=0.0)),
                ("plain_estimate", models.FloatField(null=True)),
                ("plain_low", models.FloatField(null=True)),
                ("plain_high", models.FloatField(null=True)),
                ("guardrails", models.JSONField(default=dict)),
                ("sample_ratio_mismatch", models.BooleanField(default=False)),
                ("requests_control", models.PositiveIntegerField(default=0)),
                ("failed_control", models.PositiveIntegerField(default=0)),
                ("requests_treatment", models.PositiveIntegerField(default=0)),
                ("failed_treatment", models.PositiveIntegerField(default=0)),
                (
                    "experiment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="looks",
                        to="models_registry.experiment",
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
                "indexes": [models.Index(fields=["experiment", "-id"], name="look_newest")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "action__in",
                                [
                                    "start",
                                    "continue",
                                    "promote",
                                    "roll_back",
                                    "supersede",
                                    "open_phase",
                                    "change_share",
                                    "stop",
                                    "promote_by_hand",
                                ],
                            )
                        ),
                        name="look_action_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("action__in", ("start", "change_share", "stop", "promote_by_hand")),
                                models.Q(("by", ""), _negated=True),
                            ),
                            models.Q(
                                models.Q(
                                    ("action__in", ("start", "change_share", "stop", "promote_by_hand")), _negated=True
                                ),
                                ("by", ""),
                            ),
                            _connector="OR",
                        ),
                        name="look_of_somebody_says_who",
                    ),
                    models.CheckConstraint(condition=models.Q(("reasons", []), _negated=True), name="look_has_reasons"),
                ],
            },
        ),
        migrations.CreateModel(
            name="KeySpend",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("day", models.DateField()),
                ("spent", models.DecimalField(decimal_places=8, max_digits=20)),
                (
                    "api_key",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="spends",
                        to="workspaces.apikey",
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
                    models.UniqueConstraint(fields=("api_key", "day"), name="key_spend_once_a_day"),
                    models.CheckConstraint(condition=models.Q(("spent__gte", 0)), name="key_spend_not_negative"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Holdout",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("share", models.FloatField()),
                ("salt", models.CharField(max_length=32)),
                ("reason", models.CharField(max_length=500)),
                ("started_by", models.CharField(max_length=254)),
                ("started_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "end_reason",
                    models.CharField(blank=True, default="", help_text="Empty where its time was up", max_length=500),
                ),
                ("figures", models.JSONField(blank=True, default=dict)),
                ("counted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "registered_model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="holdouts",
                        to="models_registry.registeredmodel",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="holdouts",
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
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("registered_model",),
                        name="holdout_one_running_per_model",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("share__gt", 0), ("share__lte", 0.5)), name="holdout_share_in_range"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("started_at"))), name="holdout_ends_after_its_start"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("salt__regex", "^[0-9a-f]{32}$")), name="holdout_salt_is_128_bits"
                    ),
                ],
            },
        ),
    ]
