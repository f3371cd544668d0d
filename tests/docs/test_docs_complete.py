"""The documentation holds what the code has: settings, endpoints, commands, components, states. Its links resolve."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from django.core.management import BaseCommand, get_commands, load_command_class
from django.urls import URLPattern, URLResolver, get_resolver

from decisions.importers.formats import FORMATS
from models_registry.experiments.plan import ExperimentPlan
from models_registry.models import ExperimentState
from project.demo.loop import EXPERIMENT_PLAN
from tools import reference
from tools.documented import importer_faults, operation_faults, places
from tools.openapi import operations
from training.engine.spec import run_spec as engine
from training.engine.spec.architectures import ARCHITECTURES, TARGETS
from training.engine.spec.methods import METHODS, TRAINING
from training.run_states import TERMINAL_STATES, TRANSITIONS
from workspaces.access.actors import ROLE_SCOPES
from workspaces.errors import ReckonerError
from workspaces.http.api_errors import DRF_CODES
from workspaces.models import Scope

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
APPS = ("project", "training", "decisions", "models_registry", "jobs", "workspaces", "sandbox")
VARIABLE = re.compile(r"RECKONER_[A-Z_]+|DATABASE_URL|REDIS_URL")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Cells of every table row, headers and rules left out, with the escaped bars put back."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.match(r"^\|[-| ]+\|$", line)]
    return [
        [cell.strip().replace("\0", "|") for cell in line.replace(r"\|", "\0").strip("|").split("|")] for line in lines
    ]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def section(text: str, heading: str) -> str:
    """From a heading to the next one of its level or above."""
    level = heading.split(" ")[0]
    found = re.search(rf"^{re.escape(heading)}$(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading!r}"
    return found.group(1)


# Settings


def variables_in_code() -> set[str]:
    """Names of variables that stand as a whole string in the project's own code."""
    texts = (path.read_text(encoding="utf-8") for app in APPS for path in (ROOT / app).rglob("*.py"))
    return {
        node.value
        for text in texts
        if VARIABLE.search(text)  # few files name one, and parsing all takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLE.fullmatch(node.value)
    }


def defaults_in_settings() -> Iterator[tuple[str, str]]:
    """(variable, default) of every `env…` call whose default is written out."""
    for node in ast.walk(ast.parse((ROOT / "project" / "settings.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("env"):
            name, *rest = node.args
            if not isinstance(name, ast.Constant) or (rest and not isinstance(rest[0], ast.Constant)):
                continue
            default = rest[0].value if rest and isinstance(rest[0], ast.Constant) else False
            yield str(name.value), str(int(default)) if isinstance(default, bool) else str(default)


def documented_settings() -> dict[str, str]:
    found = {codes(row[0])[0]: row[1] for row in rows(read("settings.md")) if codes(row[0])}
    assert found
    return found


def test_every_setting_is_documented_and_no_other() -> None:
    assert set(documented_settings()) == variables_in_code()


def test_documented_defaults_are_the_code_s() -> None:
    written = dict(defaults_in_settings())
    assert len(written) > 12
    documented = documented_settings()
    for name, default in written.items():
        assert documented[name] == (f"`{default}`" if default else "empty"), name


# API


def api_patterns(patterns: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(path, pattern) of every named URL under /api/v1."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from api_patterns(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern) and path.startswith("api/v1/"):
            yield path, pattern


def as_documented(path: str) -> str:
    """`api/v1/runs/<uuid:pk>` as a reader writes it: `/runs/{id}`."""
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path).removeprefix("api/v1").replace("{pk}", "{id}")


def test_every_endpoint_is_documented_with_its_path_and_scope() -> None:
    in_code = {
        (method, as_documented(path), str(scope))
        for path, pattern in api_patterns()
        for method, scope in getattr(getattr(pattern.callback, "view_class", None), "scopes", {}).items()
    }
    assert len(in_code) > 20
    listed = re.findall(
        r"^\| \[(\w+) `/api/v1([^`]+)`\]\(\S+\) \| `([^`]+)` \| [A-Z].+\. \|$", read("api/README.md"), re.MULTILINE
    )
    assert set(listed) == in_code


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return reference.document()


def test_the_pages_of_the_operations_are_written_from_the_document(document: dict[str, Any]) -> None:
    """`python -m tools.reference` (or `make docs`) writes them again."""
    there = {path.name: path.read_text(encoding="utf-8") for path in reference.FOLDER.glob("*.md")}
    wanted = reference.pages(document)
    assert set(there) == set(wanted)
    assert [name for name, text in wanted.items() if there[name] != text] == []


def test_every_operation_has_its_place_with_scope_body_answer_errors_and_example(document: dict[str, Any]) -> None:
    held = places()
    every = list(operations(document))
    assert len(every) > 50
    faults = {
        f"{method} {path}": found
        for method, path, operation in every
        if (found := operation_faults(method, path, operation, held))
    }
    assert faults == {}
    known = {f"{method.upper()} {path}" for method, path, _ in every}
    assert {heading for heading in held if re.match(r"[A-Z]+ /", heading)} == known
    lacking = operation_faults("get", "/api/v1/nowhere", every[0][2], held)
    assert lacking == ["no place in docs/api"]


def test_every_importer_has_its_page_with_all_its_parts() -> None:
    assert {name: found for name in FORMATS if (found := importer_faults(name))} == {}
    assert {path.stem for path in (DOCS / "importing").glob("*.md")} == set(FORMATS)
    listed = rows(section(read("importing.md"), "## Formats"))[1:]
    assert {codes(cells[0])[0] for cells in listed} == set(FORMATS)
    assert importer_faults("parquet") == ["no page docs/importing/parquet.md"]


def test_every_scope_is_documented_with_the_roles_that_have_it() -> None:
    documented = {codes(cells[0])[0]: cells[2] for cells in rows(section(read("api.md"), "## Keys and scopes"))[1:]}
    assert set(documented) == set(Scope.values)
    for scope, roles in documented.items():
        assert set(roles.split(", ")) == {role for role, scopes in ROLE_SCOPES.items() if scope in scopes}, scope


def error_classes(base: type[ReckonerError] = ReckonerError) -> Iterator[type[ReckonerError]]:
    """Every error of ours that a client may see. The URLs load the views, and the views the errors."""
    for error in base.__subclasses__():
        if error.__module__.partition(".")[0] in APPS:
            yield error
            yield from error_classes(error)


def test_every_error_code_is_documented_under_its_status() -> None:
    list(api_patterns())
    documented = {
        code: cells[0]
        for cells in rows(section(read("api.md"), "## Errors"))[1:]
        for code in re.findall(r"`([a-z_]+)`", cells[1])
    }
    in_code = {error.code: error.status for error in error_classes()}
    in_code |= {code: status for status, code in DRF_CODES.items()}
    assert set(documented) == set(in_code)
    for code, status in in_code.items():
        assert str(status) in documented[code], code


# Commands


def our_commands() -> dict[str, BaseCommand]:
    return {name: load_command_class(app, name) for name, app in get_commands().items() if app in APPS}


def test_every_command_is_documented_with_its_flags() -> None:
    text = section(read("commands.md"), "## manage.py")
    commands = our_commands()
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == set(commands)
    common = {flag for action in BaseCommand().create_parser("", "")._actions for flag in action.option_strings}
    for name, command in commands.items():
        page = section(text, f"### {name}")
        flags = {flag for action in command.create_parser("manage.py", name)._actions for flag in action.option_strings}
        assert [flag for flag in flags - common if flag not in page] == [], name
        assert set(re.findall(r"--[a-z][a-z-]+", page)) <= flags, name
        assert "xit code" in page, f"{name}: say its exit codes"


def test_every_make_target_is_documented() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    text = read("commands.md")
    assert [target for target in targets if f"make {target}" not in text] == []


# Learning, runs, engine, experiments


def test_the_table_of_run_states_is_the_code_s() -> None:
    states, transitions = section(read("runs.md"), "## States").split("| from | to |")
    documented = {codes(cells[0])[0]: cells[1] for cells in rows(states)[1:]}
    assert set(documented) == {state.value for state in TRANSITIONS}
    assert {state for state, says in documented.items() if "Terminal." in says} == {s.value for s in TERMINAL_STATES}
    moves = {state: set(codes(cells[1])) for cells in rows(transitions) for state in codes(cells[0])}
    assert moves == {old.value: {new.value for new in following} for old, following in TRANSITIONS.items()}


def test_the_engine_s_spec_methods_events_and_exit_codes_are_documented() -> None:
    text = read("engine.md")
    fields = {codes(cells[0])[0] for cells in rows(section(text, "## Spec"))[1:]}
    assert fields == set(engine.RunSpec.model_fields)
    fields_of = engine.RunSpec.model_fields
    inner: list[Any] = [fields_of[one.settings].annotation for one in METHODS.values() if one.settings]
    inner += [engine.TinyShape, engine.Lora, engine.Optimiser]
    inner += [engine.Serving, engine.Evaluate, engine.Data, engine.RewardComponent]
    spec = section(text, "## Spec")
    assert [name for model in inner for name in model.model_fields if not re.search(rf"\b{name}\b", spec)] == []
    assert [codes(cells[0])[0] for cells in rows(section(text, "## Methods"))[1:]] == list(METHODS)
    from training.engine.attempt.events import Kind

    assert {codes(cells[0])[0] for cells in rows(section(text, "## Events"))[1:]} == set(get_args(Kind))
    exits = {int(cells[0]) for cells in rows(section(text, "## The folder"))[1:]}
    assert exits == {engine.EXIT_OK, engine.EXIT_FAILED, engine.EXIT_BAD_SPEC, engine.EXIT_STOPPED}


def test_every_method_has_its_formulas() -> None:
    text = read("learning.md")
    assert [method for method in TRAINING if not re.search(rf"^##.*`{method}`$", text, re.MULTILINE)] == []


def test_every_field_and_state_of_an_experiment_is_documented() -> None:
    text = read("experiments.md")
    fields = {codes(cells[0])[0] for cells in rows(section(text, "## Fields"))[1:]}
    assert fields == {"treatment", "reason"} | set(ExperimentPlan.__dataclass_fields__)
    assert set(codes(section(text, "## States"))) == set(ExperimentState.values)
    demo = (
        f"an exposure window of {EXPERIMENT_PLAN.exposure_window_seconds:g} s, an attribution window of "
        f"{EXPERIMENT_PLAN.attribution_window_seconds:g} s, {EXPERIMENT_PLAN.min_units_per_arm} units per arm and "
        f"{EXPERIMENT_PLAN.min_seconds:g} s of age"
    )
    assert demo in " ".join(text.split())


# Links


def anchors(text: str) -> set[str]:
    """As GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_relative_links_resolve() -> None:
    faults = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", target) and not leads_somewhere(page, target)
    ]
    assert not faults, "\n".join(faults)


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    to = (page.parent / path).resolve() if path else page
    return to.exists() and (not anchor or anchor in anchors(to.read_text(encoding="utf-8")))


def test_every_page_of_the_documentation_is_linked_from_somewhere() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", target)
    }
    linked |= {path / "README.md" for path in linked if path.is_dir()}
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in linked and page.name != "README.md"] == []


def test_the_architectures_are_those_of_the_table() -> None:
    table = rows(section(read("engine.md"), "## Architectures"))[1:]
    expected = [
        [known.title, f"`{name}`", *(_names(known.matrices.of(targets)) for targets in TARGETS),
         "yes", "yes" if known.matrices.usable() else "–", "yes", "yes", "yes",
         *("yes" if tried else "–" for tried in (known.onnx, known.gguf))]
        for name, known in ARCHITECTURES.items()
    ]  # fmt: skip
    assert table == expected


def _names(ends: tuple[str, ...] | None) -> str:
    return ", ".join(f"`{end}`" for end in ends) if ends else "–"
