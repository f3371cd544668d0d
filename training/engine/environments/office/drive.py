"""The office's drive: who may read a file, and which folder it lies in."""

from __future__ import annotations

from training.engine.environments.office.files import find_file
from training.engine.environments.office.tables import ToolError
from training.engine.environments.office.world import World


def share_file(world: World, file: str, person: str) -> str:
    _at_hand(world, file)
    share = (file, world.person(person))
    if share not in world.shares:
        world.shares.append(share)
    return "shared"


def move_file(world: World, file: str, folder: str) -> str:
    _at_hand(world, file)
    world.folders[file] = folder
    return "moved"


def list_shares(world: World, file: str) -> str:
    _at_hand(world, file)
    return ", ".join(person for one, person in world.shares if one == file) or "nobody"


def _at_hand(world: World, file: str) -> None:
    if not file:
        raise ToolError("no file at hand")
    find_file(world, file)
