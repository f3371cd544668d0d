"""The kind of the job that calculates rewards has the name of what it does. What was asked for by the old one goes on."""

from django.db import migrations

RENAME = "UPDATE jobs_job SET kind = 'decisions.{}' WHERE kind = 'decisions.{}'"


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0018_agents_leave_their_workspace_alone"),
        ("jobs", "0002_let_a_dead_job_be_asked_again"),
    ]

    operations = [
        migrations.RunSQL(
            RENAME.format("calculate_rewards", "reckon_rewards"),
            RENAME.format("reckon_rewards", "calculate_rewards"),
            elidable=True,
        )
    ]
