// Sweeps: what is searched, how far it is, what came of it.
import { get } from "../api.js";
import { Card, Empty, ErrorLine, Loading, StatusBadge, html, useEffect, useState } from "../ui.js";

const AGAIN = 5000; // ms until the list is asked for again

export default function Sweeps() {
  const [rows, setRows] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const load = () => get("/sweeps").then((found) => { setRows(found); setProblem(null); }, (error) => setProblem(error.message));
    load();
    const timer = setInterval(load, AGAIN);
    return () => clearInterval(timer);
  }, []);
  if (problem) return html`<${ErrorLine}>${problem}</${ErrorLine}>`;
  if (!rows) return html`<${Loading} />`;
  if (!rows.length) return html`<${Empty} title="No sweeps yet">Start one in a terminal: <code>gymnast sweep CartPole-v1</code></${Empty}>`;
  return html`<div class="page-head"><h1>Sweeps</h1></div><${Card}><div class="grid-box"><table class="plain" aria-label="Sweeps">
    <thead><tr><th>Sweep</th><th class="wide">Target</th><th>Status</th><th class="right">Trainings</th><th>Report</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}><td>${row.name}</td><td class="wide">${row.target}</td><td><${StatusBadge} status=${row.status} /></td>
      <td class="right">${row.cells}</td><td>${row.result ? html`<a href=${`/api/sweep/${encodeURIComponent(row.name)}/report`}>${row.result}</a>` : html`<span class="muted">none yet</span>`}</td></tr>`)}</tbody>
  </table></div></${Card}>`;
}
