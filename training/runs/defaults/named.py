"""The named base that an agent's first model begins with where a new tiny model would not do: a pretrained one."""

from __future__ import annotations

from django.conf import settings

from training.runs.base_models import TINY, hub_ids, list_folders
from training.runs.estimates.capacity import is_downloaded, recommend_here


def list_named_bases() -> list[str]:
    """Hub ids and folders that a run may begin with, the instance's own base first."""
    own = [settings.BASE_MODEL] if settings.BASE_MODEL != TINY else []
    return list(dict.fromkeys([*own, *hub_ids(), *list_folders()]))


def choose_named_base() -> str:
    """The instance's own base; else one whose files are here, the one that this machine is recommended, or the first
    that is allowed; "" where none is."""
    if settings.BASE_MODEL != TINY:
        return settings.BASE_MODEL
    names = list_named_bases()
    here = [name for name in names if is_downloaded(name)]
    recommended = [name for name in names if name == recommend_here().model]
    return next(iter([*here, *recommended, *names]), "")
