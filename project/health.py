"""/livez, /readyz and /metrics for an operator's probes. No login, no workspace data."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from jobs.models import Job, JobState


@require_safe
@login_not_required
def livez(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:
    """The process can serve: the database answers and is migrated."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM jobs_job LIMIT 1")
    except DatabaseError:
        return unavailable()
    return JsonResponse({"status": "ok"})


def unavailable() -> HttpResponse:
    """What `readyz` says without a database."""
    return JsonResponse({"status": "unavailable", "database": "does not answer or is not migrated"}, status=503)


@require_safe
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text. Read from the database, so every web process answers the same."""
    registry = CollectorRegistry()
    jobs = Gauge("reckoner_jobs", "Jobs by state", ["state"], registry=registry)
    counts = dict(Job.objects.values_list("state").annotate(count=Count("id")))
    for state in JobState.values:
        jobs.labels(state=state).set(counts.get(state, 0))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
