// One run: how it goes, every metric, alerts, what is inside its network, settings, files.
import { Activity, clockOf, phaseOf, stepsOf, timeToGo } from "../activity.js";
import { get, post } from "../api.js";
import { Chart } from "../chart.js";
import { useLive } from "../live.js";
import { AXES, MetricCard, aboutOf, levels, lines, subjectOf, useSubjects, xFormat } from "../metrics.js";
import { go, setQuery, url } from "../router.js";
import { algoOf, nameOf, useRows } from "../rows.js";
import { Badge, Button, Card, Empty, ErrorLine, Loading, Panel, Progress, RelTime, RunBadge, Segmented, Slider, Stat, Switch, Tabs, attempt, colour, count, html, num, toast, useData, useEffect, useMemo, useState } from "../ui.js";
import { Alerts, Diagnostics, Files, Log, Next, Settings, TimeBudget, Verdict } from "./run_parts.js";
import { DeleteDialog, TagDialog } from "./runs.js";

const RETURN = "rollout/ep_rew_mean";
const EVALUATION = "eval/mean_reward";
const EXACT = "eval/exact_value";
const SCORES = [RETURN, EVALUATION, EXACT]; // drawn in one chart
const OPEN = ["rollout", "eval", "train"]; // subjects that are open at first

export default function Run({ id, query }) {
  return id === "@last" ? html`<${Newest} query=${query} />` : html`<${OneRun} key=${id} id=${id} query=${query} />`;
}

/** The list is watched for it: a newer run takes its place. */
function Newest({ query }) {
  const rows = useRows();
  if (rows === null) return html`<${Loading} />`;
  if (!rows.length) return html`<${Empty} title="No runs yet" icon="chart"><a class="button primary" href="/start">Start a run</a></${Empty}>`;
  return html`<${OneRun} key=${rows[0].id} id=${rows[0].id} query=${query} />`;
}

function OneRun({ id, query }) {
  const subjects = useSubjects();
  const { data, error, reload } = useData(() => get(`/run/${encodeURIComponent(id)}`), [id]);
  const [smoothing, setSmoothing] = useState(0);
  const [log, setLog] = useState(false);
  const [open, setOpen] = useState(() => new Set(OPEN));
  const [search, setSearch] = useState("");
  const tab = query.get("tab") ?? "overview";
  const axis = query.get("axis") ?? "env_steps";
  const known = data?.metrics ?? [];
  const names = useMemo(() => shownMetrics(tab, known, open, search), [tab, known, open, search, subjects]);
  const live = useLive(data?.id ?? null, names, axis);
  const row = live.row ?? data;
  const running = row?.status === "running";

  // What is not pushed point by point is asked for again, now and then, and when the run ends.
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && reload(), 10_000);
    return () => clearInterval(timer);
  }, [running]);
  useEffect(() => {
    if (live.row && data && (live.row.status !== data.status || live.row.alerts !== data.alerts.length || live.row.solved !== data.solved || live.row.score !== data.score)) reload();
  }, [live.row?.status, live.row?.alerts, live.row?.solved, live.row?.score]);
  useEffect(() => {
    document.title = row ? `${nameOf(row)} · Gymnast Studio` : "Gymnast Studio";
    return () => (document.title = "Gymnast Studio");
  }, [row && nameOf(row)]);

  if (error && !data) return html`<${Empty} title="This run cannot be shown" icon="warning"><p class="mono">${id}</p><p>${error.message}</p><a href="/runs">All runs</a></${Empty}>`;
  if (!data) return html`<${Loading} text="Reading the run" />`;
  const color = colour(data.colour);
  const chart = { series: live.series, axis, smoothing, log, color, latest: { ...data.latest, ...last(live.series) } };
  const tools = html`<div class="row tools"><${Segmented} label="Horizontal axis" value=${axis} options=${AXES} onChange=${(value) => setQuery({ axis: value === "env_steps" ? null : value })} />
    <${Slider} label="Smoothing" value=${smoothing} min=${0} max=${0.99} step=${0.01} onInput=${setSmoothing} format=${(value) => value.toFixed(2)} /><${Switch} label="log" checked=${log} onChange=${setLog} /></div>`;
  const tabs = [
    { id: "overview", label: "Overview" },
    { id: "metrics", label: "Metrics", count: known.length },
    { id: "alerts", label: "Alerts", count: data.alerts.length },
    { id: "diagnostics", label: "Diagnostics" },
    { id: "settings", label: "Settings" },
    { id: "files", label: "Files" },
    { id: "log", label: "Log" },
  ];
  return html`<${Head} row=${row} data=${data} reload=${reload} />
    ${live.gone && html`<${ErrorLine}>${live.gone}</${ErrorLine}>`}
    ${data.crash && html`<${ErrorLine}>${data.crash}</${ErrorLine}>`}
    ${data.problems.map((problem) => html`<${ErrorLine} key=${problem}>${problem}</${ErrorLine}>`)}
    <${Tabs} value=${tab} tabs=${tabs} onChange=${(value) => setQuery({ tab: value === "overview" ? null : value })} />
    ${tab === "overview" && html`<${Overview} row=${row} data=${data} chart=${chart} names=${names} tools=${tools} onFix=${reload} />`}
    ${tab === "metrics" && html`<${Metrics} names=${names} known=${known} subjects=${subjects} chart=${chart} tools=${tools} open=${open} setOpen=${setOpen} search=${search} setSearch=${setSearch} />`}
    ${tab === "alerts" && html`<${Alerts} run=${data} />`}
    ${tab === "diagnostics" && html`<${Diagnostics} id=${data.id} rows=${running ? data.rows : 0} />`}
    ${tab === "settings" && html`<${Settings} run=${data} />`}
    ${tab === "files" && html`<${Files} run=${data} reload=${reload} />`}
    ${tab === "log" && html`<${Log} run=${data} />`}`;
}

function shownMetrics(tab, known, open, search) {
  if (tab === "overview") {
    const emphasised = known.filter((name) => aboutOf(name).emphasis && aboutOf(name).style !== "flag" && !SCORES.includes(name) && !name.startsWith("verdict/"));
    return [...SCORES.filter((name) => known.includes(name)), ...emphasised.slice(0, 9)];
  }
  if (tab !== "metrics") return [];
  const word = search.toLowerCase();
  return known.filter((name) => (word ? name.toLowerCase().includes(word) : open.has(subjectOf(name))));
}

/** The newest value of every curve that is drawn. */
function last(series) {
  return Object.fromEntries(Object.entries(series).filter(([, s]) => s.y.length).map(([name, s]) => [name, s.y[s.y.length - 1]]));
}

function Head({ row, data, reload }) {
  const [dialog, setDialog] = useState(null);
  const [busy, setBusy] = useState(null);
  const running = row.status === "running";
  useEffect(() => setBusy(null), [row.status]);
  const act = async (what) => {
    setBusy(what);
    const answer = await attempt(post(`/run/${row.id}/${what}`));
    if (!answer || what !== "stop") setBusy(null); // a run that stops is busy until its status changes
    if (answer && what === "stop") toast("Stopping: the run ends after its current update and can be resumed.");
    if (answer?.id && answer.id !== row.id) go(`/runs/${answer.id}`);
    else if (answer) reload();
  };
  const again = url("/start", { env: row.variant ? `${row.env}:${row.variant}` : row.env, set: Object.entries(row.changes).map(([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : value}`) });
  return html`<div class="page-head run-head"><a class="button quiet only-icon" href="/runs" aria-label="All runs" title="All runs">←</a>
      <span class="swatch big" style=${{ background: colour(data.colour) }}></span><div class="two-lines"><h1>${nameOf(row)}</h1>
      <div class="hint">${row.env} · ${algoOf(row)} · seed ${row.seed}<span class="run-id"> · <span class="mono">${row.id}</span></span>${data.sweep && html` · of sweep <a href=${`/sweeps/${encodeURIComponent(data.sweep)}`}>${data.sweep}</a>`}</div></div>
      <${RunBadge} row=${row} doing=${row.now && phaseOf(row.now) !== "Training" ? phaseOf(row.now).toLowerCase() : undefined} />
      ${row.tags.map((tag) => html`<${Badge} key=${tag} kind="tag" title=${tag}>${tag}</${Badge}>`)}
      <span class="spacer"></span>
      ${!data.sweep && html`<div class="row">${running && html`<${Button} icon="stop" busy=${busy === "stop"} onClick=${() => act("stop")}>Stop</${Button}>`}
      ${!running && data.resumes_at && html`<${Button} icon="play" busy=${busy === "resume"} title=${`Resume at ${data.resumes_at}`} onClick=${() => act("resume")}>Resume</${Button}>`}
      <a class="button" href=${url("/inspect", { ref: row.id })}>Inspect</a><a class="button" href=${url("/play", { ref: row.id })}>Watch</a>
      <a class="button" href=${url("/compare", { ref: row.id })}>Compare</a><a class="button" href=${again} title="A new run with these settings, to be changed first">Start again</a>
      <${Button} icon="tag" label="Tags" onClick=${() => setDialog("tag")} /><${Button} icon="trash" danger label="Delete" disabled=${running} onClick=${() => setDialog("delete")} /></div>`}</div>
    <${Card} class="run-stats"><div class="stats">
      <${Stat} label=${row.score_kind ? `Best ${row.score_kind}` : "Score"} value=${num(row.score)} sub=${row.low !== null ? `95 %: ${num(row.low)} to ${num(row.high)}` : row.threshold !== null ? `solved at ${num(row.threshold)}` : ""} />
      <${Stat} label="Training return" value=${num(row.training_return)} sub="last 100 episodes" />
      <${Stat} label="Env steps" value=${count(stepsOf(row))} sub=${row.total_steps ? `of ${count(row.total_steps)}` : ""} />
      <${Stat} label="Time" value=${clockOf(row)} sub=${timeToGo(row)} />
      <${Stat} label="Steps a second" value=${count(row.fps)} sub="mean of the run" />
      <${Stat} label="Started" value=${html`<${RelTime} at=${row.created || null} />`} sub=${data.machine} />
      ${row.on && html`<${Stat} label=${running ? "Trains on" : "Trained on"} value=${row.on === "modal" ? "Modal" : "Ray"} sub=${row.on === "modal" ? "" : row.on === "ray" ? "on this machine" : `at ${row.on}`} />`}</div>
      ${running && html`<${Activity} row=${row} /><${Progress} value=${row.total_steps ? stepsOf(row) / row.total_steps : row.progress} />`}</${Card}>
    ${dialog === "tag" && html`<${TagDialog} rows=${[row]} onClose=${() => { setDialog(null); reload(); }} />`}
    ${dialog === "delete" && html`<${DeleteDialog} rows=${[row]} onClose=${() => setDialog(null)} onDone=${() => go("/runs")} />`}`;
}

function Overview({ row, data, chart, names, tools, onFix }) {
  const { series, smoothing, axis, log, color } = chart;
  const { verdict } = data;
  const curves = useMemo(() => {
    const training = lines(RETURN, "training", series[RETURN], color, smoothing);
    const dots = (name, label, color) => (series[name] ? [{ id: name, label, color, width: 1, dots: true, ...series[name] }] : []);
    const measured = [...training, ...dots(EVALUATION, "evaluation", "var(--text)"), ...dots(EXACT, "exact value", "var(--blue)")];
    return [...levels(measured, [["solved at", row.threshold, "var(--green)"], ["target", verdict.target, "var(--amber)"], ["best possible", verdict.optimum, "var(--faint)"]]), ...measured];
  }, [series[RETURN], series[EVALUATION], series[EXACT], smoothing, row.threshold, verdict.target, verdict.optimum, color]);
  return html`<div class="side"><div class="stack">${tools}
      <${Card} title="Return" class="return-chart"><${Chart} series=${curves} height=${280} log=${log} sync="metrics" xFormat=${xFormat(axis)} label="Return" empty=${row.status === "running" ? "No episode has ended yet." : "No episode ended."} /></${Card}>
      <div class="grid-cards">${names.filter((name) => !SCORES.includes(name)).map((name) => html`<${MetricCard} key=${name} name=${name} data=${series[name]} color=${color} axis=${axis} smoothing=${smoothing} log=${log} value=${chart.latest[name]} height=${120} />`)}</div></div>
    <div class="stack"><${Verdict} run=${data} />${data.alerts.length > 0 && html`<${Alerts} run=${data} most=${2} onFix=${onFix} />`}<${TimeBudget} run=${data} />${!data.sweep && html`<${Next} run=${data} />`}</div></div>`;
}

function Metrics({ names, known, subjects, chart, tools, open, setOpen, search, setSearch }) {
  if (!known.length) return html`<${Empty} title="No metrics yet">The first row is written after the first rollout.</${Empty}>`;
  const toggle = (subject) => (on) => setOpen((old) => {
    const next = new Set(old);
    if (on) next.add(subject);
    else next.delete(subject);
    return next;
  });
  const titles = [...new Set(known.map(subjectOf))];
  const order = subjects.map((subject) => subject.name);
  titles.sort((a, b) => order.indexOf(a) - order.indexOf(b));
  return html`<div class="stack">${tools}<input class="input search" type="search" placeholder="Search metrics" aria-label="Search metrics" value=${search} onInput=${(e) => setSearch(e.target.value)} />
    ${titles.map((subject) => {
      const mine = known.filter((name) => subjectOf(name) === subject);
      const shown = names.filter((name) => subjectOf(name) === subject);
      if (search && !shown.length) return null;
      const title = subjects.find((one) => one.name === subject)?.title ?? subject;
      return html`<${Panel} key=${subject} id=${subject} title=${`${title} (${mine.length})`} open=${search ? true : open.has(subject)} onToggle=${toggle(subject)}>
        <div class="grid-cards">${shown.map((name) => html`<${MetricCard} key=${name} name=${name} data=${chart.series[name]} color=${chart.color} axis=${chart.axis} smoothing=${chart.smoothing} log=${chart.log} value=${chart.latest[name]} />`)}</div></${Panel}>`;
    })}</div>`;
}
