// What the pages Inspect and Play share: a session on the server, pictures on a canvas, and the form that opens one.
import { ask, connection, control, decode, get, onOpen, onPicture } from "./api.js";
import { go, url } from "./router.js";
import { Button, Card, Field, Loading, Select, cls, html, useData, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

/** "key=value" texts as an object; a value is JSON where it can be. */
export function settingsOf(texts) {
  return Object.fromEntries(texts.map((text) => {
    const [key, ...rest] = text.split("=");
    const value = rest.join("=").trim();
    try {
      return [key.trim(), JSON.parse(value)];
    } catch {
      return [key.trim(), value];
    }
  }));
}

/** Opens a session; a window without control looks on at one that is open already, if there is one of the same. */
export async function openSession(ref, env, known = null, set = {}, against = null) {
  if (known !== null) return { ...(await ask("join", { session: known })), joined: true };
  if (!control.value) {
    const { sessions } = await ask("sessions");
    const same = sessions.find((one) => (one.ref ?? null) === (ref || null) && (one.env ?? null) === (env || null) && (one.against ?? null) === (against || null));
    if (same) return { ...(await ask("join", { session: same.session })), joined: true };
  }
  return ask("open", { ref: ref || null, env: env || null, against: against || null, set });
}

/** Calls when the connection opens (again), and when this window gets control. */
export function onReady(listener) {
  const stop = onOpen(listener);
  const unwatch = control.subscribe((mine) => mine && connection.peek() === "open" && listener("control"));
  return () => {
    stop();
    unwatch();
  };
}

/** Opens a session and leaves it with the page: {session, about, error}. It opens again after a lost connection.
 *  `known`: one that is open already, of the inspector. `settings`: "key=value" texts. `against`: who plays in the same game. */
export function useSession(ref, env, known = null, settings = [], against = null) {
  const [state, setState] = useState({});
  useEffect(() => {
    if (!ref && !env) return setState({});
    let session = null;
    let gone = false;
    let opening = false;
    const open = (why) => {
      if (why === "control" && (session !== null || opening)) return;
      opening = true;
      session = null;
      setState({});
      openSession(ref, env, known, settingsOf(settings), against).catch((problem) => (known === null ? Promise.reject(problem) : openSession(ref, env, null, settingsOf(settings), against))).finally(() => (opening = false)).then(
        (answer) => {
          session = answer.session;
          if (gone) return leave(session);
          window.__studio.session = session;
          setState(answer);
        },
        (error) => !gone && setState({ error }),
      );
    };
    const stop = onReady(open);
    return () => {
      gone = true;
      stop();
      if (session !== null) leave(session);
    };
  }, [ref, env, known, settings.join(), against]);
  return state;
}

const leave = (session) => connection.value === "open" && ask("leave", { session }).catch(() => {});

/** Pictures that arrive faster than they are drawn: the newest wins. `draw(header, bytes)` for each that is wanted. */
export function useFrames(session, canvas, onDrawn) {
  useEffect(() => {
    if (!session) return undefined;
    let newest = null;
    let busy = false;
    const next = async () => {
      if (busy || !newest) return;
      busy = true;
      const [header, bytes] = newest;
      newest = null;
      const image = await decode(header, bytes);
      if (canvas.current) paint(canvas.current, image);
      image.close?.();
      onDrawn?.(header);
      busy = false;
      next();
    };
    return onPicture((header, bytes) => {
      if (header.session !== session || header.kind !== "frame") return;
      newest = [header, bytes];
      next();
    });
  }, [session]);
}

export function paint(canvas, image) {
  if (canvas.width !== image.width || canvas.height !== image.height) {
    canvas.width = image.width;
    canvas.height = image.height;
    canvas.classList.toggle("drawing", image.width > 320); // a drawing is scaled smoothly, a game of pixels keeps its pixels
  }
  const context = canvas.getContext("2d");
  if (image instanceof ImageData) context.putImageData(image, 0, 0);
  else context.drawImage(image, 0, 0);
}

/** One picture that is there already: {header, bytes}. */
export function Picture({ picture, label, class: extra }) {
  const canvas = useRef();
  useLayoutEffect(() => {
    if (!picture) return undefined;
    let current = true;
    decode(picture.header, picture.bytes).then((image) => {
      if (current && canvas.current) {
        paint(canvas.current, image);
        canvas.current.dataset.t = picture.header.t;
      }
      image.close?.();
    });
    return () => (current = false);
  }, [picture]);
  return html`<canvas ref=${canvas} class=${cls("picture", extra)} role="img" aria-label=${label} width="1" height="1"></canvas>`;
}

/** Choose what to open: a run or an environment. */
export function OpenForm({ page, title, runsOnly }) {
  const runs = useData(() => get("/runs"), []);
  const presets = useData(() => get("/presets"), []);
  const [ref, setRef] = useState("");
  const [env, setEnv] = useState("");
  if (runs.loading) return html`<${Loading} />`;
  const rows = runs.data?.runs ?? [];
  const envs = envsOf(presets.data);
  const chosen = ref || rows[0]?.id;
  return html`<div class="open-form"><div class="page-head"><h1>${title}</h1></div>
    <div class="grid-2">
      <${Card} title="A trained agent">${rows.length ? html`<div class="stack"><${Field} label="Run">
          <${Select} label="Run" value=${chosen} onChange=${setRef} options=${rows.map((r) => ({ value: r.id, label: `${r.name ?? r.id} · ${r.env}` }))} /></${Field}>
          <div><${Button} primary icon=${page === "play" ? "play" : "search"} onClick=${() => go(url(`/${page}`, { ref: chosen }))}>Open the agent</${Button}></div></div>`
        : html`<p class="hint">There are no runs yet. Train one: <a href="/start">start a run</a>.</p>`}</${Card}>
      ${!runsOnly && html`<${Card} title="An environment"><div class="stack"><${Field} label="Environment" hint="Without an agent: play yourself, or watch random actions.">
        <input class="input" list="envs" value=${env} placeholder="CartPole-v1" onInput=${(e) => setEnv(e.target.value)} /></${Field}>
        <datalist id="envs">${envs.map((id) => html`<option key=${id} value=${id} />`)}</datalist>
        <div><${Button} icon="play" disabled=${!env} onClick=${() => go(url(`/${page}`, { env }))}>Open the environment</${Button}></div></div></${Card}>`}
    </div></div>`;
}

const envsOf = (presets) => (presets ?? []).flatMap((family) => family.envs.map((one) => one.id));

const SHORT = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Space: "space", Enter: "enter", ShiftLeft: "shift" };
export const keyName = (code) => SHORT[code] ?? code.replace(/^(Key|Digit)/, "");

/** A horizontal bar for each action: its probability, or mean and standard deviation of a continuous one. */
export function ActionBars({ about, probs, mean, std, mask, taken, onChoose }) {
  if (mean) return html`<${GaussianBars} about=${about} mean=${mean} std=${std} taken=${taken} />`;
  if (!probs) return html`<p class="hint">No network chooses here.</p>`;
  const chosen = takenOf(about, taken);
  return html`<ul class="probs" aria-label="Action probabilities">${about.actions.map((label, i) => {
    const off = mask && !mask[i];
    const inner = html`<span class="prob-label">${label}</span><span class="prob-track"><span class="prob-fill" style=${{ width: `${100 * (probs[i] ?? 0)}%` }}></span></span>
      <span class="prob-value">${off ? "masked" : `${(100 * (probs[i] ?? 0)).toFixed(1)} %`}</span>`;
    return html`<li key=${i} class=${cls("prob", chosen.has(i) && "taken", off && "off")}>${onChoose
      ? html`<button type="button" disabled=${off} title="Take ${label} instead" onClick=${() => onChoose(i)}>${inner}</button>` : html`<div>${inner}</div>`}</li>`;
  })}</ul>`;
}

// Which bars the taken action lights: one of a discrete action, one of each component of a list, the pressed buttons.
function takenOf(about, taken) {
  if (taken === null || taken === undefined) return new Set();
  if (!Array.isArray(taken)) return new Set([taken]);
  if (about.action_kind === "multi_binary") return new Set(taken.flatMap((on, i) => (on ? [i] : [])));
  const sizes = about.sizes ?? [];
  let start = 0;
  return new Set(taken.map((choice, i) => {
    const at = start + choice;
    start += sizes[i] ?? 0;
    return at;
  }));
}

function GaussianBars({ about, mean, std, taken }) {
  return html`<ul class="probs" aria-label="Continuous actions">${about.actions.map((label, i) => {
    const [low, high] = about.bounds?.[i] ?? [-1, 1];
    const place = (value) => `${Math.max(0, Math.min(100, (100 * (value - low)) / (high - low || 1)))}%`;
    const from = Math.max(low, mean[i] - (std?.[i] ?? 0));
    const to = Math.min(high, mean[i] + (std?.[i] ?? 0));
    const own = Array.isArray(taken) ? taken[i] : taken;
    return html`<li key=${i} class="prob"><div><span class="prob-label">${label}</span><span class="prob-track wide-range">
      <span class="prob-fill soft" style=${{ left: place(from), width: `${Math.max(0, (100 * (to - from)) / (high - low || 1))}%` }}></span>
      <span class="prob-dot" style=${{ left: place(mean[i]) }} title="mean"></span>${own !== null && own !== undefined && html`<span class="prob-taken" style=${{ left: place(own) }} title="taken"></span>`}</span>
      <span class="prob-value">${(own ?? mean[i]).toFixed(2)}</span></div></li>`;
  })}</ul>`;
}
