"""Examples of labelling queues and labels in bulk for the OpenAPI document. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from decisions.api.examples import A_DECISION, A_LABEL, DECISION
from workspaces.http.examples import MOMENT, Example, page

QUEUE = "01a1f9c1-3d52-7c66-8a1b-6e0f4d9b2c77"
AT = {"slug": "tickets"}
THERE = AT | {"subjects": "decisions", "id": DECISION}
HERE = {"decision": DECISION, "episode": None}
SAID = {"verdict": "corrected", "corrected_action": "finance", "note": "A bill."}
A_QUEUE = {
    "id": QUEUE,
    "slug": "tickets",
    "name": "Tickets of November",
    "subject": "decision",
    "filters": {"agent": "filer"},
    "strategy": "uncertainty",
    "overlap": 2,
    "guidelines": "A bill goes to finance, always.",
    "gold_share": 0.1,
    "skip_policy": "ask_others",
    "hold_seconds": 900,
    "blind": True,
    "state": "open",
    "reviewers": [],
    "adjudicators": [],
    "created_at": MOMENT,
}
PROGRESS = {"waiting": 120, "disputed": 3, "resolved": 80, "dropped": 1, "gold": 10, "held": 2, "labels": 167}
OTHER = {"labelled_by": None, "verdict": "confirmed", "corrected_action": None, "note": ""}
LABELLED = A_LABEL
BULK = "01a1f9c4-11f0-7d0e-9a52-0c6d7be1a4f2"
DIGEST = "5e8f0c1d2b3a4958" * 4
BEFORE = "01a1f9c4-0d52-7c66-8a1b-6e0f4d9b2c78"
ASKED = {"matching": 120, "labelled": 4, "before": BEFORE, "digest": DIGEST}
ALL_OF_FILER = {"filters": {"agent": "filer"}, "verdict": "confirmed", "replaces": True}
A_BULK = {
    "id": BULK,
    "state": "done",
    "verdict": "confirmed",
    "corrected_action": None,
    "filters": {"agent": "filer"},
    "replaces": True,
    "matching": 120,
    "chosen": 120,
    "done": 120,
    "labelled": 120,
    "labelled_by": "key:5f1c0a9be2d4",
    "error": "",
    "created_at": MOMENT,
    "undone_at": None,
}
OF_BULK = {"id": BULK}
EXAMPLES: Mapping[str, Sequence[Example]] = {
    "bulk_labels_list": [Example(page(A_BULK))],
    "label_in_bulk": [
        Example(
            {"asked": ASKED, "to_label": 120, "unfit": 0, "too_many": False, "older": None, "errors": []},
            200,
            ALL_OF_FILER | {"dry_run": True},
            name="count",
        ),
        Example(A_BULK | {"errors": []}, 202, ALL_OF_FILER | {"asked": ASKED}, name="label"),
    ],
    "bulk_labels_retrieve": [Example(A_BULK, path=OF_BULK)],
    "cancel_bulk_label": [Example(A_BULK | {"state": "stopping", "done": 60, "labelled": 60}, path=OF_BULK)],
    "undo_bulk_label": [Example(A_BULK | {"state": "undone", "undone_at": MOMENT}, path=OF_BULK)],
    "label_queues_list": [Example(page(A_QUEUE))],
    "create_label_queue": [
        Example(
            A_QUEUE | {"slug": "bills"},
            201,
            {"slug": "bills", "name": "Tickets of November", "filters": {"agent": "filer"}, "overlap": 2},
        ),
        Example(
            A_QUEUE | {"slug": "mailboxes", "subject": "episode", "filters": {"agent": "filer", "state": "failed"}},
            201,
            {
                "slug": "mailboxes",
                "name": "Mailboxes with failures",
                "subject": "episode",
                "filters": {"agent": "filer", "state": "failed"},
            },
            name="of episodes",
        ),
    ],
    "label_queues_retrieve": [Example(A_QUEUE | {"progress": PROGRESS}, path=AT)],
    "change_label_queue": [
        Example(A_QUEUE | {"state": "closed", "progress": PROGRESS}, 200, {"state": "closed"}, AT, name="close it")
    ],
    "next_in_label_queue": [
        Example(
            {
                "decision": A_DECISION,
                "episode": None,
                "expires_at": "2026-11-20T08:15:00Z",
                "draft": None,
                "searching": False,
            },
            path=AT,
        )
    ],
    "label_in_queue": [
        Example(HERE | {"state": "waiting", "label": LABELLED}, 201, SAID, THERE),
    ],
    "draft_in_queue": [Example({"note": "A bill?"}, 200, {"note": "A bill?"}, THERE)],
    "discard_in_queue": [Example(HERE | {"state": "waiting", "label": None}, path=THERE)],
    "skip_in_queue": [Example(HERE | {"state": "waiting", "label": None}, path=THERE)],
    "undo_in_queue": [Example(HERE | {"state": "waiting", "label": None}, path=THERE)],
    "adjudicate_in_queue": [
        Example(HERE | {"state": "resolved", "label": LABELLED}, 201, SAID, THERE),
    ],
    "label_queues_disputes_list": [Example(page(HERE | {"labels": [OTHER, OTHER | SAID]}), path=AT)],
    "label_queue_agreement": [
        Example(
            {
                "decisions": 80,
                "alpha": 0.74,
                "verdict_alpha": 0.81,
                "pairs": [{"reviewers": ["Ann", "Ben"], "decisions": 80, "agreed": 0.91, "alpha": 0.74}],
                "reviewers": [{"reviewer": "Ann", "labels": 90, "gold": 10, "accuracy": 0.9, "pace": 6.2}],
            },
            path=AT,
        )
    ],
    "add_gold_items": [Example({"added": 1}, 201, {"decisions": [DECISION]}, AT)],
}
