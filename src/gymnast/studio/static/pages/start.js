// A new run: env, variant, settings, with the same check and the same words as the command line.
import { get, post } from "../api.js";
import { go, setQuery } from "../router.js";
import { Badge, Button, Card, Empty, ErrorLine, Field, Loading, Segmented, Switch, cls, html, num, toast, useData, useEffect, useMemo, useState } from "../ui.js";
import { Command } from "./run_parts.js";

const FIRST = ["train.total_timesteps", "algo.learning_rate", "env.n_envs", "algo.n_steps", "algo.gamma", "stop.threshold"]; // what people change most
const TYPING = 300; // ms without a key before the settings are checked

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

export default function Start({ query }) {
  const { data: families, error } = useData(() => get("/presets"), []);
  const [search, setSearch] = useState("");
  const target = query.get("env") ?? "";
  const [env, variant] = splitTarget(target, families);
  if (error) return html`<${ErrorLine}>${error.message}</${ErrorLine}>`;
  if (!families) return html`<${Loading} />`;
  const word = search.toLowerCase();
  const shown = families.map((family) => ({ ...family, envs: family.envs.filter((one) => !word || `${one.id} ${one.description} ${family.family}`.toLowerCase().includes(word)) })).filter((family) => family.envs.length);
  return html`<div class="page-head"><h1>Start a run</h1></div>
    <div class="start"><${Card} title="Env" class=${cls("envs", env && "chosen")}><input class="input search" type="search" placeholder="Search, or the id of another env" aria-label="Search envs" value=${search} onInput=${(e) => setSearch(e.target.value)}
        onKeyDown=${(e) => e.key === "Enter" && search && setQuery({ env: shown[0]?.envs[0]?.id ?? search.trim() })} />
      <div class="env-list">${shown.map((family) => html`<div key=${family.family}><h3>${family.family}</h3>${family.envs.map((one) => html`<button type="button" key=${one.id} class=${cls("env", one.id === env && "on")} aria-pressed=${String(one.id === env)} onClick=${() => setQuery({ env: one.id, set: null })}>
          <span>${one.id}</span>${!one.installed && html`<${Badge} kind="amber" title="Its package is not installed">needs ${one.extra}</${Badge}>`}<span class="hint ellipsis">${one.description}</span></button>`)}</div>`)}
        ${!shown.length && html`<p class="hint">No preset has this name. Press Enter to use <code>${search}</code> as the id of an env.</p>`}</div></${Card}>
      ${target ? html`<${Form} key=${env} target=${target} env=${env} variant=${variant} preset=${families.flatMap((family) => family.envs).find((one) => one.id === env)} given=${query.getAll("set")} />`
        : html`<${Card}><${Empty} title="Choose an env" icon="plus">Presets are tuned: they train until the env is solved. Every setting can be changed before the run starts.</${Empty}></${Card}>`}</div>`;
}

/** "CartPole-v1:ppo" -> env and variant; an id of its own may have a colon too. */
function splitTarget(target, families) {
  const known = (families ?? []).flatMap((family) => family.envs.map((one) => one.id));
  const colon = target.lastIndexOf(":");
  return colon > 0 && !known.includes(target) ? [target.slice(0, colon), target.slice(colon + 1)] : [target, null];
}

function Form({ target, env, variant, preset, given }) {
  const [values, setValues] = useState(() => Object.fromEntries(given.map((text) => [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)])));
  const [about, setAbout] = useState({ seed: "", name: "", tags: "" });
  const [search, setSearch] = useState("");
  const [all, setAll] = useState(false);
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState(null); // why the run did not start
  const chosen = variant ?? preset?.variants[0]?.name ?? null;
  const checked = useCheck(preset ? `${env}:${chosen}` : target, values);
  const set = (key, value) => setValues((old) => {
    const next = { ...old, [key]: value };
    if (value === null) delete next[key];
    return next;
  });
  const problems = checked.data?.problems ?? [];
  const usual = useMemo(() => checked.usual, [checked.usual]);
  const seed = about.seed.trim();
  const mistake = seed && !/^\d+$/.test(seed) ? "a whole number" : null;
  const tags = about.tags.split(/[\s,]+/).filter(Boolean);
  const start = async () => {
    setBusy(true);
    setRefused(null);
    const answer = await post("/start", { env: preset ? `${env}:${chosen}` : target, set: values, seed: seed ? Number(seed) : null, name: about.name.trim() || null, tags }).catch((problem) => void setRefused(problem.message));
    setBusy(false);
    if (!answer) return;
    toast("The run has started. It goes on when Studio ends.");
    go(`/runs/${encodeURIComponent(answer.id)}`);
  };
  const words = ["gymnast", "train", preset && chosen !== preset.variants[0]?.name ? `${env}:${chosen}` : preset ? env : target, ...Object.entries(values).flatMap(([key, value]) => ["--set", quoted(`${key}=${value}`)]),
    ...(seed ? ["--seed", seed] : []), ...(about.name.trim() ? ["--name", quoted(about.name.trim())] : []), ...tags.flatMap((tag) => ["--tag", quoted(tag)])];
  const wrong = (option) => refused?.startsWith(option);
  const tell = (change) => {
    setAbout({ ...about, ...change });
    setRefused(null);
  };
  const word = search.toLowerCase();
  const shown = (usual ?? []).filter((one) => (word ? `${one.key} ${one.about}`.toLowerCase().includes(word) : all || one.key in values || FIRST.includes(one.key)));
  const option = preset?.variants.find((one) => one.name === chosen);
  return html`<div class="stack"><${Card} title=${env}>${preset && html`<p class="hint">${preset.description} ${preset.threshold !== null && `Solved at ${num(preset.threshold)}.`}</p>`}
      ${preset && preset.variants.length > 1 && html`<div class="row variants"><span class="field-label">Variant</span><${Segmented} label="Variant" value=${chosen} options=${preset.variants.map((one) => ({ value: one.name, label: one.name, title: one.about }))} onChange=${(name) => setQuery({ env: `${env}:${name}` })} /></div>${option?.about && html`<p class="hint">${option.about}</p>`}`}
      <div class="grid-3 about"><${Field} label="Seed" error=${mistake} hint="empty: the preset's"><input class="input" inputmode="numeric" value=${about.seed} onInput=${(e) => tell({ seed: e.target.value })} /></${Field}>
        <${Field} label="Name" hint="optional, one word" error=${wrong("--name") ? refused : null}><input class="input" value=${about.name} onInput=${(e) => tell({ name: e.target.value })} /></${Field}>
        <${Field} label="Tags" error=${wrong("--tag") ? refused : null} hint="optional, words to find it by"><input class="input" value=${about.tags} onInput=${(e) => tell({ tags: e.target.value })} /></${Field}></div></${Card}>
    <${Card} title="Settings" actions=${html`<${Switch} label="all" checked=${all} onChange=${setAll} />`}><input class="input search" type="search" placeholder="Search all settings" aria-label="Search settings" value=${search} onInput=${(e) => setSearch(e.target.value)} />
      ${problems.filter((one) => !shown.some((row) => row.key === one.key)).map((one) => html`<${ErrorLine} key=${one.text}>${one.text}</${ErrorLine}>`)}
      ${!usual && checked.loading && html`<${Loading} text="Reading the settings" />`}
      <div class="settings-form">${shown.map((one) => html`<${Setting} key=${one.key} row=${one} value=${values[one.key]} problem=${problems.find((problem) => problem.key === one.key)} onChange=${(value) => set(one.key, value)} />`)}</div></${Card}>
    <${Card}>${refused && html`<${ErrorLine}>${refused}</${ErrorLine}>`}<div class="start-bar"><${Command} text=${words.join(" ")} /><${Button} primary icon="play" busy=${busy} disabled=${problems.length > 0 || !!mistake || !checked.data} onClick=${start}>${busy ? "Starting" : "Start"}</${Button}></div></${Card}></div>`;
}

function Setting({ row, value, problem, onChange }) {
  const changed = value !== undefined;
  return html`<div class=${cls("setting", changed && "changed", problem && "invalid")}><label><span class="mono">${row.key}</span><span class="hint">${row.about}</span></label>
    <div class="setting-value"><input class="input mono" aria-label=${row.key} value=${changed ? value : row.value} onInput=${(e) => onChange(e.target.value === row.value ? null : e.target.value)} />
      ${changed ? html`<${Button} quiet small icon="reset" label=${`Back to ${row.value}`} onClick=${() => onChange(null)} />` : html`<span class="hint source" title=${row.source}>${row.source.startsWith("presets/") ? "preset" : row.source}</span>`}</div>
    ${problem && html`<p class="field-error" role="alert">${problem.text.replace(/^--set: /, "")}</p>`}</div>`;
}

/** The server's check of the settings, a moment after the last change. `usual`: every setting as it is without changes. */
function useCheck(target, values) {
  const [state, setState] = useState({ data: null, usual: null, loading: true });
  const key = JSON.stringify(values);
  useEffect(() => {
    let current = true;
    post("/check", { env: target }).then((data) => current && setState((old) => ({ ...old, usual: data.explained.length ? data.explained : null, data: old.data ?? data })), (problem) => current && toast(problem.message, "red"));
    return () => (current = false);
  }, [target]);
  useEffect(() => {
    let current = true;
    setState((old) => ({ ...old, loading: true, data: null }));
    const timer = setTimeout(() => {
      post("/check", { env: target, set: values }).then((data) => current && setState((old) => ({ ...old, data, loading: false })), (problem) => {
        if (!current) return;
        toast(problem.message, "red");
        setState((old) => ({ ...old, loading: false }));
      });
    }, TYPING);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [target, key]);
  return state;
}
