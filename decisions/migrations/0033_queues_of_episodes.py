"""A queue asks about decisions or about episodes: items and labels have one of both, a place has the id of its item's.

Its statements change the catalogue alone, so that filled tables are locked for a moment only. What has to read the
rows comes in 0034.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

ONE_SUBJECT = Q(decision__isnull=False, episode__isnull=True) | Q(decision__isnull=True, episode__isnull=False)
# By hand and in one go: Django takes longer between two statements than all of them take, and the locks are held until
# the last. The column of places is renamed, since one that is made again would build its indexes again.
FORWARD = """
ALTER TABLE decisions_labelqueue
  ADD COLUMN subject varchar(8) DEFAULT 'decision' NOT NULL,
  ADD CONSTRAINT label_queue_subject_known CHECK (subject IN ('decision', 'episode'));
ALTER TABLE decisions_label
  ALTER COLUMN decision_id DROP NOT NULL,
  ADD COLUMN episode_id uuid NULL
      CONSTRAINT decisions_label_episode_id_fk REFERENCES decisions_episode (id) DEFERRABLE INITIALLY DEFERRED,
  ADD CONSTRAINT label_one_subject CHECK ((decision_id IS NOT NULL AND episode_id IS NULL)
                                          OR (decision_id IS NULL AND episode_id IS NOT NULL)) NOT VALID;
ALTER TABLE decisions_queueitem
  ALTER COLUMN decision_id DROP NOT NULL,
  ADD COLUMN episode_id uuid NULL
      CONSTRAINT decisions_queueitem_episode_id_fk REFERENCES decisions_episode (id) DEFERRABLE INITIALLY DEFERRED,
  ADD CONSTRAINT queue_item_one_subject CHECK ((decision_id IS NOT NULL AND episode_id IS NULL)
                                               OR (decision_id IS NULL AND episode_id IS NOT NULL)) NOT VALID;
ALTER TABLE decisions_reservation RENAME COLUMN decision_id TO subject;
ALTER INDEX reservation_decision RENAME TO reservation_subject;
"""
# Fails where there is a label or an item of an episode, which no earlier version knows.
BACK = """
ALTER INDEX reservation_subject RENAME TO reservation_decision;
ALTER TABLE decisions_reservation RENAME COLUMN subject TO decision_id;
ALTER TABLE decisions_queueitem DROP COLUMN episode_id, ALTER COLUMN decision_id SET NOT NULL;
ALTER TABLE decisions_label DROP COLUMN episode_id, ALTER COLUMN decision_id SET NOT NULL;
ALTER TABLE decisions_labelqueue DROP COLUMN subject;
"""


def decision_or_none(related_name: str) -> models.ForeignKey:
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        null=True,
        on_delete=django.db.models.deletion.DO_NOTHING,
        related_name=related_name,
        to="decisions.decision",
    )


def episode_or_none(related_name: str) -> models.ForeignKey:
    return models.ForeignKey(
        db_index=False,
        null=True,
        on_delete=django.db.models.deletion.CASCADE,
        related_name=related_name,
        to="decisions.episode",
    )


class Migration(migrations.Migration):
    dependencies = [("decisions", "0032_classifiers_of_traces")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL([FORWARD], [BACK])],
            state_operations=[
                migrations.AddField(
                    model_name="labelqueue",
                    name="subject",
                    field=models.CharField(
                        choices=[("decision", "Decisions"), ("episode", "Episodes")],
                        db_default="decision",
                        default="decision",
                        help_text="What reviewers label",
                        max_length=8,
                    ),
                ),
                migrations.AddConstraint(
                    model_name="labelqueue",
                    constraint=models.CheckConstraint(
                        condition=Q(subject__in=["decision", "episode"]), name="label_queue_subject_known"
                    ),
                ),
                migrations.AlterField(model_name="label", name="decision", field=decision_or_none("labels")),
                migrations.AddField(model_name="label", name="episode", field=episode_or_none("labels")),
                migrations.AddConstraint(
                    model_name="label",
                    constraint=models.CheckConstraint(condition=ONE_SUBJECT, name="label_one_subject"),
                ),
                migrations.AlterField(model_name="queueitem", name="decision", field=decision_or_none("+")),
                migrations.AddField(model_name="queueitem", name="episode", field=episode_or_none("+")),
                migrations.AddConstraint(
                    model_name="queueitem",
                    constraint=models.CheckConstraint(condition=ONE_SUBJECT, name="queue_item_one_subject"),
                ),
                migrations.RemoveConstraint(model_name="reservation", name="reservation_reviewer_once"),
                migrations.RemoveIndex(model_name="reservation", name="reservation_next"),
                migrations.RemoveIndex(model_name="reservation", name="reservation_decision"),
                migrations.RemoveField(model_name="reservation", name="decision"),
                migrations.AddField(model_name="reservation", name="subject", field=models.UUIDField()),
                migrations.AddIndex(
                    model_name="reservation", index=models.Index(fields=["subject"], name="reservation_subject")
                ),
                migrations.AddIndex(
                    model_name="reservation",
                    index=models.Index(
                        condition=Q(place__isnull=False, label__isnull=True),
                        fields=["queue", "rank", "subject", "place"],
                        name="reservation_next",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="reservation",
                    constraint=models.UniqueConstraint(
                        condition=~Q(holder=""),
                        fields=("queue", "subject", "holder"),
                        name="reservation_reviewer_once",
                    ),
                ),
            ],
        ),
    ]
