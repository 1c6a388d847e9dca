// What a run does at this moment, from the heartbeat that it writes every second.
import { Progress, cls, duration, html, num, percent, roughly } from "./ui.js";

const WORDS = { starting: "Starting", evaluating: "Evaluating", verdict: "Judging", score: "Scoring", done: "Finishing" };
const ABOUT = {
  Evaluating: "Episodes that the agent does not learn from",
  Judging: "Fresh episodes, until it is shown or given up that their mean exceeds the threshold",
  Scoring: "Other episodes: the score is of none that decided anything",
};
const ROUNDS = ["collecting", "learning", "saving"]; // many times a second in a quick run
const SHORT = 3; // seconds that each of those takes in a run where naming them says nothing
const SILENT = 20; // seconds without a row after which the page says so

const judges = (now) => ["evaluating", "verdict", "score"].includes(now.phase);

/** Its name: Collecting, Judging, ... */
export const phaseOf = (now) => {
  if (ROUNDS.includes(now.phase) && now.seconds < SHORT) return "Training";
  return WORDS[now.phase] ?? now.phase[0].toUpperCase() + now.phase.slice(1);
};

/** For the list: {word, share} of an evaluation; null while it trains. A verdict ends when its answer is clear: nobody knows its share. */
export const briefly = (now) => (now && judges(now) ? { word: phaseOf(now).toLowerCase(), share: now.phase === "verdict" ? "" : percent(now.done / now.of) } : null);

/** "37 of 100 episodes in wind, mean −20.6 so far, about 2 min" */
export function details(now) {
  if (phaseOf(now) === "Training") return "collecting and learning";
  if (!now.of) return now.seconds < SHORT ? "" : `for ${duration(Math.floor(now.seconds))}`;
  const most = now.phase === "verdict" && !now.probably; // it ends as soon as the answer is clear
  const unit = judges(now) ? " episodes" : now.phase === "collecting" ? " steps" : "";
  const number = (value) => value.toLocaleString("en");
  const said = [`${number(now.done)} of ${most ? "at most " : now.probably ? "about " : ""}${number(now.of)}${unit}${now.where ? ` in ${now.where}` : ""}`];
  if (judges(now) && !now.done) said.push(`step ${number(now.steps)}`);
  if (now.mean !== null) said.push(`mean ${num(now.mean)} so far`);
  if (now.left !== null) said.push(`${most ? "at most" : "about"} ${roughly(now.left)}`);
  return said.join(", ");
}

/** Seconds since the last row of metrics; null: there is none. */
const sinceRow = (row) => (row.seconds === null ? null : Math.max(0, row.now.elapsed - row.seconds));

export const clockOf = (row) => duration(row.now ? Math.floor(row.now.elapsed) : row.seconds);

/** Steps of the rollout under way among them. */
export const stepsOf = (row) => Math.max(row.env_steps ?? 0, row.now?.env_steps ?? 0);

/** What is left of the training, which stands still while the agent is judged. */
export function timeToGo(row) {
  if (row.eta === null) return "";
  if (!row.now) return `${duration(row.eta)} to go`;
  if (judges(row.now)) return `${roughly(row.eta)} of training to go`;
  const left = row.eta - (sinceRow(row) ?? 0);
  return left > 0 ? `${duration(Math.ceil(left))} to go` : "";
}

/** The line under the numbers of a run that is trained. */
export function Activity({ row }) {
  const { now } = row;
  if (!now) return null;
  const since = sinceRow(row);
  const silent = since === null ? "no row yet" : since >= SILENT ? `last row ${roughly(since)} ago` : "";
  return html`<div class="activity"><b title=${ABOUT[phaseOf(now)]}>${phaseOf(now)}</b><span>${details(now)}</span>
    ${judges(now) && html`<${Progress} value=${now.done / now.of} label=${phaseOf(now)} />`}<span class="spacer"></span>
    <span class=${cls("hint", now.late > 0 && "late")}>${now.late > 0 ? `no sign of life for ${duration(now.late)}` : silent}</span></div>`;
}
