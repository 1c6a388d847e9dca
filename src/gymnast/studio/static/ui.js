// Components and formats every page uses. Text is always set as text: nothing here writes HTML from data.
import htm from "./vendor/htm.js";
import { Fragment, h, render } from "./vendor/preact.js";
import { useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "./vendor/signals.js";

export const html = htm.bind(h);
export { Fragment, batch, computed, effect, h, render, signal, useCallback, useComputed, useEffect, useErrorBoundary, useId,
  useLayoutEffect, useMemo, useRef, useSignal, useSignalEffect, useState };

export const cls = (...names) => names.filter(Boolean).join(" ");

// ---- formats ---------------------------------------------------------------------------------------------------

/** 1234567 -> "1.23 M": counts of steps and the like. */
export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  for (const [unit, factor] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (size >= factor) return `${trim(value / factor, size / factor >= 100 ? 0 : size / factor >= 10 ? 1 : 2)} ${unit}`;
  }
  return String(Math.round(value));
}

const trim = (value, digits) => value.toFixed(digits).replace(/\.0+$|(\.\d*?)0+$/, "$1");

/** A number with about four digits that matter. */
export function num(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return minus(String(value));
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return minus(value.toExponential(2));
  return minus(trim(value, Math.max(0, Math.min(digits, digits - 1 - Math.floor(Math.log10(size || 1))))));
}

/** A number with a fixed number of digits, so that columns stay aligned. */
export const fixed = (value, digits = 2) =>
  value === null || value === undefined || Number.isNaN(value) ? "–" : minus(value.toFixed(digits));

const minus = (text) => text.replace(/^-/, "−");

export const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`);

/** 4000 seconds -> "1 h 7 min". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return `${trim(seconds, 1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`.replace(/ 0 s$/, "");
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`.replace(/ 0 min$/, "");
  return `${Math.floor(seconds / 86400)} d ${Math.round((seconds % 86400) / 3600)} h`;
}

/** The same in its largest unit: "7 min", "1 h". */
export const roughly = (seconds) => duration(Math.round(seconds)).split(" ").slice(0, 2).join(" ");

/** "2 min ago"; takes seconds since 1970, milliseconds or an ISO text. */
export function ago(when) {
  if (when === null || when === undefined) return "–";
  const stamp = typeof when === "number" ? (when < 1e11 ? when * 1000 : when) : Date.parse(when);
  const seconds = Math.max(0, (Date.now() - stamp) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 86400 * 30) return `${Math.round(seconds / 86400)} d ago`;
  return new Date(stamp).toISOString().slice(0, 10);
}

const PALETTE = ["#3d7eff", "#e8702a", "#2aa876", "#d64d8a", "#8a63d2", "#b58900", "#17a2b8", "#d9534f", "#6a994e", "#a0673f", "#5b7db1", "#c060c0"];
const MORE = ["#0d9488", "#e879a6", "#7c7ff2", "#d97706", "#4d9de0", "#84a234", "#b4536a", "#9a86b8"]; // for runs: the more, the fewer share one
const RUNS = [...PALETTE, ...MORE];

/** The colour of a run by its number, which the server gives it. */
export const colour = (number) => RUNS[number % RUNS.length];
export const colourAt = (index) => PALETTE[index % PALETTE.length];

// ---- small parts -----------------------------------------------------------------------------------------------

const ICONS = {
  list: "M4 6h16M4 12h16M4 18h16", chart: "M4 19V5M4 19h16M7 15l4-5 3 3 5-7", search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  play: "M7 5l12 7-12 7z", pause: "M8 5v14M16 5v14", plus: "M12 5v14M5 12h14", sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6l1.4 1.4M17 17l1.4 1.4M5.6 18.4L7 17M17 7l1.4-1.4",
  moon: "M20 14.5A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.5z", close: "M6 6l12 12M18 6L6 18", check: "M5 12l5 5 9-10", stop: "M6 6h12v12H6z",
  record: "M12 18a6 6 0 1 0 0-12 6 6 0 0 0 0 12z", back: "M15 5l-7 7 7 7", next: "M9 5l7 7-7 7", first: "M6 5v14M18 5l-8 7 8 7", last: "M18 5v14M6 5l8 7-8 7",
  branch: "M6 4v16M6 14c0-5 12-3 12-8M18 6a2 2 0 1 0 0-4 2 2 0 0 0 0 4z", trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13", tag: "M4 4h8l8 8-8 8-8-8zM8 8h.01",
  reset: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4h4", down: "M6 9l6 6 6-6", warning: "M12 4l9 16H3zM12 10v4M12 17h.01", dice: "M5 5h14v14H5zM9 9h.01M15 15h.01M12 12h.01", user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM5 20c1-4 4-5 7-5s6 1 7 5",
};

export const Icon = ({ name, size = 16 }) => html`<svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" fill="none" stroke="currentColor"
  stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

/** A button; without children `label` is its accessible name. */
export function Button({ icon, label, primary, danger, quiet, small, active, children, busy, class: extra, ...rest }) {
  const kind = cls("button", primary && "primary", danger && "danger", quiet && "quiet", small && "small", active && "active", !children && "only-icon", extra);
  return html`<button type="button" class=${kind} aria-label=${label} title=${label} aria-pressed=${active === undefined ? undefined : String(!!active)}
    aria-busy=${busy ? "true" : undefined} ...${rest} disabled=${rest.disabled || busy}>${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

export const Badge = ({ kind = "", title, children }) => html`<span class=${cls("badge", kind)} title=${title}>${children}</span>`;

// Green is for what was shown to be solved, and for nothing else.
const STATUS = { running: "blue pulse", killed: "red", crashed: "red", damaged: "red" };
export const StatusBadge = ({ status, title }) => html`<${Badge} kind=${STATUS[status] ?? ""} title=${title}>${status}</${Badge}>`;

/** What became of a run, in one badge: its verdict where there is one, else how it ended. `doing`: what it does, while it is trained. */
export function RunBadge({ row, doing = "running" }) {
  const { status, solved, judged } = row;
  const failed = ["killed", "crashed", "damaged"].includes(status);
  if (status === "running") return html`<${Badge} kind=${solved ? "green pulse" : "blue pulse"} title=${solved ? `Solved, and still trained: ${doing}` : ""}>${solved ? "solved" : doing}</${Badge}>`;
  if (solved && !failed) return html`<${Badge} kind="green" title=${`Solved: a verdict on fresh episodes; ${status}`}>solved</${Badge}>`;
  if (solved === false && judged && status === "finished") return html`<${Badge} kind="amber" title="No verdict could show that the threshold is reached">not solved</${Badge}>`;
  return html`<${StatusBadge} status=${status} title=${solved ? "It was solved before" : undefined} />`;
}

export function Card({ title, actions, children, class: extra, label, ...rest }) {
  const id = useId();
  return html`<section class=${cls("card", extra)} aria-labelledby=${title ? id : undefined} aria-label=${label} ...${rest}>
    ${(title || actions) && html`<div class="card-head"><h2 id=${id}>${title}</h2><div class="card-actions">${actions}</div></div>`}
    ${children}</section>`;
}

/** A card that can be closed; its children exist only while it is open (so closed panels compute nothing). */
export function Panel({ id, title, about, open, onToggle, actions, children }) {
  return html`<section class=${cls("card panel", open && "open")} data-panel=${id}>
    <div class="card-head"><button type="button" class="fold" aria-expanded=${String(open)} onClick=${() => onToggle(!open)}>
      <${Icon} name="down" size=${14} /><h2>${title}</h2></button>
      <div class="card-actions">${open && actions}</div></div>
    ${open && html`<div class="panel-body">${about && html`<p class="hint">${about}</p>`}${children}</div>`}</section>`;
}

export const Empty = ({ title, children, icon }) => html`<div class="empty">${icon && html`<${Icon} name=${icon} size=${28} />`}<h2>${title}</h2><div>${children}</div></div>`;
export const Loading = ({ text = "Loading" }) => html`<div class="loading" role="status"><span class="spinner"></span>${text}</div>`;
export const ErrorLine = ({ children }) => html`<p class="error-line" role="alert"><${Icon} name="warning" />${children}</p>`;
export const Stat = ({ label, value, sub, title }) => html`<div class="stat" title=${title}><span class="stat-label">${label}</span><span class="stat-value">${value}</span>${sub && html`<span class="stat-sub">${sub}</span>`}</div>`;
export const Progress = ({ value, label = "Progress" }) => html`<div class="progress" role="progressbar" aria-label=${label} aria-valuemin="0" aria-valuemax="100"
  aria-valuenow=${Math.round(100 * (value ?? 0))}><div style=${{ width: `${100 * Math.min(1, value ?? 0)}%` }}></div></div>`;

const clock = signal(0);
setInterval(() => document.visibilityState === "visible" && clock.value++, 30_000);

/** "2 min ago", which stays true while the page is open; the exact time as its title. */
export function RelTime({ at }) {
  clock.value;
  if (at === null || at === undefined) return html`<span>–</span>`;
  const stamp = typeof at === "number" ? new Date(at < 1e11 ? at * 1000 : at) : new Date(at);
  return html`<time dateTime=${stamp.toISOString()} title=${stamp.toLocaleString()}>${ago(at)}</time>`;
}

export function Spark({ values, width = 96, height = 24, color = "var(--accent)", label = "score over time" }) {
  const points = (values ?? []).map((value, index) => [index, value]).filter(([, value]) => value !== null && Number.isFinite(value));
  if (points.length < 2) return html`<svg class="spark" width=${width} height=${height} role="img" aria-label="no curve yet"></svg>`;
  const low = Math.min(...points.map((p) => p[1]));
  const range = Math.max(...points.map((p) => p[1])) - low || 1;
  const last = points[points.length - 1][0] || 1;
  const path = points.map(([x, y], i) => `${i ? "L" : "M"}${((x / last) * (width - 4) + 2).toFixed(1)} ${(height - 3 - ((y - low) / range) * (height - 6)).toFixed(1)}`).join("");
  return html`<svg class="spark" width=${width} height=${height} role="img" aria-label=${label}><path d=${path} fill="none" stroke=${color} stroke-width="1.5" stroke-linejoin="round" /></svg>`;
}

// ---- form parts ------------------------------------------------------------------------------------------------

export const Field = ({ label, hint, error, children }) => html`<label class=${cls("field", error && "invalid")}><span class="field-label">${label}</span>${children}
  ${error ? html`<span class="field-error" role="alert">${error}</span>` : hint && html`<span class="hint">${hint}</span>`}</label>`;

/** options: texts, or {value, label}. */
export function Select({ value, options, onChange, label, ...rest }) {
  return html`<select class="input" aria-label=${label} value=${value} onChange=${(e) => onChange(e.target.value)} ...${rest}>
    ${options.map((o) => (typeof o === "object" ? o : { value: o, label: o })).map((o) => html`<option key=${o.value} value=${o.value} disabled=${o.disabled}
      selected=${String(o.value) === String(value)}>${o.label}</option>`)}</select>`;
}

export function Slider({ label, value, min, max, step = "any", onInput, format = num, ...rest }) {
  return html`<label class="slider"><span class="slider-label">${label}</span><input type="range" min=${min} max=${max} step=${step} value=${value}
    aria-label=${label} onInput=${(e) => onInput(Number(e.target.value))} ...${rest} /><output>${format(value)}</output></label>`;
}

export const Switch = ({ label, checked, onChange, ...rest }) => html`<label class="switch"><input type="checkbox" role="switch" checked=${checked}
  onChange=${(e) => onChange(e.target.checked)} ...${rest} /><span class="switch-track"></span><span>${label}</span></label>`;

/** A row of choices of which one is on. options: {value, label, title}. */
export function Segmented({ value, options, onChange, label }) {
  return html`<div class="segmented" role="radiogroup" aria-label=${label}>${options.map((o) => html`<button type="button" role="radio" key=${o.value}
    aria-checked=${String(o.value === value)} title=${o.title} disabled=${o.disabled} tabindex=${o.value === value ? 0 : -1}
    onKeyDown=${(e) => arrows(e, options.map((one) => one.value), value, onChange)} onClick=${() => onChange(o.value)}>${o.label}</button>`)}</div>`;
}

function arrows(event, values, value, onChange) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  const next = (values.indexOf(value) + by + values.length) % values.length;
  onChange(values[next]);
  event.currentTarget.parentElement.children[next].focus();
}

/** tabs: {id, label, count}. */
export function Tabs({ value, tabs, onChange, label = "Sections" }) {
  const bar = useRef();
  useEffect(() => { // on a phone some are out of sight
    const chosen = bar.current.querySelector("[aria-selected=true]");
    if (chosen) bar.current.scrollLeft = chosen.offsetLeft - bar.current.offsetLeft - (bar.current.clientWidth - chosen.offsetWidth) / 2;
  }, [value]);
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${bar}>${tabs.map((tab) => html`<button type="button" role="tab" key=${tab.id} id="tab-${tab.id}"
    aria-selected=${String(tab.id === value)} tabindex=${tab.id === value ? 0 : -1}
    onKeyDown=${(e) => arrows(e, tabs.map((one) => one.id), value, onChange)} onClick=${() => onChange(tab.id)}>
    ${tab.label}${tab.count !== undefined && html`<span class="tab-count">${tab.count}</span>`}</button>`)}</div>`;
}

// ---- dialogs and messages --------------------------------------------------------------------------------------

/** A modal dialog: Escape and the cross close it. */
export function Dialog({ title, onClose, children, actions, wide }) {
  const ref = useRef();
  useEffect(() => {
    ref.current.showModal();
  }, []);
  return html`<dialog ref=${ref} class=${cls("dialog", wide && "wide")} aria-label=${title} onClose=${onClose}
    onClick=${(e) => e.target === ref.current && ref.current.close()}>
    <div class="dialog-inner"><div class="card-head"><h2>${title}</h2><${Button} quiet icon="close" label="Close" onClick=${() => ref.current.close()} /></div>
    <div class="dialog-body">${children}</div>${actions && html`<div class="dialog-actions">${actions}</div>`}</div></dialog>`;
}

const toasts = signal([]);
let toastId = 0;

/** A short message in the corner. kind: "" | "red"; `link` = {href, label} is optional. */
export function toast(text, kind = "", link = null) {
  const id = ++toastId;
  toasts.value = [...toasts.value.slice(-3), { id, text, kind, link }];
  setTimeout(() => dismiss(id), kind === "red" ? 10_000 : 5_000);
}
const dismiss = (id) => (toasts.value = toasts.value.filter((one) => one.id !== id));

/** Wait for a promise; its error becomes a toast. Returns the result, or undefined. */
export async function attempt(promise) {
  try {
    return await promise;
  } catch (problem) {
    toast(problem.message, "red");
    return undefined;
  }
}

export const Toasts = () => html`<div class="toasts" role="status" aria-live="polite">${toasts.value.map((one) => html`<div key=${one.id} class=${cls("toast", one.kind)}>
  <span>${one.text}</span>${one.link && html`<a href=${one.link.href}>${one.link.label}</a>`}<${Button} quiet small icon="close" label="Dismiss" onClick=${() => dismiss(one.id)} /></div>`)}</div>`;

/** Data of a promise: {data, error, loading, reload}; `load` runs again when `deps` change, a late answer to old deps is dropped. */
export function useData(load, deps) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    let current = true;
    setState((old) => ({ ...old, loading: true }));
    load().then(
      (data) => current && setState({ data, error: null, loading: false }),
      (error) => current && setState((old) => ({ data: old.data, error, loading: false })),
    );
    return () => (current = false);
  }, [...deps, again]);
  return { ...state, reload: () => setAgain((n) => n + 1) };
}
