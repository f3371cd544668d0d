"""The glossary and docs/vocabulary.md: every term is met where its entry says, and a refused word is found nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.urls import URLPattern, URLResolver, get_resolver

from tests.docs.blocks import DOCS, ROOT
from tools import glossary
from tools.openapi import whole_document
from workspaces.glossary import ENTRIES, find_entry

PAGE = DOCS / "vocabulary.md"
FLOORS = ("project", "training", "decisions", "models_registry", "jobs", "workspaces")


def refused() -> dict[str, str]:
    """Each word of the page's second list with those to use instead."""
    listed = PAGE.read_text(encoding="utf-8").partition("## Words that are not used\n")[2]
    lines = re.findall(r"^- (.+): (.+)$", listed, re.MULTILINE)
    return {word: instead for words, instead in lines for word in words.split(", ")}


REFUSED = refused()


def url_names(patterns: Any = None, namespace: str = "") -> Iterator[str]:
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from url_names(pattern.url_patterns, inner)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield f"{namespace}{pattern.name}"


def api_names() -> set[str]:
    """Names of fields, parameters and schemas of the API, at any depth."""
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("properties"), dict):
                found.update(node["properties"])
            if "in" in node and isinstance(node.get("name"), str):
                found.add(node["name"])
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    document = whole_document()
    walk(document)
    return found | set(document["components"]["schemas"])


def model_names() -> set[str]:
    """`Decision`, `Decision.action` and `action`, for every model and column of ours."""
    found = set()
    for model in apps.get_models():
        if model._meta.app_label in FLOORS:
            fields = {field.name for field in model._meta.get_fields()}
            found |= {model.__name__} | fields | {f"{model.__name__}.{field}" for field in fields}
    return found


def test_every_word_is_met_where_its_entry_says() -> None:
    known = set(url_names()) | api_names() | model_names()
    for one in ENTRIES:
        assert one.met, one.term
        missing = [place for place in one.met if place not in known and not ("/" in place and (ROOT / place).is_file())]
        assert missing == [], one.term


def test_the_page_lists_the_glossary() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert glossary.write_list() in text and glossary.render(text) == text, "run python -m tools.glossary"
    assert len({one.term for one in ENTRIES}) == len(ENTRIES)


def test_a_page_explains_a_term_of_the_glossary_once() -> None:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        terms = re.findall(r'\{% term "([^"]+)"', path.read_text(encoding="utf-8"))
        assert len(set(terms)) == len(terms), path
        for name in terms:
            assert find_entry(name).plain, path


def found_in(text: str) -> list[str]:
    """Refused words in a text: whole, in the plural, in any case, joined by a hyphen or an underscore too."""
    return [
        word
        for word in REFUSED
        if re.search(rf"(?<![a-z]){re.sub(' ', '[ _-]', word)}s?(?![a-z])", " ".join(text.split()), re.IGNORECASE)
    ]


def visible(template: Path) -> str:
    """What a template shows: no comments, no tags of either kind, but the attributes that are read out."""
    text = template.read_text(encoding="utf-8")
    said = re.findall(r'(?:aria-label|title|placeholder|alt)="([^"]*)"', text)
    text = re.sub(r"\{#.*?#\}|\{% comment.*?endcomment %\}|<svg.*?</svg>", " ", text, flags=re.DOTALL)
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", " ", text, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", text) + " ".join(said)


def test_pages_show_no_refused_word() -> None:
    templates = sorted((ROOT / "templates").rglob("*.html"))
    assert len(templates) > 20
    found = {str(path.relative_to(ROOT)): found_in(visible(path)) for path in templates}
    assert {path: words for path, words in found.items() if words} == {}


def test_the_api_names_no_refused_word() -> None:
    names = api_names()
    assert len(names) > 100
    assert {name: found_in(name) for name in names if found_in(name)} == {}


@pytest.mark.parametrize("text", ["The Trial ended.", "two trials", "reward_score", "ground\ntruth", "LIVE MODEL"])
def test_a_refused_word_would_be_found(text: str) -> None:
    assert found_in(text) != []


@pytest.mark.parametrize("text", ["trialogue", "operating", "industrial", "grounds", "bracket"])
def test_other_words_are_let_alone(text: str) -> None:
    assert found_in(text) == []
