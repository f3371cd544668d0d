"""All templates, and the draw of a task from one."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

from training.engine.environments.office.templates import (
    admin,
    data_science,
    finance,
    hr,
    pm,
    qa,
    research,
    sde,
    unseen,
)
from training.engine.environments.office.templates.drawing import Draw, Template
from training.engine.environments.tasks import Split

PROFESSIONS = (admin, hr, pm, sde, data_science, finance, research, qa)
TRAINED: tuple[Template, ...] = tuple(template for profession in PROFESSIONS for template in profession.TEMPLATES)
UNSEEN: tuple[Template, ...] = unseen.TEMPLATES


def draw_office(template: Template, number: int, split: Split) -> tuple[str, dict[str, Any]]:
    """The request and the facts of task `number`; always the same ones, and the same ones for no other split.

    What is drawn belongs to one of the splits by its own digest, and is drawn again until it belongs to the right one.
    """
    draw = random.Random(f"office/{template.name}/{split}/{number}")  # noqa: S311 - no secret
    while True:
        one = Draw(draw)
        request, facts = one.finish(template.make(one))
        if split_of(request, facts) == split:
            return request, facts


def split_of(request: str, facts: dict[str, Any]) -> Split:
    """A quarter of all that can be drawn is held out."""
    content = json.dumps([request, facts], sort_keys=True).encode()
    return "heldout" if hashlib.sha256(content).digest()[0] % 4 == 0 else "train"
