// One side of the inspector: a session, its episodes, the chosen episode and what was computed of the shown step.
import { ask, on, onPicture } from "../api.js";
import { onReady, openSession } from "../session.js";
import { computed, effect, signal } from "../ui.js";

/** What both sides share: the step, and what the open panels need. */
export const makeDesk = (t) => ({ t: signal(t), needs: signal(["frame"]), playing: signal(false) });

export class Lane {
  /** `of`: a lane whose session and episodes this one shares. */
  constructor(name, desk, of = null) {
    this.name = name;
    this.desk = desk;
    for (const key of ["session", "about", "error", "rows", "working"]) this[key] = of ? of[key] : signal(key === "rows" ? [] : null);
    this.n = signal(null);
    this.columns = signal(null); // of the chosen episode
    this.moment = signal(null); // {n, t, answer, pictures}
    this.row = computed(() => this.rows.value.find((row) => row.n === this.n.value) ?? null);
    this.last = computed(() => this.columns.value?.reward.length ?? this.row.value?.length ?? 0); // the moment after the last step
    this.at = computed(() => Math.min(this.desk.t.value, this.last.value));
    this.behind = computed(() => this.moment.value !== null && (this.moment.value.n !== this.n.value || this.moment.value.t !== this.at.value));
    this._loading = false;
    this._again = false;
    this._arriving = new Map();
    this._stops = [
      effect(() => this._loadEpisode(this.session.value, this.n.value)),
      effect(() => this._wantMoment(this.columns.value, this.at.value, this.desk.needs.value)),
      onPicture((header, bytes) => {
        if (header.session === this.session.value && header.n === this.n.value) this._arriving.set(pictureKey(header.kind, header.layer, header.index), { header, bytes });
      }),
    ];
  }

  /** Opens a session of its own, again after every lost connection. `then` runs when it is open. `set`: settings that differ. */
  open(ref, env, then, set = {}) {
    let opening = false;
    const open = async (why) => {
      if (why === "control" && (opening || this.session.peek() !== null)) return undefined;
      opening = true;
      this.session.value = this.about.value = this.error.value = this.n.value = null;
      this.rows.value = [];
      try {
        const answer = await openSession(ref, env, null, set);
        if (this.closed) return ask("leave", { session: answer.session }).catch(() => {});
        this.about.value = answer.about;
        this.session.value = window.__studio.session = answer.session;
        if (answer.joined) {
          await this._list();
          this.n.value = this.rows.value.at(-1)?.n ?? null;
        } else await then?.();
      } catch (problem) {
        this.error.value = problem;
      } finally {
        opening = false;
      }
      return undefined;
    };
    this._stops.push(onReady(open));
    this._stops.push(on("progress", (message) => message.session === this.session.value && this.working.value && (this.working.value = { ...this.working.value, ...message })));
    this._stops.push(on("ended", (message) => message.session === this.session.value && (this.error.value = new Error(message.error))));
    this._stops.push(() => this.session.value !== null && ask("leave", { session: this.session.value }).catch(() => {}));
  }

  close() {
    this.closed = true;
    for (const stop of this._stops) stop();
  }

  /** A command that takes a while: its progress is shown and it can be cancelled. */
  async work(text, what, fields) {
    this.working.value = { text };
    try {
      return await ask(what, { session: this.session.value, ...fields });
    } finally {
      this.working.value = null;
    }
  }

  async record({ policy, seed = null, episodes = 1, checkpoint = null }) {
    const text = episodes === 1 ? "Recording an episode" : `Recording ${episodes} episodes`;
    const answer = await this.work(text, "record_episodes", { policy, seed, episodes, checkpoint });
    await this._list();
    return answer.episodes;
  }

  async branch(fields) {
    const row = await this.work("Playing the branch", "branch", { n: this.n.value, t: this.at.value, ...fields });
    await this._list();
    return row;
  }

  // All of them: flags change with every new episode, and the server forgets the oldest.
  async _list() {
    this.rows.value = (await ask("episodes", { session: this.session.value })).episodes;
  }

  async _loadEpisode(session, n) {
    this.columns.value = null;
    if (session === null || n === null) return;
    try {
      const answer = await ask("episode", { session, n });
      if (this.n.value === n && this.session.value === session) this.columns.value = answer;
    } catch (problem) {
      this.error.value = problem;
    }
  }

  // While an answer is awaited only the newest wish is remembered: scrubbing asks for what can be computed, no more.
  async _wantMoment(columns, t, need) {
    if (!columns) return;
    this._again = true;
    if (this._loading) return;
    this._loading = true;
    while (this._again && !this.closed) {
      this._again = false;
      const [n, at, needs] = [this.n.peek(), this.at.peek(), this.desk.needs.peek()];
      this._arriving = new Map();
      try {
        const answer = await ask("moment", { session: this.session.peek(), n, t: at, need: needs });
        if (n === this.n.peek()) this.moment.value = { n, t: at, answer, pictures: this._arriving };
        Object.assign(window.__studio, { n, t: at });
      } catch (problem) {
        if (!this.closed && n === this.n.peek()) this.error.value = problem;
      }
    }
    this._loading = false;
  }
}

export const pictureKey = (kind, layer, index) => `${kind}:${layer}:${index}`;

/** The number of a column at the shown step; null after the last step. */
export function at(lane, name) {
  const values = lane.columns.value?.[name];
  return values ? (values[lane.at.value] ?? null) : null;
}
