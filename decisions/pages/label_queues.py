"""Pages of labelling queues: the list, one queue, labelling in it, and its disputes."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any

from django.contrib import messages
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from decisions.labelling.agreement import measure_agreement
from decisions.labelling.progress import count_progress, find_disputes
from decisions.labelling.queues import change_queue, find_queue, holder_of, may_adjudicate, may_review
from decisions.labelling.reservations import MOST_HELD, reserve_next, skip_item
from decisions.labelling.resolution import adjudicate_item, submit_label, undo_in_queue
from decisions.models import ItemState, LabelQueue, QueueItem, QueueState, Reservation
from decisions.pages.cards import show_editing
from decisions.pages.queue_cards import cards_of
from decisions.pages.queue_form import QueueForm
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, wants_part, workspace_page

MOST_QUEUES = 100
MOST_COUNTED = 1_000


@require_safe
@workspace_page()
def queue_list(request: PageRequest) -> HttpResponse:
    queues = list(LabelQueue.objects.for_workspace(request.workspace)[:MOST_QUEUES])
    counts: dict[uuid.UUID, Counter[str]] = defaultdict(Counter)
    found = QueueItem.objects.filter(queue__in=queues).values_list("queue", "state").annotate(Count("id"))
    for queue, state, count in found:
        counts[queue][state] = count
    states = [{str(state): counts[queue.id][state] for state in ItemState.values} for queue in queues]
    return render(request, "label_queues/list.html", {"queues": list(zip(queues, states, strict=True))})


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def queue_new(request: PageRequest) -> HttpResponse:
    return _edit(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@workspace_page(role=Role.ADMIN)
def queue_edit(request: PageRequest, queue: str) -> HttpResponse:
    """What may change of a queue, and new gold items."""
    return _edit(request, find_queue(request.actor, queue))


def _edit(request: PageRequest, queue: LabelQueue | None) -> HttpResponse:
    form, status = QueueForm(by=request.actor, queue=queue), 200
    if request.method == "POST":
        form, status = QueueForm(request.POST, by=request.actor, queue=queue), 400
        if form.is_valid() and (saved := form.save()) is not None:
            return redirect("pages:label-queue", request.workspace.slug, saved.slug)
    return render(request, "label_queues/form.html", {"form": form, "queue": queue}, status=status)


@require_safe
@workspace_page()
def queue_detail(request: PageRequest, queue: str) -> HttpResponse:
    """Admins see how far reviewers agree, too."""
    found = find_queue(request.actor, queue)
    context = {
        "queue": found,
        "progress": count_progress(found),
        "may_review": may_review(request.actor, found),
        "may_adjudicate": may_adjudicate(request.actor, found),
        "agreement": measure_agreement(found) if request.role == Role.ADMIN else None,
    }
    return render(request, "label_queues/detail.html", context)


@require_POST
@workspace_page(role=Role.ADMIN)
def queue_change(request: PageRequest, queue: str) -> HttpResponse:
    """Closes a queue, or opens it again."""
    found = find_queue(request.actor, queue)
    changed = change_queue(by=request.actor, queue=found, state=request.POST.get("state", ""))
    messages.success(request, "The queue is open." if changed.state == QueueState.OPEN else "The queue is closed.")
    return redirect("pages:label-queue", request.workspace.slug, changed.slug)


@require_GET
@workspace_page(role=Role.LABELLER)
def queue_work(request: PageRequest, queue: str) -> HttpResponse:
    """What the reader holds: the first decision or episode is shown, the next ones come along."""
    return render(request, "label_queues/work.html", _work(request, find_queue(request.actor, queue)))


def _work(request: PageRequest, queue: LabelQueue) -> dict[str, Any]:
    """`have` and `sent` of the form: what the page shows next, and what is on its way."""
    there, sent, cards = _ids(request, "have"), _ids(request, "sent"), cards_of(queue)
    held = reserve_next(by=request.actor, queue=queue, count=min(MOST_HELD, cards.ahead + len(sent)))
    fresh = [place.subject for place in held.reservations if place.subject not in there | sent]
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    mine = Reservation.objects.filter(queue=queue, holder=holder_of(request.actor), label__created_at__gte=midnight)
    waiting = QueueItem.objects.filter(queue=queue, state=ItemState.WAITING)[: MOST_COUNTED + 1].count()
    done = mine.count()
    return {
        "asked": queue,
        "card": cards.template,
        "cards": cards.make(request, fresh),
        "searching": held.searching,
        "waiting": min(waiting, MOST_COUNTED),
        "more": waiting > MOST_COUNTED,
        "done": done,
        "share": done / (done + waiting) if done else 0.0,
    }


def _ids(request: PageRequest, name: str) -> frozenset[uuid.UUID]:
    found = set()
    for given in request.POST.getlist(name)[:MOST_HELD]:
        with suppress(ValueError):  # what is no id is nothing that the page holds
            found.add(uuid.UUID(given))
    return frozenset(found)


@require_POST
@workspace_page(role=Role.LABELLER)
@show_editing
def queue_label(request: PageRequest, queue: str, pk: uuid.UUID) -> HttpResponse:
    """Confirms, corrects, or skips a decision or an episode that the reader holds."""
    found = find_queue(request.actor, queue)
    known: dict[str, Any] = {"by": request.actor, "queue": found, "subject": pk}
    if "skip" in request.POST:
        skip_item(**known)
    else:
        submit_label(**known, **cards_of(found).read(request, pk))
    return _go_on(request, found)


@require_POST
@workspace_page(role=Role.LABELLER)
def queue_undo(request: PageRequest, queue: str, pk: uuid.UUID) -> HttpResponse:
    """Takes the reader's own skip, label or resolution back."""
    found = find_queue(request.actor, queue)
    undo_in_queue(by=request.actor, queue=found, subject=pk)
    return _go_on(request, found)


def _go_on(request: PageRequest, queue: LabelQueue) -> HttpResponse:
    if not wants_part(request):
        return redirect("pages:label-queue-work", request.workspace.slug, queue.slug)
    return render(request, "decisions/_queue.html", _work(request, queue))


@require_safe
@workspace_page(role=Role.LABELLER)
def queue_disputes(request: PageRequest, queue: str) -> HttpResponse:
    """One dispute after the other, the oldest first."""
    found = find_queue(request.actor, queue)
    may = may_adjudicate(request.actor, found)
    disputes = find_disputes(found).order_by("id")
    item: Any = disputes.first() if may else None
    kind = cards_of(found)
    cards = kind.make(request, [item.subject_id]) if item is not None else []
    context = {
        "asked": found,
        "card": kind.template,
        "may_adjudicate": may,
        "disputed": disputes.count() if cards else 0,
        "shown": cards[0] if cards else None,
        "said": [kind.say(cards[0], place.label) for place in item.labelled] if cards else [],
    }
    return render(request, "label_queues/disputes.html", context)


@require_POST
@workspace_page(role=Role.LABELLER)
@show_editing
def queue_adjudicate(request: PageRequest, queue: str, pk: uuid.UUID) -> HttpResponse:
    found = find_queue(request.actor, queue)
    given = cards_of(found).read(request, pk)
    adjudicate_item(by=request.actor, queue=found, subject=pk, **given)
    messages.success(request, f"Resolved as {given['verdict']}.")
    return redirect("pages:label-queue-disputes", request.workspace.slug, found.slug)
