// Metrics: what each means, and its chart.
import { get } from "./api.js";
import { Chart, smooth } from "./chart.js";
import { count, cls, duration, html, num, percent, signal, useEffect, useMemo, useRef, useState } from "./ui.js";

export const AXES = [
  { value: "env_steps", label: "Env steps", title: "Agent decisions, summed over all envs" },
  { value: "vector_steps", label: "Vector steps", title: "Steps of all envs together: env steps divided by their number" },
  { value: "updates", label: "Updates", title: "Rollouts learned from" },
  { value: "seconds", label: "Seconds", title: "Wall clock of training" },
];
export const AXIS_LABEL = { env_steps: "env steps", vector_steps: "vector steps", updates: "updates", seconds: "time" };
export const xFormat = (axis) => (axis === "seconds" ? duration : count);

const subjects = signal([]);
let asked = false;

/** [{name, title, metrics: [...]}]: every metric there is, by subject. */
export function useSubjects() {
  useEffect(() => {
    if (asked) return;
    asked = true;
    get("/catalogue").then((found) => (subjects.value = found), () => (asked = false));
  }, []);
  return subjects.value;
}

/** What is known of a metric. A name that ends in /* stands for a family. */
export function aboutOf(name) {
  let found = null;
  for (const metric of subjects.value.flatMap((subject) => subject.metrics)) {
    if (metric.name === name) return metric;
    if (metric.name.endsWith("/*") && name.startsWith(metric.name.slice(0, -1))) found = { ...metric, name, label: name.slice(name.indexOf("/") + 1) };
  }
  return found ?? { name, label: name, about: "", unit: "" };
}

export const subjectOf = (name) => (name.includes("/") ? name.slice(0, name.indexOf("/")) : "eval");

/** A value as tables show it. */
export function valueText(metric, value) {
  if (value === null || value === undefined) return "–";
  if (metric.style === "percent") return percent(value, metric.precision);
  if (metric.style === "duration") return duration(value);
  if (metric.style === "flag") return value ? "yes" : "no";
  return metric.style === "count" ? count(value) : num(value);
}

function bounds(metric) {
  const said = [];
  const text = (value) => valueText(metric, value);
  const has = (value) => value !== null && value !== undefined;
  if (has(metric.low) && has(metric.high)) said.push(`${text(metric.low)} to ${text(metric.high)}`);
  else if (has(metric.low)) said.push(`${text(metric.low)} or more`);
  else if (has(metric.high)) said.push(`${text(metric.high)} or less`);
  if (has(metric.warn_low)) said.push(`unusual below ${text(metric.warn_low)}`);
  if (has(metric.warn_high)) said.push(`unusual above ${text(metric.warn_high)}`);
  if (metric.better) said.push(metric.better === "up" ? "higher is better" : "lower is better");
  return said.join(" · ");
}

/** Numbers that curves are measured against, as dashed lines over all of them. wanted: [label, value, color]; two equal values are one line. */
export function levels(curves, wanted) {
  const xs = curves.flatMap(({ x }) => [x[0], x[x.length - 1]]).filter((x) => x !== undefined);
  const there = wanted.filter(([, value]) => value !== null && value !== undefined);
  if (!xs.length) return [];
  return [...new Set(there.map(([, value]) => value))].map((value) => {
    const same = there.filter(([, other]) => other === value);
    return { id: same[0][0], label: `${same.map(([label]) => label).join(", ")} ${num(value)}`, color: same[0][2], dash: [4, 4], width: 1, x: [Math.min(...xs), Math.max(...xs)], y: [value, value] };
  });
}

/** The lines of a curve: as it is, or the smoothed one with the raw one behind it. */
export function lines(id, label, data, color, smoothing) {
  if (!data) return [];
  if (!smoothing || data.y.length < 3) return [{ id, label, color, ...data }];
  const band = data.low ? { low: smooth(data.low, smoothing), high: smooth(data.high, smoothing) } : {};
  const raw = data.low ? [] : [{ id: `${id} raw`, label: `${label}, not smoothed`, color: `${color}4d`, width: 1, unnamed: true, x: data.x, y: data.y }];
  return [...raw, { id, label, color, x: data.x, y: smooth(data.y, smoothing), bad: data.bad, ...band }];
}

export function MetricCard({ name, data, color, axis, smoothing, log, value, height = 150 }) {
  const metric = aboutOf(name);
  const series = useMemo(() => lines(name, metric.label, data, color, smoothing), [data, smoothing, color, metric.label]);
  const format = (v) => valueText(metric, v);
  const range = bounds(metric);
  return html`<section class="card metric" data-metric=${name} aria-label=${name}>
    <div class="metric-head"><h3 title=${name}>${metric.label}</h3><span class="metric-now">${valueText(metric, value)}${metric.unit && metric.style !== "duration" && html`<span class="muted"> ${metric.unit}</span>`}</span></div>
    <p class="hint clamp" title=${metric.about}>${metric.about}</p>
    <${InView} height=${height}><${Chart} series=${series} height=${height} legend=${false} log=${log} sync="metrics" xFormat=${xFormat(axis)} yFormat=${format} label=${metric.label} /></${InView}>
    <p class=${cls("hint bounds", !range && "none")}>${range || "\u00a0"}</p></section>`;
}

/** Children exist only while they are (nearly) in view; their room is kept. */
export function InView({ height, children }) {
  const ref = useRef();
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => setSeen(entry.isIntersecting), { rootMargin: "150px" });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return html`<div ref=${ref} style=${{ minHeight: `${height}px` }}>${seen && children}</div>`;
}
