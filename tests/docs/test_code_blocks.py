"""The documentation's blocks of code run as they stand: page by page, in their order, on a real instance.

`sh` runs in bash, `python` in one namespace a page, both in an empty folder that has the repository's `.venv` and
`manage.py`; what a block exports, defines and writes is there for the next one. The instance is a live server, its
database, and a model server. Two things are replaced: the address that `make run` usually prints, and the start of
`manage.py` and of the engine, which are forked from a process that has imported what they need (tools/warm.py).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
import pytest
import yaml
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection

from project.demo.passages import TOPICS
from tests.docs.blocks import PAGES, ROOT, Block, blocks
from tools.model_server import running_model_server
from tools.warm import MANAGE, stand_in
from training.engine.environments.tasks import Task
from training.engine.rows.types import Labelled, Logged, Preference, Text
from training.engine.spec.run_spec import RunSpec
from training.imports.foreign_rows import FORMS, find_form
from training.imports.row_files import is_labelled
from training.runs import launcher

# Why a block may go without being run. A new reason is added here, where a reviewer sees it.
REASONS = {
    "starts the whole instance",  # `make run` itself: tests/project starts instances
    "needs an instance of its own",  # tests/project/embedded/test_backup.py runs the same commands
    "takes minutes",
    "installs",
    "needs Docker",
    "needs GSM8K's files",
    "needs the network",
    "needs a GPU",
    "needs a model that chats",  # tests/project/gateway runs both of OpenAI's clients
    "needs llama.cpp's server",  # tests/decisions/gateway/test_gguf_experiment.py makes the same calls
    "another program's",  # its configuration or client, which is not installed here
}
USUAL_ADDRESS = "http://127.0.0.1:8000"
NAMED_COMMAND = re.compile(r"^(?:\.venv/bin/python )?manage\.py (\w+)(.*)$")
# What a reader would paste into a shell. It must not hide as `text`, which nothing runs.
LOOKS_LIKE_SHELL = re.compile(r"^(?:\$ |sudo |make |git |curl |export |docker |python3? |pip |\.venv/)", re.MULTILINE)
SECONDS_A_BLOCK = 120


# What each language is held to without being run


def check_text(block: Block) -> None:
    """A formula, a layout, or the synopsis of a command: then its flags are the command's own, all of them."""
    assert not LOOKS_LIKE_SHELL.search(block.code), f"{block.place}: this is `sh`"
    for line in block.code.splitlines():
        if command := NAMED_COMMAND.match(line):
            name, arguments = command.groups()
            assert flags_of(name) == set(re.findall(r"--[a-z][a-z-]*", arguments)), f"{block.place}: {name}"


def flags_of(name: str) -> set[str]:
    def flags(command: BaseCommand) -> set[str]:
        return {flag for action in command.create_parser("", name)._actions for flag in action.option_strings}

    return flags(load_command_class(get_commands()[name], name)) - flags(BaseCommand())


def check_dotenv(block: Block) -> None:
    """Lines NAME=value; names of ours are documented settings."""
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for line in block.code.splitlines():
        if line and not line.startswith("#"):
            name = re.match(r"([A-Z][A-Z0-9_]*)=", line)
            assert name, f"{block.place}: {line}"
            assert not name[1].startswith("RECKONER_") or f"`{name[1]}`" in settings, f"{block.place}: {name[1]}"


def check_json(block: Block) -> None:
    given = json.loads(block.code)
    if block.mark.startswith("checked by "):
        JSON_CHECKS[block.mark.removeprefix("checked by ")](given)


def check_yaml(block: Block) -> None:
    assert list(yaml.safe_load_all(block.code)) != [None], block.place


def check_toml(block: Block) -> None:
    assert tomllib.loads(block.code), block.place


def check_python(block: Block) -> None:
    compile(block.code, block.place, "exec")


def check_sh(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True)
    assert done.returncode == 0, f"{block.place}: {done.stderr}"


def is_row(kind: type[Any]) -> Callable[[Any], None]:
    def check(given: Any) -> None:
        assert list(msgspec.convert(given, kind).faults()) == []

    return check


def check_forms_of_rows(given: Any) -> None:
    """Rows of docs/row-files.md: labelled ones, and one of each form."""
    forms = [find_form(row).name for row in given if not is_labelled(row)]
    assert len(forms) < len(given) and set(forms) == {form.name for form in FORMS}
    assert all(find_form(row).read(row) for row in given if not is_labelled(row))


JSON_CHECKS: dict[str, Callable[[Any], Any]] = {
    "the labelled row": is_row(Labelled),
    "the logged row": is_row(Logged),
    "the preference row": is_row(Preference),
    "the text row": is_row(Text),
    "the task row": is_row(Task),
    "the forms of rows": check_forms_of_rows,
    "the run spec": RunSpec.model_validate,
}
CHECKS: dict[str, Callable[[Block], None]] = {
    "text": check_text,
    "json": check_json,
    "yaml": check_yaml,
    "dotenv": check_dotenv,
    "toml": check_toml,
    "python": check_python,
    "sh": check_sh,
    "sql": lambda block: None,  # planned by the database when its page is performed
}
RUN = {"sh", "python", "sql"}
# What a newcomer follows, wherever it may be; the others begin as the README has left the instance.
README = ROOT / "README.md"
ON_AN_EMPTY_INSTANCE = (README, ROOT / "docs" / "clients.md", ROOT / "docs" / "traces.md")
ALL_BLOCKS = [block for page in PAGES for block in blocks(page)]
PERFORMED = [page for page in PAGES if any(block.language in RUN and block.not_run is None for block in blocks(page))]


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_each_block_says_its_language_and_is_well_formed() -> None:
    faults = []
    for block in ALL_BLOCKS:
        try:
            check(block)
        except Exception as error:  # noqa: BLE001 - each language has its own; all are named
            faults.append(f"{block.place}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


def check(block: Block) -> None:
    assert block.language, f"{block.place}: fence it and say its language"
    if block.not_run is not None:
        assert block.not_run in REASONS, f"{block.place}: {block.not_run!r} is no known reason"
        assert block.language in RUN, f"{block.place}: `{block.language}` is never run, the mark says nothing"
        if block.language in CHECKS:
            CHECKS[block.language](block)
        return
    assert block.language in CHECKS, f"{block.place}: nothing here checks `{block.language}`"
    CHECKS[block.language](block)


def test_most_that_could_run_does() -> None:
    """`python -m tests.docs.blocks` lists those that do not."""
    marked = [block for block in ALL_BLOCKS if block.not_run is not None]
    run = [block for block in ALL_BLOCKS if block.language in RUN and block.not_run is None]
    assert len(run) > len(marked), [block.place for block in marked]


# The instance that pages are performed on


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A script that stands for `.venv/bin/python`, for every page: Django is set up in the first one's environment."""
    folder = tmp_path_factory.mktemp("commands")
    manage = shlex.join(stand_in(folder, MANAGE))
    yield f"""#!/bin/sh
case "$1 $2" in
"manage.py "*) shift; exec {manage} "$@" ;;
"-m training.engine") shift 2; exec {shlex.join(launcher.ENGINE)} "$@" ;;
esac
exec {sys.executable} "$@"
"""
    shutil.rmtree(folder)  # the process to fork from ends


@pytest.fixture(scope="module")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Store and address of one model server for every page."""
    from django.conf import settings

    artifacts = tmp_path_factory.mktemp("documentation") / "artifacts"
    with running_model_server(artifacts, settings.MODEL_SERVER_TOKEN) as address:
        yield artifacts, address


@pytest.fixture
def instance(
    page: Path, live_server: Any, by: Any, store: Path, model_server: tuple[Path, str], tiny_run: Path, settings: Any
) -> Iterator[tuple[dict[str, str], str]]:
    """An instance without an agent for the pages of ON_AN_EMPTY_INSTANCE, else what `make run` has after its loop.

    That is FILER with eight topics, its champion filer:1, and filer:2, not yet tried, and `solver`, which acts in
    environments; all are the tiny model of the tests, which has learnt other options: what it answers is of no account
    here. Yields the environment of a shell beside it, and the web server's address.
    """
    from decisions.agents.services import AgentSetup, create_agent
    from models_registry.backends.outbound import close_clients
    from models_registry.versions.services import NewVersion, register_version, store_artifact

    settings.RUNS = model_server[0].with_name("runs")
    artifacts, settings.MODEL_SERVER_URL = model_server
    settings.ARTIFACTS = str(artifacts)
    if page not in ON_AN_EMPTY_INSTANCE:
        setup = AgentSetup(prompt_template="{{ text }}", options=[topic.name for topic in TOPICS])
        agent = create_agent(by=by, slug="filer", name="Filer", kind="FILER", setup=setup)
        folder = tiny_run / "attempts" / "1" / "model"
        artifact = store_artifact(workspace=by.workspace, folder=folder, kind="model", meta={"made": "for tests"})
        acting = AgentSetup(prompt_template="{{ observation }}", max_prompt_tokens=64)
        solver = create_agent(by=by, slug="solver", name="Solver", setup=acting)
        register_version(by=by, model=solver.registered_model, new=NewVersion(artifact=artifact, method="pretrain"))
        for method in ("pretrain", "posterior"):  # the newest versions, which pages list first
            register_version(by=by, model=agent.registered_model, new=NewVersion(artifact=artifact, method=method))
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    environment = os.environ | {
        "DATABASE_URL": urlunsplit(database),
        "RECKONER_ARTIFACTS": settings.ARTIFACTS,
        "RECKONER_RUNS": str(settings.RUNS),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "NO_PROXY": "127.0.0.1",
    }
    yield environment, live_server.url
    close_clients()


class Page:
    """Performs a page's blocks in order; every one sees what those before it left."""

    def __init__(self, folder: Path, environment: dict[str, str], address: str, python: str = "") -> None:
        self.folder = folder
        self.environment = environment
        self.address = address
        self.names: dict[str, Any] = {"__name__": "documentation"}
        self.printed = ""
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / ".venv" / "bin" / "python").write_text(python)
        (folder / ".venv" / "bin" / "python").chmod(0o755)
        (folder / "manage.py").symlink_to(ROOT / "manage.py")
        self.exported = folder.with_suffix(".exported")
        self.exported.touch()

    def sh(self, block: Block) -> None:
        """In bash, stopping at the first failure, also one inside a pipe."""
        script = (
            f"set -euo pipefail; . {self.exported}; set -a\n"
            + block.code.replace(USUAL_ADDRESS, self.address)
            + f"\nset +a; {{ export -p; declare -f; }} > {self.exported}\n"
        )
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_A_BLOCK,
        )
        assert done.returncode == 0, f"{block.place}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        self.printed = done.stdout

    def python(self, block: Block) -> None:
        exec(compile(block.code, block.place, "exec"), self.names)

    def sql(self, block: Block) -> None:
        with connection.cursor() as cursor:
            for statement in filter(str.strip, block.code.split(";")):
                cursor.execute(f"EXPLAIN {statement}")

    def answer(self, block: Block) -> None:
        """The documented answer has the shape of the one that came."""
        assert self.printed, f"{block.place}: no call before it printed anything"
        assert shape(json.loads(block.code)) == shape(json.loads(self.printed)), f"{block.place}: {self.printed}"

    def perform(self, block: Block, following: Block | None) -> None:
        """Runs the block, or compares it. An error that the API answers is a failure unless the page shows it."""
        if block.mark == "the answer":
            self.answer(block)
        elif block.language in RUN:
            getattr(self, block.language)(block)
            expected = following is not None and following.mark == "the answer"
            if block.language == "sh" and not expected and '{"error":' in self.printed.replace(" ", ""):
                raise AssertionError(f"{block.place}: {self.printed}")


def shape(value: Any) -> Any:
    """Keys and kinds of a JSON value; of a list, those of its first entry."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else "text"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
@pytest.mark.slow
@pytest.mark.xdist_group("documentation")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("page", PERFORMED, ids=relative)
def test_a_page_s_blocks_run_as_they_stand(
    page: Path, instance: tuple[dict[str, str], str], python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    monkeypatch.chdir(folder)
    performer = Page(folder, *instance, python)
    if page in ON_AN_EMPTY_INSTANCE and page != README:
        for block in blocks(README):
            if block.not_run is None and block.language in RUN:
                getattr(performer, block.language)(block)
    todo = [block for block in blocks(page) if block.not_run is None]
    errors = []
    for block, following in zip(todo, [*todo[1:], None], strict=True):
        try:
            performer.perform(block, following)
        except Exception as error:  # noqa: BLE001 - the blocks after it are performed, too
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"{relative(page)}: {len(errors)} blocks failed", errors)


def test_every_marked_answer_follows_a_call_and_every_check_is_known() -> None:
    for page in PAGES:
        before: Block | None = None
        for block in blocks(page):
            if block.mark == "the answer":
                assert before is not None and before.language == "sh", block.place
                assert block.language == "json", block.place
            elif block.mark.startswith("checked by "):
                assert block.language == "json" and block.mark.removeprefix("checked by ") in JSON_CHECKS, block.place
            before = block


def of(language: str, code: str, mark: str = "", line: int = 1) -> Block:
    return Block(ROOT / "README.md", line, language, mark, code)


class TestTheChecksThemselves:
    """Each kind of broken block is found."""

    def test_a_broken_block_is_found(self) -> None:
        for language, code in (
            ("json", '{"a": …}'),
            ("yaml", "a: [1"),
            ("python", "def f(:"),
            ("sh", "if true; then"),
            ("dotenv", "RECKONER_NO_SUCH_SETTING=1"),
            ("text", "curl http://127.0.0.1"),
            ("text", "manage.py create_key NAME --scope SCOPE"),
        ):
            with pytest.raises((AssertionError, ValueError, SyntaxError, yaml.YAMLError)):
                check(of(language, code))
                pytest.fail(f"{language}: {code}", pytrace=False)

    def test_a_row_that_the_engine_would_refuse_is_found(self) -> None:
        row = {"id": "1", "prompt": "p", "options": ["a", "b"], "answer": "c"}
        with pytest.raises(AssertionError):
            JSON_CHECKS["the labelled row"](row)

    @pytest.fixture
    def page(self, tmp_path: Path) -> Page:
        folder = tmp_path / "copy"
        folder.mkdir()
        return Page(folder, dict(os.environ), "http://127.0.0.1:1")

    def test_shell_blocks_share_variables_and_stop_at_a_failure(self, page: Page) -> None:
        page.sh(of("sh", f"A=1 B={USUAL_ADDRESS}/x; C='two words'"))
        page.sh(of("sh", 'echo "$A $B $C"'))
        assert page.printed == "1 http://127.0.0.1:1/x two words\n"
        with pytest.raises(AssertionError, match=r"README\.md:9"):
            page.sh(of("sh", "false | cat; echo on", line=9))

    def test_an_answer_of_another_shape_is_found(self, page: Page) -> None:
        page.printed = '{"kept": [{"index": 0, "duplicate": false}], "errors": []}'
        page.answer(of("json", '{"kept": [{"index": 7, "duplicate": true}], "errors": []}'))
        for other in (
            '{"kept": [{"index": "7", "duplicate": true}], "errors": []}',
            '{"kept": [], "errors": []}',
            "[]",
        ):
            with pytest.raises(AssertionError):
                page.answer(of("json", other))

    def test_an_error_that_the_page_does_not_show_is_a_failure(self, page: Page) -> None:
        refused = of("sh", """echo '{"error": {"code": "not_found"}}'""")
        page.perform(refused, of("json", '{"error": {"code": "x"}}', "the answer"))
        with pytest.raises(AssertionError, match="not_found"):
            page.perform(refused, None)

    @pytest.mark.django_db
    def test_sql_is_planned_by_the_database(self, page: Page) -> None:
        page.sql(of("sql", "SELECT count(*) FROM decisions_decision; SELECT 1;"))
        with pytest.raises(DatabaseError):
            page.sql(of("sql", "SELECT no_such_column FROM decisions_decision"))
