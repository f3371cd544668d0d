/* Live charts by uPlot. An element with data-chart="curves" or "evidence" names in data-url where its numbers are and
   in data-every how often to ask again (milliseconds) until they are final. */
"use strict";

(() => {
  const HEIGHT = 200;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const figures = (value) => (value == null ? "–" : Number(value.toPrecision(3)).toString());

  function options(width, height, labels, lines) {
    const axis = () => ({
      stroke: () => colour("--muted"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { stroke: () => colour("--line"), width: 1 },
      font: "12px system-ui, sans-serif",
      size: 64,
      values: (_, splits) => splits.map((value) => (value == null ? "" : value.toLocaleString("en-GB", { maximumSignificantDigits: 6 }))),
    });
    return {
      width,
      height,
      scales: { x: { time: false } },
      axes: [{ ...axis(), size: 32 }, axis()],
      cursor: { points: { size: 6 } },
      series: [
        { label: labels.x, value: (plot, value) => String(value ?? plot.data[0].at(-1) ?? "–") },
        ...lines.map((line) => ({
          label: line.label,
          stroke: () => colour(line.colour),
          width: line.dash ? 1 : 2,
          dash: line.dash,
          points: { show: line.points },
          // Away from the cursor the legend shows where the curve ends.
          value: (plot, value, index) => figures(value ?? plot.data[index].at(-1)),
        })),
      ],
    };
  }

  /* One figure: made on first sight, fed afterwards. */
  function plot(box, key, caption, says, labels, lines, data) {
    box.plots ??= new Map();
    let drawn = box.plots.get(key);
    if (!drawn) {
      const figure = document.createElement("figure");
      figure.className = "chart";
      const title = document.createElement("figcaption");
      title.textContent = caption;
      const room = document.createElement("div");
      room.setAttribute("role", "img");
      figure.append(title, room);
      box.append(figure);
      drawn = { room, chart: new uPlot(options(room.clientWidth || 300, HEIGHT, labels, lines), data, room) };
      box.plots.set(key, drawn);
      new ResizeObserver(() => {
        if (room.clientWidth) drawn.chart.setSize({ width: room.clientWidth, height: HEIGHT });
      }).observe(room);
    } else {
      drawn.chart.setData(data);
    }
    drawn.room.setAttribute("aria-label", says);
  }

  const kinds = {
    curves(box, found) {
      for (const curve of found.curves) {
        const last = curve.y.at(-1);
        plot(box, curve.name, curve.name.replaceAll("_", " "), `${curve.name} over steps, last ${figures(last)} at step ${curve.x.at(-1)}`,
          { x: "step" }, [{ label: curve.name.replaceAll("_", " "), colour: "--accent", points: curve.x.length < 3 }], [curve.x, curve.y]);
      }
      return found.curves.length;
    },
    evidence(box, found) {
      if (!found.x.length) return 0;
      const level = (value) => found.x.map(() => value);
      plot(box, "evidence", "log E over matured units",
        `log E plus ${figures(found.log_e_plus.at(-1))}, log E minus ${figures(found.log_e_minus.at(-1))} after ${found.x.at(-1)} units`,
        { x: "units" },
        [
          { label: "log E⁺", colour: "--good", points: found.x.length < 3 },
          { label: "log E⁻", colour: "--bad", points: found.x.length < 3 },
          { label: "promote at", colour: "--good", dash: [6, 4], points: false },
          { label: "roll back at", colour: "--bad", dash: [2, 4], points: false },
        ],
        [found.x, found.log_e_plus, found.log_e_minus, level(found.promote_at), level(found.rollback_at)]);
      return found.x.length;
    },
  };

  async function follow(box) {
    const says = box.querySelector("[data-chart-says]");
    let found = null;
    try {
      const answer = await fetch(box.dataset.url, { headers: { Accept: "application/json" }, credentials: "same-origin" });
      if (!answer.ok || answer.redirected) throw new Error(`the server answered ${answer.status}`);
      found = await answer.json();
    } catch (error) {
      says.hidden = false;
      says.textContent = `The numbers cannot be read: ${error.message}. Trying again.`;
    }
    if (found) {
      const drawn = kinds[box.dataset.chart](box, found);
      says.hidden = drawn > 0;
      if (!drawn && found.terminal) says.textContent = "It ended without a number to draw.";
      box.toggleAttribute("data-drawn", drawn > 0);
      if (found.terminal) return;
    }
    setTimeout(() => follow(box), Number(box.dataset.every));
  }

  const boxes = [...document.querySelectorAll("[data-chart]")];
  boxes.forEach(follow);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const box of boxes) for (const { chart } of box.plots?.values() ?? []) chart.redraw();
  });
})();
