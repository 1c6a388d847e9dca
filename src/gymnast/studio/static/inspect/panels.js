// The panels of the inspector. A panel that is closed is not drawn, and what it needs is not computed.
import { ask, control } from "../api.js";
import { Chart } from "../chart.js";
import { ActionBars, Picture, paint } from "../session.js";
import { Button, Loading, Segmented, Slider, Stat, attempt, cls, fixed, html, num, useEffect, useLayoutEffect, useRef, useState } from "../ui.js";
import { at, pictureKey } from "./lane.js";
import { MapPanel } from "./map.js";
import { WhatIf } from "./whatif.js";

const LANE_COLOURS = { A: "#3d7eff", B: "#e8702a" };
const pictures = (about) => about.obs.some((leaf) => leaf.kind === "picture");

function Action({ lane }) {
  const about = lane.about.value;
  const columns = lane.columns.value;
  const t = lane.at.value;
  if (!columns) return html`<${Loading} />`;
  if (t >= lane.last.value) return html`<p class="hint">The episode is over: no action is taken here.</p>`;
  return html`<div class="stats steady"><${Stat} label="Taken" value=${columns.label[t]} /><${Stat} label="Entropy" value=${fixed(at(lane, "entropy"))} title="In nats: 0 means certain" />
    <${Stat} label="Chosen by" value=${columns.who[t] === "human" ? "you" : columns.who[t]} /></div>
    <${ActionBars} about=${about} probs=${columns.probs?.[t]} mean=${columns.mean?.[t]} std=${columns.std?.[t]} mask=${columns.mask?.[t]} taken=${columns.action[t]} />`;
}

const wholeStep = (value) => (Number.isInteger(value) ? String(value) : "");
const steps = (values) => values.map((_, i) => i);

function Values({ lanes, desk }) {
  if (!lanes.some((lane) => lane.columns.value)) return html`<${Loading} />`; // "no network looked on" is not known yet
  const series = [];
  const reasons = [];
  for (const lane of lanes) {
    const columns = lane.columns.value;
    if (!columns) continue;
    const name = lanes.length > 1 ? ` ${lane.name}` : "";
    if (columns.value?.some((v) => v !== null)) series.push({ id: `v${lane.name}`, label: `value${name}`, x: steps(columns.value), y: columns.value, color: LANE_COLOURS[lane.name] });
    const realised = columns.return_to_go;
    if (Array.isArray(realised)) series.push({ id: `g${lane.name}`, label: `realised return${name}`, x: steps(realised), y: realised, color: LANE_COLOURS[lane.name], dash: [4, 4] });
    reasons.push(columns.return_reason ? `The realised return is not drawn: ${columns.return_reason}` : columns.return_note);
  }
  const lane = lanes[0];
  const record = async () => {
    const rows = await attempt(lane.record({ policy: "sampled", seed: lane.row.value.seed, checkpoint: lane.row.value.checkpoint }));
    if (rows) lane.n.value = rows[0].n;
  };
  const offer = lane.columns.value && lane.columns.value.return_to_go === null && lane.row.value?.policy !== "sampled" && lane.about.value.comparable;
  return html`<${Chart} label="Value and realised return" series=${series} height=${150} marker=${desk.t.value} onSeek=${(x) => seek(desk, lanes, x)} xFormat=${wholeStep} sync="episode"
      empty="No value: no network looked on." />
    ${[...new Set(reasons.filter(Boolean))].map((reason) => html`<p class="hint" key=${reason}>${reason}</p>`)}
    ${offer && html`<${Button} small icon="record" busy=${!!lane.working.value} disabled=${!control.value} onClick=${record}>Record a sampled episode of this seed</${Button}>`}`;
}

export function seek(desk, lanes, x) {
  const last = Math.max(...lanes.map((lane) => lane.last.value));
  desk.t.value = Math.max(0, Math.min(last, Math.round(x)));
}

// Every part of the reward, what is in no part, and the sum, which is the reward the environment gave.
function Ledger({ lane, lanes, desk }) {
  const columns = lane.columns.value;
  if (!columns) return html`<${Loading} />`;
  const t = lane.at.value;
  const upto = (values) => values.slice(0, t + 1).reduce((sum, v) => sum + v, 0);
  const sum = (values) => values.reduce((total, v) => total + v, 0);
  const parts = Object.entries(columns.components ?? {});
  const rest = columns.reward.map((r, i) => r - parts.reduce((total, [, values]) => total + values[i], 0));
  const shaped = columns.ledger?.shaped; // the parts are what the learner is paid; the score is something else
  const unexplained = !shaped && parts.length > 0 && rest.some((r) => Math.abs(r) > 1e-6);
  const paid = columns.reward.map((_, i) => parts.reduce((total, [, values]) => total + values[i], 0));
  const line = (name, values, extra) => html`<tr key=${name} class=${extra}><td class="ellipsis">${name}</td><td class="right">${fixed(values[t] ?? null, 3)}</td><td class="right">${fixed(upto(values))}</td><td class="right">${fixed(sum(values))}</td></tr>`;
  return html`<table class="mini"><thead><tr><th>part</th><th class="right">this step</th><th class="right">so far</th><th class="right">episode</th></tr></thead>
    <tbody>${parts.map(([name, values]) => line(name, values))}${unexplained && line("in no part", rest)}${shaped && line("paid to the learner", paid, "total")}${line(shaped ? "score" : "reward", columns.reward, "total")}</tbody></table>
    <${Chart} label="Reward of each step" series=${[{ id: "reward", label: "reward", x: steps(columns.reward), y: columns.reward, color: "#2aa876", step: true, width: 1.2 }]} height=${84} marker=${t}
      onSeek=${(x) => seek(desk, lanes, x)} xFormat=${wholeStep} sync="episode" legend=${false} />`;
}

function Observation({ lane }) {
  const columns = lane.columns.value;
  if (!columns) return html`<${Loading} />`;
  const t = lane.at.value;
  return lane.about.value.obs.filter((leaf) => leaf.kind !== "picture").map((leaf) => {
    const rows = columns.obs?.[leaf.key];
    if (!rows) return html`<p class="hint" key=${leaf.key}>${leaf.key}: ${leaf.shape.join(" x ")} numbers are too many to list.</p>`;
    const now = [rows[t]].flat(3);
    return html`<table class="mini obs" key=${leaf.key}><tbody>${now.map((value, i) => html`<${ObsRow} key=${i} name=${leaf.names?.[i] ?? (now.length > 1 ? `${leaf.key} ${i}` : leaf.key)} value=${value}
      range=${rangeOf(leaf, rows, i)} whole=${leaf.kind === "number"} />`)}</tbody></table>`;
  });
}

// What the game itself counts, whether the agent sees it or not.
function Variables({ lane }) {
  const columns = lane.columns.value;
  if (!columns) return html`<${Loading} />`;
  const t = Math.min(lane.at.value, columns.t.length - 1);
  return html`<table class="mini obs"><tbody>${Object.entries(columns.variables ?? {}).map(([name, values]) => html`<tr key=${name}><td class="ellipsis">${name}</td><td class="right">${num(values[t])}</td></tr>`)}</tbody></table>`;
}

// The bounds of the space where it has any, else the extremes of the episode.
function rangeOf(leaf, rows, i) {
  const [low, high] = [leaf.low?.[i], leaf.high?.[i]];
  if (low !== null && low !== undefined && high !== null && high !== undefined) return { low, high, seen: false };
  let [least, most] = [Infinity, -Infinity];
  for (const row of rows) {
    const value = [row].flat(3)[i];
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  return { low: least, high: most, seen: true };
}

function ObsRow({ name, value, range, whole }) {
  const share = range.high > range.low ? (100 * (value - range.low)) / (range.high - range.low) : 50;
  return html`<tr title="${name}: ${value}, ${range.seen ? "in this episode" : "bounds"} ${num(range.low)} to ${num(range.high)}"><td class="ellipsis">${name}</td>
    <td class="obs-track"><span class="hint">${num(range.low, 3)}</span><span class=${cls("prob-track wide-range", range.seen && "seen")}><span class="prob-dot" style=${{ left: `${Math.max(0, Math.min(100, share))}%` }}></span></span><span class="hint">${num(range.high, 3)}</span></td>
    <td class="right">${whole ? value : fixed(value, 3)}</td></tr>`;
}

const shown = (lane, kind) => {
  const moment = lane.moment.value;
  if (!moment || moment.n !== lane.n.value) return [];
  return [...moment.pictures.values()].filter((one) => one.header.kind === kind);
};

function Inputs({ lane }) {
  const tiles = shown(lane, "input");
  const labels = lane.moment.value?.answer.inputs ?? [];
  const leaf = lane.about.value.obs.find((one) => one.kind === "picture");
  const board = leaf?.board;
  if (!tiles.length) return html`<${Loading} text="Asking for the input" />`;
  const stacked = new Set(labels.map((note) => note.t)).size > 1;
  const text = board ? "What the network sees: a plane for each kind of object." : stacked ? "What the network sees, the oldest first. Under each: the action taken at it." : "What the network sees, channel by channel.";
  return html`<div class="tiles">${tiles.map((tile, i) => {
    const note = labels[i] ?? {};
    return html`<figure key=${i}><${Picture} picture=${tile} label="Input ${i + 1}" /><figcaption>${board ? (leaf.names?.[i] ?? `kind ${i + 1}`) : (note.label ?? (note.t === null ? "before the start" : ""))}</figcaption></figure>`;
  })}</div><p class="hint">${text}</p>`;
}

function Advantage({ lanes, desk }) {
  const about = lanes[0].about.value;
  const [gamma, setGamma] = useState(about.gamma ?? 0.99);
  const [lambda, setLambda] = useState(about.gae_lambda ?? 0.95);
  const [found, setFound] = useState({});
  const busy = useRef({});
  const keys = lanes.map((lane) => `${lane.session.value}:${lane.n.value}`).join();
  useEffect(() => {
    busy.current.again = true;
    const run = async () => {
      if (busy.current.on) return;
      busy.current.on = true;
      while (busy.current.again) {
        busy.current.again = false;
        const answers = await attempt(Promise.all(lanes.map((lane) => ask("advantages", { session: lane.session.value, n: lane.n.value, gamma, lambda }))));
        if (answers) setFound(Object.fromEntries(lanes.map((lane, i) => [lane.name, answers[i]])));
      }
      busy.current.on = false;
    };
    if (lanes.every((lane) => lane.columns.value)) run();
  }, [keys, gamma, lambda, lanes.every((lane) => lane.columns.value)]);
  const name = (lane) => (lanes.length > 1 ? ` ${lane.name}` : "");
  const lines = (key, label, dash) => lanes.filter((lane) => Array.isArray(found[lane.name]?.[key])).map((lane) => ({ id: key + lane.name, label: label + name(lane), x: steps(found[lane.name][key]), y: found[lane.name][key], color: LANE_COLOURS[lane.name], dash }));
  const reason = lanes.map((lane) => found[lane.name]?.reason).find(Boolean);
  const own = lanes[0];
  return html`<div class="stack tight"><${Slider} label="gamma" min="0.8" max="1" step="0.001" value=${gamma} onInput=${setGamma} format=${(v) => v.toFixed(3)} />
    <${Slider} label="lambda" min="0" max="1" step="0.01" value=${lambda} onInput=${setLambda} format=${(v) => v.toFixed(2)} />
    <div class="stats steady"><${Stat} label="Advantage" value=${fixed(found.A?.advantage?.[own.at.value])} /><${Stat} label="Return" title="The lambda return: advantage plus value" value=${fixed(found.A?.return?.[own.at.value])} /></div></div>
    ${reason && html`<p class="hint">${reason}</p>`}
    <${Chart} label="Advantage" series=${lines("advantage", "advantage")} height=${110} marker=${desk.t.value} onSeek=${(x) => seek(desk, lanes, x)} xFormat=${wholeStep} sync="episode" />
    <${Chart} label="Return" series=${lines("return", "return")} height=${110} marker=${desk.t.value} onSeek=${(x) => seek(desk, lanes, x)} xFormat=${wholeStep} sync="episode" />`;
}

const OF = [{ value: "action", label: "action" }, { value: "value", label: "value" }];

// Maps of a picture as pictures, numbers of a vector as bars. `field`: where the answer has them.
function Heat({ lane, field, text }) {
  const [of, setOf] = useState("action");
  const found = lane.moment.value?.answer[field];
  if (!lane.moment.value?.answer.now) return html`<p class="hint">No network looks on here.</p>`;
  if (!found) return html`<${Loading} text="Computing" />`;
  const maps = shown(lane, "saliency");
  return html`<${Segmented} label="Of" value=${of} options=${OF} onChange=${setOf} />${Object.entries(found).map(([key, kinds]) => {
    const one = kinds[of] ?? Object.values(kinds)[0];
    if (Array.isArray(one)) return html`<${Slopes} key=${key} leaf=${lane.about.value.obs.find((leaf) => leaf.key === key)} values=${one} />`;
    const tile = maps.find((map) => map.header.index === one.index);
    return html`<div class="tiles one" key=${key}>${tile && html`<${Overlay} under=${shown(lane, "input").at(-1)} over=${tile} label=${text} />`}</div>`;
  })}<p class="hint">${text}</p>`;
}

// A map over the newest input: the input in grey, the map in orange. Both are plain bytes, the map may be coarser.
function Overlay({ under, over, label }) {
  const canvas = useRef();
  useLayoutEffect(() => {
    const { width, height } = under?.header ?? over.header;
    const image = new ImageData(width, height);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const grey = under ? 0.55 * under.bytes[y * width + x] : 30;
        const heat = over.bytes[Math.floor((y * over.header.height) / height) * over.header.width + Math.floor((x * over.header.width) / width)] / 255;
        const at = 4 * (y * width + x);
        image.data.set([grey + heat * (255 - grey), grey + heat * (140 - grey), grey * (1 - heat), 255], at);
      }
    }
    paint(canvas.current, image);
  }, [under, over]);
  return html`<canvas ref=${canvas} class="picture" role="img" aria-label=${label} width="1" height="1"></canvas>`;
}

function Slopes({ leaf, values }) {
  const most = Math.max(1e-12, ...values.map(Math.abs));
  return html`<ul class="probs">${values.map((v, i) => html`<li key=${i} class="prob"><div><span class="prob-label">${leaf?.names?.[i] ?? `${leaf?.key} ${i}`}</span><span class="prob-track"><span class="prob-fill" style=${{ width: `${(100 * Math.abs(v)) / most}%`, background: "var(--accent)" }}></span></span>
    <span class="prob-value">${num(v, 3)}</span></div></li>`)}</ul>`;
}
const Saliency = ({ lane }) => html`<${Heat} lane=${lane} field="saliency" text="By gradient: where a small change of the input changes the output most." />`;
const Occlusion = ({ lane }) => html`<${Heat} lane=${lane} field="occlusion" text="By covering patches: where a covered patch changes the output most." />`;

function Layers({ lane, kind, field, empty }) {
  const layers = lane.moment.value?.answer[field] ?? [];
  const [layer, setLayer] = useState(0);
  const tiles = shown(lane, kind).filter((one) => one.header.layer === layer);
  if (!layers.length && !tiles.length) return html`<p class="hint">${empty}</p>`;
  return html`<${Segmented} label="Layer" value=${layer} onChange=${setLayer} options=${layers.map((one, i) => ({ value: one.layer ?? i, label: `layer ${i + 1}`, title: one.name }))} />
    <div class="tiles small">${tiles.map((tile, i) => html`<${Picture} key=${i} picture=${tile} label="${kind} ${i}" />`)}</div>
    <p class="hint">${tiles.length} of ${layers[layer]?.shape[0]}, each ${layers[layer]?.shape.slice(-2).join(" x ")}.</p>`;
}
function Activations({ lane }) {
  const answer = lane.moment.value?.answer;
  if (!answer) return html`<${Loading} />`;
  if (!answer.now) return html`<p class="hint">No network looks on here.</p>`;
  if (!answer.activations) return html`<${Loading} text="Computing" />`;
  return html`${answer.activations.length > 0 && html`<${Layers} lane=${lane} kind="activation" field="activations" />`}
    ${answer.units.map((one, i) => html`<${Cells} key=${one.name} name=${`dense layer ${i + 1}`} values=${one.values} />`)}`;
}
const Filters = ({ lane }) => html`<${Layers} lane=${lane} kind="filter" field="filters" empty="This network has no filters." />`;

function Memory({ lane }) {
  const memory = lane.moment.value?.answer.memory;
  if (!memory) return html`<${Loading} />`;
  return Object.entries(memory).map(([name, given]) => {
    return html`<${Cells} key=${name} name=${name} values=${[given].flat(3)} />`;
  });
}

/** Numbers as a row of coloured cells. */
function Cells({ name, values }) {
  const most = Math.max(1e-9, ...values.map(Math.abs));
  return html`<div><h3>${name} <span class="hint">${values.length} numbers, largest ${num(most)}</span></h3><div class="cells">${values.map((v, i) => html`<span key=${i} title="${i}: ${num(v)}"
    style=${{ background: `color-mix(in srgb, ${v < 0 ? "var(--negative)" : "var(--positive)"} ${Math.round((100 * Math.abs(v)) / most)}%, var(--sunken))` }}></span>`)}</div></div>`;
}

/** needs: what the server computes for it; each: drawn once for each side; centre: under the picture, where a chart has room. */
export const PANELS = [
  { id: "action", title: "Action", Body: Action, each: true },
  { id: "value", title: "Value and return", Body: Values, centre: true },
  { id: "reward", title: "Reward", Body: Ledger, each: true, centre: true },
  { id: "whatif", title: "What if", Body: WhatIf },
  { id: "observation", title: "Observation", Body: Observation, each: true, when: (about) => about.obs.some((leaf) => leaf.kind !== "picture") },
  { id: "variables", title: "Game variables", Body: Variables, each: true, when: (about) => about.variables.length > 0 },
  { id: "inputs", title: "Network input", needs: ["inputs"], Body: Inputs, each: true, when: pictures },
  { id: "map", title: "Map of values", Body: MapPanel, when: (about) => about.tabular },
  { id: "advantage", title: "Advantage", Body: Advantage, centre: true },
  { id: "saliency", title: "Saliency: gradient", needs: ["saliency", "inputs"], Body: Saliency, each: true, when: (about) => !about.tracks },
  { id: "occlusion", title: "Saliency: occlusion", needs: ["occlusion", "inputs"], Body: Occlusion, each: true, when: pictures },
  { id: "activations", title: "Activations", needs: ["activations"], Body: Activations, each: true },
  { id: "filters", title: "Filters", needs: ["filters"], Body: Filters, each: true, when: pictures },
  { id: "memory", title: "Memory", needs: ["memory"], Body: Memory, each: true, when: (about) => about.has_memory },
];
export const OPEN_AT_FIRST = ["action", "value", "reward", "whatif", "observation", "variables", "inputs", "map"];
