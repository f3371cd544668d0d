"""The ledger, labels, rewards, shadows; agent versions, reward specs, feedback and rewards are append-only."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import workspaces.storage.ids
from decisions.partitions.partitioning import CreatePartitionedModel

REFUSE = """
CREATE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
# An erasure says so for its own transaction only.
REFUSE_BUT_ERASURE = """
CREATE FUNCTION refuse_change_but_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('reckoner.erasing', true) = 'on' THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
APPEND_ONLY = {
    "decisions_agentversion": "refuse_ledger_change",
    "decisions_rewardspec": "refuse_ledger_change",
    "decisions_feedback": "refuse_change_but_erasure",
    "decisions_reward": "refuse_change_but_erasure",
}
# A version of another agent can never act for this one.
ITS_OWN = """
ALTER TABLE decisions_agent ADD CONSTRAINT agent_current_version_is_its_own
  FOREIGN KEY (current_version_id, id) REFERENCES decisions_agentversion (id, agent_id) DEFERRABLE INITIALLY DEFERRED
"""


class Migration(migrations.Migration):
    # Their files are gone: an instance that has applied all of them records this one only.
    replaces = [
        ("decisions", "0001_ledger"),
        ("decisions", "0002_append_only"),
        ("decisions", "0004_find_decisions_by_arrival"),
        ("decisions", "0005_steps_of_episodes"),
        ("decisions", "0007_items_and_references"),
        ("decisions", "0008_erasure_of_feedback"),
        ("decisions", "0009_names_that_were_erased"),
        ("decisions", "0010_find_decisions_by_name"),
        ("decisions", "0011_find_episodes_by_agent_and_unit"),
        ("decisions", "0012_agents_move_their_workspace"),
        ("decisions", "0013_few_rewards_and_verdicts"),
        ("decisions", "0014_feedback_keys_are_their_targets"),
        ("decisions", "0015_skips_are_no_verdicts"),
        ("decisions", "0016_withdraw_skips_that_were_verdicts"),
        ("decisions", "0017_probability_under_the_other_arm"),
        ("decisions", "0018_agents_leave_their_workspace_alone"),
        ("decisions", "0019_jobs_calculate_rewards"),
        ("decisions", "0020_rewards_of_what_is_due"),
        ("decisions", "0021_what_training_reads"),
        ("decisions", "0022_labels_name_their_program"),
        ("decisions", "0023_suggested_labels"),
        ("decisions", "0024_labelling_queues"),
        ("decisions", "0025_drafts_of_reward_specs"),
        ("decisions", "0026_names_of_status_changes"),
        ("decisions", "0027_places_have_the_rank"),
        ("decisions", "0028_queues_find_late_decisions"),
        ("decisions", "0029_labels_in_bulk"),
        ("decisions", "0030_what_a_reviewer_holds_now"),
        ("decisions", "0031_what_unknown_components_do"),
        ("decisions", "0032_classifiers_of_traces"),
        ("decisions", "0033_queues_of_episodes"),
        ("decisions", "0034_queues_of_episodes_have_indexes"),
        ("decisions", "0035_shadows_ask_about_decisions"),
        ("decisions", "0036_agents_have_a_current_version"),
        ("decisions", "0037_agents_may_cache_answers"),
        ("decisions", "0038_agent_versions_have_a_system_prompt"),
        ("decisions", "0039_shadows_of_rankings_and_texts"),
        ("decisions", "0040_judges_are_calibrated"),
        ("decisions", "0041_reward_specs_name_judges"),
    ]
    initial = True
    dependencies = [
        ("jobs", "0001_jobs_with_an_outbox"),
        ("models_registry", "0001_registry_calls_and_experiments"),
        ("workspaces", "0001_people_keys_and_audit"),
    ]

    operations = [
        migrations.CreateModel(
            name="Agent",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("slug", models.SlugField(max_length=63)),
                ("name", models.CharField(max_length=200)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("FILER", "Filer"),
                            ("LIBRARIAN", "Librarian"),
                            ("PRIORITIZER", "Prioritizer"),
                            ("STORER", "Storer"),
                            ("RETRIEVER", "Retriever"),
                            ("GUARDRAIL", "Guardrail"),
                            ("CUSTOM", "Custom"),
                        ],
                        default="CUSTOM",
                        max_length=16,
                    ),
                ),
                ("unit", models.CharField(default="item", max_length=32)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "registered_model",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="agents",
                        to="models_registry.registeredmodel",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("cache_seconds", models.PositiveIntegerField(db_default=0, default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "slug"), name="agent_once"),
                    models.CheckConstraint(
                        condition=models.Q(("cache_seconds__lte", 2592000)), name="agent_cache_a_month_at_most"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "kind__in",
                                ["FILER", "LIBRARIAN", "PRIORITIZER", "STORER", "RETRIEVER", "GUARDRAIL", "CUSTOM"],
                            )
                        ),
                        name="agent_kind_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentVersion",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                (
                    "action_space",
                    models.CharField(
                        choices=[
                            ("choice", "One of the options"),
                            ("ranking", "An order of the options"),
                            ("structured", "An object of a JSON schema"),
                            ("text", "Free text"),
                            ("tool_calls", "Tool calls"),
                        ],
                        default="choice",
                        max_length=16,
                    ),
                ),
                ("options", models.JSONField(blank=True, null=True)),
                ("action_schema", models.JSONField(blank=True, null=True)),
                ("prompt_template", models.TextField()),
                ("max_prompt_tokens", models.PositiveIntegerField(default=64)),
                ("max_completion_tokens", models.PositiveIntegerField(default=16)),
                ("temperature", models.FloatField(default=1.0)),
                ("epsilon", models.FloatField(default=0.05)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="versions", to="decisions.agent"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("state_schema", models.JSONField(blank=True, null=True)),
                ("system_prompt", models.TextField(blank=True, db_default="", default="")),
            ],
            options={
                "ordering": ["-number"],
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "number"), name="agent_version_number_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("action_space__in", ["choice", "ranking", "structured", "text", "tool_calls"])
                        ),
                        name="agent_version_action_space_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("temperature__gt", 0)), name="agent_version_temperature_positive"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("epsilon__gte", 0), ("epsilon__lte", 1)),
                        name="agent_version_epsilon_a_share",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Episode",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("external_id", models.CharField(blank=True, max_length=200)),
                ("unit", models.CharField(blank=True, max_length=200)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="episodes",
                        to="decisions.agent",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("cost", models.DecimalField(blank=True, decimal_places=8, max_digits=14, null=True)),
                ("duration_ms", models.FloatField(blank=True, null=True)),
                ("final_response", models.TextField(blank=True)),
                ("llm_calls", models.PositiveIntegerField(blank=True, null=True)),
                ("query", models.TextField(blank=True)),
                ("session", models.CharField(blank=True, max_length=200)),
                ("tasks_completed", models.PositiveIntegerField(blank=True, null=True)),
                ("tasks_created", models.PositiveIntegerField(blank=True, null=True)),
                ("tasks_failed", models.PositiveIntegerField(blank=True, null=True)),
                ("tokens_in", models.PositiveIntegerField(blank=True, null=True)),
                ("tokens_out", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "trace",
                    models.CharField(
                        blank=True, help_text="OpenTelemetry trace id, 32 hex digits", max_length=32, null=True
                    ),
                ),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now, help_text="The server's clock")),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace", "-id"], name="episode_newest"),
                    models.Index(fields=["agent", "-id"], name="episode_agent_newest"),
                    models.Index(fields=["workspace", "changed_at"], name="episode_changed"),
                    models.Index(
                        models.F("agent"),
                        django.db.models.functions.text.MD5(
                            django.db.models.functions.text.Lower(django.db.models.functions.text.Trim("query"))
                        ),
                        condition=models.Q(("query", ""), _negated=True),
                        name="episode_query",
                    ),
                    models.Index(
                        condition=models.Q(("unit", ""), _negated=True),
                        fields=["workspace", "unit", "-id"],
                        name="episode_unit",
                    ),
                    models.Index(
                        condition=models.Q(("session", ""), _negated=True),
                        fields=["workspace", "session"],
                        name="episode_session",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("external_id", ""), _negated=True),
                        fields=("agent", "external_id"),
                        name="episode_external_id_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("trace__isnull", False)),
                        fields=("workspace", "trace"),
                        name="episode_trace_once",
                    ),
                ],
            },
        ),
        CreatePartitionedModel(
            name="Decision",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("step_number", models.PositiveIntegerField(blank=True, null=True)),
                ("unit", models.CharField(blank=True, max_length=200, null=True)),
                ("external_id", models.CharField(blank=True, max_length=200, null=True)),
                ("state", models.JSONField()),
                ("options", models.JSONField(blank=True, null=True)),
                ("action", models.JSONField()),
                ("completion", models.TextField(blank=True, null=True)),
                ("confidence", models.FloatField(blank=True, null=True)),
                ("reasoning", models.TextField(blank=True, null=True)),
                ("alternatives", models.JSONField(blank=True, null=True)),
                ("propensity", models.FloatField(blank=True, null=True)),
                ("temperature", models.FloatField(blank=True, null=True)),
                ("epsilon", models.FloatField(blank=True, null=True)),
                ("policy_name", models.CharField(blank=True, max_length=200, null=True)),
                ("latency_ms", models.FloatField(blank=True, null=True)),
                ("tokens_in", models.PositiveIntegerField(blank=True, null=True)),
                ("tokens_out", models.PositiveIntegerField(blank=True, null=True)),
                ("cost", models.DecimalField(blank=True, decimal_places=8, max_digits=14, null=True)),
                ("token_ids", models.JSONField(blank=True, null=True)),
                ("logprobs", models.JSONField(blank=True, null=True)),
                ("observed_at", models.DateTimeField(help_text="The client's clock")),
                ("recorded_at", models.DateTimeField(help_text="The server's clock")),
                ("content_hash", models.BinaryField(max_length=32)),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="decisions.agent",
                    ),
                ),
                (
                    "agent_version",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="decisions.agentversion",
                    ),
                ),
                (
                    "exposure",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="models_registry.exposure",
                    ),
                ),
                (
                    "model_version",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
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
                (
                    "episode",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="decisions.episode",
                    ),
                ),
                ("item_ref", models.CharField(blank=True, max_length=200, null=True)),
                ("next_state", models.JSONField(blank=True, null=True)),
                ("project_ref", models.CharField(blank=True, max_length=200, null=True)),
                ("user_ref", models.CharField(blank=True, max_length=200, null=True)),
                ("other_arm_propensity", models.FloatField(blank=True, null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["workspace", "-id"], name="decision_newest"),
                    models.Index(fields=["agent", "-id"], name="decision_agent_newest"),
                    models.Index(
                        condition=models.Q(("exposure__isnull", False)), fields=["exposure"], name="decision_exposure"
                    ),
                    models.Index(
                        condition=models.Q(("episode__isnull", False)), fields=["episode"], name="decision_episode"
                    ),
                    models.Index(
                        condition=models.Q(("item_ref__isnull", False)),
                        fields=["workspace", "item_ref", "-id"],
                        name="decision_item",
                    ),
                    django.contrib.postgres.indexes.BrinIndex(fields=["recorded_at"], name="decision_recorded"),
                    django.contrib.postgres.indexes.BrinIndex(
                        autosummarize=True,
                        fields=["id", "unit", "external_id"],
                        name="decision_named",
                        opclasses=["uuid_minmax_ops", "text_bloom_ops", "text_bloom_ops"],
                        pages_per_range=32,
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("propensity__isnull", True),
                            models.Q(("propensity__gt", 0), ("propensity__lte", 1)),
                            _connector="OR",
                        ),
                        name="decision_propensity_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("other_arm_propensity__isnull", True),
                            models.Q(("other_arm_propensity__gte", 0), ("other_arm_propensity__lte", 1)),
                            _connector="OR",
                        ),
                        name="decision_other_arm_propensity_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("confidence__isnull", True),
                            models.Q(("confidence__gte", 0), ("confidence__lte", 1)),
                            _connector="OR",
                        ),
                        name="decision_confidence_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("model_version__isnull", False), ("policy_name__isnull", True)),
                            models.Q(("model_version__isnull", True), ("policy_name__isnull", False)),
                            _connector="OR",
                        ),
                        name="decision_one_policy",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("temperature__isnull", True), ("temperature__gt", 0), _connector="OR"),
                            models.Q(
                                ("epsilon__isnull", True),
                                models.Q(("epsilon__gte", 0), ("epsilon__lte", 1)),
                                _connector="OR",
                            ),
                        ),
                        name="decision_exploration_in_range",
                    ),
                ],
            },
            partition_by="id",
        ),
        CreatePartitionedModel(
            name="Feedback",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("unit", models.CharField(max_length=200, null=True)),
                ("metric", models.CharField(max_length=64)),
                ("value", models.JSONField()),
                (
                    "source",
                    models.CharField(
                        choices=[
                            ("human", "A person"),
                            ("llm", "A judge model"),
                            ("code", "Code"),
                            ("system", "The system"),
                        ],
                        max_length=8,
                    ),
                ),
                ("observed_at", models.DateTimeField(help_text="The client's clock")),
                ("recorded_at", models.DateTimeField(help_text="The server's clock")),
                ("idempotency_key", models.CharField(max_length=200, null=True)),
                ("supersedes", models.UUIDField(null=True)),
                ("content_hash", models.BinaryField(max_length=32)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="feedback",
                        to="decisions.decision",
                    ),
                ),
                (
                    "episode",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="feedback",
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
                "verbose_name_plural": "feedback",
                "indexes": [
                    models.Index(fields=["decision"], name="feedback_decision"),
                    models.Index(fields=["recorded_at"], name="feedback_recorded"),
                    models.Index(
                        condition=models.Q(("decision__isnull", False), ("metric", "verdict")),
                        fields=["workspace", "decision"],
                        name="feedback_verdict",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision__isnull", False), ("episode__isnull", True), ("unit__isnull", True)),
                            models.Q(("decision__isnull", True), ("episode__isnull", False), ("unit__isnull", True)),
                            models.Q(("decision__isnull", True), ("episode__isnull", True), ("unit__isnull", False)),
                            _connector="OR",
                        ),
                        name="feedback_one_target",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("source__in", ["human", "llm", "code", "system"])),
                        name="feedback_source_known",
                    ),
                    models.UniqueConstraint(fields=("id", "decision"), name="feedback_once", nulls_distinct=False),
                    models.UniqueConstraint(
                        condition=models.Q(("idempotency_key__isnull", False)),
                        fields=("workspace", "decision", "episode", "unit", "idempotency_key"),
                        name="feedback_idempotency_key_once",
                        nulls_distinct=False,
                    ),
                ],
            },
            partition_by="decision_id",
            own_primary_key=False,
        ),
        migrations.CreateModel(
            name="BulkLabel",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("program", models.CharField(blank=True, max_length=64)),
                (
                    "verdict",
                    models.CharField(
                        choices=[
                            ("confirmed", "Confirmed"),
                            ("corrected", "Corrected"),
                            ("overridden", "Overridden"),
                            ("ignored", "Ignored"),
                        ],
                        max_length=16,
                    ),
                ),
                ("corrected_action", models.JSONField(null=True)),
                ("filters", models.JSONField(blank=True, default=dict)),
                (
                    "replaces",
                    models.BooleanField(default=False, help_text="Decisions with a person's label are labelled, too"),
                ),
                ("matching", models.PositiveIntegerField()),
                ("chosen", models.PositiveIntegerField()),
                ("done", models.PositiveIntegerField(default=0)),
                ("labelled", models.PositiveIntegerField(default=0)),
                (
                    "decisions",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), blank=True, default=list, size=None
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("undone_at", models.DateTimeField(null=True)),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="jobs.job"
                    ),
                ),
                (
                    "reviewer",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("verdict__in", ["confirmed", "corrected", "overridden", "ignored"])),
                        name="bulk_label_verdict_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("chosen__lte", models.F("matching")),
                            ("done__lte", models.F("chosen")),
                            ("labelled__lte", models.F("done")),
                        ),
                        name="bulk_label_counts_in_order",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Label",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "verdict",
                    models.CharField(
                        choices=[
                            ("confirmed", "Confirmed"),
                            ("corrected", "Corrected"),
                            ("overridden", "Overridden"),
                            ("ignored", "Ignored"),
                        ],
                        max_length=16,
                    ),
                ),
                ("corrected_action", models.JSONField(blank=True, null=True)),
                ("score", models.FloatField(blank=True, null=True)),
                ("note", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="labels",
                        to="decisions.decision",
                    ),
                ),
                (
                    "reviewer",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="labels",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("program", models.CharField(blank=True, max_length=64)),
                ("pending", models.BooleanField(db_default=False, default=False)),
                (
                    "bulk",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="labels",
                        to="decisions.bulklabel",
                    ),
                ),
                (
                    "episode",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="labels",
                        to="decisions.episode",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["decision"], name="label_decision"),
                    models.Index(
                        condition=models.Q(("episode__isnull", False)), fields=["episode"], name="label_episode"
                    ),
                    models.Index(condition=models.Q(("bulk__isnull", False)), fields=["bulk"], name="label_bulk"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("verdict__in", ["confirmed", "corrected", "overridden", "ignored"])),
                        name="label_verdict_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision__isnull", False), ("episode__isnull", True)),
                            models.Q(("decision__isnull", True), ("episode__isnull", False)),
                            _connector="OR",
                        ),
                        name="label_one_subject",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RewardSpec",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("components", models.JSONField()),
                ("clamp", models.FloatField(default=5.0)),
                ("low", models.FloatField(default=-2.0)),
                ("high", models.FloatField(default=2.0)),
                ("spec_hash", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="reward_specs", to="decisions.agent"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("signal", models.CharField(blank=True, max_length=100)),
                ("training_high", models.FloatField(default=1.0)),
                ("training_low", models.FloatField(default=-0.5)),
                (
                    "credit",
                    models.CharField(
                        choices=[
                            ("equal", "Equal"),
                            ("return_to_go", "Discounted return-to-go"),
                            ("last_step", "Last step"),
                            ("leave_one_out", "Leave-one-out"),
                        ],
                        default="equal",
                        max_length=16,
                    ),
                ),
                ("discount", models.FloatField(default=1.0)),
                (
                    "unknown",
                    models.CharField(
                        choices=[("left_out", "Left out of the sum"), ("renormalised", "Renormalised")],
                        db_default="left_out",
                        default="left_out",
                        max_length=16,
                    ),
                ),
                ("judges", models.JSONField(default=None, null=True)),
            ],
            options={
                "ordering": ["-number"],
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "number"), name="reward_spec_number_once"),
                    models.CheckConstraint(
                        condition=models.Q(("clamp__gt", 0), ("low__lt", models.F("high"))),
                        name="reward_spec_range_makes_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("training_low__lt", models.F("training_high"))),
                        name="reward_spec_training_range_makes_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("credit__in", ["equal", "return_to_go", "last_step", "leave_one_out"]),
                            ("discount__gt", 0),
                            ("discount__lte", 1),
                        ),
                        name="reward_spec_credit_makes_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("unknown__in", ["left_out", "renormalised"])),
                        name="reward_spec_unknown_is_known",
                    ),
                ],
            },
        ),
        CreatePartitionedModel(
            name="Reward",
            fields=[
                ("version", models.PositiveIntegerField()),
                ("value", models.FloatField(null=True)),
                ("raw", models.FloatField(null=True)),
                ("components", models.JSONField()),
                (
                    "feedback_until",
                    models.DateTimeField(
                        help_text="recorded_at of the newest feedback that was read; null where there was none",
                        null=True,
                    ),
                ),
                ("computed_at", models.DateTimeField()),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="rewards",
                        to="decisions.decision",
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
                (
                    "spec",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rewards",
                        to="decisions.rewardspec",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "decision_id",
                        "spec_id",
                        "version",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["spec", "-computed_at"], name="reward_newest"),
                    models.Index(fields=["spec", "raw"], include=("decision",), name="reward_raw"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("value__isnull", True), models.Q(("value__gte", 0), ("value__lte", 1)), _connector="OR"
                        ),
                        name="reward_value_in_range",
                    ),
                    models.CheckConstraint(condition=models.Q(("version__gte", 1)), name="reward_versions_from_one"),
                ],
            },
            partition_by="decision_id",
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
                        condition=models.Q(("decision__isnull", False)), fields=["decision", "id"], name="step_decision"
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
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("workspace", "ref"), name="item_once")],
            },
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
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("workspace", "ref"), name="project_once")],
            },
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
                ("verdict_at", models.DateTimeField(null=True)),
                ("applied_at", models.DateTimeField(null=True)),
                ("observed_at", models.DateTimeField(help_text="The client's clock")),
                ("recorded_at", models.DateTimeField(help_text="The server's clock")),
                ("content_hash", models.BinaryField(max_length=32)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="status_changes",
                        to="decisions.decision",
                    ),
                ),
                (
                    "item",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="changes", to="decisions.item"
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
                "indexes": [
                    models.Index(
                        condition=models.Q(models.Q(("outcome", ""), _negated=True), ("applied_at__isnull", True)),
                        fields=["workspace"],
                        name="change_unapplied",
                    ),
                    models.Index(
                        condition=models.Q(("applied_at__isnull", False)), fields=["applied_at"], name="change_applied"
                    ),
                    models.Index(
                        condition=models.Q(("decision__isnull", False)), fields=["decision"], name="change_decision"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("external_id__isnull", False)),
                        fields=("workspace", "external_id"),
                        name="status_change_external_id_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("outcome__in", ["", "DONE", "COLD_STORAGE"])),
                        name="status_change_outcome_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("verdict__in", ["", "confirmed", "corrected", "overridden", "ignored"])),
                        name="status_change_verdict_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("verdict", ""), ("verdict_at__isnull", True)),
                            models.Q(models.Q(("verdict", ""), _negated=True), ("verdict_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="status_change_verdict_when",
                    ),
                    models.CheckConstraint(
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
                ],
            },
        ),
        migrations.CreateModel(
            name="ErasedName",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("target", models.UUIDField(null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Skip",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("note", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="skips",
                        to="decisions.decision",
                    ),
                ),
                (
                    "reviewer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="skips", to=settings.AUTH_USER_MODEL
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
                "constraints": [models.UniqueConstraint(fields=("decision", "reviewer"), name="skip_once")],
            },
        ),
        migrations.CreateModel(
            name="MeasurementDue",
            fields=[
                ("component", models.CharField(max_length=100)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="decisions.decision",
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
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "component", "decision_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="RewardDue",
            fields=[
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="decisions.decision",
                    ),
                ),
                (
                    "spec",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="due",
                        to="decisions.rewardspec",
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
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "spec_id", "decision_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="RewardProgress",
            fields=[
                (
                    "spec",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="progress",
                        serialize=False,
                        to="decisions.rewardspec",
                    ),
                ),
                ("searched_until", models.DateTimeField(null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="AutoLabeler",
            fields=[
                (
                    "agent",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="auto_labeler",
                        serialize=False,
                        to="decisions.agent",
                    ),
                ),
                ("labels", models.PositiveIntegerField(default=0)),
                ("actions", models.PositiveIntegerField(default=0)),
                ("threshold", models.FloatField(null=True)),
                ("precision", models.FloatField(null=True)),
                ("coverage", models.FloatField(default=0.0)),
                ("suggested", models.PositiveIntegerField(default=0)),
                ("looked_at", models.PositiveIntegerField(default=0)),
                ("reason", models.CharField(blank=True, max_length=300)),
                ("trained_at", models.DateTimeField()),
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
                        condition=models.Q(("coverage__gte", 0), ("coverage__lte", 1)),
                        name="auto_labeler_coverage_is_a_share",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LabelSuggestion",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("action", models.JSONField()),
                ("confidence", models.FloatField()),
                ("made_at", models.DateTimeField()),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="decisions.agent"
                    ),
                ),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="suggestions",
                        to="decisions.decision",
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
                "ordering": ["-confidence", "-id"],
                "constraints": [
                    models.UniqueConstraint(fields=("decision",), name="label_suggestion_once"),
                    models.CheckConstraint(
                        condition=models.Q(("confidence__gte", 0), ("confidence__lte", 1)),
                        name="label_suggestion_confidence_in_range",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LabelQueue",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("slug", models.SlugField(max_length=63)),
                ("name", models.CharField(max_length=200)),
                ("filters", models.JSONField(blank=True, default=dict)),
                (
                    "strategy",
                    models.CharField(
                        choices=[
                            ("sequential", "Oldest first"),
                            ("random", "Random"),
                            ("uncertainty", "Most uncertain first"),
                            ("value", "Most valuable first"),
                            ("diversity", "Most diverse first"),
                        ],
                        default="uncertainty",
                        max_length=16,
                    ),
                ),
                ("overlap", models.PositiveSmallIntegerField(default=1)),
                ("guidelines", models.TextField(blank=True)),
                ("gold_share", models.FloatField(default=0.0)),
                (
                    "skip_policy",
                    models.CharField(
                        choices=[("ask_others", "Ask other reviewers"), ("drop", "Leave it out")],
                        default="ask_others",
                        max_length=16,
                    ),
                ),
                (
                    "hold_seconds",
                    models.PositiveIntegerField(default=900, help_text="How long a reviewer holds a place"),
                ),
                ("blind", models.BooleanField(default=True)),
                (
                    "state",
                    models.CharField(choices=[("open", "Open"), ("closed", "Closed")], default="open", max_length=8),
                ),
                ("newest", models.UUIDField(editable=False, null=True)),
                ("oldest", models.UUIDField(editable=False, null=True)),
                ("filled_at", models.DateTimeField(editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
                ("late_at", models.DateTimeField(editable=False, null=True)),
                ("late_id", models.UUIDField(editable=False, null=True)),
                (
                    "subject",
                    models.CharField(
                        choices=[("decision", "Decisions"), ("episode", "Episodes")],
                        db_default="decision",
                        default="decision",
                        help_text="What reviewers label",
                        max_length=8,
                    ),
                ),
                ("adjudicators", models.ManyToManyField(blank=True, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("reviewers", models.ManyToManyField(blank=True, related_name="+", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "slug"), name="label_queue_slug_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("gold_share__gte", 0),
                            ("gold_share__lte", 0.5),
                            ("overlap__gte", 1),
                            ("overlap__lte", 5),
                            ("hold_seconds__gte", 1),
                            ("hold_seconds__lte", 86400),
                        ),
                        name="label_queue_ranges",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("strategy__in", ["sequential", "random", "uncertainty", "value", "diversity"]),
                            ("skip_policy__in", ["ask_others", "drop"]),
                            ("state__in", ["open", "closed"]),
                        ),
                        name="label_queue_choices_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("subject__in", ["decision", "episode"])), name="label_queue_subject_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueItem",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting for labels"),
                            ("disputed", "To adjudicate"),
                            ("resolved", "Resolved"),
                            ("dropped", "Left out"),
                            ("gold", "Gold"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("gold", models.JSONField(null=True)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="decisions.decision",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="decisions.labelqueue",
                    ),
                ),
                (
                    "resolution",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="decisions.label"
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
                (
                    "episode",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="decisions.episode",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["queue", "state"], name="queue_item_state"),
                    models.Index(fields=["decision"], name="queue_item_decision"),
                    models.Index(
                        condition=models.Q(("episode__isnull", False)), fields=["episode"], name="queue_item_episode"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("queue", "decision"), name="queue_item_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("episode__isnull", False)),
                        fields=("queue", "episode"),
                        name="queue_item_episode_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision__isnull", False), ("episode__isnull", True)),
                            models.Q(("decision__isnull", True), ("episode__isnull", False)),
                            _connector="OR",
                        ),
                        name="queue_item_one_subject",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "disputed", "resolved", "dropped", "gold"])),
                        name="queue_item_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state", "resolved"), ("resolution__isnull", True), _connector="OR"),
                        name="queue_item_resolved_by_a_label",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("place", models.PositiveSmallIntegerField(null=True)),
                ("holder", models.CharField(blank=True, max_length=64)),
                ("expires_at", models.DateTimeField(null=True)),
                ("draft", models.JSONField(null=True)),
                ("skipped_at", models.DateTimeField(null=True)),
                ("subject", models.UUIDField()),
                (
                    "item",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reservations",
                        to="decisions.queueitem",
                    ),
                ),
                (
                    "label",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reservation",
                        to="decisions.label",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reservations",
                        to="decisions.labelqueue",
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
                ("rank", models.FloatField(db_default=0.0, default=0.0)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("label__isnull", True), ("place__isnull", False)),
                        fields=["queue", "rank", "subject", "place"],
                        name="reservation_next",
                    ),
                    models.Index(
                        models.F("queue"),
                        models.F("holder"),
                        condition=models.Q(("holder", ""), _negated=True),
                        name="reservation_held",
                    ),
                    models.Index(
                        models.F("queue"),
                        models.F("holder"),
                        condition=models.Q(
                            models.Q(("holder", ""), _negated=True),
                            ("label__isnull", True),
                            ("skipped_at__isnull", True),
                        ),
                        name="reservation_open",
                    ),
                    models.Index(fields=["subject"], name="reservation_subject"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("item", "place"), name="reservation_place_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("holder", ""), _negated=True),
                        fields=("queue", "subject", "holder"),
                        name="reservation_reviewer_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("place__isnull", True), models.Q(("place__gte", 1), ("place__lte", 5)), _connector="OR"
                        ),
                        name="reservation_place_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("draft__isnull", True), ("expires_at__isnull", True), ("holder", "")),
                            models.Q(("holder", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="reservation_free_place_is_empty",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RewardDraft",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("content", models.JSONField()),
                ("made_by", models.CharField(max_length=254)),
                ("result", models.JSONField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="reward_drafts", to="decisions.agent"
                    ),
                ),
                (
                    "base",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="decisions.rewardspec"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="jobs.job"
                    ),
                ),
                (
                    "published",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="draft",
                        to="decisions.rewardspec",
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
            name="TraceClassifier",
            fields=[
                (
                    "agent",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="trace_classifier",
                        serialize=False,
                        to="decisions.agent",
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("right", models.PositiveIntegerField(default=0)),
                ("wrong", models.PositiveIntegerField(default=0)),
                ("reason", models.CharField(blank=True, max_length=300)),
                ("trained_at", models.DateTimeField()),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
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
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "running")),
                        fields=("agent", "version"),
                        name="shadow_running_once_per_version",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("min_decisions__gte", 1), ("share__gt", 0), ("share__lte", 1)),
                        name="shadow_ranges_make_sense",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["running", "canary", "stopped"]), ("then__in", ["tell", "canary"])
                        ),
                        name="shadow_choices_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", True), ("state", "running")),
                            models.Q(models.Q(("state", "running"), _negated=True), ("ended_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="shadow_ended_exactly_when_over",
                    ),
                    models.CheckConstraint(
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
                ],
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
                ("places", models.JSONField(null=True)),
                ("tau", models.FloatField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["shadow", "-id"], name="shadow_answer_newest"),
                    models.Index(fields=["decision"], name="shadow_answer_decision"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("shadow", "decision"), name="shadow_answer_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("agrees__isnull", False), ("error", ""), ("pick__isnull", False)),
                            models.Q(
                                models.Q(("error", ""), _negated=True),
                                ("agrees__isnull", True),
                                ("pick__isnull", True),
                                ("probabilities__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="shadow_answer_or_error",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("place__isnull", False), ("probabilities__isnull", False)),
                            models.Q(
                                ("place__isnull", True), ("places__isnull", True), ("probabilities__isnull", True)
                            ),
                            _connector="OR",
                        ),
                        name="shadow_answer_places_where_options",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("places__isnull", True), ("tau__isnull", True)),
                            models.Q(
                                ("places__isnull", False), ("tau__gte", -1), ("tau__isnull", False), ("tau__lte", 1)
                            ),
                            _connector="OR",
                        ),
                        name="shadow_answer_tau_of_rankings",
                    ),
                ],
            },
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
                ("tau", models.FloatField(null=True)),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("passed", False), models.Q(("look__isnull", False), ("refusals", [])), _connector="OR"
                        ),
                        name="shadow_point_refuses_or_passes",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("tau__gte", -1), ("tau__lte", 1)), name="shadow_point_tau_in_range"
                    ),
                ],
            },
        ),
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
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="JudgeCalibration",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("metric", models.CharField(max_length=64)),
                ("source", models.CharField(choices=[("llm", "A judge model"), ("code", "Code")], max_length=8)),
                ("people_metric", models.CharField(max_length=64)),
                (
                    "verdict",
                    models.CharField(
                        choices=[("calibrated", "Calibrated"), ("refused", "Refused"), ("drifted", "Drifted")],
                        max_length=16,
                    ),
                ),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
                ("scores", models.PositiveIntegerField()),
                ("labels", models.PositiveIntegerField()),
                ("assessment", models.JSONField(null=True)),
                ("drift", models.JSONField(null=True)),
                ("reasons", models.JSONField(default=list)),
                ("warnings", models.JSONField(default=list)),
                ("made_by", models.CharField(max_length=254)),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                (
                    "agent",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="judge_calibrations",
                        to="decisions.agent",
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
                "indexes": [models.Index(fields=["agent", "metric", "source", "-id"], name="judge_calibration_newest")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("source__in", ["llm", "code"]), ("verdict__in", ["calibrated", "refused", "drifted"])
                        ),
                        name="judge_calibration_choices_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("verdict", "calibrated"), _negated=True),
                            ("assessment__isnull", False),
                            _connector="OR",
                        ),
                        name="judge_calibrated_by_numbers",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("labels__lte", models.F("scores")), ("since__lte", models.F("until"))),
                        name="judge_calibration_ranges",
                    ),
                ],
            },
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
        migrations.AddConstraint(
            model_name="agentversion",
            constraint=models.UniqueConstraint(fields=("id", "agent"), name="agent_version_of_its_agent"),
        ),
        migrations.RunSQL(REFUSE, "DROP FUNCTION refuse_ledger_change()"),
        migrations.RunSQL(REFUSE_BUT_ERASURE, "DROP FUNCTION refuse_change_but_erasure()"),
        *(
            migrations.RunSQL(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()",
                f"DROP TRIGGER {table}_append_only ON {table}",
            )
            for table, function in APPEND_ONLY.items()
        ),
        migrations.RunSQL(ITS_OWN, "ALTER TABLE decisions_agent DROP CONSTRAINT agent_current_version_is_its_own"),
    ]
