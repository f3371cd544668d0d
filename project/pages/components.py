"""/components/: every component of the pages in all its states, for logged-in people to look at and copy from."""

from __future__ import annotations

import math
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_safe

from workspaces.templatetags.components import icon_names

CURL = 'curl -s "$URL/agents/filer/decide" \\\n  -H "Authorization: Bearer $KEY" \\\n  -d \'{"state": {"text": "…"}}\''
PYTHON = 'answer = client.decide("filer", state={"text": "…"})\nprint(answer.action, answer.propensity)'
TYPESCRIPT = 'const answer = await client.decide("filer", { state: { text: "…" } });\nconsole.log(answer.action);'

TOKENS = (
    ("Ground", ("canvas", "frame", "surface", "raised", "overlay", "line", "line-strong", "control")),
    ("Writing", ("text", "muted", "faint", "accent-text", "ok", "warn", "bad", "info")),
    ("Fills", ("accent", "accent-soft", "ok-soft", "warn-soft", "bad-soft", "info-soft")),
    ("Series", ("series-1", "series-2", "series-3", "series-4", "series-5", "series-6")),
)


class SampleForm(forms.Form):
    """Fields in their states; never sent anywhere."""

    name = forms.CharField(help_text="Letters, digits and hyphens.")
    agent = forms.ChoiceField(choices=[("filer", "Filer"), ("librarian", "Librarian")])
    share = forms.FloatField(min_value=0, max_value=1)


def _sample_form() -> SampleForm:
    form = SampleForm(data={"name": "posterior-against-base", "agent": "filer", "share": "1.4"}, auto_id="sample_%s")
    form.is_valid()
    return form


def _charts() -> dict[str, Any]:
    """Every kind that charts.js draws, from made-up numbers."""
    steps = list(range(1, 61))
    loss = [2.1 * math.exp(-step / 18) + 0.4 + 0.04 * math.sin(step * step) for step in steps]
    wealth, total = [], 0.0
    for step in steps:
        total += 0.06 + 0.22 * math.sin(step * step)
        wealth.append(total)
    half = [0.6 / math.sqrt(step) for step in steps]
    agents = [1, 2, 3, 4, 5]
    gains = [0.04, 0.11, -0.02, 0.19, 0.08]
    return {
        "figures": [
            {
                "title": "loss, with its band",
                "x": {"label": "step", "values": steps},
                "series": [
                    {
                        "label": "loss",
                        "values": loss,
                        "low": [value - edge / 3 for value, edge in zip(loss, half, strict=True)],
                        "high": [value + edge / 3 for value, edge in zip(loss, half, strict=True)],
                    }
                ],
            },
            {
                "title": "log E, with a threshold",
                "x": {"label": "units", "values": steps},
                "series": [
                    {"label": "log E⁺", "values": wealth, "tone": "ok"},
                    {"label": "log E⁻", "values": [-value for value in wealth], "tone": "bad"},
                ],
                "lines": [{"label": "promote at", "y": 3.0, "tone": "ok"}],
            },
            {
                "title": "six series",
                "x": {"label": "step", "values": steps},
                "series": [
                    {"label": f"series {n}", "values": [math.sin(step / 9 + n) + n / 2 for step in steps]}
                    for n in range(1, 7)
                ],
            },
            {
                "title": "gain with its interval",
                "x": {"label": "agent", "values": agents},
                "series": [
                    {
                        "label": "gain",
                        "kind": "dots",
                        "values": gains,
                        "low": [value - 0.05 for value in gains],
                        "high": [value + 0.05 for value in gains],
                    }
                ],
                "lines": [{"label": "no difference", "y": 0}],
            },
            {
                "title": "decisions an hour",
                "x": {"label": "hour", "values": list(range(24))},
                "series": [
                    {
                        "label": "decisions",
                        "kind": "bars",
                        "values": [round(40 + 35 * math.sin(h / 4)) for h in range(24)],
                    }
                ],
            },
            {
                "title": "share of the traffic, log steps",
                "x": {"label": "units", "log": True, "values": [1, 3, 10, 30, 100, 300, 1000, 3000]},
                "y": {"min": 0, "max": 1},
                "series": [
                    {"label": "treatment", "kind": "step", "values": [0.05, 0.05, 0.1, 0.1, 0.25, 0.25, 0.5, 0.5]}
                ],
            },
        ]
    }


@require_safe
def components(request: HttpRequest) -> HttpResponse:
    return render(
        request,
        "project/components.html",
        {
            "tokens": TOKENS,
            "icons": sorted(icon_names()),
            "form": _sample_form(),
            "charts": _charts(),
            "walk": [20 + number / 4 + 2 * math.sin(number * number) for number in range(24)],
            "samples": [("curl", CURL), ("Python", PYTHON), ("TypeScript", TYPESCRIPT)],
            "now": timezone.now(),
            "rows": [
                ("filer:3", "succeeded", 0.812, 4812),
                ("filer:2", "running", 0.781, 4210),
                ("filer:1", "failed", 0.562, 1200),
            ],
        },
    )


urlpatterns = [path("components/", components, name="components")]
