"""What the processes that serve load before they answer: each second of it is one more after a crash."""

from __future__ import annotations

import subprocess
import sys

import pytest

from project.embedded.layout import PROJECT_ROOT

pytestmark = pytest.mark.slow
ENGINE = ("torch", "transformers", "pandas", "peft", "datasets", "sklearn", "pyarrow")
NUMBERS = ("numpy", "scipy")
GATEWAY = """
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
import django
django.setup()
from project.gateway.app import Gateway
"""


@pytest.mark.parametrize(
    ("loads", "unwanted"), [("import project.wsgi", ENGINE), (GATEWAY, ENGINE + NUMBERS)], ids=["web", "gateway"]
)
def test_no_process_that_serves_loads_the_engine_s_libraries(loads: str, unwanted: tuple[str, ...]) -> None:
    code = f"{loads}\nimport sys\nprint(*(name for name in {unwanted!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_web_collects_garbage_once_it_is_loaded() -> None:
    """It loads without, and gunicorn calls the hook before it forks."""
    look = "print(gc.isenabled())"
    code = f"import gc; from project.web import server; {look}; server.when_ready(None); {look}"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
