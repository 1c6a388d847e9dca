// The parts of a run's page that do not move with every row.
import { get, post } from "../api.js";
import { go, url } from "../router.js";
import { Badge, Button, Card, Empty, Loading, Slider, Switch, attempt, cls, count, duration, html, num, percent, toast, useData, useState } from "../ui.js";

const file = (run, path) => `/api/run/${encodeURIComponent(run.id)}/file/${path.split("/").map(encodeURIComponent).join("/")}`;

export function Verdict({ run }) {
  const { verdict } = run;
  const lines = [
    ["score", verdict.score === null ? null : `${num(verdict.score)}${verdict.low === null ? "" : `, 95 % interval ${num(verdict.low)} to ${num(verdict.high)}`}`],
    ["agent", verdict.agent],
    ["measured on", verdict.episodes ? [verdict.measured_on, verdict.policy].filter(Boolean).join(", ") : null],
    ...Object.entries(verdict.test),
    ["evaluated on", verdict.evaluated_on],
    ["exact value", verdict.exact_value === null ? null : num(verdict.exact_value, 6)],
    ["solved at", verdict.threshold === null ? null : num(verdict.threshold)],
    ["target", verdict.target === null ? null : `${num(verdict.target)}, ${verdict.on_target ? "reached" : "not reached"}`],
    ["best possible", verdict.optimum === null ? null : num(verdict.optimum, 6)],
    [`best ${verdict.best_kind ?? "evaluation"}`, verdict.best_evaluation === null ? null : num(verdict.best_evaluation, verdict.best_kind === "exact value" ? 6 : 4)],
    ["stopped", verdict.stopped],
  ].filter(([, text]) => text !== null && text !== undefined);
  const headline = verdict.headline[0] + verdict.headline.slice(1).toLowerCase();
  return html`<${Card} title=${verdict.solved && run.status === "running" ? `Solved, ${headline.toLowerCase()}` : headline} class=${cls(verdict.solved && "good", verdict.solved === false && run.status !== "running" && "missed")}>
    <dl class="facts">${lines.map(([name, text]) => html`<dt key=${name}>${name}</dt><dd>${text}</dd>`)}</dl>
    ${verdict.meaning.map((line) => html`<p class="hint" key=${line}>${line}</p>`)}</${Card}>`;
}

const SEVERITY = { error: "red", warning: "amber", info: "blue" };

/** Alerts with their evidence; several that advise the same command have one button. */
export function Alerts({ run, most }) {
  const [busy, setBusy] = useState(null);
  if (!run.alerts.length) return html`<${Empty} title="No alerts" icon="check">No rule has fired in this run.</${Empty}>`;
  const fix = async (alert) => {
    setBusy(alert.name);
    const answer = await attempt(post(`/run/${run.id}/fix`, { alert: alert.name }));
    setBusy(null);
    if (!answer) return;
    toast("The advised run has started.");
    go(`/runs/${answer.id}`);
  };
  const causes = new Map();
  for (const alert of run.alerts) {
    const key = `${alert.cause}\n${alert.command}`;
    causes.set(key, [...(causes.get(key) ?? []), alert]);
  }
  const shown = [...causes.values()].slice(0, most ?? causes.size);
  return html`<div class="stack alerts">${shown.map((alerts) => {
    const first = alerts[0];
    return html`<${Card} key=${first.name} class="alert">${alerts.map((alert) => html`<div class="alert-line" key=${alert.name}>
        <div class="row"><${Badge} kind=${SEVERITY[alert.severity]}>${alert.name}</${Badge}><span class="hint">${alert.when}${alert.firing && run.status === "running" ? ", now" : ""}</span></div>
        <p>${alert.text}</p><p class="hint mono">${alert.evidence}</p></div>`)}
      <p><b>Likely cause: </b>${first.cause}</p>
      ${first.command && html`<div class="fix"><code>${first.command}</code><${Button} primary small busy=${busy === first.name} onClick=${() => fix(first)}>Start with ${first.patch}</${Button}></div>`}</${Card}>`;
  })}${most && causes.size > most && html`<a href=${url(`/runs/${run.id}`, { tab: "alerts" })}>${causes.size - most} more</a>`}</div>`;
}

export function TimeBudget({ run }) {
  const total = run.time_budget.reduce((sum, one) => sum + one.seconds, 0);
  if (!total) return null;
  const shown = run.time_budget.filter((one) => one.seconds > 0.005 * total);
  return html`<${Card} title="Where the time went"><div class="bars">${shown.map((one) => html`<div class="bar-row" key=${one.phase} title=${one.about}>
    <span>${one.phase}</span><span class="bar"><span style=${{ width: `${(100 * one.seconds) / total}%` }}></span></span><span class="right">${percent(one.seconds / total)}</span><span class="right muted">${duration(one.seconds)}</span></div>`)}</div></${Card}>`;
}

export function Next({ run }) {
  const { data } = useData(() => get(`/run/${encodeURIComponent(run.id)}/next`), [run.id, run.status]);
  const [busy, setBusy] = useState(null);
  if (!data?.length || run.status === "running") return null;
  const start = async (command) => {
    setBusy(command);
    const answer = await attempt(post(`/run/${run.id}/next`, { command }));
    setBusy(null);
    if (!answer) return;
    toast("The run has started.");
    go(`/runs/${encodeURIComponent(answer.id)}`);
  };
  return html`<${Card} title="What next"><div class="stack">${data.map((one) => html`<div key=${one.command} class="next"><p>${one.why}</p><${Command} text=${one.command}>
      ${one.starts && html`<${Button} small primary busy=${busy === one.command} disabled=${busy !== null} onClick=${() => start(one.command)}>Start</${Button}>`}${one.page && html`<a class="button small" href=${one.page}>Open</a>`}</${Command}></div>`)}</div></${Card}>`;
}

/** A command to copy; its other buttons are the children. */
export function Command({ text, children }) {
  const copy = () => navigator.clipboard.writeText(text).then(() => toast("Copied."), () => toast("The browser did not allow copying.", "red"));
  return html`<div class="command"><code>${text}</code><${Button} quiet small onClick=${copy} label="Copy the command">Copy</${Button}>${children}</div>`;
}

// ---- diagnostics -----------------------------------------------------------------------------------------------

export function Diagnostics({ id, rows }) {
  const [at, setAt] = useState(null);
  const { data, error } = useData(() => get(`/run/${encodeURIComponent(id)}/diagnostics`, { at }), [id, at, rows]);
  if (error) return html`<${Empty} title="Diagnostics cannot be read">${error.message}</${Empty}>`;
  if (!data) return html`<${Loading} />`;
  if (!data.steps.length) return html`<${Empty} title="No diagnostics yet">They are made every <code>log.diagnostics</code> env steps and at the end.</${Empty}>`;
  const { histograms = {}, actions = {}, observations = {}, layers = {}, gradients = {} } = data.data;
  const largest = Math.max(...Object.values(gradients), 1e-12);
  return html`<div class="stack"><div class="tools">${data.steps.length > 1 && html`<${Slider} label="Moment" value=${data.at} min=${0} max=${data.steps.length - 1} step=${1} onInput=${setAt} format=${(index) => count(data.steps[index])} />`}
      <span class="hint">at ${data.steps[data.at]?.toLocaleString("en")} env steps</span></div>
    <div class="grid-cards">${Object.entries(histograms).map(([name, one]) => html`<${Card} key=${name} title=${`Histogram: ${name}`}><${Histogram} data=${one} /></${Card}>`)}
      ${actions.frequency && html`<${Card} title="Actions taken"><${Bars} values=${actions.frequency} labels=${actions.labels} format=${(v) => percent(v)} /></${Card}>`}
      ${actions.mean && html`<${Card} title="Actions: mean ± std"><${Facts} rows=${actions.mean.map((mean, i) => [actions.labels?.[i] ?? `action ${i}`, `${num(mean)} ± ${num(actions.std[i])}`])} /></${Card}>`}</div>
    <div class="grid-2">${Object.keys(layers).length > 0 && html`<${Card} title="Activations by layer"><${Grid} head=${["layer", "units", "mean", "std", "dead", "saturated"]}
        rows=${Object.entries(layers).map(([name, one]) => [name, count(one.units), num(one.activation_mean), num(one.activation_std), percent(one.dead_units), one.saturation === undefined ? "" : percent(one.saturation)])} /></${Card}>`}
      ${Object.keys(gradients).length > 0 && html`<${Card} title="Gradient norm by parameter"><div class="bars">${Object.entries(gradients).map(([name, norm]) => html`<div class="bar-row long" key=${name}><span class="ellipsis" title=${name}>${name}</span>
        <span class="bar"><span style=${{ width: `${(100 * norm) / largest}%` }}></span></span><span class="right">${num(norm)}</span></div>`)}</div></${Card}>`}</div>
    ${Object.keys(observations).length > 0 && html`<${Card} title="Observations"><${Grid} head=${["component", "mean", "std", "min", "max"]}
      rows=${Object.entries(observations).filter(([, one]) => one.mean !== undefined).map(([name, one]) => [name, num(one.mean), num(one.std), num(one.min), num(one.max)])} />
      ${Object.entries(observations).filter(([, one]) => one.frequency).map(([name, one]) => html`<h3 key=${name}>${name}: how often each was seen</h3><${Bars} values=${one.frequency} format=${(v) => percent(v, 1)} />`)}</${Card}>`}</div>`;
}

function Histogram({ data: { counts, edges } }) {
  const most = Math.max(...counts, 1);
  const width = 280;
  const bar = width / counts.length;
  return html`<figure class="histogram"><svg viewBox=${`0 0 ${width} 96`} role="img" aria-label=${`from ${num(edges[0])} to ${num(edges[edges.length - 1])}`} preserveAspectRatio="none">
    ${counts.map((value, index) => html`<rect key=${index} x=${index * bar + 0.5} width=${bar - 1} y=${96 - (92 * value) / most} height=${(92 * value) / most} rx="1"><title>${`${num(edges[index])} to ${num(edges[index + 1])}: ${value}`}</title></rect>`)}</svg>
    <figcaption><span>${num(edges[0])}</span><span>${num(edges[edges.length - 1])}</span></figcaption></figure>`;
}

function Bars({ values, labels, format }) {
  const most = Math.max(...values, 1e-12);
  const shown = values.map((value, index) => [labels?.[index] ?? String(index), value]).slice(0, 64);
  return html`<div class="bars">${shown.map(([name, value], index) => html`<div class="bar-row long" key=${index}><span class="ellipsis" title=${name}>${name}</span><span class="bar"><span style=${{ width: `${(100 * value) / most}%` }}></span></span><span class="right">${format(value)}</span></div>`)}</div>`;
}

const Facts = ({ rows }) => html`<dl class="facts">${rows.map(([name, text]) => html`<dt key=${name}>${name}</dt><dd>${text}</dd>`)}</dl>`;

/** A plain table; the first column is text, the others are numbers. */
export function Grid({ head, rows }) {
  return html`<div class="grid-box"><table class="plain"><thead><tr>${head.map((name, index) => html`<th key=${name} class=${index ? "right" : ""}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row[0]}>${row.map((cell, index) => html`<td key=${index} class=${index ? "right" : "mono"}>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

// ---- settings, files, log --------------------------------------------------------------------------------------

export function Settings({ run }) {
  const [search, setSearch] = useState("");
  const [only, setOnly] = useState(false);
  const changed = run.settings.filter((one) => one.default !== null).length;
  const word = search.toLowerCase();
  const shown = run.settings.filter((one) => (!only || one.default !== null) && (!word || `${one.key} ${one.about}`.toLowerCase().includes(word)));
  if (!run.settings.length) return html`<${Card} title="config.yaml"><pre>${run.config_yaml}</pre></${Card}>`;
  return html`<div class="stack"><div class="tools"><input class="input search" type="search" placeholder="Search settings" aria-label="Search settings" value=${search} onInput=${(e) => setSearch(e.target.value)} />
      <${Switch} label=${`only what differs from ${run.preset ?? "the defaults"} (${changed})`} checked=${only} onChange=${setOnly} /><a href=${file(run, "config.yaml")} target="_blank">config.yaml</a></div>
    <${Card}><table class="plain settings"><thead><tr><th>setting</th><th>value</th><th class="wide">from</th><th class="wide">meaning</th></tr></thead><tbody>
      ${shown.map((one) => html`<tr key=${one.key} class=${cls(one.default !== null && "changed")}><td class="mono">${one.key}</td><td class="mono">${one.value}${one.default !== null && html`<div class="hint">${run.preset ? "preset" : "default"}: ${one.default}</div>`}</td><td class=${cls("wide nowrap", one.default === null && "hint")}>${one.origin ?? "–"}</td><td class="wide hint">${one.about}</td></tr>`)}</tbody></table>
      ${!shown.length && html`<p class="hint">No setting fits.</p>`}</${Card}>
    <${Card} title="Made with"><${Facts} rows=${[["command", html`<${Command} text=${run.command} />`], ["versions", Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ")], ["machine", [run.machine, run.host].filter(Boolean).join(", ")], ...(run.parent ? [["started from", run.parent]] : []), ...(run.resumed_at.length ? [["resumed at", run.resumed_at.map(count).join(", ")]] : [])]} /></${Card}></div>`;
}

export function Files({ run, reload }) {
  const [report, setReport] = useState(false);
  const [busy, setBusy] = useState(false);
  const make = async () => {
    setBusy(true);
    if (await attempt(post(`/run/${run.id}/report`))) {
      setReport(true);
      reload();
    }
    setBusy(false);
  };
  const has = run.files.some((one) => one.path === "report.html");
  return html`<div class="stack">
    <${Card} title="Checkpoints">${run.checkpoints.length === 0 ? html`<p class="hint">None yet.</p>` : html`<${Grid} head=${["name", "env steps", "evaluation", "training return", ""]}
      rows=${run.checkpoints.map((one) => [one.name, count(one.step), num(one.metrics["eval/mean_reward"]), num(one.metrics["rollout/ep_rew_mean"]), !run.sweep && html`<a href=${url("/inspect", { ref: `${run.id}@${one.name}` })}>Inspect</a> · <a href=${url("/play", { ref: `${run.id}@${one.name}` })}>Watch</a>`])} />`}</${Card}>
    ${run.videos.length > 0 && html`<${Card} title="Videos"><div class="grid-cards">${run.videos.map((one) => html`<figure class="video" key=${one.path}><video controls preload="metadata" src=${file(run, one.path)}></video><figcaption class="hint">${one.path}: ${one.about}</figcaption></figure>`)}</div></${Card}>`}
    ${!run.sweep && html`<${Card} title="Report" actions=${html`${has && html`<${Button} small onClick=${() => setReport(!report)}>${report ? "Hide" : "Show"}</${Button}>`}<${Button} small busy=${busy} onClick=${make}>${has ? "Make again" : "Make"}</${Button}>`}>
      ${report ? html`<iframe class="report" sandbox="allow-same-origin" title="Report" src=${file(run, "report.html")}></iframe>` : html`<p class="hint">All about this run on a page that can be sent to somebody.</p>`}</${Card}>`}
    <${Card} title="Files"><table class="plain"><tbody>${run.files.map((one) => html`<tr key=${one.path}><td class="mono"><a href=${file(run, one.path)} target="_blank">${one.path}</a></td><td class="hint">${one.about}</td></tr>`)}</tbody></table></${Card}></div>`;
}

export function Log({ run }) {
  return run.log.length ? html`<pre class="log">${run.log.join("\n")}</pre>` : html`<${Empty} title="The log is empty">Notices and warnings appear here.</${Empty}>`;
}
