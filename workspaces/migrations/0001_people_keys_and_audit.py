"""People, workspaces, keys, kept answers, and an audit that the database itself holds append-only."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

import workspaces.storage.ids

REFUSE = """
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$
"""
APPEND_ONLY = """
CREATE TRIGGER workspaces_auditentry_append_only BEFORE UPDATE OR DELETE ON workspaces_auditentry
  FOR EACH ROW EXECUTE FUNCTION refuse_audit_change()
"""
# Ids compress badly: trying it cost PostgreSQL more than keeping the answer to a batch as it is.
UNCOMPRESSED = "ALTER TABLE workspaces_keptanswer ALTER COLUMN body SET STORAGE EXTERNAL"


class Migration(migrations.Migration):
    # Their files are gone: an instance that has applied all of them records this one only.
    replaces = [
        ("workspaces", "0001_people_workspaces_keys"),
        ("workspaces", "0002_audit_append_only"),
        ("workspaces", "0003_rotation_kept_answers_failed_log_ins"),
        ("workspaces", "0004_answers_that_were_erased"),
        ("workspaces", "0005_answers_uncompressed"),
        ("workspaces", "0006_content_types_of_answers"),
        ("workspaces", "0007_log_ins_are_counted_in_the_cache"),
        ("workspaces", "0008_claims_of_idempotency_keys"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
        ("workspaces", "0010_workspaces_may_want_approvals"),
        ("workspaces", "0011_keys_have_limits"),
    ]
    initial = True
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("email", models.EmailField(max_length=254, unique=True)),
                ("name", models.CharField(blank=True, max_length=200)),
                ("is_active", models.BooleanField(default=True)),
                (
                    "must_change_password",
                    models.BooleanField(default=False, help_text="True while a one-time password is in use"),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        django.db.models.functions.text.Lower("email"), name="user_email_once_whatever_case"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Workspace",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("slug", models.SlugField(max_length=63, unique=True)),
                ("name", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "approval_required",
                    models.BooleanField(
                        db_default=False, default=False, help_text="A version needs an approval before it gets traffic"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("labeller", "Labeller"), ("admin", "Admin")], max_length=16
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="workspaces.workspace",
                    ),
                ),
                ("deactivated_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "user"), name="membership_once"),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ["viewer", "labeller", "admin"])), name="membership_role_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("actor", models.CharField(max_length=254)),
                ("action", models.CharField(max_length=64)),
                ("target", models.CharField(max_length=128)),
                ("details", models.JSONField(default=dict)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("secret_hmac", models.BinaryField(max_length=32)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("decisions:write", "Record decisions"),
                                ("feedback:write", "Record feedback"),
                                ("route:read", "Ask an agent to decide"),
                                ("export:read", "Read and export the ledger"),
                                ("admin", "Everything, training and promotion included"),
                            ],
                            max_length=32,
                        ),
                        size=None,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
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
                ("previous_hmac", models.BinaryField(max_length=32, null=True)),
                ("previous_until", models.DateTimeField(blank=True, null=True)),
                (
                    "agents",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SlugField(db_index=False, max_length=63),
                        blank=True,
                        db_default=[],
                        default=list,
                        size=None,
                    ),
                ),
                ("requests_a_minute", models.PositiveIntegerField(blank=True, null=True)),
                ("spend_a_day", models.DecimalField(blank=True, decimal_places=6, max_digits=14, null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "scopes__contained_by",
                                ["decisions:write", "feedback:write", "route:read", "export:read", "admin"],
                            ),
                            models.Q(("scopes", []), _negated=True),
                        ),
                        name="api_key_scopes_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("previous_hmac__isnull", True), ("previous_until__isnull", True)),
                            models.Q(("previous_hmac__isnull", False), ("previous_until__isnull", False)),
                            _connector="OR",
                        ),
                        name="api_key_previous_has_an_end",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("requests_a_minute__isnull", True), ("requests_a_minute__gt", 0), _connector="OR"
                            ),
                            models.Q(("spend_a_day__isnull", True), ("spend_a_day__gt", 0), _connector="OR"),
                        ),
                        name="api_key_limits_are_positive",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("sender", models.CharField(max_length=254)),
                ("key", models.CharField(max_length=255)),
                ("request_hash", models.BinaryField(max_length=32)),
                ("status", models.PositiveSmallIntegerField()),
                ("body", models.BinaryField()),
                ("created_at", models.DateTimeField()),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="workspaces.workspace",
                    ),
                ),
                ("content_type", models.CharField(default="application/json", max_length=100)),
            ],
            options={
                "indexes": [models.Index(fields=["created_at"], name="kept_answer_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("workspace", "sender", "key"), name="kept_answer_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status__gte", 200), ("status__lt", 300)),
                            ("status__in", [102, 410]),
                            _connector="OR",
                        ),
                        name="kept_answer_success_claim_or_erased",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("labeller", "Labeller"), ("admin", "Admin")], max_length=16
                    ),
                ),
                ("token_hmac", models.BinaryField(max_length=32, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "accepted_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "created_by",
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
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ["viewer", "labeller", "admin"])), name="invitation_role_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("accepted_at__isnull", True), ("revoked_at__isnull", True), _connector="OR"
                        ),
                        name="invitation_accepted_or_revoked",
                    ),
                    models.UniqueConstraint(
                        models.F("workspace"),
                        django.db.models.functions.text.Lower("email"),
                        condition=models.Q(("accepted_at__isnull", True), ("revoked_at__isnull", True)),
                        name="invitation_open_once",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="workspace",
            name="members",
            field=models.ManyToManyField(
                related_name="workspaces", through="workspaces.Membership", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.RunSQL(REFUSE, "DROP FUNCTION refuse_audit_change()"),
        migrations.RunSQL(APPEND_ONLY, "DROP TRIGGER workspaces_auditentry_append_only ON workspaces_auditentry"),
        migrations.RunSQL(UNCOMPRESSED, "ALTER TABLE workspaces_keptanswer ALTER COLUMN body SET STORAGE EXTENDED"),
    ]
