"""Template filters that write numbers, times and states, for the pages of all floors."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

NONE = "–"
BADGES = {
    "running": "info",
    "stopping": "info",
    "queued": "calm",
    "succeeded": "ok",
    "ready": "ok",
    "promoted": "ok",
    "canary": "ok",
    "confirmed": "ok",
    "passed": "ok",
    "champion": "ok",
    "challenger": "info",
    "answered": "ok",
    "up": "ok",
    "down": "bad",
    "abandoned": "warn",
    "left": "calm",
    "failed": "bad",
    "refused": "bad",
    "dead": "bad",
    "corrected": "info",
    "overridden": "info",
    "rolled_back": "bad",
    "calibrated": "ok",
    "drifted": "warn",
}
"""Tone of a state's badge. The word itself is always shown: colour is never the only sign. What a person corrected is
information and no fault."""


@register.filter
def number(value: Any) -> str:
    """Three significant digits; whole numbers and thousands in full, with separators."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return NONE
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text.replace("-", "−") if "e" not in text else f"{value:.2e}"


@register.filter
def size(value: Any) -> str:
    """Bytes of memory or of a model as they are sold, 1 GB = 10⁹: 25,276,510,208 → 25.3 GB, 3,400,000 → 3 MB."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return NONE
    return f"{value / 1e9:,.1f} GB" if value >= 0.95e9 else f"{max(1, round(value / 1e6))} MB"


@register.filter
def percent(value: Any) -> str:
    """A share in [0, 1] as a percentage with one decimal: 0.8341 → 83.4%, 0.0002 → < 0.1%, 0.9999 → > 99.9%."""
    if not isinstance(value, int | float):
        return NONE
    if 0 < value < 0.0005:
        return "< 0.1%"
    if 0.9995 <= value < 1:
        return "> 99.9%"
    return _fixed(value * 100, 1) + "%"


@register.filter
def reward(value: Any) -> str:
    """A reward or a mean of rewards with two decimals: 0.5576 → 0.56."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return NONE
    return _fixed(value, 2)


@register.filter
def points(value: Any) -> str:
    """A difference of shares in percentage points, signed: 0.091 → +9.1."""
    if not isinstance(value, int | float):
        return NONE
    return _fixed(value * 100, 1, "+")


@register.filter
def signed(value: Any) -> str:
    """A difference of rewards with two decimals, signed: 0.0456 → +0.05."""
    if not isinstance(value, int | float):
        return NONE
    return _fixed(value, 2, "+")


def _fixed(value: float, decimals: int, sign: str = "") -> str:
    """With a true minus; what rounds to zero is zero, without a minus."""
    return f"{round(value, decimals) + 0.0:{sign}.{decimals}f}".replace("-", "−")


@register.filter
def cost(value: Any) -> str:
    """A price or what was spent, in whatever unit it is: two decimals from 1 up, below that three significant digits:
    12.3 → 12.30, 0.15 → 0.15, 0.00001335 → 0.0000134."""
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return NONE
    exact = Decimal(value)
    if abs(exact) >= 1 or not exact:
        return f"{exact:,.2f}" if exact else "0"
    return f"{round(exact, 2 - exact.adjusted()):f}".rstrip("0").rstrip(".")


@register.filter
def moment(value: dt.datetime | None) -> SafeString | str:
    """A <time> element, short to read and exact in its attribute; static/js/time.js writes it in the reader's zone."""
    if value is None:
        return NONE
    local = timezone.localtime(value)
    shown = local.strftime("%H:%M:%S") if local.date() == timezone.localdate() else local.strftime("%-d %b %Y, %H:%M")
    return format_html(
        '<time datetime="{}" title="{}" data-moment>{}</time>',
        value.isoformat(),
        local.strftime("%Y-%m-%d %H:%M:%S %Z"),
        shown,
    )


@register.filter
def duration(seconds: Any) -> str:
    """Seconds as the two largest units: 3,725 → 1 h 2 min."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return NONE
    if seconds < 10:
        return f"{seconds:.3g} s" if seconds >= 0.0005 else "0 s"
    rest = round(seconds)
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        amount, rest = divmod(rest, size)
        if amount:
            parts.append(f"{amount} {name}")
    return " ".join(parts[:2])


@register.filter
def milliseconds(value: Any) -> str:
    """Milliseconds as they are read: 41.5 → 41.5 ms, 3725 → 3.72 s."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return NONE
    return f"{value:.3g} ms" if value < 999.5 else duration(value / 1000)


@register.filter
def spent(row: Any) -> str:
    """From `started_at` to `finished_at` (or now) of a run or a job."""
    if row.started_at is None:
        return NONE
    return duration(((row.finished_at or timezone.now()) - row.started_at).total_seconds())


@register.filter
def plain(value: Any) -> str:
    """Text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@register.filter
def indented(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


@register.filter
def details_line(details: dict[str, Any]) -> str:
    """An event's details in one line: {"device": "cpu", "threads": 2} → device cpu, threads 2. What is nested
    once is told by its own names; what is nested deeper, such as scores by model, and what is not known is left out."""
    return ", ".join(_tell(details, inner=False))


def _tell(details: Mapping[str, Any], *, inner: bool) -> Iterator[str]:
    for name, value in details.items():
        if isinstance(value, Mapping):
            if not inner:
                yield from _tell(value, inner=True)
        elif value not in (None, "", []):
            shown = value if isinstance(value, list | tuple) else [value]
            words = " and ".join("yes" if one is True else "no" if one is False else plain(one) for one in shown)
            yield f"{name.replace('_', ' ')} {words}"


@register.filter
def at(values: Any, index: int) -> Any:
    """The element at a place, of a list that is walked along another."""
    return values[index]


@register.filter
def short(value: Any) -> str:
    """The first twelve characters of a digest."""
    return str(value)[:12]


@register.filter
def in_words(state: Any) -> str:
    """A state or verdict as people read it: rolled_back → rolled back."""
    return str(state).replace("_", " ")


@register.inclusion_tag("partials/badge.html")
def badge(state: Any, text: str = "") -> dict[str, str]:
    """A state as a word with a tone."""
    return {"tone": BADGES.get(str(state), "calm"), "text": text or in_words(state)}


@register.simple_tag
def status(state: Any, text: str = "") -> SafeString:
    """A state as a dot and a word, for tables: quieter than a badge."""
    tone = BADGES.get(str(state), "")
    return format_html('<span class="status {}">{}</span>', tone, text or in_words(state))


@register.inclusion_tag("partials/bar.html")
def bar(share: Any, tone: str = "") -> dict[str, str]:
    """A share in [0, 1] as a bar. SVG attributes, because the content policy allows no inline style."""
    return {"width": _place(share, 0.0, 1.0), "tone": tone}


@register.inclusion_tag("partials/bar.html")
def bar_of(count: int, most: int) -> dict[str, str]:
    """A count beside others, of which `most` is the largest."""
    return bar(count / most if most else 0.0)


@register.inclusion_tag("partials/interval.html")
def interval(mean: Any, low: Any, high: Any, left: float = 0.0, right: float = 1.0, tone: str = "") -> dict[str, Any]:
    """A mean with its interval on an axis from `left` to `right`; a mark stands at 0 when the axis crosses it."""
    known = all(isinstance(value, int | float) for value in (mean, low, high))
    if not known:
        return {"known": False}
    return {
        "known": True,
        "tone": tone,
        "mean": _place(mean, left, right),
        "low": _place(low, left, right),
        "high": _place(high, left, right),
        "zero": _place(0.0, left, right) if left < 0 < right else None,
    }


def _place(value: Any, left: float, right: float) -> str:
    if not isinstance(value, int | float) or right <= left:
        return "0%"
    return f"{min(1.0, max(0.0, (value - left) / (right - left))) * 100:.2f}%"
