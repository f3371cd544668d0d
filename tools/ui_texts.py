"""Every text that people read in the product, with its place: `python -m tools.ui_texts` writes docs/ui-texts.txt.

Templates give their text, the attributes that are read out or shown, and the strings that they hand to parts of pages.
Python gives sentences and labels: whatever has words and is no documentation, SQL or line of the log. Scripts give
the same. `{name}` is a value, `[one | other]` what depends on a condition.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator
from functools import cache

from tools.instance import ROOT

PAGE = ROOT / "docs" / "ui-texts.txt"
APPS = ("decisions", "jobs", "models_registry", "project", "sandbox", "training", "workspaces")
LEFT_OUT = {"migrations"}
ATTRIBUTES = r"aria-label|title|placeholder|alt|data-tip|data-label|data-command|data-notify|data-confirm"
INLINE = r"</?(?:a|abbr|b|code|em|i|kbd|span|strong|small|sup|sub|time|button)(?=[\s>])[^<>]*>"
CONDITIONS = {"if": "[", "elif": " | ", "else": " | ", "empty": " | ", "endif": "]"}
NO_TEXT = {"load", "extends", "url", "static", "block", "with", "csrf_token", "icon", "for"}
NOT_SHOWN = {"icon", "kind", "id", "path", "into", "language"}
NAMED = {"label", "title", "says", "help_text", "subtitle", "text", "name", "unit", "action", "explanation", "because"}
SQL = re.compile(r"\b(?:SELECT|UPDATE|INSERT|DELETE|CREATE|ALTER|WHERE|FROM|JOIN|DROP|NULL|VALUES|COALESCE|COPY|SET)\b")
MARKUP = re.compile(
    r"<[a-z/!]|\{%|\\[ds]|^[\w.-]+/[\w./-]+$|^\W+$|var\(--|[;{]\s*$|^--|^%|application/|=>|%\(|::"
    r"|^\s*import \w+,|^while True\b"  # programs that the sandbox tries itself with
)


def template_texts(source: str) -> Iterator[str]:
    """Texts of a Django template in their order, the attributes' last."""
    source = re.sub(
        r"\{#.*?#\}|\{% comment.*?endcomment %\}|<!--.*?-->|<(script|style|svg)\b.*?</\1>|\{% block width %\}\w+",
        " ",
        source,
        flags=re.S,
    )
    handed: list[str] = []

    def tag(found: re.Match[str]) -> str:
        words = found[1].split()
        if words[0] == "block" and words[1:] == ["title"]:
            return "\n"
        if words[0] not in NO_TEXT | CONDITIONS.keys():
            literals = re.findall(r'(?:(\w+)=)?"([^"]*)"', found[1])
            handed.extend(text for name, text in literals if name not in NOT_SHOWN and is_text(text, single=True))
        return CONDITIONS.get(words[0], "" if words[0] in {"for", "endfor", "endwith", "with", "icon", "url"} else "\n")

    source = re.sub(r"\{%-?\s*(.*?)\s*-?%\}", tag, source, flags=re.S)
    source = re.sub(r"\{\{\s*(.*?)\s*\}\}", lambda found: "{" + _named(found[1]) + "}", source, flags=re.S)
    flowing = re.sub(INLINE, "", re.sub(r"(</\w+>)(?=<\w)", r"\1 ", source))
    for part in re.split(r"\n|<[^<>]*>", flowing):
        whole = part.count("[") == part.count("]")
        yield from _one(part if whole else part.strip("[|] "))
    for text in re.findall(rf'(?<![\w-])(?:{ATTRIBUTES})="([^"]*)"', source):
        yield from _one(text)
    for text in handed:
        yield from _one(text)


def _named(expression: str) -> str:
    """`decision.agent.name|plain` → `name`."""
    return expression.split("|")[0].split(".")[-1].strip("\"'")


def _one(text: str) -> Iterator[str]:
    text = " ".join(html.unescape(text).split())
    if re.search(r"[A-Za-z]{2}", re.sub(r"\{[^}]*\}|[\[\]|]", "", text)):
        yield text


def is_text(text: str, *, single: bool = False) -> bool:
    """Whether a string is for people: two words of letters, or with `single` a word that begins with a capital."""
    if MARKUP.search(text) or SQL.search(text):
        return False
    words = re.findall(r"[A-Za-z’']{2,}|\b[aI]\b", text)
    return (len(words) > 1 and " " in text.strip()) or (single and re.match(r"[A-Z][a-z]+", text) is not None)


def python_texts(source: str) -> Iterator[str]:
    """Sentences and labels of a module in their order."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    named: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        elif isinstance(node, ast.Call):
            called = _called(node.func)
            if re.search(r"\b(?:log|logger|re|cursor|warnings)\.\w+$|\bexecute$|logging|getLogger|RunPython", called):
                skipped.update(id(inner) for inner in ast.walk(node))
            named.update(id(keyword.value) for keyword in node.keywords if keyword.arg in NAMED)
            if called.startswith("models.") or called.endswith(("extend_schema", "OpenApiParameter", "OpenApiExample")):
                skipped.update(id(inner) for inner in ast.walk(node))
        elif isinstance(node, ast.AnnAssign):
            skipped.update(id(inner) for inner in ast.walk(node.annotation))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(id(inner) for inner in ast.walk(node) if isinstance(inner, ast.Constant))
    for node in _in_order(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{" + _short(part) + "}" for part in node.values)
            text = "".join(map(str, parts))
        else:
            continue
        if is_text(text, single=id(node) in named):
            yield from _one(text)


def _short(part: ast.AST) -> str:
    text = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
    return text if re.fullmatch(r"[\w.]+", text) else "…"


def _called(function: ast.expr) -> str:
    """What is called: `a.b` as it is written; ast.unparse alone takes ten times as long."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        return f"{_called(function.value)}.{function.attr}"
    return ast.unparse(function)


def _in_order(tree: ast.AST) -> Iterator[ast.AST]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def script_texts(source: str) -> Iterator[str]:
    source = re.sub(r"/\*.*?\*/|(?<=\s)//[^\n]*", "", source, flags=re.S)
    for double, template in re.findall(r'"((?:[^"\\\n]|\\.)*)"|`([^`]*)`', source):
        text = re.sub(r"\$\{([^}]*)\}", "{…}", double or template)
        if is_text(text) and not re.match(r"[.#\[]|use strict|\w+\[|details|input", text):
            yield from _one(text)


@cache
def all_texts() -> dict[str, list[str]]:
    """Texts by their file, each once per file. Read once per process."""
    found: dict[str, list[str]] = {}
    templates = sorted((ROOT / "templates").rglob("*.html"))
    scripts = sorted((ROOT / "static" / "js").rglob("*.js"))
    modules = [path for app in APPS for path in sorted((ROOT / app).rglob("*.py")) if not LEFT_OUT & set(path.parts)]
    for paths, texts in ((templates, template_texts), (scripts, script_texts), (modules, python_texts)):
        for path in paths:
            held = list(dict.fromkeys(texts(path.read_text(encoding="utf-8"))))
            if held:
                found[str(path.relative_to(ROOT))] = held
    return found


def render() -> str:
    """The file's text: a place on a line of its own, and its texts below, indented."""
    blocks = ["\n".join([place, *(f"    {text}" for text in texts)]) for place, texts in all_texts().items()]
    head = "Every text of the product with its place. Generated: python -m tools.ui_texts"
    return "\n\n".join([head, *blocks]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
