"""What every page is held to: WCAG 2.2 AA by axe-core, a width without overflow, and a keyboard that reaches every
control, shows where it is, and keeps its place when a part of the page is refreshed.

`look_at(tab, name)` looks at the page as it stands, wide and light, then narrow and dark; `axe_findings(tab)` and
`keyboard_findings(tab)` at one look. They return lines that a person can read; an empty list is a pass. With
RECKONER_SCREENSHOTS=1 every page is looked at in all four ways, and each is photographed, into var/screenshots.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import expect

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
SHOTS = Path(__file__).resolve().parents[2] / "var" / "screenshots"
TAGS = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
CHANGED = {
    "type": "rule",
    "values": [
        "color-contrast",
        "link-in-text-block",
        "target-size",
        "scrollable-region-focusable",
        "aria-hidden-focus",
    ],
}
"""All that another theme or another width can change of the same elements."""


@dataclass(frozen=True)
class Look:
    name: str
    width: int
    colours: Literal["light", "dark"]
    rules: dict[str, Any]


LOOKS = (Look("wide", 1280, "light", TAGS), Look("narrow-dark", 360, "dark", CHANGED))
OTHER_LOOKS = (Look("dark", 1280, "dark", CHANGED), Look("narrow", 360, "light", CHANGED))
"""Of the frame and of the page that shows every component, and where pictures are taken."""
FRAME = (".sidebar", ".topbar")
"""The same on every page."""
SHORTEN = """() => {
  const keep = (list, most) => [...list.children].slice(most).forEach((one) => one.remove());
  document.querySelectorAll("ol.rows").forEach((list) => keep(list, 6));  // every kind of row is among them
  document.querySelectorAll("ol.options").forEach((list) => keep(list, 24));  // still more than its box is high
  document.querySelectorAll("[data-card][hidden]").forEach((card) => card.remove());  // each is shown in its turn
}"""
GRAVE = {"serious", "critical"}
NODES = 3
"""Of a rule that fails; more of them say nothing new."""
MOST_TABS = 400
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

RUN = """async ([runOnly, part, but]) => {
  const found = await axe.run({ include: [part], exclude: but }, {
    runOnly,
    // "region" costs a quarter of the time and is never graver than moderate, so it would not be reported.
    rules: runOnly.type === "tag" ? { "target-size": { enabled: true }, region: { enabled: false } } : {},
    resultTypes: ["violations"],
    preload: false,  // style sheets and media are read for rules that are experimental, or moderate at most
  });
  const why = (node) => (node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? "";
  const node = (one) => ({ target: one.target.join(" "), why: why(one) });
  return found.violations.map(({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.map(node) }));
}"""

# Controls that can be seen and used now, by their id, or by their place where they have none: a refresh puts new
# elements in the place of the old ones. Then every focus is noted: on which control, and whether anything shows it.
CONTROLS = """(part) => {
  const kinds = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
  const usable = (one) => one.tabIndex >= 0 && !one.disabled && !one.classList.contains("skip")
    && one.checkVisibility({ visibilityProperty: true });
  const path = (one) => one === document.body ? "" : one.id ? `#${one.id}`
    : `${path(one.parentElement)}>${[...one.parentElement.children].indexOf(one)}`;
  const name = (one) => `${one.tagName.toLowerCase()} "` +
    (one.getAttribute("aria-label") || one.textContent || one.name || "").trim().slice(0, 40) + '"';
  const look = (one) => {
    const style = getComputedStyle(one);
    return style.outlineStyle + style.boxShadow + style.backgroundColor;
  };
  const resting = (one) => look(one.closest("li") ?? one) + look(one);
  document.activeElement?.blur();  // what has the focus does not rest
  const all = [...document.querySelectorAll(kinds)].filter((one) => one.closest(part) && usable(one));
  const looks = new Map(all.map((one) => [path(one), resting(one)]));
  window.focuses = [];
  window.noting?.abort();
  window.noting = new AbortController();
  document.addEventListener("focusin", ({ target }) => {
    const style = getComputedStyle(target);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
    window.focuses.push([path(target), outlined || resting(target) !== looks.get(path(target))]);
  }, { signal: window.noting.signal });
  document.querySelector(part === "main" ? part : ".skip").focus();
  window.focuses = [];
  const refreshed = all.filter((one) => !one.id && one.closest("[hx-trigger^=every]"));
  return [all.map((one) => [path(one), name(one)]), refreshed.map(name)];
}"""


@cache
def _axe() -> str:
    """To look for pseudo-elements behind a text takes three quarters of all the time, and where one is found axe gives
    no verdict on the text: not looking, it gives one."""
    options = "{checks: [{id: 'color-contrast', options: {ignorePseudo: true}}]}"
    return f"{AXE.read_text(encoding='utf-8')};axe.configure({options})"


def axe_findings(
    tab: Any, run_only: dict[str, Any] = TAGS, *, part: str = "html", but: tuple[str, ...] = ()
) -> list[str]:
    """Serious and critical findings on the page as it stands, or on a part of it by its selector, but for other
    parts, one line a rule: what is wrong, how often, where."""
    if not tab.evaluate("() => 'axe' in window"):
        tab.evaluate(_axe())
    return [
        f"{rule['impact']} {rule['id']} ({len(rule['nodes'])} times): {rule['help']}"
        + "".join(f"\n    {node['target']} | {node['why']}" for node in rule["nodes"][:NODES])
        for rule in tab.evaluate(RUN, [run_only, part, but])
        if rule["impact"] in GRAVE
    ]


def keyboard_findings(tab: Any, part: str = "html") -> list[str]:
    """Tabs once through the page, or through its `main`: controls that were not reached, such that do not show the
    focus, and such without an id in a part that refreshes itself, by which htmx gives the focus back."""
    controls, refreshed = tab.evaluate(CONTROLS, part)
    parts_of_dates = 3 * tab.locator("input[type=date]").count()  # day, month, year and the calendar's button
    for _ in range(min(MOST_TABS, len(controls) + 1 + parts_of_dates)):
        tab.keyboard.down("Tab")  # held down, it repeats
    tab.keyboard.up("Tab")
    shown = dict(reversed(tab.evaluate("() => window.focuses")))
    return (
        [f"not reached by Tab: {name}" for place, name in controls if place not in shown]
        + [f"shows no focus: {name}" for place, name in controls if not shown.get(place, True)]
        + [f"loses the focus in a refresh, for want of an id: {name}" for name in refreshed]
    )


def look_at(tab: Any, name: str, *, by_keyboard: bool = True, every_look: bool = False, script: str = "") -> list[str]:
    """What is wrong with the page as it stands, wide and light, at its looks; it is left so, its long lists shortened.

    `script` is a page's own check: its function returns lines of what is wrong. The frame, which every page has, is
    looked at with every look only.
    """
    tab.wait_for_load_state()
    pictures = bool(os.environ.get("RECKONER_SCREENSHOTS"))
    every_look = every_look or pictures
    looks = LOOKS + OTHER_LOOKS if every_look else LOOKS
    lines = []
    for look in looks:
        if look is not looks[0]:
            _show(tab, look)
        _await_charts(tab)
        if pictures:
            SHOTS.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=SHOTS / f"{name}-{look.name}.png", full_page=True)
        found = tab.evaluate(script) if script else []
        if (over := tab.evaluate(OVERFLOW)) > 0:
            found.append(f"{over} px wider than the window")
        lines += [f"{name}, {look.name}: {line}" for line in found]
    tab.evaluate(SHORTEN)
    for look in reversed(looks):
        if look is not looks[-1]:
            _show(tab, look)
        lines += [
            f"{name}, {look.name}: {line}" for line in axe_findings(tab, look.rules, but=() if every_look else FRAME)
        ]
    if by_keyboard:
        lines += [f"{name}: {line}" for line in keyboard_findings(tab, "html" if every_look else "main")]
    return lines


def _show(tab: Any, look: Look) -> None:
    tab.set_viewport_size({"width": look.width, "height": 800})
    tab.emulate_media(color_scheme=look.colours)
    _await_charts(tab)


def _await_charts(tab: Any) -> None:
    tab.evaluate(PAINTED)
    expect(tab.locator("[data-chart]:not([data-drawn])")).to_have_count(0)
