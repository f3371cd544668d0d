import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0008_claims_of_idempotency_keys")]

    operations = [
        migrations.AddField(
            model_name="membership", name="deactivated_at", field=models.DateTimeField(blank=True, null=True)
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
                        on_delete=models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(on_delete=models.deletion.CASCADE, related_name="+", to="workspaces.workspace"),
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
    ]
