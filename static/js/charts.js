/* Charts by uPlot, coloured from the tokens, drawn again when the theme changes.

   <div class="charts" data-chart="plot" data-source="ID">      a figure from json_script
   <div class="charts" data-chart="plot" data-url="…" data-every="5000">   fetched, and again until `terminal` is true
   data-chart="evidence" translates what the experiment's address answers into figures.

   A figure: {title, help? (what it means), says?, height?, x: {label, log?, whole?, values: [number], names?: [text] (shown for the values)}, y: {label? (else the title), log?, min?, max?, decimals?, unit?}, series: [...],
              lines: [{label, y, tone?}], marks: [{label, x}]}   (marks: places on the x axis, dashed from top to bottom)
   A series: {label, values: [number|null], kind?: "line" | "step" | "bars" | "dots", low?, high?: [number|null],
              tone?: "ok" | "warn" | "bad" | "info" | "muted", dash?: true, bare?: true}   (bare: its key has no last value)
   low and high draw a band behind a line and error bars behind dots. A plot is a figure, or {figures: [...], terminal?}.
   charts.draw(box, plot) draws what a page's own script has gathered (js/curves.js).
   Every figure has its numbers as a table for whoever cannot see it. Elements that htmx swaps in are drawn, too. */
"use strict";

(() => {
  const SERIES = 6;
  const ROWS = 400; // of the table of numbers: more is read from the address
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  /* light-dark() is resolved by the browser only in a real property. */
  function colour(token, alpha = 1) {
    probe.style.color = `var(${token})`;
    const rgb = getComputedStyle(probe).color;
    return alpha === 1 ? rgb : rgb.replace(/^rgb\((.*)\)$/, `rgb($1 / ${alpha})`).replaceAll(",", " ");
  }
  /* Percentages have one decimal and rewards two, as in tables; anything else has three significant digits. */
  const figures = (value, { decimals, unit = "" } = {}) => {
    if (value == null) return "–";
    if (decimals != null) return value.toFixed(decimals).replace(/^-(?=[0.]+$)/, "").replace("-", "−") + unit;
    return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-GB") : String(Number(value.toPrecision(3))).replace("-", "−");
  };
  const placed = (x, index) => x.names?.[index] ?? figures(x.values[index]);
  const element = (name, className = "", text = "") => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text) made.textContent = text;
    return made;
  };

  /* A sign of the series in words' company: line, dashed line or dot, so that colour is not alone. */
  function sign(line) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 14 8");
    svg.setAttribute("aria-hidden", "true");
    const dot = line.kind === "dots" || line.kind === "bars";
    const shape = document.createElementNS(svg.namespaceURI, dot ? "circle" : "line");
    for (const [name, value] of Object.entries(dot ? { cx: 7, cy: 4, r: 3 } : { x1: 0, x2: 14, y1: 4, y2: 4, "stroke-width": 2 })) shape.setAttribute(name, value);
    if (line.dash) shape.setAttribute("stroke-dasharray", "3 2");
    shape.style[dot ? "fill" : "stroke"] = `var(${line.token})`;
    svg.append(shape);
    return svg;
  }

  /* What is drawn: the series, then the lines at one height. */
  function lines(figure) {
    const level = figure.x.values.map(() => null);
    let next = 0;
    return [
      ...figure.series.map((one) => ({ ...one, kind: one.kind ?? "line", token: one.tone ? `--${one.tone}` : `--series-${(next++ % SERIES) + 1}` })),
      ...(figure.lines ?? []).map((one) => ({ label: one.label, kind: "line", level: true, dash: true, token: `--${one.tone ?? "control"}`, values: level.map(() => one.y) })),
    ];
  }

  /* Bands behind lines, bars of error behind dots: under the series, in its own colour. */
  const intervals = (drawn) => ({
    hooks: {
      drawAxes: (plot) => {
        const { ctx } = plot;
        for (const [number, line] of drawn().entries()) {
          if (!line.low || !plot.series[number + 1].show) continue;
          const at = (value, scale) => plot.valToPos(value, scale, true);
          const known = plot.data[0].map((x, index) => [x, line.low[index], line.high[index]]).filter(([, low, high]) => low != null && high != null);
          ctx.save();
          ctx.beginPath();
          ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
          ctx.clip();
          ctx.beginPath();
          if (line.kind === "dots" || line.kind === "bars") {
            ctx.strokeStyle = colour(line.token);
            ctx.lineWidth = 1.5 * devicePixelRatio;
            for (const [x, low, high] of known) {
              ctx.moveTo(at(x, "x"), at(low, "y"));
              ctx.lineTo(at(x, "x"), at(high, "y"));
            }
            ctx.stroke();
          } else {
            ctx.fillStyle = colour(line.token, 0.16);
            for (const [x, low] of known) ctx.lineTo(at(x, "x"), at(low, "y"));
            for (const [x, , high] of known.reverse()) ctx.lineTo(at(x, "x"), at(high, "y"));
            ctx.fill();
          }
          ctx.restore();
        }
      },
    },
  });

  /* Places on the x axis, named at the top: where an attempt began. */
  const marked = (now) => ({
    hooks: {
      drawAxes: (plot) => {
        const { ctx } = plot;
        for (const mark of now().marks ?? []) {
          const x = Math.round(plot.valToPos(mark.x, "x", true)) + 0.5;
          if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
          ctx.save();
          ctx.strokeStyle = colour("--control");
          ctx.fillStyle = colour("--muted");
          ctx.font = `${11 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
          ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
          ctx.beginPath();
          ctx.moveTo(x, plot.bbox.top);
          ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
          ctx.stroke();
          const right = x + ctx.measureText(mark.label).width + 8 * devicePixelRatio < plot.bbox.left + plot.bbox.width;
          ctx.textAlign = right ? "left" : "right";
          ctx.textBaseline = "top";
          ctx.fillText(mark.label, x + (right ? 4 : -4) * devicePixelRatio, plot.bbox.top);
          ctx.restore();
        }
      },
    },
  });

  const tooltip = (drawn, figure) => {
    const tip = element("div", "chart-tip");
    tip.hidden = true;
    return {
      hooks: {
        init: (plot) => plot.over.append(tip),
        setCursor: (plot) => {
          const { idx, left, top } = plot.cursor;
          if (idx == null || left < 0) { tip.hidden = true; return; }
          const list = element("dl");
          for (const [number, line] of drawn().entries()) {
            const value = plot.data[number + 1][idx];
            if (value == null) continue;
            const { y } = figure();
            const range = line.low?.[idx] == null ? "" : ` [${figures(line.low[idx], y)}, ${figures(line.high[idx], y)}]`;
            const mark = element("dt");
            mark.append(sign(line));
            list.append(mark, element("dt", "", line.label), element("dd", "", figures(value, y) + range));
          }
          tip.replaceChildren(element("p", "", `${figure().x.label} ${placed(figure().x, idx)}`), list);
          tip.hidden = false;
          // Beside the cursor, and never out of the plot: a phone has no room to the right.
          const room = plot.over.clientWidth;
          const wide = tip.offsetWidth;
          const x = left + 12 + wide <= room ? left + 12 : Math.max(0, Math.min(left - 12 - wide, room - wide));
          tip.style.transform = `translate(${x}px, ${Math.max(0, Math.min(top - 8, plot.over.clientHeight - tip.offsetHeight))}px)`;
        },
      },
    };
  };

  function options(figure, drawn, now, width, height) {
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const axis = (log, label) => ({
      label,
      labelFont: font,
      labelSize: 16,
      labelGap: 0,
      stroke: () => colour("--muted"),
      // Of a decade's ten lines only the first one.
      grid: { stroke: () => colour("--line"), width: 1, ...(log ? { filter: (_, splits) => splits.map((value) => (Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6) ? value : null)) } : {}) },
      ticks: { show: false },
      border: { show: false },
      font,
      gap: 6,
      values: (_, splits) => splits.map((value) => (value == null ? "" : value.toLocaleString("en-GB", log ? { maximumSignificantDigits: 3, notation: "compact" } : { maximumSignificantDigits: 4, notation: Math.abs(value) >= 10000 ? "compact" : "standard" }))),
    });
    const paths = { step: uPlot.paths.stepped({ align: 1 }), bars: uPlot.paths.bars({ size: [0.7, 48], radius: 0.1 }), line: uPlot.paths.linear() };
    const range = (plot, low, high) => {
      for (const line of drawn()) {
        for (const value of [...(line.low ?? []), ...(line.high ?? [])]) if (value != null) { low = Math.min(low, value); high = Math.max(high, value); }
      }
      if (drawn().some((line) => line.kind === "bars")) { low = Math.min(low, 0); high = Math.max(high, 0); }
      let [from, to] = uPlot.rangeNum(low, high, 0.08, true);
      if (now().y?.unit === "%" && low >= 0 && high <= 100) [from, to] = [Math.max(from, 0), Math.min(to, 100)];
      return [now().y?.min ?? from, now().y?.max ?? to];
    };
    // The first and the last bar need half a place beside them.
    const bars = drawn().some((line) => line.kind === "bars");
    const pad = bars || drawn().some((line) => line.kind === "dots");
    return {
      width,
      height,
      legend: { show: false },
      padding: [8, 12, 0, 0],
      scales: {
        x: { time: false, distr: figure.x.log ? 3 : 1, ...(pad && !figure.x.log ? { range: (_, low, high) => { const space = Math.max((high - low || 1) * 0.06, bars ? (high - low) / (2 * (now().x.values.length - 1) || 1) : 0); return [low - space, high + space]; } } : {}) },
        y: figure.y?.log ? { distr: 3 } : { range },
      },
      axes: [{ ...axis(figure.x.log, figure.x.label), ...(figure.x.names ? { values: (_, splits) => splits.map((value) => now().x.names[now().x.values.indexOf(value)] ?? "") } : {}), size: 24, space: figure.x.whole ? 32 : 56, ...(figure.x.whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] } : {}) }, { ...axis(figure.y?.log, figure.y?.label ?? figure.title), size: (_, values) => 14 + 6.6 * Math.max(2, ...(values ?? []).map((value) => value.length)) , space: 36 }],
      cursor: { points: { size: 7 }, drag: { x: false, y: false }, y: false },
      plugins: [intervals(drawn), marked(now), tooltip(drawn, now)],
      series: [
        {},
        ...drawn().map((line, number) => ({
          label: line.label,
          stroke: () => colour(drawn()[number].token),
          fill: line.kind === "bars" ? () => colour(drawn()[number].token, 0.75) : undefined,
          width: line.level ? 1.25 : line.kind === "bars" ? 0 : 1.75,
          dash: line.dash ? [5, 4] : undefined,
          paths: line.kind === "dots" ? () => null : paths[line.kind],
          points: { show: line.kind === "dots" || (line.kind !== "bars" && !line.level && figure.x.values.length < 3), size: 7, fill: () => colour(drawn()[number].token), width: 0 },
          spanGaps: true,
        })),
      ],
    };
  }

  /* The title; with `help` a term whose meaning is its tooltip. */
  function named(figure) {
    if (!figure.help) return element("span", "", figure.title);
    const term = element("button", "term", figure.title);
    term.type = "button";
    term.dataset.tip = figure.help;
    term.setAttribute("aria-description", figure.help);
    return term;
  }

  function keysOf(figure, drawn) {
    const list = element("ul", "chart-keys");
    const last = (line) => figures(line.values.findLast((value) => value != null), figure.y);
    if (drawn.length === 1) {
      list.append(element("li", "", `last ${last(drawn[0])}`));
      return list;
    }
    for (const line of drawn) {
      const item = element("li");
      item.append(sign(line), element("span", "", line.kind === "line" && !line.bare ? `${line.label} ${last(line)}` : line.label));
      list.append(item);
    }
    return list;
  }

  /* The numbers, for whoever cannot see the picture; written only when they are opened. */
  function numbers(now, drawn) {
    const box = element("details", "chart-numbers");
    box.append(element("summary", "", "Numbers"));
    box.addEventListener("toggle", () => {
      if (!box.open) return;
      const figure = now();
      const room = element("div");
      room.tabIndex = 0;
      room.setAttribute("role", "region");
      room.setAttribute("aria-label", `Numbers of ${figure.title}`);
      const table = element("table");
      const head = table.createTHead().insertRow();
      for (const label of [figure.x.label, ...drawn().map((line) => line.label)]) {
        const cell = element("th", "", label);
        cell.scope = "col";
        head.append(cell);
      }
      const body = table.createTBody();
      const every = Math.ceil(figure.x.values.length / ROWS);
      for (const index of figure.x.values.keys()) {
        if (index % every && index !== figure.x.values.length - 1) continue;
        const row = body.insertRow();
        row.insertCell().textContent = placed(figure.x, index);
        const { y } = figure;
        for (const line of drawn()) row.insertCell().textContent = figures(line.values[index], y) + (line.low?.[index] == null ? "" : ` [${figures(line.low[index], y)}, ${figures(line.high[index], y)}]`);
      }
      if (every > 1) table.createCaption().textContent = `Every ${every}th row.`;
      room.append(table);
      box.querySelector("div")?.remove();
      box.append(room);
    });
    return box;
  }

  /* One figure: made on first sight, fed afterwards. */
  function plot(box, key, figure) {
    box.plots ??= new Map();
    let made = box.plots.get(key);
    const last = figure.series.map((one) => `${one.label} last ${figures(one.values.at(-1), figure.y)}`).join(", ");
    const says = figure.says ?? `${figure.title}: ${last} at ${figure.x.label} ${figures(figure.x.values.at(-1))}`;
    const shape = (of, lines) => [of.x.log, of.y?.log, ...lines.map((line) => line.label + line.kind + line.token)].join("|");
    if (made && shape(made.figure, made.drawn) !== shape(figure, lines(figure))) {
      made.chart.destroy();
      made.holder.remove();
      made = undefined;
    }
    if (!made) {
      made = { figure, drawn: lines(figure), holder: element("figure", "chart") };
      const title = element("figcaption");
      title.append(named(figure));
      made.room = element("div", "chart-room");
      made.room.setAttribute("role", "img");
      made.holder.append(title, made.room, numbers(() => made.figure, () => made.drawn));
      box.append(made.holder);
      const height = figure.height ?? 200;
      made.chart = new uPlot(options(figure, () => made.drawn, () => made.figure, made.room.clientWidth || 300, height), [figure.x.values, ...made.drawn.map((line) => line.values)], made.room);
      new ResizeObserver(() => {
        if (made.room.clientWidth) made.chart.setSize({ width: made.room.clientWidth, height });
      }).observe(made.room);
      box.plots.set(key, made);
    } else {
      made.figure = figure;
      made.drawn = lines(figure);
      made.chart.setData([figure.x.values, ...made.drawn.map((line) => line.values)]);
    }
    const title = made.holder.querySelector("figcaption");
    title.querySelector("ul")?.remove();
    title.append(keysOf(figure, made.drawn));
    made.room.setAttribute("aria-label", says);
  }

  /* What an address answers, as figures. */
  const kinds = {
    plot: (found) => found.figures ?? [found],
    evidence: (found) => [{
      title: "Evidence by units with an outcome",
      says: `E plus ${figures(found.e_plus.at(-1))}, E minus ${figures(found.e_minus.at(-1))} after ${found.x.at(-1)} units with an outcome`,
      height: 240,
      x: { label: "units with an outcome", values: found.x },
      y: { log: true, label: "evidence, E" },
      series: [
        { label: "E⁺", values: found.e_plus, tone: "ok" },
        { label: "E⁻", values: found.e_minus, tone: "bad" },
        ...(found.plain_e_plus.length ? [{ label: "plain E⁺", values: found.plain_e_plus, tone: "muted", dash: true }] : []),
      ],
      lines: [{ label: "promote at", y: found.promote_at, tone: "ok" }, { label: "roll back at", y: found.rollback_at, tone: "bad" }],
    }, ...(found.difference?.mean.some((value) => value != null) ? [{
      title: "Treatment − control, reward per unit",
      says: `the difference is ${figures(found.difference.mean.at(-1), { decimals: 2 })}, its interval from ${figures(found.difference.low.at(-1), { decimals: 2 })} to ${figures(found.difference.high.at(-1), { decimals: 2 })} after ${found.x.at(-1)} units with an outcome`,
      height: 240,
      x: { label: "units with an outcome", values: found.x },
      y: { decimals: 2, label: "reward per unit" },
      series: [{ label: "difference", values: found.difference.mean, low: found.difference.low, high: found.difference.high }],
      lines: [{ label: "no difference", y: 0 }],
    }] : [])],
  };

  const draw = (box, found) => drawFigures(box, kinds[box.dataset.chart](found));

  function drawFigures(box, wanted) {
    const drawable = wanted.filter((figure) => figure.x.values.length);
    for (const [number, figure] of drawable.entries()) plot(box, `${number} ${figure.title}`, figure);
    box.toggleAttribute("data-drawn", drawable.length > 0);
    return drawable.length;
  }

  async function follow(box) {
    if (!box.isConnected) return;
    const says = box.querySelector("[data-chart-says]");
    let found = null;
    try {
      const answer = await fetch(box.dataset.url, { headers: { Accept: "application/json" }, credentials: "same-origin" });
      if (!answer.ok || answer.redirected) throw new Error(`the server answered ${answer.status}`);
      found = await answer.json();
    } catch (error) {
      if (says) {
        says.hidden = false;
        says.textContent = `The chart could not be loaded: ${error.message}. Retrying.`;
      }
    }
    if (found) {
      const drawn = draw(box, found);
      if (says) {
        says.hidden = drawn > 0;
        if (!drawn && found.terminal) says.textContent = "There is nothing to draw.";
      }
      if (found.terminal) return;
    }
    if (box.dataset.every) setTimeout(() => follow(box), Number(box.dataset.every));
  }

  let boxes = [];
  function start() {
    for (const box of boxes) if (!box.isConnected) for (const { chart } of box.plots?.values() ?? []) chart.destroy();
    boxes = [...document.querySelectorAll("[data-chart]")].filter((box) => kinds[box.dataset.chart] || box.plots);
    for (const box of boxes) {
      if (box.started || !kinds[box.dataset.chart]) continue;
      box.started = true;
      if (box.dataset.source) draw(box, JSON.parse(document.getElementById(box.dataset.source).textContent));
      else follow(box);
    }
  }
  start();
  window.charts = {
    draw: (box, found) => {
      if (!boxes.includes(box)) boxes.push(box);
      return drawFigures(box, kinds.plot(found));
    },
    figures,
  };
  document.addEventListener("htmx:afterSettle", start);
  const redraw = () => {
    for (const box of boxes) for (const { chart } of box.plots?.values() ?? []) chart.redraw();
  };
  document.addEventListener("themechange", redraw);
  /* Paper is light: canvases are drawn again in the light colours, and shell.css stretches them over the page. */
  const inColours = (scheme) => {
    probe.style.colorScheme = scheme;
    redraw();
  };
  addEventListener("beforeprint", () => inColours("light"));
  addEventListener("afterprint", () => inColours(""));
})();
