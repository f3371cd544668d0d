"""The page *Disk*."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.core.cache import caches
from django.http import HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat
from django.views.decorators.http import require_safe

from models_registry.artifacts.quota import measure_use
from project.upkeep.disk import DiskUsage, measure_disk
from project.upkeep.lifetimes import LIVES
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, workspace_page
from workspaces.templatetags.show import percent

MOST_TABLES = 12
# Walking a large store takes seconds: a reload within this time shows the same figures.
KEEP_SECONDS = 60


@require_safe
@workspace_page(role=Role.ADMIN)
def disk(request: PageRequest) -> HttpResponse:
    usage = cast(DiskUsage, caches["process"].get_or_set("disk-usage", measure_disk, KEEP_SECONDS))
    own, quota = measure_use(request.workspace.id), settings.ARTIFACT_QUOTA_BYTES
    of_disk = percent(usage.used_bytes / usage.size_bytes)
    shares = [(use, use.bytes / max(usage.used_bytes, 1)) for use in usage.kinds]
    return render(
        request,
        "project/disk.html",
        {
            "usage": usage,
            "own_bytes": own,
            "own_says": f"of {filesizeformat(quota)} allowed" if quota > 0 else "no limit is set",
            "used_says": f"{of_disk} of a disk of {filesizeformat(usage.size_bytes)}",
            "database_says": f"{len(usage.tables)} tables",
            "free_says": "shared with everything else on the disk",
            "kinds": [(use, share, percent(share)) for use, share in shares if use.bytes],
            "tables": usage.tables[:MOST_TABLES],
            "lives": LIVES,
        },
    )
