"""Template tags for components that need more than an include: icons, sparklines, and blocks with a slot.

`{% load components %}`. /components/ shows each in all its states.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from django import forms, template
from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import slugify

from workspaces.glossary import find_entry

register = template.Library()

SPRITE = "vendor/lucide/icons.svg"
NOTE_ICONS = {"": "info", "info": "info", "ok": "circle-check", "warn": "triangle-alert", "bad": "circle-alert"}


@cache
def icon_names() -> frozenset[str]:
    """What the sprite holds."""
    text = Path(str(finders.find(SPRITE))).read_text(encoding="utf-8")
    return frozenset(re.findall(r'<symbol id="([^"]+)"', text))


@register.simple_tag
@cache  # a list shows hundreds of the same few
def icon(name: str, size: str = "", *, label: str = "") -> SafeString:
    """One icon of the sprite. size: "", "small" (14 px) or "large" (20 px). Without a label it is decoration.

    Raises KeyError for a name that is not vendored: an empty square would be found by nobody.
    """
    if name not in icon_names():
        raise KeyError(f"no icon {name!r} in {SPRITE}")
    says = format_html('role="img" aria-label="{}"', label) if label else 'aria-hidden="true"'
    return format_html(
        '<svg class="icon{}{}" {}><use href="{}#{}"/></svg>',
        " " if size else "",
        size,
        SafeString(says),
        static(SPRITE),
        name,
    )


@register.simple_tag
def term(name: str, text: str = "") -> SafeString:
    """A term of the glossary whose meaning is its tooltip; `text` is shown instead of the term. Once a page.

    Raises KeyError for a term that the glossary does not have.
    """
    means = find_entry(name).plain
    return format_html(
        '<button type="button" class="term" id="term-{}" data-tip="{}" aria-description="{}">{}</button>',
        slugify(name),  # what is polled keeps the focus by its id
        means,
        means,
        text or name[0].upper() + name[1:],
    )


@register.inclusion_tag("partials/sparkline.html")
def sparkline(values: Sequence[float], tone: str = "", label: str = "") -> dict[str, str]:
    """Values in their order as a line, from the least (bottom) to the greatest. Fewer than two make a flat line."""
    known = [float(value) for value in values if isinstance(value, int | float) and math.isfinite(value)]
    if len(known) < 2:
        known = [0.0, 0.0]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    flat = high == low
    step = 100 / (len(known) - 1)
    points = (
        f"{number * step:.1f},{12.0 if flat else 22 - (value - low) / span * 20:.1f}"
        for number, value in enumerate(known)
    )
    return {"line": "M" + " L".join(points), "tone": tone, "label": label}


@register.inclusion_tag("partials/stat.html")
def stat(
    label: str,
    value: Any,
    *,
    unit: str = "",
    says: str = "",
    delta: str = "",
    tone: str = "",
    points: Sequence[float] | None = None,
    url: str = "",
) -> dict[str, Any]:
    """One number that matters. `value` and `delta` are written already; tone "ok" or "bad" colours the delta."""
    arrow = "" if not delta else "arrow-down" if delta.startswith(("−", "-")) else "arrow-up"
    return {
        "label": label,
        "value": value,
        "unit": unit,
        "says": says,
        "delta": delta,
        "delta_tone": tone,
        "delta_icon": arrow,
        "points": points,
        "url": url,
    }


@register.simple_tag
def crumb(*pairs: str) -> list[tuple[str, str]]:
    """`{% crumb "Runs" url "Filer" other as crumbs %}` for page_header: text and address in turns."""
    return list(zip(pairs[::2], pairs[1::2], strict=True))


@register.simple_block_tag(end_name="endpage_header")
def page_header(
    content: str, title: Any, *, subtitle: Any = "", crumbs: Sequence[tuple[str, str]] = (), state: Any = ""
) -> SafeString:
    """The head of a page; what stands between the tags are its actions, which the palette offers too."""
    values = {
        "title": title,
        "subtitle": subtitle,
        "crumbs": crumbs,
        "state": state,
        "content": SafeString(content.strip()),
    }
    return render_to_string("partials/page_header.html", values)


@register.simple_block_tag(end_name="endpanel")
def panel(content: str, title: str = "", *, id: str = "", icon: str = "", kind: str = "", end: Any = "") -> SafeString:
    """A section with a title. kind: "plain" without a box, "flush" for a table or list to its edges, "accent"."""
    values = {"title": title, "id": id, "icon": icon, "kind": kind, "end": end, "content": SafeString(content)}
    return render_to_string("partials/panel.html", values)


@register.simple_block_tag(end_name="endnote")
def note(content: str, tone: str = "", *, icon: str = "") -> SafeString:
    """Something to know about this page. tone: "", "info", "ok", "warn", "bad" (announced at once)."""
    values = {"tone": tone, "icon": icon or NOTE_ICONS[tone], "content": SafeString(content)}
    return render_to_string("partials/note.html", values)


@register.inclusion_tag("partials/faults.html")
def fault_summary(found: forms.BaseForm | Mapping[str, str] | None, says: str = "", **fields: str) -> dict[str, Any]:
    """Every fault of a form in a list above it, each a link to its field. Without a fault it is nothing.

    `found` is a Django form, or for a form that the page writes itself its faults by name, with `name="id Label"` for
    each of its fields. `says` is what happened, such as "The key was not created."
    """
    lines = list(_form_faults(found) if isinstance(found, forms.BaseForm) else _named_faults(found or {}, fields))
    return {"lines": lines, "says": says or ("Fix the highlighted fields." if any(line[0] for line in lines) else "")}


def _form_faults(form: forms.BaseForm) -> Iterator[tuple[str, str, str]]:
    for text in form.non_field_errors():
        yield "", "", str(text)
    for field in form:
        for text in field.errors:
            target = "" if field.is_hidden else field.id_for_label or field.auto_id
            yield target, str(field.label), str(text)


def _named_faults(faults: Mapping[str, str], fields: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """In the order of the fields; what belongs to none comes first."""
    for text in (text for name, text in faults.items() if name not in fields):
        yield "", "", text[:1].upper() + text[1:]
    for name, place in fields.items():
        if name in faults:
            target, _, label = place.partition(" ")
            yield target, label, faults[name][:1].upper() + faults[name][1:]
