"""Environments of packages that an operator installed, for the tests of this and the engine's folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).resolve().parents[3] / "examples" / "custom_domain_template.py"
PLUGIN = '''
"""The template, one whose grader fails now and then, and one that pays for waiting."""
from training.engine.environments.protocol import EnvironmentFault
from custom_domain_template import Lamps


class Flickering(Lamps):
    name = "flickering"

    def checkpoints(self):
        if self.task.facts["wanted"] == ["green"]:
            raise EnvironmentFault("the panel's sensor does not answer")
        return super().checkpoints()


class Idle(Lamps):
    name = "idle"

    def act(self, action):
        return super().act(action) + (1.0 if action == "wait" else 0.0)
'''
ENTRY_POINTS = """[reckoner.environments]
lamps = custom_domain_template:Lamps
flickering = flickering_lamps:Flickering
idle = flickering_lamps:Idle
broken = no_such_module:Nothing
"""


def install(folder: Path) -> Path:
    """A folder that is on the path like an installed package, with its entry points."""
    (folder / "custom_domain_template.py").write_text(TEMPLATE.read_text())
    (folder / "flickering_lamps.py").write_text(PLUGIN)
    info = folder / "lamp_tasks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lamp-tasks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The template's package, as if the operator had installed it."""
    folder = install(tmp_path_factory.mktemp("site"))
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for module in ("custom_domain_template", "flickering_lamps"):
        sys.modules.pop(module, None)
