// The states of a tabular environment as a map: values as colours, the policy as arrows, the exact optimum next to it.
import { ask } from "../api.js";
import { ErrorLine, Loading, Segmented, Select, cls, fixed, html, num, percent, useData, useState } from "../ui.js";

const TURN = { right: 0, east: 0, down: 90, south: 90, left: 180, west: 180, up: 270, north: 270 };
const turnOf = (label) => TURN[Object.keys(TURN).find((word) => String(label).toLowerCase().split(/[\s_]+/).includes(word))];
const SIZE = 36;
const NUMBERED = 12; // columns up to which a number in a cell can be read
const short = (value) => fixed(value, Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);

export function MapPanel({ lanes }) {
  const lane = lanes[0];
  const { data, error } = useData(() => ask("map", { session: lane.session.value, checkpoint: lane.row.value?.checkpoint ?? null, policy: lane.row.value?.policy }), [lane.session.value, lane.n.value]);
  if (error) return html`<${ErrorLine}>${error.message}</${ErrorLine}>`;
  if (!data) return html`<${Loading} text="Computing the map" />`;
  return html`<${Maps} data=${data} lane=${lane} />`;
}

const SHOWN = [{ value: "earned", label: "earned", title: "What the policy really earns from each state" }, { value: "values", label: "critic", title: "What the network expects from each state, discounted" }];
const POLICIES = [{ value: "sampled", label: "sampled", title: "Actions drawn from the agent's probabilities" }, { value: "greedy", label: "greedy", title: "The most likely action in every state" }];

function Maps({ data: all, lane }) {
  const [hovered, setHovered] = useState(null);
  const [shown, setShown] = useState("earned");
  const [policy, setPolicy] = useState(lane.row.value?.policy === "greedy" ? "greedy" : "sampled");
  const data = policy === "greedy" && all.greedy ? { ...all, ...all.greedy } : all;
  const [chosen, setChosen] = useState(null);
  const here = stateAt(lane);
  const own = data.layers.findIndex((layer) => layer.states.includes(here));
  const layer = data.layers[chosen ?? Math.max(0, own)];
  const values = data[shown];
  const range = (lists) => {
    const all = lists.filter(Boolean).flatMap((list) => layer.states.map((state) => list[state]));
    return [Math.min(...all), Math.max(...all)];
  };
  const best = data.optimum;
  const [agentRange, bestRange] = shown === "earned" ? [range([values, best.values]), range([values, best.values])] : [range([values]), range([best.values])];
  const grid = { data, layer, here, hovered, setHovered };
  if (layer.states.length === 1) return html`<p class="hint">There is one state. The best: ${best.arrows[layer.states[0]].map((i) => data.labels[i]).join(", ")}. ${summary(data, policy)}</p>`;
  const wide = columnsOf(data, layer) > 6;
  return html`<div class="row">${data.values && html`<${Segmented} label="Values" value=${shown} options=${SHOWN} onChange=${setShown} /><${Segmented} label="Policy" value=${policy} options=${POLICIES} onChange=${setPolicy} />`}
      ${data.layers.length > 1 && html`<${Select} label="Layer" value=${data.layers.indexOf(layer)} onChange=${(i) => setChosen(Number(i))} options=${data.layers.map((one, i) => ({ value: i, label: one.label + (i === own ? " (here)" : "") }))} />`}</div>
    <div class=${wide ? "maps wide-maps" : "maps"}>${values && html`<figure><${Grid} ...${grid} values=${values} range=${agentRange} arrows=${(s) => data.arrows[s]} label="The agent" /><figcaption>agent</figcaption></figure>`}
      <figure><${Grid} ...${grid} values=${best.values} range=${bestRange} arrows=${(s) => bestArrows(best.arrows[s], data.labels.length)} label="The exact optimum" /><figcaption>exact optimum</figcaption></figure></div>
    <p class="hint">${hovered === null ? summary(data, policy) : detail(data, hovered, shown)}</p>`;
}

const bestArrows = (actions, count) => Array.from({ length: count }, (_, i) => (actions.includes(i) ? 1 / actions.length : 0));
const summary = (data, policy) => (data.earned ? `From the start the agent, with ${policy} actions, earns ${fixed(data.start, 4)} on average; the best policy earns ${fixed(data.optimum.start, 4)}.` : `From the start the best policy earns ${fixed(data.optimum.start, 4)} on average.`);

function detail(data, state, shown) {
  const parts = data.arrows?.[state]?.map((p, i) => [p, data.labels[i]]).sort((a, b) => b[0] - a[0]).slice(0, 2).map(([p, label]) => `${label} ${percent(p)}`) ?? [];
  return `State ${state}: ${data[shown] ? `agent ${num(data[shown][state])}, ` : ""}optimum ${num(data.optimum.values[state])}. ${parts.join(", ")}`;
}

const stateAt = (lane) => {
  const leaf = lane.about.value.obs.find((one) => one.kind === "number");
  const row = leaf && lane.columns.value?.obs?.[leaf.key]?.[lane.at.value];
  return row === undefined || row === null ? null : [row].flat(2)[0];
};

// States without a place on a map are drawn as a block.
const columnsOf = (data, layer) => (data.rows === 1 && layer.states.length > 12 ? Math.ceil(Math.sqrt(layer.states.length * 1.6)) : data.cols);

function Grid({ data, layer, values, range, arrows, here, hovered, setHovered, label }) {
  const cols = columnsOf(data, layer);
  const rows = Math.ceil(layer.states.length / cols);
  const share = (v) => Math.max(0, Math.min(1, (v - range[0]) / (range[1] - range[0] || 1)));
  return html`<svg viewBox="0 0 ${cols * SIZE} ${rows * SIZE}" role="img" aria-label=${label} onMouseLeave=${() => setHovered(null)}>${layer.states.map((state, i) => {
    const cell = data.cells?.[state];
    const ends = cell === "H" || cell === "G";
    return html`<g key=${state} transform="translate(${(i % cols) * SIZE} ${Math.floor(i / cols) * SIZE})" onMouseEnter=${() => setHovered(state)}>
      <rect x="1" y="1" width=${SIZE - 2} height=${SIZE - 2} rx="4" fill=${`color-mix(in oklab, var(--accent) ${Math.round(8 + 74 * share(values[state]))}%, var(--panel))`}
        stroke=${state === here ? "var(--red)" : state === hovered ? "var(--text)" : "none"} stroke-width="2" />
      <g class=${cls("map-ink", share(values[state]) > 0.62 && "high", share(values[state]) > 0.88 && "highest")}>${cell && (ends || cell === "S") && html`<text x="4" y="11" class="map-letter">${cell}</text>`}
      ${!ends && html`<${Arrows} probs=${arrows(state)} labels=${data.labels} />${cols <= NUMBERED && html`<text x=${SIZE / 2} y=${SIZE / 2 + 3} text-anchor="middle" class="map-number">${short(values[state])}</text>`}`}</g></g>`;
  })}</svg>`;
}

function Arrows({ probs, labels }) {
  const middle = SIZE / 2;
  const most = probs.indexOf(Math.max(...probs));
  return probs.map((p, i) => {
    const turn = turnOf(labels[i]);
    if (p < 0.08) return null;
    if (turn === undefined) return i === most ? html`<text key=${i} x=${SIZE - 4} y="11" text-anchor="end" class="map-letter">${String(labels[i])[0]}</text>` : null;
    return html`<path key=${i} opacity=${0.2 + 0.8 * p} transform="rotate(${turn} ${middle} ${middle})" d="M${SIZE - 6.5} ${middle - 3.5}L${SIZE - 2} ${middle}L${SIZE - 6.5} ${middle + 3.5}Z" />`;
  });
}
