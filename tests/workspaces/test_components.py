"""The tags that pages are made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template import Context, Template

from workspaces.templatetags.components import icon, icon_names

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def rendered(source: str, **values: object) -> str:
    return Template("{% load components %}" + source).render(Context(values))


def test_an_icon_is_decoration_unless_it_is_named_and_an_unknown_one_fails() -> None:
    assert 'aria-hidden="true"' in icon("check")
    assert 'role="img" aria-label="a &lt;b&gt;"' in icon("check", label="a <b>")
    with pytest.raises(KeyError, match="no icon 'chekc'"):
        icon("chekc")


def test_templates_name_icons_that_are_there() -> None:
    named = {
        (path.name, name)
        for path in TEMPLATES.rglob("*.html")
        for name in re.findall(r'\{% icon "([^"]+)"|\bicon="([^"]+)"', path.read_text(encoding="utf-8"))
        for name in name
        if name
    }
    assert len(named) > 20
    assert {(path, name) for path, name in named if name not in icon_names()} == set()


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([1, 3, 2], "M0.0,22.0 L50.0,2.0 L100.0,12.0"),
        ([5, 5], "M0.0,12.0 L100.0,12.0"),
        ([None, float("nan"), 7], "M0.0,12.0 L100.0,12.0"),
    ],
    ids=["rises and falls", "flat", "too few"],
)
def test_a_sparkline_spans_its_box(values: list[float], line: str) -> None:
    assert f'd="{line}"' in rendered("{% sparkline values %}", values=values)


def test_blocks_keep_their_slot_and_escape_their_words() -> None:
    page = rendered(
        '{% crumb "Runs" "/runs" as crumbs %}{% page_header title crumbs=crumbs %}<a href="/x">{{ act }}</a>'
        "{% endpage_header %}",
        title="a <b>",
        act="go <on>",
    )
    assert '<h1 dir="auto">a &lt;b&gt;</h1>' in page and '<a href="/runs">Runs</a>' in page
    assert '<div class="page-actions"><a href="/x">go &lt;on&gt;</a></div>' in page
    assert "page-actions" not in rendered("{% page_header title %}  {% endpage_header %}", title="x")


def test_a_stats_arrow_follows_its_sign() -> None:
    assert "#arrow-down" in rendered('{% stat "Loss" "0.4" delta="−0.1" tone="ok" %}')
    assert "#arrow-up" in rendered('{% stat "Loss" "0.4" delta="+0.1" %}')
