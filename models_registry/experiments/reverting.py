"""Takes back the last move of an alias: it points again where it did before, and the history says so."""

from __future__ import annotations

import uuid

from django.db import transaction

from models_registry.errors import CannotRevert
from models_registry.experiments.promotion import promote_version
from models_registry.models import AliasMove, AliasName, RegisteredModel
from models_registry.versions.services import drop_alias, find_last_move, move_alias
from workspaces.access.actors import Actor

LONGEST_REASON = 200


def revert_alias(
    *, by: Actor, model: RegisteredModel, name: str, move: uuid.UUID | None = None, reason: str = ""
) -> AliasMove:
    """Returns the move that this made; reverting that one points the alias forward again.

    `move` is the one that the caller saw last: another move since then is not taken back. `reason` is by default which
    move was reverted. The champion is promoted, so a running experiment ends; it served before, so no approval is
    asked. Raises CannotRevert, and what promoting and moving raise; nothing has changed then.
    """
    last = _find_move(model, name, move)
    told = " ".join(reason.split())[:LONGEST_REASON] or f"reverts the move of {last.moved_at:%-d %B %Y, %H:%M} UTC"
    if name == AliasName.CHAMPION:
        assert last.before is not None
        promote_version(by=by, version=last.before, reason=told, reverts=last)
    else:
        with transaction.atomic():
            RegisteredModel.objects.select_for_update().get(id=model.id)
            _find_move(model, name, last.id)
            if last.before is not None:
                move_alias(by=by, version=last.before, name=name, reason=told)
            else:
                assert last.after is not None
                drop_alias(by=by, version=last.after, name=name, reason=told)
    made = find_last_move(model.id, name)
    assert made is not None
    return made


def _find_move(model: RegisteredModel, name: str, seen: uuid.UUID | None) -> AliasMove:
    """The last one, if it can be taken back. Raises CannotRevert."""
    last = find_last_move(model.id, name)
    if last is None:
        raise CannotRevert(f"The alias {model}@{name} was never moved.")
    if seen is not None and last.id != seen:
        raise CannotRevert(f"{model}@{name} has moved since: to {last.after or 'nowhere'}, by {last.by}.")
    if name == AliasName.CHALLENGER:
        raise CannotRevert("Experiments move the challenger; stop the experiment instead.")
    if name == AliasName.CHAMPION and last.before is None:
        raise CannotRevert(f"{last.after} is the first champion of {model}: there is none before it.")
    return last
