import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0042_corrections_as_they_were_sent"),
        ("workspaces", "0001_people_keys_and_audit"),
    ]

    operations = [
        migrations.AddField(
            model_name="autolabeler",
            name="about",
            field=models.CharField(blank=True, db_default="", default="", max_length=300),
        ),
        migrations.AddField(
            model_name="autolabeler",
            name="accuracy",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="autolabeler",
            name="baseline",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="autolabeler",
            name="fields",
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.AddField(
            model_name="autolabeler",
            name="suggests",
            field=models.CharField(
                choices=[
                    ("option", "The right option"),
                    ("first", "What belongs first"),
                    ("fields", "Fields of the action"),
                    ("verdict", "The verdict"),
                ],
                db_default="option",
                default="option",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="labelsuggestion",
            name="episode",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="decisions.episode",
            ),
        ),
        migrations.AddField(
            model_name="labelsuggestion",
            name="fields",
            field=models.JSONField(db_default=[], default=list),
        ),
        migrations.AddField(
            model_name="labelsuggestion",
            name="verdict",
            field=models.CharField(
                blank=True,
                choices=[
                    ("confirmed", "Confirmed"),
                    ("corrected", "Corrected"),
                    ("overridden", "Overridden"),
                    ("ignored", "Ignored"),
                ],
                db_default="",
                default="",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="labelsuggestion",
            name="action",
            field=models.JSONField(null=True),
        ),
        migrations.AlterField(
            model_name="labelsuggestion",
            name="decision",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="suggestions",
                to="decisions.decision",
            ),
        ),
        migrations.AddConstraint(
            model_name="autolabeler",
            constraint=models.CheckConstraint(
                condition=models.Q(("suggests__in", ["option", "first", "fields", "verdict"])),
                name="auto_labeler_suggests_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="labelsuggestion",
            constraint=models.UniqueConstraint(
                condition=models.Q(("episode__isnull", False)),
                fields=("episode",),
                name="label_suggestion_episode_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="labelsuggestion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decision__isnull", False), ("episode__isnull", True)),
                    models.Q(("decision__isnull", True), ("episode__isnull", False)),
                    _connector="OR",
                ),
                name="label_suggestion_one_subject",
            ),
        ),
    ]
