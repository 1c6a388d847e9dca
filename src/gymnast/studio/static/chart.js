// Curves: a uPlot chart as a component. Several series with their own x, intervals as bands, hover, click, log scale, cursor sync.
import { Segmented, Switch, cls, count, html, num, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

const uPlot = window.uPlot;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Exponential moving average without the pull towards the first value; null stays null. factor 0 changes nothing. */
export function smooth(ys, factor) {
  let sum = 0;
  let weight = 0;
  return ys.map((y) => {
    if (y === null || !Number.isFinite(y)) return y;
    sum = factor * sum + (1 - factor) * y;
    weight = factor * weight + (1 - factor);
    return sum / weight;
  });
}

/**
 * The scale of a chart with its log switch on. Logarithms know no zero and nothing below it: where a curve has such
 * values, the scale is logarithmic on both sides of 0, and linear between -around and around.
 */
export function logScale(drawn) {
  const values = drawn.flatMap((s) => [...s.y, ...(s.low ?? []), ...(s.high ?? [])]).filter((y) => y !== null && Number.isFinite(y));
  if (values.every((y) => y > 0)) return { distr: 3 };
  const largest = values.reduce((most, y) => Math.max(most, Math.abs(y)), 0);
  return { distr: 4, around: 10 ** (Math.floor(Math.log10(largest || 1)) - 2) };
}

/** 0 and the powers of ten on both sides of it; between them 2 and 5 times as much where there is room. */
export function ticksAround(low, high, around) {
  const powers = [];
  for (let power = 10 * around; power <= 10 * Math.max(Math.abs(low), Math.abs(high)); power *= 10) powers.push(power);
  const all = (factors) => [0, ...powers.flatMap((power) => factors.flatMap((factor) => [factor * power, -factor * power]))].filter((y) => y >= low && y <= high).sort((a, b) => a - b);
  return all([1]).length >= 3 ? all([1]) : all([0.1, 0.2, 0.5, 1, 2, 5]);
}

/**
 * series: [{id, label, x, y, low?, high?, color, dash?, width?, step?, dots?, bad?}]; every series has its own x.
 * bad: each x whose value is NaN or infinite: marked in red, since nothing can be drawn there.
 * onPick(id): a click on a line. highlight: id of the series to emphasise; onHighlight(id | null) on hover.
 * sync: charts with the same text share the cursor. marker: an x drawn as a vertical line; onSeek(x): click or drag moves it.
 * axes: [{value, label}] with axis and onAxis draw the switch of the x axis. log and onLog draw the log switch.
 */
export function Chart({ title, series, height = 220, xLabel, xFormat = count, yFormat = num, log = false, onLog, axes, axis, onAxis, sync, onPick, highlight,
  onHighlight, marker, onSeek, legend = true, yRange, empty = "Nothing to draw yet.", label }) {
  const box = useRef();
  const plot = useRef(null);
  const latest = useRef({});
  latest.current = { series, onPick, onHighlight, onSeek, marker, xFormat, yFormat };
  const [tip, setTip] = useState(null);
  const drawn = series.filter((one) => one.x.length);
  const scale = log ? logScale(drawn) : { distr: 1 };
  const bad = [...new Set(drawn.flatMap((s) => s.bad ?? []))].sort((a, b) => a - b);
  latest.current.bad = bad;
  const shape = JSON.stringify([drawn.map((s) => [s.id, s.color, s.dash, s.width, s.step, !!s.low]), scale, sync, yRange, height]);

  useLayoutEffect(() => {
    if (!drawn.length) return undefined;
    const u = new uPlot(options({ drawn, scale, sync, yRange, height, width: box.current.clientWidth || 300, latest, setTip }), aligned(drawn), box.current);
    plot.current = u;
    const observer = new ResizeObserver(() => {
      const width = Math.floor(box.current?.clientWidth ?? 0);
      if (width && width !== u.width) u.setSize({ width, height });
    });
    observer.observe(box.current);
    const redraw = () => u.redraw(false, true);
    addEventListener("themechange", redraw);
    return () => {
      observer.disconnect();
      removeEventListener("themechange", redraw);
      plot.current = null;
      u.destroy();
    };
  }, [shape]);

  useEffect(() => {
    if (plot.current && drawn.length) plot.current.setData(aligned(drawn), !plot.current.zoomed);
  }, [series]);

  useEffect(() => {
    const u = plot.current;
    if (!u) return;
    const at = drawn.findIndex((s) => s.id === highlight);
    u.setSeries(at < 0 ? null : lineIndex(drawn, at), { focus: true }, false);
  }, [highlight, shape]);

  useEffect(() => plot.current?.placeMarker(), [marker, shape, series]);

  return html`<figure class="chart" aria-label=${label ?? title}>
    ${(title || axes || onLog) && html`<figcaption class="chart-head"><span class="chart-title">${title}</span><span class="chart-tools">
      ${onLog && html`<${Switch} label="log" checked=${log} onChange=${onLog} />`}
      ${axes && html`<${Segmented} label="Horizontal axis" value=${axis} options=${axes} onChange=${onAxis} />`}</span></figcaption>`}
    <div class=${cls("chart-box", onPick && "pick", onSeek && "seek")} style=${{ height: `${height}px` }}><div ref=${box}></div>
      ${!drawn.length && html`<p class="chart-empty">${empty}</p>`}${tip && html`<${Tip} tip=${tip} />`}</div>
    ${scale.distr === 4 && html`<p class="chart-note">log on both sides of 0, linear from ${yFormat(-scale.around)} to ${yFormat(scale.around)}</p>`}
    ${bad.length > 0 && html`<p class="chart-note bad">▲ NaN or infinite: ${bad.length === 1 ? `at ${xFormat(bad[0])}` : `from ${xFormat(bad[0])} to ${xFormat(bad[bad.length - 1])}`}</p>`}
    ${xLabel && drawn.length > 0 && html`<div class="chart-x">${xLabel}</div>`}
    ${legend && drawn.length > 1 && html`<ul class="legend">${drawn.filter((s) => !s.unnamed).map((s) => html`<li key=${s.id} class=${cls(highlight === s.id && "on")}>
      <button type="button" onClick=${() => onPick?.(s.id)} onMouseEnter=${() => onHighlight?.(s.id)} onMouseLeave=${() => onHighlight?.(null)} disabled=${!onPick && !onHighlight}>
      <span class=${cls("swatch", s.dash && "dashed")} style=${{ background: s.dash ? "none" : s.color, borderColor: s.color }}></span>${s.label}</button></li>`)}</ul>`}
  </figure>`;
}

function Tip({ tip }) {
  const side = tip.left > tip.width / 2 ? { right: `${tip.width - tip.left + 12}px` } : { left: `${tip.left + 12}px` };
  return html`<div class="tip" style=${{ ...side, top: "4px" }}><div class="tip-x">${tip.x}</div>${tip.rows.map((row) => html`<div key=${row.id} class=${cls("tip-row", row.on && "on")}>
    <span class="swatch" style=${{ background: row.color }}></span><span class="tip-label">${row.label}</span><b>${row.value}</b></div>`)}
    ${tip.more > 0 && html`<div class="hint">and ${tip.more} more</div>`}</div>`;
}

// A series takes one column of the aligned data, or three: line, high, low.
const columnsOf = (s) => (s.low ? 3 : 1);
const lineIndex = (drawn, at) => 1 + drawn.slice(0, at).reduce((sum, s) => sum + columnsOf(s), 0);
const owner = (drawn, index) => {
  let column = 1;
  for (const s of drawn) {
    if (index >= column && index < column + columnsOf(s)) return s;
    column += columnsOf(s);
  }
  return null;
};

function aligned(drawn) {
  const tables = drawn.map((s) => (s.low ? [s.x, s.y, s.high, s.low] : [s.x, s.y]));
  return tables.length === 1 ? tables[0] : uPlot.join(tables);
}

const faint = (color, share) => `color-mix(in srgb, ${color} ${share}%, transparent)`;
const canvasColor = (color) => (color.startsWith("var(") ? css(color.slice(4, -1)) : color);
// Canvas does not know color-mix in every browser: hex colours get an alpha.
const tint = (color, alpha) => (/^#[0-9a-f]{6}$/i.test(color) ? color + Math.round(alpha * 255).toString(16).padStart(2, "0") : faint(color, alpha * 100));

function options({ drawn, scale, sync, yRange, height, width, latest, setTip }) {
  const font = "11px Inter, system-ui, sans-serif";
  const axisBase = { font, stroke: () => css("--muted"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { show: false }, gap: 6 };
  const series = [{}];
  const bands = [];
  for (const s of drawn) {
    const color = () => canvasColor(s.color);
    const at = series.length;
    series.push({
      label: s.label, stroke: color, width: s.width ?? 1.6, dash: s.dash, spanGaps: true, points: { show: s.dots || s.x.length === 1, size: 6 },
      paths: s.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
    });
    if (s.low) {
      series.push({ stroke: () => "transparent", width: 0, spanGaps: true, points: { show: false } });
      series.push({ stroke: () => "transparent", width: 0, spanGaps: true, points: { show: false } });
      bands.push({ series: [at + 1, at + 2], fill: () => tint(canvasColor(s.color), 0.16) });
    }
  }
  return {
    width, height, series, bands, legend: { show: false }, padding: [10, 20, 0, 0],
    scales: { x: { time: false }, y: { distr: scale.distr, asinh: scale.around, range: yRange ? () => yRange : { 1: padded, 4: (_, low, high) => paddedAround(low, high, scale.around) }[scale.distr] } },
    axes: [
      { ...axisBase, size: 26, space: 64, values: (_, ticks) => ticks.map((v) => latest.current.xFormat(v)) },
      { ...axisBase, size: 52, space: 32, ...(scale.distr === 4 && { splits: (_, __, low, high) => ticksAround(low, high, scale.around), filter: (_, ticks) => ticks }), values: (_, ticks) => ticks.map((v) => (v === null ? "" : latest.current.yFormat(v))) },
    ],
    focus: { alpha: 0.25 },
    cursor: {
      focus: { prox: drawn.length > 1 ? 24 : -1 }, y: false, drag: { x: !latest.current.onSeek, y: false, setScale: true },
      sync: sync ? { key: sync } : undefined, points: { size: 6 },
    },
    hooks: { ready: [(u) => attach(u, drawn, latest, setTip)], setCursor: [(u) => setTip(tipOf(u, drawn, latest.current))], draw: [(u) => u.placeMarker?.(), (u) => markBad(u, latest.current.bad)],
      setSeries: [(u, index) => {
        const id = index ? (owner(drawn, index)?.id ?? null) : null;
        u.focused = id;
        u.root.classList.toggle("focused", id !== null);
      }] },
  };
}

// A little room above and below; a flat line stays in the middle.
function padded(_, low, high) {
  if (low === null || high === null) return [0, 1];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

/** The same where the scale is logarithmic on both sides of 0. */
function paddedAround(low, high, around) {
  if (low === null || high === null) return [-around, around];
  const [from, to] = [Math.asinh(low / around), Math.asinh(high / around)];
  const room = (to - from) * 0.06 || 0.5;
  return [Math.sinh(from - room) * around, Math.sinh(to + room) * around];
}

/** Red triangles on the x axis. */
function markBad(u, bad) {
  const { left, top, width, height } = u.bbox;
  const size = 4 * devicePixelRatio;
  u.ctx.fillStyle = css("--red");
  for (const x of bad) {
    const at = u.valToPos(x, "x", true);
    if (at < left - 1 || at > left + width + 1) continue;
    u.ctx.beginPath();
    u.ctx.moveTo(at - size, top + height);
    u.ctx.lineTo(at + size, top + height);
    u.ctx.lineTo(at, top + height - 2 * size);
    u.ctx.fill();
  }
}

function attach(u, drawn, latest, setTip) {
  const line = document.createElement("div");
  line.className = "chart-marker";
  u.over.appendChild(line);
  u.placeMarker = () => {
    const { marker } = latest.current;
    line.hidden = marker === null || marker === undefined;
    if (!line.hidden) line.style.transform = `translateX(${Math.round(u.valToPos(marker, "x"))}px)`;
  };
  u.placeMarker();
  u.over.addEventListener("mouseleave", () => setTip(null));
  u.over.addEventListener("dblclick", () => (u.zoomed = false));
  let hovered = null;
  u.over.addEventListener("mousemove", () => {
    const id = u.focused ?? null;
    if (id !== hovered) latest.current.onHighlight?.((hovered = id));
  });
  u.over.addEventListener("mouseup", () => u.select.width > 0 && (u.zoomed = true));
  u.over.addEventListener("click", () => {
    if (u.select.width > 0 || !latest.current.onPick) return;
    const id = u.focused ?? (drawn.length === 1 ? drawn[0].id : null);
    if (id !== null) latest.current.onPick(id);
  });
  const seek = (event) => {
    const { onSeek } = latest.current;
    if (onSeek) onSeek(u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x"));
  };
  u.over.addEventListener("pointerdown", (event) => {
    if (!latest.current.onSeek) return;
    u.over.setPointerCapture(event.pointerId);
    seek(event);
  });
  u.over.addEventListener("pointermove", (event) => event.buttons && u.over.hasPointerCapture(event.pointerId) && seek(event));
}

function tipOf(u, drawn, { xFormat, yFormat }) {
  const { idx, left } = u.cursor;
  if (idx === null || idx === undefined || left < 0) return null;
  const x = u.posToVal(left, "x");
  const there = drawn.filter((s) => x >= s.x[0] && x <= s.x[s.x.length - 1]); // an ended curve has no value here
  const rows = there.map((s) => {
    const y = valueAt(s.x, s.y, x);
    const low = s.low ? valueAt(s.x, s.low, x) : null;
    const interval = low !== null ? ` (${yFormat(low)} – ${yFormat(valueAt(s.x, s.high, x))})` : "";
    return { id: s.id, label: s.label, color: s.color, y, value: `${yFormat(y)}${interval}`, on: u.focused === s.id };
  });
  rows.sort((a, b) => b.on - a.on || b.y - a.y);
  return { left: left + u.bbox.left / devicePixelRatio, width: u.width, x: xFormat(u.data[0][idx]), rows: rows.slice(0, 8), more: rows.length - 8 };
}

// On the line that is drawn: between two points, what the line shows there.
function valueAt(xs, ys, x) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle;
    else high = middle;
  }
  if (ys[low] === null || ys[high] === null || xs[high] === xs[low]) return ys[low] ?? ys[high];
  return ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / (xs[high] - xs[low]);
}
