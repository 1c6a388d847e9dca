// The states of a tabular environment as a map: values as colours, the policy as arrows, the exact optimum next to it.
import { ask } from "../api.js";
import { ErrorLine, Loading, fixed, html, num, useData, useState } from "../ui.js";

const TURN = { left: 180, right: 0, up: 270, down: 90, west: 180, east: 0, north: 270, south: 90 };

export function MapPanel({ lanes }) {
  const lane = lanes[0];
  const { data, error, loading } = useData(() => ask("map", { session: lane.session.value, checkpoint: null }), [lane.session.value]);
  if (error) return html`<${ErrorLine}>${error.message}</${ErrorLine}>`;
  if (loading || !data) return html`<${Loading} text="Computing the map" />`;
  return html`<${Maps} data=${data} lane=${lane} />`;
}

function Maps({ data, lane }) {
  const [hovered, setHovered] = useState(null);
  const all = [...data.values, ...(data.optimum?.values ?? [])].filter((v) => v !== null);
  const range = [Math.min(...all), Math.max(...all)];
  const here = stateAt(lane);
  const props = { data, range, here, setHovered };
  return html`<div class="maps"><figure><${Grid} ...${props} values=${data.values} policy=${data.policy} label="The agent's values" /><figcaption>agent</figcaption></figure>
    ${data.optimum && html`<figure><${Grid} ...${props} values=${data.optimum.values} policy=${data.optimum.policy} label="The exact optimum" /><figcaption>exact optimum</figcaption></figure>`}</div>
    <p class="hint">${hovered === null ? `Values from ${num(range[0])} to ${num(range[1])}. Arrows: the most likely action.` : `State ${hovered}: value ${fixed(data.values[hovered], 3)}${data.optimum ? `, optimum ${fixed(data.optimum.values[hovered], 3)}` : ""}, ${data.actions[data.policy[hovered]] ?? ""}`}</p>`;
}

const stateAt = (lane) => {
  const leaf = lane.about.value.obs.find((one) => one.kind === "number");
  const row = leaf && lane.columns.value?.obs?.[leaf.key]?.[lane.at.value];
  return row === undefined || row === null ? null : [row].flat(2)[0];
};

function Grid({ data, values, policy, range, here, setHovered, label }) {
  const { rows, cols } = data;
  const size = 36;
  const heat = (v) => (v === null || v === undefined ? "var(--sunken)" : `color-mix(in oklab, var(--accent) ${Math.round((85 * (v - range[0])) / (range[1] - range[0] || 1))}%, var(--sunken))`);
  return html`<svg viewBox="0 0 ${cols * size} ${rows * size}" role="img" aria-label=${label} onMouseLeave=${() => setHovered(null)}>${values.map((v, state) => {
    const [x, y] = [(state % cols) * size, Math.floor(state / cols) * size];
    const action = data.actions[policy[state]];
    const turn = TURN[String(action).toLowerCase()];
    return html`<g key=${state} transform="translate(${x} ${y})" onMouseEnter=${() => setHovered(state)}><rect width=${size - 1} height=${size - 1} rx="3" fill=${heat(v)} stroke=${state === here ? "var(--red)" : "none"} stroke-width="2.5" />
      ${!data.terminal?.[state] && turn !== undefined && html`<path transform="rotate(${turn} ${size / 2} ${size / 2})" d="M${size * 0.3} ${size / 2}H${size * 0.7}M${size * 0.58} ${size * 0.38}L${size * 0.7} ${size / 2}L${size * 0.58} ${size * 0.62}" fill="none" stroke="var(--text)" stroke-width="2" stroke-linecap="round" />`}</g>`;
  })}</svg>`;
}
