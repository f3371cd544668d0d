from django.db import migrations, models
from django.db.models import Q

KINDS = [
    ("decide", "Decision"),
    ("chat", "Chat completion"),
    ("response", "Response"),
    ("playground", "Playground"),
]


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0001_registry_calls_and_experiments")]

    operations = [
        migrations.AddField(
            "call", "reserved", models.DecimalField(max_digits=14, decimal_places=8, default=0, db_default=0)
        ),
        migrations.AddField(
            "keyspend", "reserved", models.DecimalField(max_digits=20, decimal_places=8, default=0, db_default=0)
        ),
        migrations.AddConstraint(
            "call", models.CheckConstraint(condition=Q(reserved__gte=0), name="call_reserved_not_negative")
        ),
        migrations.AddConstraint(
            "keyspend", models.CheckConstraint(condition=Q(reserved__gte=0), name="key_spend_reserved_not_negative")
        ),
        migrations.RemoveConstraint("call", "call_kind_known"),
        migrations.AlterField("call", "kind", models.CharField(max_length=16, choices=KINDS)),
        migrations.AddConstraint(
            "call",
            models.CheckConstraint(condition=Q(kind__in=[kind for kind, _ in KINDS]), name="call_kind_known"),
        ),
    ]
