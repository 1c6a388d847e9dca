// All runs: live list with search, filters, selection.
import { briefly, clockOf, stepsOf } from "../activity.js";
import { post } from "../api.js";
import { go, setQuery, url } from "../router.js";
import { algoOf, nameOf, placeOf, useRows } from "../rows.js";
import { Table } from "../table.js";
import { Badge, Button, Dialog, Empty, Field, Loading, Progress, RelTime, Select, RunBadge, Spark, attempt, colour, count, html, num, roughly, toast, useEffect, useMemo, useState } from "../ui.js";

const score = (row) => row.score ?? null;
const COLUMNS = [
  { id: "name", label: "Run", sort: (row) => nameOf(row).toLowerCase(), render: (row) => html`<${Name} row=${row} />` },
  { id: "env", label: "Env", width: "15%", class: "wide", sort: (row) => row.env, render: (row) => html`<span title=${row.env}>${row.env}</span>` },
  { id: "algo", label: "Algorithm", width: "10%", class: "wide", sort: algoOf, render: algoOf },
  { id: "status", label: "Status", width: "148px", class: "col-status", sort: (row) => row.status, render: (row) => html`<${State} row=${row} />` },
  { id: "score", label: "Score", title: "Mean return of fresh episodes, with the 95 % interval where a verdict was made; the best evaluation otherwise, which is the exact value where the env has a table of states",
    width: "140px", class: "col-score", align: "right", sort: score, render: (row) => html`<${Score} row=${row} />` },
  { id: "spark", label: "Return", title: "Mean return of training episodes over the run", width: "116px", class: "wide", render: (row) => html`<${Spark} values=${row.spark} color=${colour(row.colour)} />` },
  { id: "steps", label: "Steps", width: "76px", align: "right", class: "wide", sort: (row) => row.env_steps, render: (row) => count(stepsOf(row)) },
  { id: "time", label: "Time", width: "92px", align: "right", class: "wide", sort: (row) => row.seconds, render: clockOf },
  { id: "created", label: "Started", width: "92px", align: "right", class: "wide", sort: (row) => row.created, render: (row) => html`<${RelTime} at=${row.created || null} />` },
];

function Name({ row }) {
  const changes = Object.entries(row.changes).map(([key, value]) => `${key.replace(/^(algo|agent|train)\./, "")}=${typeof value === "object" ? JSON.stringify(value) : value}`);
  return html`<div class="run-name"><span class="swatch" style=${{ background: colour(row.colour) }}></span><div class="two-lines">
    <div class="ellipsis"><a href=${`/runs/${encodeURIComponent(row.id)}`} title=${row.id}>${nameOf(row)}</a>
      ${row.tags.map((tag) => html`<${Badge} kind="tag" title=${tag} key=${tag}>${tag}</${Badge}>`)}
      ${row.alerts > 0 && html`<${Badge} kind="amber" title=${`${row.alerts} alerts`}>▲ ${row.alerts}</${Badge}>`}</div>
    <div class="hint ellipsis" title=${[row.on && `on ${placeOf(row)}`, ...changes].filter(Boolean).join(" ")}><span class="narrow">${row.env} · </span>seed ${row.seed}${row.on && ` · on ${placeOf(row)}`}${changes.length > 0 && ` · ${changes.join(" ")}`}</div></div></div>`;
}

function State({ row }) {
  if (row.status !== "running") return html`<${RunBadge} row=${row} />`;
  const brief = briefly(row.now);
  return html`<div class="state"><div class="row"><${RunBadge} row=${row} doing=${brief?.word} />${brief
      ? html`<span class="hint" title="episodes that have ended">${brief.share}</span>` : html`<span class="hint" title="until its steps are made">${row.eta === null ? "" : roughly(row.eta)}</span>`}</div>
    <${Progress} value=${row.progress} label=${`Progress of ${nameOf(row)}`} /></div>`;
}

function Score({ row }) {
  if (row.score === null || row.score === undefined) return html`<span class="muted">–</span>`;
  return html`<div class="two-lines"><div>${num(row.score)}</div>
    <div class="hint">${row.low === null ? (row.threshold === null ? "" : `solved at ${num(row.threshold)}`) : `${num(row.low)} to ${num(row.high)}`}</div></div>`;
}

const FILTERS = {
  env: (row, value) => row.env === value,
  algo: (row, value) => row.algo === value,
  status: (row, value) => row.status === value,
  solved: (row, value) => (value === "yes") === (row.solved === true),
  tag: (row, value) => row.tags.includes(value),
};

function matches(row, words) {
  if (!words.length) return true;
  const text = [row.id, row.name, row.env, row.algo, row.variant, row.status, row.on ?? "", ...row.tags, `seed=${row.seed}`, ...Object.entries(row.changes).map(([key, value]) => `${key}=${value}`)].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

const some = (values) => [...new Set(values)].filter(Boolean).sort();

export default function Runs({ query }) {
  const all = useRows();
  const [selected, setSelected] = useState(new Set());
  const [dialog, setDialog] = useState(null);
  const search = query.get("q") ?? "";
  const by = query.get("sort");
  const sort = by ? { id: by.replace(/^-/, ""), down: by.startsWith("-") } : null;
  const filters = Object.keys(FILTERS).map((name) => [name, query.get(name)]).filter(([, value]) => value);
  const key = query.toString();
  const shown = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    return (all ?? []).filter((row) => filters.every(([name, value]) => FILTERS[name](row, value)) && matches(row, words));
  }, [all, key]);
  if (all === null) return html`<${Loading} text="Reading the runs" />`;
  if (!all.length) return html`<${NoRuns} />`;
  const chosen = shown.filter((row) => selected.has(row.id));
  const filter = (name, label, options) => html`<${Select} label=${label} value=${query.get(name) ?? ""} options=${[{ value: "", label }, ...options]} onChange=${(value) => setQuery({ [name]: value || null })} />`;
  const select = (id, on) => setSelected((old) => {
    const next = new Set(old);
    if (on) next.add(id);
    else next.delete(id);
    return next;
  });
  const live = all.filter((row) => row.status === "running").length;
  return html`<div class="page-head"><h1>Runs</h1><span class="muted" data-count=${shown.length}>${shown.length === all.length ? all.length : `${shown.length} of ${all.length}`}${live > 0 && ` · ${live} running`}</span>
      <span class="spacer"></span><a class="button primary" href="/start">Start a run</a></div>
    <div class="row filters"><input class="input search" type="search" placeholder="Search: name, env, tag, changed setting" aria-label="Search runs" value=${search} onInput=${(e) => setQuery({ q: e.target.value || null })} />
      ${filter("env", "All envs", some(all.map((row) => row.env)))}
      ${filter("algo", "All algorithms", some(all.map((row) => row.algo)))}
      ${filter("status", "Any status", some(all.map((row) => row.status)))}
      ${filter("solved", "Solved or not", [{ value: "yes", label: "Solved" }, { value: "no", label: "Not solved" }])}
      ${some(all.flatMap((row) => row.tags)).length > 0 && filter("tag", "Any tag", some(all.flatMap((row) => row.tags)))}
      ${(filters.length > 0 || search) && html`<${Button} quiet small onClick=${() => setQuery({ q: null, env: null, algo: null, status: null, solved: null, tag: null })}>Clear</${Button}>`}</div>
    <${Table} label="Runs" columns=${COLUMNS} rows=${shown} rowKey=${(row) => row.id} rowHeight=${48} sort=${sort} onSort=${({ id, down }) => setQuery({ sort: down ? `-${id}` : id })}
      onOpen=${(row) => go(`/runs/${encodeURIComponent(row.id)}`)} selected=${selected} onSelect=${select}
      onSelectAll=${(on) => setSelected(new Set(on ? shown.map((row) => row.id) : []))} empty=${html`<${Empty} title="No run fits">Change the search or the filters.</${Empty}>`} />
    ${chosen.length > 0 && html`<${Selection} chosen=${chosen} clear=${() => setSelected(new Set())} open=${setDialog} />`}
    ${dialog === "delete" && html`<${DeleteDialog} rows=${chosen} onClose=${() => setDialog(null)} onDone=${() => setSelected(new Set())} />`}
    ${dialog === "tag" && html`<${TagDialog} rows=${chosen} onClose=${() => setDialog(null)} />`}`;
}

function NoRuns() {
  return html`<${Empty} title="No runs yet" icon="chart"><p>Start one here, or in the terminal with</p><code>gymnast train CartPole-v1</code><a class="button primary" href="/start">Start a run</a></${Empty}>`;
}

function Selection({ chosen, clear, open }) {
  const [asked, setAsked] = useState([]); // ids of runs that are stopping
  const live = chosen.filter((row) => row.status === "running");
  const ids = live.map((row) => row.id).join();
  useEffect(() => setAsked((before) => before.filter((id) => ids.split(",").includes(id))), [ids]);
  const going = live.filter((row) => !asked.includes(row.id));
  const stop = async () => {
    setAsked(live.map((row) => row.id));
    const stopped = [];
    for (const row of going) if (await attempt(post(`/run/${row.id}/stop`))) stopped.push(row);
    if (stopped.length) toast(`Stopping ${stopped.map(nameOf).join(", ")}: it ends after its current update and can be resumed.`);
  };
  return html`<div class="selection" role="toolbar" aria-label="Selected runs"><b>${chosen.length} selected</b>
    <a class="button primary" href=${url("/compare", { ref: chosen.map((row) => row.id) })}>Compare</a>
    ${live.length > 0 && html`<${Button} icon="stop" disabled=${!going.length} onClick=${stop}>Stop</${Button}>`}
    <${Button} icon="tag" onClick=${() => open("tag")}>Tag</${Button}>
    <${Button} icon="trash" danger onClick=${() => open("delete")}>Delete</${Button}>
    <${Button} quiet icon="close" label="Clear the selection" onClick=${clear} /></div>`;
}

/** Asks, then deletes. */
export function DeleteDialog({ rows, onClose, onDone }) {
  const [busy, setBusy] = useState(false);
  const remove = async () => {
    setBusy(true);
    let deleted = 0;
    for (const row of rows) deleted += (await attempt(post(`/run/${row.id}/delete`))) ? 1 : 0;
    setBusy(false);
    if (deleted) toast(`Deleted ${deleted} ${deleted === 1 ? "run" : "runs"}.`);
    onClose();
    if (deleted) onDone();
  };
  return html`<${Dialog} title=${rows.length === 1 ? "Delete this run?" : `Delete ${rows.length} runs?`} onClose=${onClose}
    actions=${html`<${Button} onClick=${onClose}>Keep</${Button}><${Button} danger busy=${busy} onClick=${remove}>Delete</${Button}>`}>
    <p>All files are removed from the disk: metrics, checkpoints, videos. This cannot be undone.</p>
    <p class="mono muted">${rows.slice(0, 8).map((row) => html`<span key=${row.id}>${row.id}<br /></span>`)}${rows.length > 8 && `and ${rows.length - 8} more`}</p></${Dialog}>`;
}

export function TagDialog({ rows, onClose }) {
  const [word, setWord] = useState("");
  const tags = some(rows.flatMap((row) => row.tags));
  const change = async (body) => {
    for (const row of rows) if (!(await attempt(post(`/run/${row.id}/tag`, body)))) return;
    onClose();
  };
  const words = word.split(/[\s,]+/).filter(Boolean);
  return html`<${Dialog} title="Tags" onClose=${onClose} actions=${html`<${Button} primary disabled=${!words.length} onClick=${() => change({ add: words })}>Add</${Button}>`}>
    <${Field} label="New tags" hint="Words to find runs by."><input class="input" autofocus value=${word} onInput=${(e) => setWord(e.target.value)} onKeyDown=${(e) => e.key === "Enter" && words.length && change({ add: words })} /></${Field}>
    ${tags.length > 0 && html`<div class="row">${tags.map((tag) => html`<span class="badge tag" title=${tag} key=${tag}><span>${tag}</span><${Button} quiet small icon="close" label=${`Remove ${tag}`} onClick=${() => change({ remove: [tag] })} /></span>`)}</div>`}</${Dialog}>`;
}
