/* The curves of one run, live: asks for new points only, smooths, and changes to a logarithmic axis.

   <div class="charts" data-chart="curves" data-url="…" data-every="2000"></div>
   <button data-curves="smooth" aria-pressed="false">, <button data-curves="log" aria-pressed="false">
   Both choices hold for every run on this machine. charts.js draws. */
"use strict";

(() => {
  const box = document.querySelector('[data-chart="curves"]');
  if (!box || !window.charts) return;
  const says = box.querySelector("[data-chart-says]");
  const MOST = 2000; // points of a curve that are drawn; a long run is followed for hours
  const STORED = "reckoner-curves";
  const chosen = { smooth: false, log: false, ...JSON.parse(localStorage.getItem(STORED) ?? "{}") };
  const curves = new Map(); // name → Map(step → value), the newest attempt's value of a step
  const kinds = new Map(); // name → how it is shown: {title, share, means, place}
  let attempts = [];
  let after = 0;
  let shown = "";

  /* An exponential mean whose memory is a fortieth of the curve, corrected for its start (as in Adam). */
  function smoothed(values) {
    const keep = 1 - 1 / Math.max(2, values.length / 40);
    let mean = 0;
    let weight = 1;
    return values.map((value) => {
      mean = keep * mean + (1 - keep) * value;
      weight *= keep;
      return mean / (1 - weight);
    });
  }

  function figure(name) {
    let points = [...curves.get(name)].sort(([first], [second]) => first - second);
    const every = Math.ceil(points.length / MOST);
    if (every > 1) points = points.filter((_, index) => index % every === 0 || index === points.length - 1);
    const steps = points.map(([step]) => step);
    const { title: label, share, means } = kinds.get(name);
    const values = points.map(([, value]) => (share ? value * 100 : value));
    const written = share ? { decimals: 1, unit: "%" } : { decimals: name.includes("reward") ? 2 : undefined };
    // Of a logarithm, what is not positive has none.
    const log = chosen.log && values.every((value) => value > 0);
    const smooth = chosen.smooth && values.length > 4;
    return {
      title: log ? `${label}, log scale` : label,
      help: means,
      says: `${label} over steps, last ${charts.figures(values.at(-1), written)} at step ${steps.at(-1)}`,
      x: { label: "step", values: steps },
      y: { log, ...written, label },
      series: smooth
        ? [{ label: "measured", values, tone: "line-strong" }, { label: "smoothed", values: smoothed(values) }]
        : [{ label, values }],
      marks: attempts.slice(1).map(({ attempt, step }) => ({ label: `attempt ${attempt}`, x: step })),
    };
  }

  function draw() {
    const names = [...curves.keys()].sort((first, second) => kinds.get(first).place - kinds.get(second).place || first.localeCompare(second));
    // A new curve may stand before others, and a log axis has another title: then all are made afresh.
    const wanted = [...names, chosen.log].join("|");
    if (wanted !== shown) clear();
    shown = wanted;
    charts.draw(box, { figures: names.map(figure) });
  }

  function clear() {
    for (const { chart, holder } of box.plots?.values() ?? []) {
      chart.destroy();
      holder.remove();
    }
    box.plots?.clear();
  }

  for (const button of document.querySelectorAll("[data-curves]")) {
    const name = button.dataset.curves;
    button.setAttribute("aria-pressed", String(chosen[name]));
    button.addEventListener("click", () => {
      chosen[name] = !chosen[name];
      button.setAttribute("aria-pressed", String(chosen[name]));
      localStorage.setItem(STORED, JSON.stringify(chosen));
      if (curves.size) draw();
    });
  }

  async function follow() {
    if (!box.isConnected) return;
    let found = null;
    try {
      const answer = await fetch(`${box.dataset.url}?after=${after}`, { headers: { Accept: "application/json" }, credentials: "same-origin" });
      if (!answer.ok || answer.redirected) throw new Error(`the server answered ${answer.status}`);
      found = await answer.json();
    } catch (error) {
      says.hidden = false;
      says.textContent = `The curves could not be loaded: ${error.message}. Retrying.`;
    }
    if (found) {
      const fresh = found.after > after;
      after = found.after;
      attempts = found.attempts;
      for (const { name, x, y } of found.curves) {
        kinds.set(name, found.kinds[name]);
        if (!curves.has(name)) curves.set(name, new Map());
        const known = curves.get(name);
        x.forEach((step, index) => known.set(step, y[index]));
      }
      if (fresh) draw();
      says.hidden = curves.size > 0;
      if (!curves.size && found.terminal) says.textContent = "There is nothing to draw.";
      if (found.terminal) return;
    }
    setTimeout(follow, Number(box.dataset.every));
  }
  follow();
})();
