// Play: keyboard, agent, random policy or untrained network in any environment; who plays can change at any step.
import { ask, on } from "../api.js";
import { go, setQuery, url } from "../router.js";
import { ActionBars, OpenForm, keyName, useFrames, useSession } from "../session.js";
import { Badge, Button, Card, ErrorLine, Icon, Loading, Segmented, Select, Slider, Stat, Switch, attempt, cls, fixed, html, num, signal, toast, useEffect, useMemo, useRef, useState } from "../ui.js";

const POLICIES = [
  { value: "human", label: "You", title: "Your keyboard" },
  { value: "greedy", label: "Agent", title: "The agent's most likely action" },
  { value: "sampled", label: "Agent, sampled", title: "Actions drawn from the agent's probabilities" },
  { value: "random", label: "Random", title: "Any allowed action" },
  { value: "untrained", label: "Untrained", title: "The network before training" },
];

const BACK = { greedy: "the agent", sampled: "the agent, sampled", random: "random actions", untrained: "the untrained network" };

export default function Play({ query }) {
  const [ref, env] = [query.get("ref"), query.get("env")];
  const { session, about, error, joined } = useSession(ref, env, query.get("session") ? Number(query.get("session")) : null, query.getAll("set"), query.get("against"));
  if (!ref && !env) return html`<${OpenForm} page="play" title="Play" />`;
  if (error) return html`<div class="stack"><${ErrorLine}>${error.message}</${ErrorLine}><div><a href="/play">Choose something else</a></div></div>`;
  if (!about) return html`<${Loading} text="Starting the environment" />`;
  return html`<${Game} key=${session} session=${session} about=${about} joined=${joined} wanted=${query.get("policy")} wantedSeed=${query.get("seed")} />`;
}

/** What the page knows of the game; steps arrive up to 60 times a second, so the panels follow at most 15 times a second. */
function makeGame() {
  return { step: signal(null), rows: signal([]), drawn: signal(0) };
}

function useSteps(session, game) {
  useEffect(() => {
    let newest = null;
    let timer = null;
    let players = { episode: null };
    const show = () => {
      timer = null;
      game.step.value = newest;
    };
    const stop = on("step", (message) => {
      if (message.session !== session) return;
      newest = message;
      window.__studio.step = message;
      window.__studio.steps = (window.__studio.steps ?? 0) + 1;
      if (players.episode !== message.episode) players = { episode: message.episode, steps: {} };
      players.steps[message.who] = (players.steps[message.who] ?? 0) + 1;
      if (message.over) game.rows.value = [rowOf(message, players.steps), ...game.rows.value].slice(0, 200);
      if (!timer) timer = setTimeout(show, message.over ? 0 : 66);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [session]);
}

const rowOf = (m, steps) => ({ episode: m.episode, length: m.t + 1, total: m.total, outcome: m.outcome, who: named(steps) });

/** Who acted in an episode; how often, where it was more than one. */
const named = (steps) => {
  const all = Object.entries(steps);
  return all.length === 1 ? all[0][0] : all.map(([who, count]) => `${who} ${count}`).join(", ");
};

function Game({ session, about, joined, wanted, wantedSeed }) {
  const game = useMemo(makeGame, [session]);
  const agent = about.policies.includes("greedy");
  const first = about.policies.includes(wanted) ? wanted : agent ? "greedy" : "human";
  const [policy, setPolicy] = useState(first);
  const [playing, setPlaying] = useState(false);
  const [fps, setFps] = useState(about.fps);
  const [two, setTwo] = useState(false);
  const [recording, setRecording] = useState(false);
  const [seed, setSeed] = useState(wantedSeed ?? "");
  const before = useRef(agent ? "greedy" : first === "human" ? null : first); // who played last, other than the keyboard
  const area = useRef();
  const canvas = useRef();
  useSteps(session, game);
  const meter = useMemo(() => ({ times: [] }), []);
  useFrames(session, canvas, () => {
    const now = performance.now();
    meter.times.push(now);
    while (meter.times[0] < now - 1000) meter.times.shift();
    window.__studio.frames = (window.__studio.frames ?? 0) + 1;
  });
  useEffect(() => {
    const timer = setInterval(() => {
      while (meter.times.length && meter.times[0] < performance.now() - 1000) meter.times.shift();
      game.drawn.value = meter.times.length;
    }, 500);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (!joined) attempt(ask("reset", { session, seed: wantedSeed ? Number(wantedSeed) : null }));
    area.current?.focus();
    const stops = ["ended", "stopped"].map((type) => on(type, (message) => {
      if (message.session !== session) return;
      setPlaying(false);
      toast(message.error ?? "The environment stopped.", "red");
    }));
    return () => stops.forEach((stop) => stop());
  }, [session]);

  const play = async (who = policy) => {
    if (who !== "human" && who !== policy) before.current = who;
    if ((await attempt(ask("play", { session, policy: who }))) === undefined) return;
    setPolicy(who);
    setPlaying(true);
    setQuery({ policy: who });
    if (who === "human") area.current?.focus();
  };
  const choose = (who) => {
    if (playing) return play(who);
    if (who !== "human") before.current = who;
    setPolicy(who);
    return setQuery({ policy: who });
  };
  const pause = async () => {
    if ((await attempt(ask("pause", { session }))) !== undefined) setPlaying(false);
  };
  const single = async () => {
    await pause();
    await attempt(ask("step", { session, n: 1, policy }));
  };
  const restart = () => attempt(ask("reset", { session, seed: seed === "" ? null : Number(seed) }));
  const record = async (on) => {
    const answer = await attempt(ask("record", { session, on }));
    if (!answer) return;
    setRecording(answer.recording);
    if (answer.dataset) toast(`Saved ${answer.dataset.episodes} episodes (${answer.dataset.steps} steps) as ${answer.dataset.path} in the runs folder.`);
    else if (!on) toast("Nothing was played, so nothing was saved.");
  };
  const setSpeed = (value) => {
    setFps(value);
    attempt(ask("fps", { session, value }));
  };
  const switchPlayers = async (on) => {
    if ((await attempt(ask("two_players", { session, on }))) === undefined) return;
    setTwo(on);
    area.current?.focus();
  };
  const starting = useRef(false); // one key starts the game, also where it is pressed again before the answer is there
  const start = async () => {
    if (playing || starting.current || policy !== "human") return;
    starting.current = true;
    await play();
    starting.current = false;
  };
  const pressed = useKeys({ session, about, area, on: policy === "human" || two, onEscape: () => (playing ? pause() : play()), onKey: start });
  const options = POLICIES.filter((p) => about.policies.includes(p.value));

  return html`<div class="stack play">
    <div class="page-head"><h1>Play</h1><span class="mono ellipsis">${about.env}</span>
      ${about.ref && html`<a class="mono ellipsis" href=${`/runs/${encodeURIComponent(about.ref.split("@")[0])}`}>${about.ref}</a>`}${about.checkpoints?.length > 1 && html`<${Select} label="Checkpoint" value=${about.checkpoint} options=${about.checkpoints} onChange=${(name) => go(url("/play", { ref: `${about.ref}@${name}`, policy }))} />`}<span class="spacer"></span>
      ${about.ref && html`<a class="button" href=${url("/inspect", { ref: `${about.ref}@${about.checkpoint}` })}><${Icon} name="search" />Inspect</a>`}
      <${Segmented} label="Who plays" value=${policy} options=${options} onChange=${choose} /></div>
    <div class="side">
      <${Card} class="game-card" label="Game">
        <div class=${cls("game", policy === "human" && "human")} ref=${area} tabindex="0" role="application" aria-label="Game. Keys go to the game while it has the focus.">
          <canvas ref=${canvas} class="picture" role="img" aria-label="The game" width="600" height="400"></canvas>
          ${about.why_no_picture && html`<p class="game-note">${about.why_no_picture}</p>`}
          <${Overlay} game=${game} about=${about} />
          ${(policy === "human" || two) && html`<div class="game-hint">${!pressed.focused ? "Click here, then use the keys." : !playing && policy === "human" ? "Press a key to play." : about.waits && !two ? "Keys go to the game, which waits for one." : "Keys go to the game."}</div>`}
        </div>
        <div class="transport" role="toolbar" aria-label="Playback">
          ${playing ? html`<${Button} primary icon="pause" onClick=${pause}>Pause</${Button}>` : html`<${Button} primary icon="play" onClick=${() => play()}>Play</${Button}>`}
          <${Button} icon="next" onClick=${single} title="One step">Step</${Button}>
          ${policy === "human" ? html`<${Button} icon="back" onClick=${() => play(before.current)} disabled=${!playing || !before.current} title=${before.current ? undefined : "Nobody else has played: choose who goes on at Who plays"}>${before.current ? `Give back to ${BACK[before.current]}` : "Give back"}</${Button}>`
            : html`<${Button} icon="user" onClick=${() => play("human")}>Take over</${Button}>`}
          <span class="spacer"></span>
          <input class="input seed" inputmode="numeric" placeholder="seed" aria-label="Seed of the next episode" value=${seed} onInput=${(e) => setSeed(e.target.value.replace(/\D/g, ""))} />
          <${Button} icon="reset" onClick=${restart} title="Start a new episode">New episode</${Button}>
        </div>
        <div class="transport"><${Slider} label="Speed" min="1" max=${Math.max(120, about.fps * 2)} step="1" value=${fps} onInput=${setSpeed} format=${(v) => `${num(v, 3)} fps`} />
          <${Button} small quiet onClick=${() => setSpeed(about.fps)} disabled=${fps === about.fps}>Real speed</${Button}><span class="spacer"></span>
          <${Drawn} game=${game} />
          <${Button} small icon="record" class=${recording && "recording"} active=${recording} onClick=${() => record(!recording)} title="Save every step as a Minari dataset">${recording ? "Stop recording" : "Record"}</${Button}></div>
      </${Card}>
      <div class="stack">
        ${(about.two_players ?? false) && html`<${Card} title="Two players"><${Switch} label="You play the other side" checked=${two} onChange=${switchPlayers} />
          ${two && html`<p class="hint">${policy === "human" ? html`<kbd>W</kbd> up, <kbd>S</kbd> down; the first player has the arrow keys.` : html`<kbd>↑</kbd> or <kbd>W</kbd> up, <kbd>↓</kbd> or <kbd>S</kbd> down, against ${POLICIES.find((p) => p.value === policy).label.toLowerCase()}.`}</p>`}</${Card}>`}
        ${about.against && html`<${Match} game=${game} about=${about} />`}
        <${KeyMap} about=${about} pressed=${policy === "human" ? pressed.down : []} held=${pressed.held} on=${policy === "human"} />
        <${Now} game=${game} about=${about} />
        <${Variables} game=${game} about=${about} />
        <${Episodes} game=${game} />
      </div>
    </div></div>`;
}

function Overlay({ game }) {
  const step = game.step.value;
  if (!step) return null;
  return html`<div class="game-top"><${Badge}>Episode ${step.episode}</${Badge}><${Badge}>Step ${step.t + 1}</${Badge}><${Badge}>Return ${fixed(step.total)}</${Badge}>
    ${step.over && html`<${Badge} kind="amber">${step.outcome}</${Badge}>`}
    ${step.exact === false && html`<${Badge} kind="amber" title="The environment did not repeat the episode up to the step where the game went on">not exact</${Badge}>`}</div>`;
}

const Drawn = ({ game }) => html`<span class="hint nowrap" data-drawn=${game.drawn.value} title="Pictures drawn in the last second">${game.drawn.value} drawn/s</span>`;

const SECOND = ["ArrowUp", "ArrowDown", "KeyW", "KeyS"]; // of a second player

/** The keys that are down go to the server while the game has the focus; none are down when it loses it. */
function useKeys({ session, about, area, on: active, onEscape, onKey }) {
  const [state, setState] = useState({ down: [], focused: false });
  const escape = useRef(onEscape);
  escape.current = onEscape;
  const key = useRef(onKey); // before each key goes to the game
  key.current = onKey;
  const held = useRef({ press() {}, release() {} }); // for the key map, which is pressed on a phone
  useEffect(() => {
    const element = area.current;
    const known = new Set([...SECOND, ...Object.keys(about.keys ?? {}), ...(about.key_rows ?? []).flatMap((row) => row.keys)]);
    let down = [];
    const tell = (next, blur = false) => {
      if (next.length === down.length && next.every((code, i) => code === down[i])) return;
      down = next;
      setState((old) => ({ ...old, down }));
      ask("keys", { session, down, blur }).catch((error) => toast(error.message, "red"));
    };
    const press = (event) => {
      if (event.code === "Escape") return escape.current();
      if (!active || !known.has(event.code) || event.ctrlKey || event.metaKey || event.altKey) return undefined;
      event.preventDefault();
      if (!event.repeat) key.current();
      if (!down.includes(event.code)) tell([...down, event.code]);
      return undefined;
    };
    const release = (event) => tell(down.filter((code) => code !== event.code));
    const clear = () => tell([], true);
    const focus = () => setState((old) => ({ ...old, focused: true }));
    const blur = () => (clear(), setState((old) => ({ ...old, focused: false })));
    setState({ down: [], focused: document.activeElement === element });
    held.current = { press: (codes) => (key.current(), tell([...new Set([...down, ...codes])])), release: (codes) => tell(down.filter((code) => !codes.includes(code))) };
    const pairs = [[element, "keydown", press], [element, "keyup", release], [element, "focus", focus], [element, "blur", blur], [window, "blur", clear], [document, "visibilitychange", clear]];
    for (const [target, type, listener] of pairs) target.addEventListener(type, listener);
    return () => {
      clear();
      for (const [target, type, listener] of pairs) target.removeEventListener(type, listener);
    };
  }, [session, active]);
  return { ...state, held };
}

/** The keys and what they do. Each row is a button too: a phone has no keyboard. */
function KeyMap({ about, pressed, held, on: active }) {
  const rows = about.key_rows ?? [];
  return html`<${Card} title="Keys" class=${!active && "dim"} actions=${html`<span class="hint"><kbd>esc</kbd> pause</span>`}>
    <ul class=${cls("keys", rows.some((row) => row.keys.length > 2 || (row.together && row.label.length > 12)) && "long")}>${rows.map((row, i) => {
      const codes = row.together ? row.keys : row.keys.slice(0, 1);
      const lit = row.keys.length > 0 && (row.together ? row.keys.every((code) => pressed.includes(code)) : row.keys.some((code) => pressed.includes(code)));
      const release = () => held.current.release(codes);
      return html`<li key=${i}><button type="button" class=${cls(lit && "on")} disabled=${!active || !codes.length} onPointerDown=${() => held.current.press(codes)} onPointerUp=${release} onPointerLeave=${release}
        onPointerCancel=${release} onContextMenu=${(e) => e.preventDefault()} onMouseDown=${(e) => e.preventDefault()}><span class="key-caps">${row.keys.length ? row.keys.map((code, j) => html`<span key=${code}>${j > 0 && (row.together ? "+" : " ")}<kbd>${keyName(code)}</kbd></span>`)
        : html`<span class="hint">no key</span>`}</span><span class="ellipsis">${row.label}</span></button></li>`;
    })}</ul>
    ${!rows.length && html`<p class="hint">This environment has no keys.</p>`}</${Card}>`;
}

function Now({ game, about }) {
  const step = game.step.value;
  return html`<${Card} title="This step"><div class="stats steady"><${Stat} label="Action" value=${step?.label ?? "–"} /><${Stat} label="Reward" value=${fixed(step?.reward)} />
      <${Stat} label="Value" value=${fixed(step?.value)} title="The return that the network expects from here" /></div>
    ${Object.keys(step?.components ?? {}).length > 0 && html`<table class="mini" aria-label="Parts of the reward"><tbody>${Object.entries(step.components).map(([name, value]) => html`<tr key=${name}><td class="ellipsis">${name}</td><td class="right">${fixed(value, 3)}</td></tr>`)}</tbody></table>`}
    ${step && (step.probs || step.mean) && html`<${ActionBars} about=${about} probs=${step.probs} mean=${step.mean} std=${step.std} mask=${step.mask} taken=${step.action} />`}</${Card}>`;
}

/** Two players in one game: the score of each. */
function Match({ game, about }) {
  const step = game.step.value;
  return html`<${Card} title="Match"><div class="stats steady"><${Stat} label="You" title="Whoever plays here" value=${fixed(step?.total)} /><${Stat} label="Opponent" value=${fixed(step?.opponent)} /></div>
    <p class="hint">${about.against === "random" ? "Random actions play" : html`<span class="mono">${about.against}</span> plays`} against you in the same game.</p></${Card}>`;
}

/** What the game counts. */
function Variables({ game, about }) {
  const now = game.step.value?.variables;
  if (!about.variables.length) return null;
  return html`<${Card} title="Game variables"><div class="episodes-box"><table class="mini"><tbody>${about.variables.map((name) => html`<tr key=${name}><td class="ellipsis">${name}</td><td class="right">${num(now?.[name])}</td></tr>`)}</tbody></table></div></${Card}>`;
}

function Episodes({ game }) {
  const rows = game.rows.value;
  const mean = rows.length ? rows.reduce((sum, row) => sum + row.total, 0) / rows.length : null;
  return html`<${Card} title="Episodes" actions=${html`<span class="hint" data-episodes=${rows.length}>${rows.length} done${mean === null ? "" : `, mean return ${num(mean)}`}</span>`}>
    ${rows.length ? html`<div class="episodes-box"><table class="mini"><thead><tr><th>#</th><th>who</th><th class="right">steps</th><th class="right">return</th><th>end</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.episode}><td>${row.episode}</td><td>${row.who}</td><td class="right">${row.length}</td><td class="right">${fixed(row.total)}</td><td>${row.outcome}</td></tr>`)}</tbody></table></div>`
    : html`<p class="hint">Finished episodes are listed here.</p>`}</${Card}>`;
}
