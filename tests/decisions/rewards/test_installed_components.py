"""Components of installed packages: small packages in a folder that is put on the path."""

from __future__ import annotations

import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from decisions.rewards import checks
from decisions.rewards.components import COMPONENTS, Facts
from decisions.rewards.components.installed import GROUP, Table
from tests.docs.blocks import DOCS, blocks

PAGE = {block.language: block.code for block in reversed(blocks(DOCS / "rewards.md"))}
"""The first block of each language: the recipe for a package."""
RECIPE = tomllib.loads(PAGE["toml"])["project"]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package with one module and its entry points; returns the table with what is installed."""
    modules = []

    def one(package: str, module: str, code: str, target: str = "") -> Table:
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(code))
        told = tmp_path / f"{package.replace('-', '_')}-1.0.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (told / "entry_points.txt").write_text(f"[{GROUP}]\n{module} = {target or module + ':COMPONENTS'}\n")
        modules.append(module)
        return Table(COMPONENTS.own)

    monkeypatch.syspath_prepend(tmp_path)
    yield one
    for module in modules:
        sys.modules.pop(module, None)


def test_a_package_made_by_the_recipe_is_in_the_table(install) -> None:
    (target,) = RECIPE["entry-points"][GROUP].values()
    table = install(RECIPE["name"], target.partition(":")[0], PAGE["python"], target)
    assert table.refusals == []
    assert set(table) - set(COMPONENTS.own) == {"acme_rewards.latency"} and len(table) == len(list(table))
    latency = table["acme_rewards.latency"]
    value = latency.function(Facts(measures={"latency_ms": 250}), latency.parameters)
    assert value == -0.25
    assert table["verdict"] is COMPONENTS["verdict"] and "acme_rewards.other" not in table


ROW = """
    from decisions.rewards.components import Component
    COMPONENTS = Component({name!r}, {horizon!r}, {function}, "x", {low}, 1{more})
"""


def row(
    *,
    name: str = "bad.one",
    horizon: str = "delayed",
    function: str = "lambda f, p: None",
    low: str = "0",
    more: str = "",
) -> str:
    return ROW.format(name=name, horizon=horizon, function=function, low=low, more=more)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_of_this_name", "it cannot be loaded: ModuleNotFoundError"),
        ("raise SystemError('no')", "it cannot be loaded: SystemError: no"),
        ("OTHER = 1", "it cannot be loaded: AttributeError"),
        ("COMPONENTS = [3]", "int is not a Component"),
        (row(name="verdict"), "the name 'verdict' must be bad."),
        (row(name="acme_rewards.latency"), "must be bad."),
        (row(name="bad.One"), "must be bad."),
        (row(low="1"), "low 1 and high 1 must be finite"),
        (row(low="float('-inf')"), "must be finite"),
        (row(horizon="soon"), "the horizon 'soon' must be one of"),
        (row(function="lambda facts: 0.0"), "must take two arguments"),
        (row(function="7"), "must take two arguments"),
        (row(function="lambda f, p: 2.0"), "without any facts it gives 2.0"),
        (row(function="lambda f, p: f.trace.steps"), "without any facts it raises AttributeError"),
        (row(more=", reads=frozenset({'mind'})"), "it reads mind"),
        (row(more=", parameters={'x': float('nan')}"), "x must be a number"),
        (row(more=", scope='world'"), "the scope 'world'"),
    ],
)
def test_a_broken_package_is_refused_by_name_and_harms_no_other(
    install, code: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("acme-rewards", "acme_rewards", PAGE["python"])
    table = install("bad", "bad_one", code)
    assert "acme_rewards.latency" in table and "bad.one" not in table
    (refusal,) = table.refusals
    monkeypatch.setattr(checks, "COMPONENTS", table)
    assert [warning.msg for warning in checks.check_installed_components()] == [str(refusal)]
    assert str(refusal).startswith("bad, entry point 'bad_one': ") and reason in str(refusal)


def test_a_name_given_twice_is_refused(install) -> None:
    table = install("bad", "bad_one", row().replace("COMPONENTS = ", "ONE = ") + "    COMPONENTS = [ONE, ONE]\n")
    assert [refusal.reason for refusal in table.refusals] == ["bad.one is defined twice"]
    assert set(table) == set(COMPONENTS.own)
