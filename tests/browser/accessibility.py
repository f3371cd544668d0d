"""What every page is held to: WCAG 2.2 AA by axe-core, and a keyboard that reaches every control and shows where it is.

`axe_findings(tab)` and `keyboard_findings(tab)` return lines that a person can read; an empty list is a pass.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
GRAVE = {"serious", "critical"}
NODES = 3
"""Of a rule that fails; more of them say nothing new."""
MOST_TABS = 400

RUN = """async (tags) => {
  const found = await axe.run(document, {
    runOnly: { type: "tag", values: tags },
    rules: { "target-size": { enabled: true } },
    resultTypes: ["violations"],
  });
  const why = (node) => (node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? "";
  const node = (one) => ({ target: one.target.join(" "), why: why(one) });
  return found.violations.map(({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.map(node) }));
}"""

# Controls that can be seen and used now, each with how it looks while it has no focus.
CONTROLS = """() => {
  const kinds = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
  const usable = (one) => one.tabIndex >= 0 && !one.disabled && !one.classList.contains("skip")
    && one.checkVisibility({ visibilityProperty: true });
  const all = [...document.querySelectorAll(kinds)].filter(usable);
  const name = (one) => (one.getAttribute("aria-label") || one.textContent || one.name || "").trim().slice(0, 40);
  const look = (one) => {
    const style = getComputedStyle(one);
    return style.outlineStyle + style.boxShadow + style.backgroundColor;
  };
  window.resting = (one) => look(one.closest("li") ?? one) + look(one);
  window.controls = new Map(all.map((one) => [one, window.resting(one)]));
  return all.map((one) => `${one.tagName.toLowerCase()} "${name(one)}"`);
}"""

# The number of the control with the focus (-1 when it is none of them), and whether anything shows it.
FOCUSED = """() => {
  const one = document.activeElement;
  const at = [...window.controls.keys()].indexOf(one);
  if (at < 0) return [at, true];
  const style = getComputedStyle(one);
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const changed = window.resting(one) !== window.controls.get(one);
  return [at, outlined || changed];
}"""


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


def axe_findings(tab: Any) -> list[str]:
    """Serious and critical findings on the page as it stands, one line a rule: what is wrong, how often, where."""
    tab.evaluate(_axe())
    return [
        f"{rule['impact']} {rule['id']} ({len(rule['nodes'])} times): {rule['help']}"
        + "".join(f"\n    {node['target']} | {node['why']}" for node in rule["nodes"][:NODES])
        for rule in tab.evaluate(RUN, TAGS)
        if rule["impact"] in GRAVE
    ]


def keyboard_findings(tab: Any) -> list[str]:
    """Tabs once through the page: controls that were not reached, and such that do not show the focus."""
    names = tab.evaluate(CONTROLS)
    reached: set[int] = set()
    unseen: list[str] = []
    tab.evaluate("() => { document.activeElement?.blur(); document.querySelector('.skip').focus(); }")
    for _ in range(min(MOST_TABS, len(names) + 10)):
        tab.keyboard.press("Tab")
        at, shown = tab.evaluate(FOCUSED)
        if at in reached:
            break
        if at >= 0:
            reached.add(at)
            if not shown:
                unseen.append(f"shows no focus: {names[at]}")
    return [f"not reached by Tab: {name}" for at, name in enumerate(names) if at not in reached] + unseen
