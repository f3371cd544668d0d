"""The table of methods holds what the engine, the forms and the docs say of them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.core.management import load_command_class

from training.engine.data.row_types import ROW_TYPES
from training.engine.spec.methods import METHODS, TEXT_ROOM, TRAINING, WHAT_LACKS, Method, Need, RowKind
from training.engine.spec.run_spec import RunSpec

ENGINE_DOCS = Path(__file__).parents[3] / "docs" / "engine.md"


def line_of(method: Method) -> str:
    kinds = ((kind, ", ".join(sorted(needs))) for kind, needs in method.learns_from.items())
    rows = "; ".join(f"{kind}: {needs}" if needs else kind for kind, needs in kinds)
    return f"| `{method.name}` | {method.sentence} | {rows or 'none'} |"


def test_docs_list_every_method_with_what_it_needs() -> None:
    told = ENGINE_DOCS.read_text()
    assert [line for line in map(line_of, METHODS.values()) if line not in told] == []


@pytest.mark.parametrize("name", TRAINING)
def test_a_method_has_code_and_settings_of_its_own(name: str) -> None:
    method = TRAINING[name]
    for kind in method.learns_from:
        module, function = method.entry_for(kind).split(":")
        if module.startswith(TEXT_ROOM):  # loading TRL takes seconds, which its own tests spend
            assert find_spec(module) is not None and function == "train"
        else:
            assert callable(getattr(import_module(module), function))
    assert not method.settings or method.settings in RunSpec.model_fields


def test_every_kind_and_need_is_known() -> None:
    assert set(ROW_TYPES) == set(RowKind) and set(WHAT_LACKS) == set(Need)


def test_what_a_method_lacks_is_told_all_at_once() -> None:
    weighted = METHODS["reward_weighted"]
    assert weighted.find_lacks(RowKind.LOGGED, []) == [Need.ANY_PROPENSITY, Need.REWARDS]
    assert weighted.find_lacks(RowKind.LOGGED, [Need.ANY_PROPENSITY, Need.REWARDS]) == []


@pytest.mark.parametrize("command", ["train", "pipeline"])
def test_help_says_what_each_method_does_and_where_it_is_weak(command: str) -> None:
    told = " ".join(load_command_class("training", command).create_parser("manage.py", command).format_help().split())
    assert [method.name for method in TRAINING.values() if method.does.replace("; ", ", ") not in told] == []
    assert [method.name for method in TRAINING.values() if method.weak not in told] == []
