"""Skips a decision in the reviewer's own labelling queue. A skip is no verdict, and rewards do not read it."""

from __future__ import annotations

from django.db import transaction

from decisions.errors import Erased
from decisions.models import Decision, Skip
from workspaces.access.actors import Actor


@transaction.atomic
def skip_decision(*, by: Actor, decision: Decision, note: str = "") -> Skip:
    """The reader's one skip of the decision; the note of a second replaces the first's. `by` is a person. Raises
    Erased."""
    if decision.is_erased:
        raise Erased.of([decision.id], field="decision_id")
    skip, _ = Skip.objects.update_or_create(
        decision_id=decision.id,
        reviewer=by.user,
        defaults={"note": note},
        create_defaults={"workspace": by.workspace, "note": note},
    )
    return skip


def take_skip_back(*, by: Actor, decision: Decision) -> bool:
    """Whether the reader had skipped the decision; it waits in their queue again."""
    deleted, _ = Skip.objects.filter(decision_id=decision.id, reviewer=by.user).delete()
    return deleted > 0
