"""The floors: who may import whom, whose rows may point at whose, and what web and worker never load."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from celery import current_app
from django.apps import apps
from django.core.management import call_command

from jobs.registry import list_kinds

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("workspaces", "jobs", "models_registry", "decisions", "training", "project")  # lowest first
PROGRAMS = ("tests", "benchmarks", "docs", "tools")
SOURCES = {".py", ".html"}
AUDITED = {"decisions.dropped"}  # an entry of the audit log whose name begins like a floor's
HEAVY = ("torch", "transformers", "peft", "trl", "accelerate", "scipy.stats")  # of scipy the special functions
# What a web process and a worker load: settings, apps, every URL, the Celery application and all its tasks.
LOAD_EVERYTHING = f"""
import sys
import django
django.setup()
from django.urls import get_resolver
list(get_resolver().reverse_dict)
from project.celery import app
app.loader.import_default_modules()
assert "jobs.run" in app.tasks, sorted(app.tasks)
import project.wsgi
assert "scipy.special" in sys.modules
print(sorted(name for name in {HEAVY!r} if name in sys.modules))
"""


@pytest.mark.slow
def test_import_contracts_hold():
    finished = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def imported(path: Path, names: set[str]) -> set[str]:
    """Which of these first names a file imports, inside functions too. Only a file that has one beside `import` or
    `from` is parsed."""
    text = path.read_text(encoding="utf-8")
    if re.search(rf"^\s*(?:import|from)\b[^\n]*\b(?:{'|'.join(names)})\b", text, re.MULTILINE) is None:
        return set()
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found & names


@pytest.mark.parametrize("room", PROGRAMS)
def test_tests_benchmarks_and_docs_share_tools_and_import_none_of_each_other(room):
    others = set(PROGRAMS) - {room, "tools"}
    across = {str(path.relative_to(ROOT)): imported(path, others) for path in (ROOT / room).rglob("*.py")}
    assert {path: names for path, names in across.items() if names} == {}


def test_files_of_tests_have_names_of_their_own():
    """Folders of tests are no packages: pytest would take a second file for the first."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_job_kind_and_module_that_is_named_in_quotes_is_there():
    quoted = re.compile(rf"""["']((?:{"|".join(FLOORS)})\.[a-z_]+)["']""")
    files = [path for room in (*FLOORS, "templates") for path in (ROOT / room).rglob("*.*") if path.suffix in SOURCES]
    named = {
        (name, str(path.relative_to(ROOT)))
        for path in files
        if "migrations" not in path.parts
        for name in quoted.findall(path.read_text(encoding="utf-8"))
    }
    known = {*list_kinds(), *current_app.tasks, *AUDITED}
    assert [one for one in sorted(named) if one[0] not in known and importlib.util.find_spec(one[0]) is None] == []


def test_relations_point_down_the_floors_or_stay():
    upward = []
    for model in apps.get_models():
        if model._meta.app_label not in FLOORS:
            continue
        for field in model._meta.get_fields():
            if field.auto_created or not field.is_relation:
                continue
            target = field.related_model._meta.app_label
            if target in FLOORS and FLOORS.index(target) > FLOORS.index(model._meta.app_label):
                upward.append(f"{model._meta.label}.{field.name} → {target}")
    assert upward == []


@pytest.mark.slow
def test_web_and_worker_load_nothing_of_the_torch_family_nor_the_whole_of_scipy(django_db_setup):
    """Seconds and hundreds of megabytes, in every worker."""
    finished = subprocess.run(
        [sys.executable, "-c", LOAD_EVERYTHING],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings_test"},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == "[]"


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_hints_go_to_the_project_s_broker_from_every_thread(settings):
    """Web processes answer in threads; Celery's current application is thread-local unless it is the default."""
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(lambda: (current_app.main, current_app.conf.broker_url)).result()
    assert there == ("reckoner", settings.REDIS_URL)
