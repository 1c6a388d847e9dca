// Sweeps: what is searched, how far it is, what came of it; and the trainings of one.
import { get } from "../api.js";
import { Card, Empty, ErrorLine, Loading, Progress, Spark, StatusBadge, count, duration, html, num, useEffect, useState } from "../ui.js";

const AGAIN = 2000; // ms until it is asked for again

export default function Sweeps({ id }) {
  return id ? html`<${Sweep} key=${id} name=${id} />` : html`<${List} />`;
}

/** What an address of the API says now, asked for again and again. */
function useFresh(path) {
  const [state, setState] = useState({ data: null, problem: null });
  useEffect(() => {
    const load = () => get(path).then((data) => setState({ data, problem: null }), (error) => setState((old) => ({ ...old, problem: error.message })));
    load();
    const timer = setInterval(() => document.visibilityState === "visible" && load(), AGAIN);
    return () => clearInterval(timer);
  }, [path]);
  return state;
}

const address = (name) => `/sweeps/${encodeURIComponent(name)}`;

function List() {
  const { data: rows, problem } = useFresh("/sweeps");
  if (problem) return html`<${ErrorLine}>${problem}</${ErrorLine}>`;
  if (!rows) return html`<${Loading} />`;
  if (!rows.length) return html`<${Empty} title="No sweeps yet" icon="dice"><p>A sweep searches better settings. Start one in a terminal:</p><code>gymnast sweep CartPole-v1</code></${Empty}>`;
  return html`<div class="page-head"><h1>Sweeps</h1><span class="muted">${rows.length}</span></div><${Card}><div class="grid-box"><table class="plain" aria-label="Sweeps">
    <thead><tr><th>Sweep</th><th class="wide">Target</th><th>Status</th><th class="right">Trainings</th><th>Result</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}><td><a href=${address(row.name)}>${row.name}</a></td><td class="wide">${row.target}</td><td><${StatusBadge} status=${row.status} /></td>
      <td class="right">${row.cells}</td><td>${row.result ?? html`<span class="muted">none yet</span>`}</td></tr>`)}</tbody>
  </table></div></${Card}>`;
}

function Sweep({ name }) {
  const { data, problem } = useFresh(`/sweep/${encodeURIComponent(name)}`);
  if (problem && !data) return html`<${Empty} title="This sweep cannot be shown" icon="warning"><p>${problem}</p><a href="/sweeps">All sweeps</a></${Empty}>`;
  if (!data) return html`<${Loading} />`;
  const file = (path) => `/api/sweep/${encodeURIComponent(name)}/file/${path}`;
  return html`<div class="page-head run-head"><a class="button quiet only-icon" href="/sweeps" aria-label="All sweeps" title="All sweeps">←</a>
      <div class="two-lines"><h1>${data.name}</h1><div class="hint">${data.target} · ${data.cells} trainings${data.result ? ` · ${data.result}` : ""}</div></div><${StatusBadge} status=${data.status} /></div>
    <div class="stack">${problem && html`<${ErrorLine}>${problem}</${ErrorLine}>`}
      ${data.result && html`<${Card} title="Report" actions=${html`<a class="button small" href=${file("report.html")} target="_blank">Open alone</a>`}>
        <iframe class="report" sandbox="allow-same-origin" title="Report" src=${file("report.html")}></iframe></${Card}>`}
      <${Trainings} rows=${data.trainings} /></div>`;
}

function Trainings({ rows }) {
  const nodes = rows.some((row) => row.nodes.length);
  if (!rows.length) return html`<${Empty} title="No training yet">The first one begins in a moment.</${Empty}>`;
  return html`<${Card} title="Trainings"><div class="grid-box"><table class="plain trainings" aria-label="Trainings">
    <thead><tr><th>Config</th><th class="wide">Settings</th><th class="right wide">Seed</th><th>Status</th><th class="right" title="Mean height of the evaluation curve over the steps that were made">Score</th><th class="wide">Evaluations</th><th class="right">Steps</th><th class="right wide">Time</th>${nodes && html`<th class="wide">Trained on</th>`}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}><td class="mono nowrap">${row.run ? html`<a href=${`/runs/${encodeURIComponent(row.run)}`} title=${`run ${row.run}`}>${row.config}</a>` : row.config}</td>
      <td class="wide">${row.settings ?? html`<span class="muted">–</span>`}</td><td class="right wide">${row.seed}</td>
      <td><${StatusBadge} status=${row.status} />${row.status === "running" && html`<${Progress} value=${row.progress} label=${`Progress of ${row.name}`} />`}</td>
      <td class="right">${num(row.score)}</td><td class="wide"><${Spark} values=${row.curve} /></td><td class="right nowrap">${count(row.steps)}</td><td class="right nowrap wide">${duration(row.seconds)}</td>${nodes && html`<td class="wide">${[...new Set(row.nodes)].join(", ")}</td>`}</tr>`)}</tbody>
  </table></div></${Card}>`;
}
