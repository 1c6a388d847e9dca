// Several runs next to each other: curves with intervals over seeds, what differs, why one is better.
import { get } from "../api.js";
import { Chart } from "../chart.js";
import { AXES, AXIS_LABEL, aboutOf, levels, lines, useSubjects, valueText, xFormat } from "../metrics.js";
import { go, setQuery } from "../router.js";
import { algoOf, nameOf, useRows } from "../rows.js";
import { Button, Card, Dialog, Empty, ErrorLine, Loading, Segmented, Select, Slider, Switch, cls, colour, count, duration, html, num, useData, useEffect, useMemo, useRef, useState } from "../ui.js";

const SOON = 2000; // ms between two answers while a run of the comparison trains

export default function Compare({ query }) {
  const rows = useRows();
  useSubjects();
  const refs = query.getAll("ref");
  const axis = query.get("axis") ?? "env_steps";
  const metric = query.get("metric");
  const group = query.get("group") ?? "seed";
  const version = useVersion(rows, refs);
  const { data, error, loading } = useData(() => (refs.length ? get("/compare", { ref: refs, metric, axis, group }) : Promise.resolve(null)), [refs.join(" "), metric, axis, group, version]);
  const [smoothing, setSmoothing] = useState(0);
  const [log, setLog] = useState(false);
  const [highlight, setHighlight] = useState(null);
  const [picked, setPicked] = useState(null);
  const series = useMemo(() => drawn(data, smoothing), [data, smoothing]);
  const about = aboutOf(data?.metric ?? "");

  const change = (next) => setQuery({ ref: next });
  const pick = (id) => {
    const curve = data.curves.find((one) => one.letter === id.replace(/ raw$/, ""));
    if (curve?.ids.length === 1) go(`/runs/${encodeURIComponent(curve.ids[0])}`);
    else if (curve) setPicked(curve);
  };
  if (rows === null) return html`<${Loading} />`;
  return html`<div class="page-head"><h1>Compare</h1><${Add} rows=${rows} refs=${refs} onAdd=${(ref) => change([...refs, ref])} />
      ${refs.length > 0 && html`<${Button} quiet small onClick=${() => change([])}>Clear</${Button}>`}</div>
    ${!refs.length && html`<${Suggestions} rows=${rows} />`}
    ${error && html`<${ErrorLine}>${error.message}</${ErrorLine}>`}
    ${refs.length > 0 && !data && loading && html`<${Loading} />`}
    ${refs.length > 0 && data && html`<div class="stack">
      <div class="tools"><${Segmented} label="Horizontal axis" value=${axis} options=${AXES} onChange=${(value) => setQuery({ axis: value === "env_steps" ? null : value })} />
        <${Select} label="Metric" value=${data.metric} options=${data.metrics} onChange=${(value) => setQuery({ metric: value })} />
        <${Slider} label="Smoothing" value=${smoothing} min=${0} max=${0.99} step=${0.01} onInput=${setSmoothing} format=${(value) => value.toFixed(2)} />
        <${Switch} label="group seeds" checked=${group === "seed"} onChange=${(on) => setQuery({ group: on ? null : "none" })} /><${Switch} label="log" checked=${log} onChange=${setLog} /></div>
      <${Card} title=${data.metric}><p class="hint">${about.about}</p><${Chart} series=${series} height=${340} log=${log} xFormat=${xFormat(axis)} yFormat=${(value) => valueText(about, value)} label=${data.metric}
        highlight=${highlight} onHighlight=${setHighlight} onPick=${pick} xLabel=${AXIS_LABEL[axis]} />
        ${notes(data, axis).map((note) => html`<p class="hint" key=${note}>${note}</p>`)}</${Card}>
      <${Sides} data=${data} rows=${rows} open=${setPicked} highlight=${highlight} setHighlight=${setHighlight} remove=${(ids) => change(refs.filter((ref) => !ids.includes(ref) && !ids.some((id) => id.startsWith(`${ref}-`))))} />
      <div class="grid-2"><${Card} title=${data.curves.length > 1 ? "Which is better, and why" : "One side"}><ul class="reasons">${data.reasons.map((line) => html`<li key=${line}>${line}</li>`)}</ul>
          ${data.history.map((line) => html`<p class="hint" key=${line}>${line}</p>`)}</${Card}>
        <${Differences} title="Settings that differ" data=${data} items=${data.differences} none="All settings are the same." /></div>
      <div class="grid-2">${data.alerts.length > 0 && html`<${Differences} title="Alerts: runs that had them" data=${data} items=${data.alerts} />`}
        ${data.versions.length > 0 && html`<${Differences} title="Versions and machines" data=${data} items=${data.versions} />`}</div></div>`}
    ${picked && html`<${Dialog} title=${`${picked.letter}: ${picked.label}`} onClose=${() => setPicked(null)}><p class="hint">This curve is the interquartile mean of ${picked.ids.length} runs, with its 95 % interval.</p>
      ${picked.ids.map((id, index) => html`<a key=${id} href=${`/runs/${encodeURIComponent(id)}`}>seed ${picked.seeds[index]}: ${id}</a>`)}</${Dialog}>`}`;
}

/** The colour of a side is that of its first run; where another side has it already, the next that no side has. */
function colours(curves) {
  const taken = new Set();
  return curves.map(({ colour: own }) => {
    let number = own;
    for (let step = 1; taken.has(colour(number)) && step < 40; step++) number = own + step;
    taken.add(colour(number));
    return colour(number);
  });
}

function drawn(data, smoothing) {
  if (!data) return [];
  const colors = colours(data.curves);
  const curves = data.curves.flatMap((curve, index) => {
    const { x, y, low, high, bad } = curve;
    return lines(curve.letter, `${curve.letter}  ${curve.label}`, low ? { x, y, low, high, bad } : { x, y, bad }, colors[index], smoothing);
  });
  return [...levels(curves, [["solved at", data.threshold, "var(--green)"], ["target", data.target, "var(--amber)"], ["best possible", data.optimum, "var(--faint)"]]), ...curves];
}

/** What the lines and bands are. */
function notes(data, axis) {
  const ended = data.curves.flatMap((curve) => curve.ended.map(({ seed, at }) => (at === null ? `${curve.letter}, seed ${seed}, has no point of it` : `${curve.letter}, seed ${seed}, ended at ${xFormat(axis)(at)}`)));
  return [
    data.curves.some((curve) => curve.low) && "A line with a band is the interquartile mean of several seeds; the band is the 95 % interval of that mean.",
    ended.length > 0 && `${ended.slice(0, 6).join("; ")}${ended.length > 6 ? `; and ${ended.length - 6} more` : ""}. From there on the mean uses its last value.`,
  ].filter(Boolean);
}

/** Changes at most every two seconds, when a run of the comparison has. */
function useVersion(rows, refs) {
  const [version, setVersion] = useState(0);
  const timer = useRef(null);
  const state = (rows ?? []).filter((row) => refs.includes(row.id)).map((row) => `${row.env_steps}${row.status}`).join();
  const first = useRef(true);
  useEffect(() => {
    if (first.current) return void (first.current = !state);
    timer.current ??= setTimeout(() => {
      timer.current = null;
      setVersion((n) => n + 1);
    }, SOON);
  }, [state]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return version;
}

function Add({ rows, refs, onAdd }) {
  const others = rows.filter((row) => !refs.includes(row.id));
  const env = rows.find((row) => refs.includes(row.id))?.env;
  const order = [...others.filter((row) => row.env === env), ...others.filter((row) => row.env !== env)].slice(0, 300);
  return html`<${Select} label="Add a run" value="" options=${[{ value: "", label: "Add a run" }, ...order.map((row) => ({ value: row.id, label: `${nameOf(row)} · ${row.env} · ${algoOf(row)} · seed ${row.seed}` }))]} onChange=${(id) => id && onAdd(id)} />`;
}

/** Envs with several runs, to begin with. */
function Suggestions({ rows }) {
  const envs = new Map();
  for (const row of rows) envs.set(row.env, [...(envs.get(row.env) ?? []), row]);
  const several = [...envs].filter(([, of]) => of.length > 1).slice(0, 12);
  if (!several.length) return html`<${Empty} title="Nothing to compare yet" icon="chart"><p>Select several runs in the <a href="/runs">list</a> and press Compare.</p></${Empty}>`;
  return html`<${Empty} title="Choose runs to compare" icon="chart"><p>Add runs above, select several in the <a href="/runs">list</a>, or begin with the newest of an env.</p>
    <div class="row suggestions">${several.map(([env, of]) => html`<${Button} key=${env} onClick=${() => setQuery({ ref: of.slice(0, 8).map((row) => row.id) })}>${env} (${Math.min(of.length, 8)})</${Button}>`)}</div></${Empty}>`;
}

function measureText(name, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (name === "seconds_to_threshold") return duration(value);
  return name.startsWith("steps") ? count(value) : num(value);
}

function Sides({ data, rows, open, highlight, setHighlight, remove }) {
  const colors = colours(data.curves);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return html`<${Card}><div class="grid-box"><table class="plain sides" aria-label="Sides"><thead><tr><th></th><th>side</th><th class="right">runs</th>${data.measures.map((one) => html`<th key=${one.name} class="right">${one.title}</th>`)}<th></th></tr></thead><tbody>
    ${data.curves.map((curve, index) => html`<tr key=${curve.letter} data-side=${curve.letter} class=${cls(highlight === curve.letter && "on")} onMouseEnter=${() => setHighlight(curve.letter)} onMouseLeave=${() => setHighlight(null)}>
      <td class="nowrap"><span class="swatch" style=${{ background: colors[index] }}></span> <b>${curve.letter}</b></td>
      <td>${curve.ids.length === 1 ? html`<a href=${`/runs/${encodeURIComponent(curve.ids[0])}`}>${curve.label}</a>` : html`<button type="button" class="as-link" onClick=${() => open(curve)}>${curve.label}</button>`}${byId.get(curve.ids[0])?.status === "running" && html`<span class="badge blue pulse">running</span>`}</td>
      <td class="right">${curve.ids.length}</td>
      ${data.measures.map((one) => html`<td key=${one.name} class="right nowrap">${measureText(one.name, one.values[index].value)}${one.values[index].low !== null && html`<div class="hint">${num(one.values[index].low)} to ${num(one.values[index].high)}</div>`}</td>`)}
      <td class="right"><${Button} quiet small icon="close" label=${`Remove ${curve.letter}`} onClick=${() => remove(curve.ids)} /></td></tr>`)}</tbody></table></div>
    ${data.measured_on && html`<p class="hint">The curve of the measures is ${data.measured_on}. Its mean is over the first ${count(data.measured_until)} env steps, which all of these runs have.</p>`}</${Card}>`;
}

function Differences({ title, data, items, none }) {
  return html`<${Card} title=${title}>${items.length === 0 ? html`<p class="hint">${none}</p>` : html`<div class="grid-box"><table class="plain"><thead><tr><th></th>${data.curves.map((curve) => html`<th key=${curve.letter}>${curve.letter}</th>`)}</tr></thead>
    <tbody>${items.map((one) => html`<tr key=${one.key}><td class="mono">${one.key}</td>${one.values.map((value, index) => html`<td key=${index} class=${cls("mono", String(value) !== String(one.values[0]) && "differs")}>${String(value)}</td>`)}</tr>`)}</tbody></table></div>`}</${Card}>`;
}
