"""Skipping while labelling wrote the verdict `ignored`: what people skipped becomes a skip, and the verdict is withdrawn.

Feedback is append-only: another one supersedes it, recorded now, so that the next calculation of rewards sees it. A
verdict `ignored` that an app sent by its key has no reviewer and stays.
"""

from itertools import islice
from typing import Any

from django.db import migrations
from django.utils import timezone

from workspaces.storage.ids import uuid7

BATCH = 1000
IGNORED = "ignored"


def withdraw_skips(apps: Any, schema_editor: Any) -> None:
    label_model, skip_model, feedback_model = (
        apps.get_model("decisions", name) for name in ("Label", "Skip", "Feedback")
    )
    labels = label_model.objects.filter(verdict=IGNORED, reviewer__isnull=False).order_by("id")
    rows = labels.iterator(chunk_size=BATCH)
    while some := list(islice(rows, BATCH)):
        keys = {f"label:{label.id}": label for label in some}
        fed = feedback_model.objects.filter(
            decision__in={label.decision_id for label in some}, idempotency_key__in=keys, metric="verdict"
        )
        now = timezone.now()
        feedback_model.objects.bulk_create(
            [
                feedback_model(
                    id=uuid7(),
                    workspace_id=row.workspace_id,
                    decision_id=row.decision_id,
                    metric="verdict_withdrawn",
                    value=IGNORED,
                    source="system",
                    observed_at=now,
                    recorded_at=now,
                    idempotency_key=f"withdrawn:{keys[row.idempotency_key].id}",
                    supersedes=row.id,
                    content_hash=row.id.bytes,
                )
                for row in fed
            ],
            ignore_conflicts=True,
        )
        skip_model.objects.bulk_create(
            [
                skip_model(
                    id=uuid7(),
                    workspace_id=label.workspace_id,
                    decision_id=label.decision_id,
                    reviewer_id=label.reviewer_id,
                    note=label.note,
                )
                for label in some
            ],
            ignore_conflicts=True,
        )
        label_model.objects.filter(id__in=[label.id for label in some]).delete()


class Migration(migrations.Migration):
    dependencies = [("decisions", "0015_skips_are_no_verdicts")]

    operations = [migrations.RunPython(withdraw_skips, migrations.RunPython.noop, elidable=True)]
