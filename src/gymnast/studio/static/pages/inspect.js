// Inspect: what an agent does and why, step by step, and what would have come of something else.
import { control, get } from "../api.js";
import { go, setQuery, url } from "../router.js";
import { OpenForm, Picture, settingsOf } from "../session.js";
import { Lane, makeDesk } from "../inspect/lane.js";
import { OPEN_AT_FIRST, PANELS, seek } from "../inspect/panels.js";
import { Working } from "../inspect/whatif.js";
import { Badge, Button, Card, Dialog, ErrorLine, Field, Icon, Loading, Panel, Select, attempt, cls, colourAt, fixed, html, useData, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../ui.js";

const POLICIES = [
  { value: "greedy", label: "greedy" }, { value: "sampled", label: "sampled" }, { value: "random", label: "random" }, { value: "untrained", label: "untrained" },
];
const FLAGS = { worst: ["worst", "red"], longest: ["longest", "blue"], value_error: ["value error", "amber"], entropy: ["entropy", "amber"] };
const numberOf = (text) => (text === null || text === "" || !Number.isFinite(Number(text)) ? null : Number(text));

export default function Inspect({ query }) {
  const [ref, env, vs] = [query.get("ref"), query.get("env"), query.get("vs")];
  if (!ref && !env) return html`<${OpenForm} page="inspect" title="Inspect" />`;
  return html`<${Inspector} key=${`${ref}|${env}|${vs}|${query.getAll("set")}|${query.getAll("vsset")}`} target=${ref} env=${env} vs=${vs} query=${query} />`;
}

function Inspector({ target, env, vs, query }) {
  const desk = useMemo(() => makeDesk(numberOf(query.get("t")) ?? 0), []);
  const first = useMemo(() => ({ policy: query.get("policy"), seed: numberOf(query.get("seed")), branches: query.getAll("branch").map(branchOf).filter(Boolean) }), []);
  const [lane, setLane] = useState(null);
  const [other, setOther] = useState(null);
  const [policy, setPolicy] = useState(POLICIES.some((one) => one.value === first.policy) ? first.policy : target ? "greedy" : "random");

  useEffect(() => {
    const a = new Lane("A", desk);
    a.open(target, env, async () => {
      let [{ n }] = await a.record({ policy, seed: first.seed, episodes: 1 });
      for (const step of first.branches) n = (await attempt(a.branch({ n, ...step })))?.n ?? n;
      a.n.value = n;
    }, settingsOf(query.getAll("set")));
    setLane(a);
    let b = null;
    if (vs) {
      b = new Lane("B", desk);
      b.open(vs, null, null, settingsOf(query.getAll("vsset")));
      setOther(b);
    }
    return () => {
      a.close();
      b?.close();
    };
  }, []);
  useSameSeed(lane, vs ? other : null, policy);

  // Another episode of the same session next to the chosen one.
  const compareWith = (n) => {
    if (other && !vs) other.close();
    if (n === null) return setOther(null);
    const b = new Lane("B", desk, lane);
    b.n.value = n;
    return setOther(b);
  };

  useUrl(desk, lane);
  const panels = usePanels(desk, lane?.about.value);
  if (!lane) return null;
  if (lane.error.value && !lane.about.value) return html`<div class="stack"><${ErrorLine}>${lane.error.value.message}</${ErrorLine}><div><a href="/inspect">Choose something else</a></div></div>`;
  if (!lane.about.value) return html`<${Loading} text="Opening the agent" />`;
  const lanes = other?.about.value ? [lane, other] : [lane];
  return html`<div class="stack inspect">
    <${Head} lane=${lane} target=${target} env=${env} vs=${vs} vsset=${query.getAll("vsset")} policy=${policy} setPolicy=${setPolicy} />
    ${[lane, other].filter((one) => one?.error.value).map((one) => html`<${ErrorLine} key=${one.name}>${one.error.value.message}</${ErrorLine}>`)}
    <div class="inspect-grid">
      <${Episodes} lane=${lane} other=${other} vs=${vs} policy=${policy} compareWith=${compareWith} />
      <div class="column centre"><${Stage} lanes=${lanes} desk=${desk} waiting=${vs && !other?.about.value} /><${Panels} lanes=${lanes} desk=${desk} panels=${panels} centre=${true} /></div>
      <div class="column panels"><${Panels} lanes=${lanes} desk=${desk} panels=${panels} centre=${false} /></div>
    </div></div>`;
}

// The second agent plays the seed that the first one played.
function useSameSeed(lane, other, policy) {
  const seed = lane?.row.value?.seed;
  const ready = other?.session.value;
  useEffect(() => {
    if (!other || !ready || seed === undefined) return;
    const known = other.rows.value.find((row) => row.seed === seed && row.parent === null && row.policy === policy);
    if (known) other.n.value = known.n;
    else attempt(other.record({ policy, seed, episodes: 1 }).then((rows) => (other.n.value = rows[0].n)));
  }, [ready, seed, policy]);
}

// The URL follows; not at every step of a scrub, because a browser refuses many changes a second.
function useUrl(desk, lane) {
  const [t, row, rows] = [desk.t.value, lane?.row.value, lane?.rows.value];
  useEffect(() => {
    if (!row) return undefined;
    const branches = [];
    let root = row;
    for (let parent = root; parent && parent.parent !== null; parent = rows.find((one) => one.n === parent.parent)) {
      branches.unshift(branchText(parent));
      root = rows.find((one) => one.n === parent.parent) ?? root;
    }
    const timer = setTimeout(() => setQuery({ policy: root.policy, seed: row.seed, n: row.n, t, branch: branches }), 250);
    return () => clearTimeout(timer);
  }, [t, row?.n, row?.seed]);
}

// A branch in the URL: its step, the action taken there, who goes on, and that agent's checkpoint.
const branchText = (row) => [row.at, JSON.stringify(row.action ?? null), row.policy, row.checkpoint ?? ""].join("~");
function branchOf(text) {
  const [at, action, then, checkpoint] = text.split("~");
  try {
    return { t: Number(at), action: JSON.parse(action), then, checkpoint: checkpoint || null, seed: null };
  } catch {
    return null;
  }
}

function Head({ lane, target, env, vs, vsset, policy, setPolicy }) {
  const about = lane.about.value;
  const [choosing, setChoosing] = useState(false);
  const run = about.ref;
  const to = (checkpoint) => go(url("/inspect", { ref: checkpoint ? `${run}@${checkpoint}` : run, vs, vsset, policy, seed: lane.row.value?.seed }));
  return html`<div class="page-head"><h1>Inspect</h1><span class="mono ellipsis">${about.env}</span>
    ${run && html`<a class="mono" href=${`/runs/${encodeURIComponent(run)}`}>${run}</a>`}
    ${about.checkpoints?.length > 0 && html`<${Select} label="Checkpoint" value=${about.checkpoint} options=${about.checkpoints} onChange=${to} />`}
    <${Select} label="Policy" value=${policy} options=${POLICIES.filter((p) => about.policies.includes(p.value))} onChange=${setPolicy} />
    <span class="spacer"></span>
    <a class="button" href=${url("/play", { ref: target, env, seed: lane.row.value?.seed })}><${Icon} name="play" />Play</a>
    ${vs ? html`<${Badge} kind="amber">B: ${[vs, ...vsset].join(" ")}</${Badge}><${Button} small onClick=${() => go(url("/inspect", { ref: target, policy, seed: lane.row.value?.seed }))}>One agent</${Button}>`
      : run && html`<${Button} icon="plus" onClick=${() => setChoosing(true)}>Compare with</${Button}>`}
    ${choosing && html`<${ChooseOther} about=${about} onClose=${() => setChoosing(false)} onChoose=${(ref, vsset) => go(url("/inspect", { ref: target, vs: ref, vsset, policy, seed: lane.row.value?.seed }))} />`}</div>`;
}

function ChooseOther({ about, onClose, onChoose }) {
  const runs = useData(() => get("/runs"), []);
  const same = (runs.data?.runs ?? []).filter((row) => row.env === about.env && row.id !== about.ref);
  const own = (about.checkpoints ?? []).filter((c) => c !== about.checkpoint).map((c) => ({ value: `${about.ref}@${c}`, label: `this run, checkpoint ${c}` }));
  const self = { value: `${about.ref}@${about.checkpoint}`, label: "the same agent with other settings" };
  const options = [...own, ...same.map((row) => ({ value: row.id, label: `${row.name ?? row.id} · ${row.variant ?? row.algo ?? ""}` })), self];
  const [chosen, setChosen] = useState(null);
  const [text, setText] = useState("");
  const value = chosen ?? options[0].value;
  const settings = text.split(/\s+/).filter(Boolean);
  return html`<${Dialog} title="Compare on the same seed" onClose=${onClose} actions=${html`<${Button} primary disabled=${value === self.value && !settings.length} onClick=${() => onChoose(value, settings)}>Compare</${Button}>`}>
    <${Field} label="Checkpoint or run"><${Select} label="Checkpoint or run" value=${value} options=${options} onChange=${setChosen} /></${Field}>
    <${Field} label="Settings of B (optional)" hint="key=value, for example env.kwargs.gravity=-5"><input class="input mono" value=${text} onInput=${(e) => setText(e.target.value)} /></${Field}></${Dialog}>`;
}

const ORDERS = [{ value: "n", label: "newest first" }, { value: "worst", label: "worst first" }, { value: "longest", label: "longest first" }, 
  { value: "value_error", label: "value error" }, { value: "entropy", label: "entropy" }];
const KEYS = { n: (r) => -r.n, worst: (r) => r.return, longest: (r) => -r.length, value_error: (r) => -(r.value_error ?? -1), entropy: (r) => -(r.entropy ?? -1) };

function Episodes({ lane, other, vs, policy, compareWith }) {
  const [seed, setSeed] = useState("");
  const [episodes, setEpisodes] = useState(5);
  const [order, setOrder] = useState("n");
  const rows = [...lane.rows.value].sort((a, b) => KEYS[order](a) - KEYS[order](b));
  const record = async (event) => {
    event.preventDefault();
    const made = await attempt(lane.record({ policy, seed: numberOf(seed), episodes: seed === "" ? episodes : 1 }));
    if (made) lane.n.value = made[0].n;
  };
  return html`<${Card} title="Episodes" class="episodes" actions=${html`<${Select} label="Order" value=${order} options=${ORDERS} onChange=${setOrder} />`}>
    <form class="record" onSubmit=${record}><input class="input" inputmode="numeric" placeholder="any seed" aria-label="Seed" value=${seed} onInput=${(e) => setSeed(e.target.value.replace(/\D/g, ""))} />
      <input class="input short" type="number" min="1" max="100" aria-label="Number of episodes" value=${episodes} disabled=${seed !== ""} onInput=${(e) => setEpisodes(Number(e.target.value))} />
      <button class="button" disabled=${!!lane.working.value || !control.value}>Record</button></form>
    <${Working} lane=${lane} />
    <ul class="episode-list">${rows.map((row) => html`<li key=${row.n} class=${cls(row.n === lane.n.value && "selected", row.n === other?.n.value && !vs && "other")}>
      <button type="button" class="episode" aria-pressed=${String(row.n === lane.n.value)} onClick=${() => (lane.n.value = row.n)}>
        <span class="episode-n">${row.parent === null ? `#${row.n}` : `↳ ${row.n}`}</span><b>${fixed(row.return)}</b><span class="hint">${row.length} steps</span>
        <span class="episode-more hint">${row.outcome} · ${row.policy}${row.checkpoint ? ` · ${row.checkpoint}` : ""} · ${row.parent === null ? `seed ${row.seed}` : `from #${row.parent} at ${row.at}`}</span>
        <span class="episode-flags">${(row.flags ?? []).map((flag) => html`<${Badge} key=${flag} kind=${FLAGS[flag]?.[1]}>${FLAGS[flag]?.[0] ?? flag}</${Badge}>`)}</span></button>
      ${!vs && row.n !== lane.n.value && html`<${Button} small quiet label=${row.n === other?.n.value ? "Stop comparing" : "Show next to the chosen episode"} icon=${row.n === other?.n.value ? "close" : "plus"}
        onClick=${() => compareWith(row.n === other?.n.value ? null : row.n)} />`}</li>`)}</ul>
    ${!rows.length && !lane.working.value && html`<p class="hint">Record episodes to look at them.</p>`}</${Card}>`;
}

function Stage({ lanes, desk, waiting }) {
  const last = Math.max(...lanes.map((lane) => lane.last.value));
  usePlayback(desk, last, lanes[0].about.value.fps);
  const t = desk.t.value;
  const go = (next) => (desk.t.value = Math.max(0, Math.min(last, next)));
  const keys = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: 10, PageUp: -10 }[event.key];
    if (by) go(t + by);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(last);
    else if (event.key === " " && event.target.type === "range") desk.playing.value = !desk.playing.value;
    else return;
    event.preventDefault();
  };
  return html`<${Card} class="stage" label="Episode"><div class=${cls("frames", lanes.length > 1 && "two")}>${lanes.map((lane) => html`<${Frame} key=${lane.name} lane=${lane} two=${lanes.length > 1 || waiting} />`)}
      ${waiting && html`<${Loading} text="Opening B" />`}</div>
    <${Difference} lanes=${lanes} />
    <div class="timeline">${lanes.map((lane) => html`<${Strip} key=${lane.name} lane=${lane} last=${last} desk=${desk} lanes=${lanes} />`)}
      <input type="range" class="scrub" aria-label="Step" aria-valuetext="step ${t} of ${last}" min="0" max=${last} step="1" value=${t} onInput=${(e) => go(Number(e.target.value))} onKeyDown=${keys} /></div>
    <div class="transport" role="toolbar" aria-label="Steps">
      <${Button} quiet icon="first" label="First step" onClick=${() => go(0)} /><${Button} quiet icon="back" label="One step back" onClick=${() => go(t - 1)} />
      <${Button} primary icon=${desk.playing.value ? "pause" : "play"} label=${desk.playing.value ? "Pause" : "Play"} onClick=${() => (desk.playing.value = !desk.playing.value)} />
      <${Button} quiet icon="next" label="One step on" onClick=${() => go(t + 1)} /><${Button} quiet icon="last" label="Last step" onClick=${() => go(last)} />
      <span class="spacer"></span><label class="row hint">step <input class="input short" type="number" min="0" max=${last} value=${t} aria-label="Go to step" onChange=${(e) => go(Number(e.target.value))} /> of ${last}</label></div>
    <${Legend} lane=${lanes[0]} /></${Card}>`;
}

function usePlayback(desk, last, fps) {
  const playing = desk.playing.value;
  useEffect(() => {
    if (!playing) return undefined;
    if (desk.t.peek() >= last) desk.t.value = 0;
    const timer = setInterval(() => {
      if (desk.t.peek() >= last) desk.playing.value = false;
      else desk.t.value = desk.t.peek() + 1;
    }, 1000 / Math.min(30, fps));
    return () => clearInterval(timer);
  }, [playing, last]);
}

function Frame({ lane, two }) {
  const moment = lane.moment.value;
  const picture = moment?.n === lane.n.value ? moment?.pictures.get("frame:0:0") : null;
  const about = lane.about.value;
  const reason = about.why_no_picture ?? (moment?.n === lane.n.value ? moment?.answer.frame?.reason : null);
  const [columns, t] = [lane.columns.value, lane.at.value];
  const done = columns && t >= lane.last.value;
  return html`<figure class="frame"><div class="frame-box" style=${picture ? { "--shape": `${picture.header.width} / ${picture.header.height}` } : undefined}>${reason ? html`<p class="game-note">${reason}</p>` : html`<${Picture} picture=${picture} label="The environment at step ${t}" />`}
      ${two && html`<span class="lane-name">${lane.name}${lane.name === "B" || about.checkpoint ? ` · ${about.checkpoint ?? ""}` : ""}</span>`}
      ${picture && !reason && lane.behind.value && html`<p class="behind" role="status">This is step ${moment.t}. Step ${t} is shown ${lane.working.value ? `when this is done: ${lane.working.value.text.toLowerCase()}` : "soon"}.</p>`}</div>
    <figcaption>${columns ? html`<span><b>${done ? lane.row.value?.outcome : columns.label[t]}</b></span><span>return so far ${fixed(columns.total[t - 1] ?? 0)}</span>` : html`<span>–</span>`}</figcaption></figure>`;
}

// From which step on two episodes of one seed differ.
function Difference({ lanes }) {
  if (lanes.length < 2) return null;
  const [a, b] = lanes.map((lane) => lane.columns.value);
  if (!a || !b) return html`<p class="hint center">…</p>`;
  const same = lanes[0].row.value?.seed === lanes[1].row.value?.seed;
  if (!same) return html`<p class="hint center">The two episodes have different seeds.</p>`;
  const length = Math.min(a.label.length, b.label.length);
  let t = 0;
  while (t < length && JSON.stringify(a.action[t]) === JSON.stringify(b.action[t])) t++;
  return html`<p class="hint center">${t === length && a.label.length === b.label.length ? "The same actions in every step." : `One seed. The same actions until step ${t}, where A takes ${a.label[t] ?? "none"} and B takes ${b.label[t] ?? "none"}.`}</p>`;
}

// A strip with a colour for the action of every step, and ticks where a reward stands out.
function Strip({ lane, last, desk, lanes }) {
  const canvas = useRef();
  const columns = lane.columns.value;
  useLayoutEffect(() => {
    const [element, width] = [canvas.current, Math.max(1, last)];
    element.width = width;
    element.height = 2;
    if (!columns) return;
    const context = element.getContext("2d");
    columns.action.forEach((action, t) => {
      context.fillStyle = Array.isArray(action) ? "#8b93a1" : colourAt(action);
      context.fillRect(t, 0, 1, 2);
    });
  }, [columns, last]);
  return html`<canvas ref=${canvas} class="strip" aria-hidden="true" onPointerDown=${(e) => seek(desk, lanes, ((e.clientX - e.currentTarget.getBoundingClientRect().left) / e.currentTarget.clientWidth) * last)}></canvas>`;
}

function Legend({ lane }) {
  const about = lane.about.value;
  if (about.action_kind !== "discrete" || about.actions.length > 18) return null;
  return html`<ul class="legend" aria-label="Colours of the actions">${about.actions.map((label, i) => html`<li key=${i}><button type="button" disabled><span class="swatch" style=${{ background: colourAt(i) }}></span>${label}</button></li>`)}</ul>`;
}

const remembered = () => {
  try {
    return JSON.parse(localStorage.getItem("gymnast.panels")) ?? OPEN_AT_FIRST;
  } catch {
    return OPEN_AT_FIRST;
  }
};

/** The panels that this env has, which of them are open, and what these need. */
function usePanels(desk, about) {
  const [open, setOpen] = useState(() => new Set(remembered()));
  const usable = about ? PANELS.filter((panel) => !panel.when || panel.when(about)) : [];
  const needs = usable.filter((panel) => open.has(panel.id)).flatMap((panel) => panel.needs ?? []);
  useEffect(() => {
    desk.needs.value = [...new Set(["frame", ...needs])];
  }, [needs.join()]);
  const toggle = (id, on) => {
    const next = new Set(open);
    if (on) next.add(id);
    else next.delete(id);
    setOpen(next);
    localStorage.setItem("gymnast.panels", JSON.stringify([...next]));
  };
  return { usable, open, toggle };
}

function Panels({ lanes, desk, panels: { usable, open, toggle }, centre }) {
  const many = lanes.length > 1;
  return usable.filter((panel) => !!panel.centre === centre).map((panel) => html`<${Panel} key=${panel.id} id=${panel.id} title=${panel.title} open=${open.has(panel.id)} onToggle=${(on) => toggle(panel.id, on)}>
    ${panel.each ? lanes.map((lane) => html`<div key=${lane.name} class=${cls("lane", many && "many", panel.needs && lane.behind.value && "is-behind")}>${many && html`<span class="lane-name">${lane.name}</span>`}<${panel.Body} lane=${lane} lanes=${lanes} desk=${desk} /></div>`)
      : html`<${panel.Body} lanes=${lanes} desk=${desk} />`}</${Panel}>`);
}
