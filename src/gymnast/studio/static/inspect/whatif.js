// What if: another action, another checkpoint or another policy from this step on; branches as a tree; rollouts of every action.
import { ask } from "../api.js";
import { go, url } from "../router.js";
import { Badge, Button, Field, Progress, Select, attempt, cls, colourAt, fixed, html, percent, toast, useState } from "../ui.js";
import { at } from "./lane.js";

const THEN = [
  { value: "greedy", label: "agent, greedy" }, { value: "sampled", label: "agent, sampled" },
  { value: "random", label: "random" }, { value: "untrained", label: "untrained network" },
];

export function WhatIf({ lanes, desk }) {
  const lane = lanes[0];
  const about = lane.about.value;
  const [chosen, setThen] = useState(null); // null: whoever played the episode
  const [checkpoint, setCheckpoint] = useState("");
  const [k, setK] = useState(8);
  const [found, setFound] = useState(null);
  if (!lane.columns.value) return null;
  const t = lane.at.value;
  const over = t >= lane.last.value;
  const usable = THEN.filter((one) => about.policies.includes(one.value));
  const then = chosen ?? usable.find((one) => one.value === lane.row.value?.policy)?.value ?? usable[0].value;
  const common = { then, checkpoint: checkpoint || null };
  const branch = async (action) => {
    const row = await attempt(lane.branch({ ...common, action, seed: null }));
    if (!row) return;
    if (row.exact === false) toast("The environment did not repeat the episode up to this step: the branch is not exact.", "red");
    lane.n.value = row.n;
    desk.t.value = Math.min(t + 1, row.length);
  };
  const playOn = async () => {
    const row = await attempt(lane.branch({ action: null, then: "human", checkpoint: null, seed: null }));
    if (row) go(url("/play", { ref: about.ref && `${about.ref}@${about.checkpoint}`, env: about.ref ? null : about.env, policy: "human", session: lane.session.value }));
  };
  const rollOut = async () => {
    const answer = await attempt(lane.work(`Rolling out every action ${k} times`, "rollouts", { n: lane.n.value, t, k, ...common }));
    if (answer) setFound({ ...answer, before: lane.columns.value?.total[t - 1] ?? 0 });
  };
  const discrete = about.action_kind === "discrete";
  const mask = lane.columns.value.mask?.[t];
  return html`<div class="stack tight">
    ${over ? html`<p class="hint">The episode is over here. Go back to an earlier step to branch.</p>` : html`
      <p class="hint">At step ${t} the action was <b>${at(lane, "label")}</b>. Take another one instead:</p>
      ${discrete ? html`<div class="row">${about.actions.map((label, i) => html`<${Button} key=${i} small disabled=${(mask && !mask[i]) || !!lane.working.value} active=${lane.columns.value.action[t] === i}
          onClick=${() => branch(i)}>${label}</${Button}>`)}</div>` : html`<${OwnAction} key=${`${lane.n.value}:${t}`} about=${about} start=${lane.columns.value.action[t]} onBranch=${branch} busy=${!!lane.working.value} />`}
      <div class="form-row"><${Field} label="then"><${Select} label="Who goes on" value=${then} options=${usable} onChange=${setThen} /></${Field}>
        ${about.checkpoints?.length > 0 && html`<${Field} label="checkpoint"><${Select} label="Checkpoint that goes on" value=${checkpoint} onChange=${setCheckpoint}
          options=${[{ value: "", label: about.checkpoint ?? "the same" }, ...about.checkpoints.filter((c) => c !== about.checkpoint)]} /></${Field}>`}
        <${Button} icon="branch" busy=${!!lane.working.value} onClick=${() => branch(null)} title="No other action: only who goes on changes">Go on from here</${Button}>
        <${Button} icon="user" busy=${!!lane.working.value} onClick=${playOn} title="Take over the keyboard at this step">Play from here</${Button}></div>
      <div class="form-row"><${Field} label="rollouts of each action"><input class="input short" type="number" min="1" max="100" value=${k} onInput=${(e) => setK(Number(e.target.value))} /></${Field}>
        <${Button} icon="dice" busy=${!!lane.working.value} onClick=${rollOut}>Roll out</${Button}></div>`}
    ${found && html`<${Rollouts} found=${found} now=${found.n === lane.n.value && found.t === t} />`}
    <${Tree} lane=${lane} desk=${desk} /></div>`;
}

function OwnAction({ about, start, onBranch, busy }) {
  const [values, setValues] = useState([start].flat());
  return html`<div class="form-row">${about.actions.slice(0, values.length).map((label, i) => html`<${Field} key=${i} label=${label}><input class="input short" type="number" step="0.1" value=${values[i]}
      min=${about.bounds?.[i]?.[0]} max=${about.bounds?.[i]?.[1]} onInput=${(e) => setValues(values.map((v, j) => (j === i ? Number(e.target.value) : v)))} /></${Field}>`)}
    <${Button} small disabled=${busy} onClick=${() => onBranch(Array.isArray(start) ? values : values[0])}>Take this action</${Button}></div>`;
}

/** The return of rollouts for every action, next to what the network says. */
function Rollouts({ found, now }) {
  const rows = found.actions.filter((row) => row.n);
  const inexact = found.exact === false && html`<p class="hint">Not exact: the environment did not always repeat the episode up to this step. Rollouts that began elsewhere are not counted.</p>`;
  if (!rows.length) return inexact;
  const low = Math.min(...rows.map((row) => row.mean - (row.error ?? 0)));
  const high = Math.max(...rows.map((row) => row.mean + (row.error ?? 0)));
  const place = (value) => `${high > low ? (100 * (value - low)) / (high - low) : 50}%`;
  const best = Math.max(...rows.map((row) => row.mean));
  const first = rows.find((row) => row.mean === best);
  const [fewest, most] = [Math.min(...rows.map((row) => row.n)), Math.max(...rows.map((row) => row.n))];
  const luckless = fewest > 1 && rows.every((row) => row.same);
  return html`<div class="rollouts"><h3>Rollouts from step ${found.t}${now ? "" : " (another step is shown now)"}</h3><table class="mini"><thead><tr><th>action</th><th class="right">network</th><th></th><th class="right">return from here</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.label} class=${cls(row.mean === best && rows.filter((one) => one.mean === best).length === 1 && "best")}><td class="ellipsis">${row.label}</td><td class="right">${percent(row.prob, 1)}</td>
      <td class="dot-cell"><span class="dot-track"><span class="dot-error" style=${{ left: place(row.mean - (row.error ?? 0)), right: `calc(100% - ${place(row.mean + (row.error ?? 0))})` }}></span><span class="dot" style=${{ left: place(row.mean) }}></span></span></td>
      <td class="right nowrap">${fixed(row.mean)}${row.error === null || row.same ? "" : ` ± ${fixed(row.error)}`}${row.cut > 0 && html` <${Badge} kind="amber" title="Rollouts that reached the step limit: rewards after it are not counted">${row.cut} cut</${Badge}>`}<div class="hint">whole episode ${fixed(found.before + row.mean)}</div></td></tr>`)}</tbody></table>
    <p class="hint">${luckless ? `${found.then === "greedy" ? "Deterministic: every rollout of an action is the same" : "All rollouts of an action were the same"} (${most} of each).` : `${fewest === most ? most : `${fewest} to ${most}`} rollouts of each action${most > 1 ? ", the mean ± its standard error" : ""}.`}${found.value === null ? "" : ` The network expects ${fixed(found.value)} with discount ${found.gamma}; discounted, ${first.label} earned ${fixed(first.discounted)}.`}
      ${found.value_reason && ` The network's value is not shown: ${found.value_reason}`}</p>${inexact}</div>`;
}

/** The family of the chosen episode: its root, and every branch from the step where it leaves its parent. */
export function Tree({ lane, desk }) {
  const rows = lane.rows.value;
  const byN = new Map(rows.map((row) => [row.n, row]));
  let root = lane.row.value;
  if (!root) return null;
  while (root.parent !== null && byN.has(root.parent)) root = byN.get(root.parent);
  const family = [];
  const walk = (row) => {
    family.push(row);
    rows.filter((one) => one.parent === row.n).sort((a, b) => a.at - b.at || a.n - b.n).forEach(walk);
  };
  walk(root);
  if (family.length < 2) return html`<p class="hint">Branches appear here as a tree.</p>`;
  const longest = Math.max(...family.map((row) => row.length), 1);
  const [width, high] = [132, 28];
  const x = (t) => 6 + (t / longest) * (width - 12);
  const y = (row) => family.indexOf(row) * high + high / 2;
  return html`<h3>Branches <span class="hint">with the return of the whole episode</span></h3><div class="tree" role="group" aria-label="Branches"><svg width=${width} height=${family.length * high} aria-hidden="true">
      ${family.map((row, i) => html`<g key=${row.n} stroke=${colourAt(i)} fill="none" stroke-width=${row.n === lane.n.value ? 3 : 1.6}>
        ${row.parent !== null && byN.has(row.parent) && html`<path d="M${x(row.at)} ${y(byN.get(row.parent))}V${y(row)}" stroke-dasharray="2 2" />`}
        <path d="M${x(row.parent === null ? 0 : row.at)} ${y(row)}H${x(row.length)}" /><circle cx=${x(row.length)} cy=${y(row)} r="3.5" fill=${row.outcome === "terminated" ? colourAt(i) : "var(--panel)"} stroke-width="1.6" /></g>`)}
      <path d="M${x(Math.min(desk.t.value, longest))} 0V${family.length * high}" stroke="var(--accent)" opacity="0.5" /></svg>
    <div class="tree-rows">${family.map((row) => html`<button type="button" key=${row.n} class=${cls(row.n === lane.n.value && "selected")} aria-pressed=${String(row.n === lane.n.value)}
      aria-label="Episode ${row.n}, ${row.parent === null ? "the original" : `branch at step ${row.at}`}, return ${fixed(row.return)}, ${row.length} steps, ${row.outcome}" onClick=${() => (lane.n.value = row.n)}>
      <b>${fixed(row.return)}</b><span>${row.length} steps</span><span class="hint">${row.outcome}</span>${row.exact === false && html`<${Badge} kind="amber" title="The environment did not repeat the episode up to the branch">not exact</${Badge}>`}</button>`)}</div></div>`;
}

export function Working({ lane }) {
  const working = lane.working.value;
  if (!working) return null;
  const share = working.total ? working.done / working.total : (working.share ?? working.progress ?? 0);
  return html`<div class="working" role="status"><span class="spinner"></span><span>${working.text}</span><${Progress} value=${share} /><${Button} small onClick=${() => attempt(ask("cancel", { session: lane.session.value }))}>Cancel</${Button}></div>`;
}
