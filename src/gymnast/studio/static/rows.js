// The list of runs, the same for every page that shows it: loaded once, then kept up to date by the server.
import { ask, get, on, onOpen } from "./api.js";
import { signal, toast, useEffect } from "./ui.js";

export const rows = signal(null); // null until the first answer; then the newest first
let users = 0;
let stop = null;

let revision = -1;
let loading = null;

/** The first list does not wait for the websocket. */
async function load() {
  const answer = await get("/runs");
  rows.value = answer.runs;
  revision = answer.revision;
}

async function watch() {
  await (loading ?? load());
  loading = null; // a later connection asks for a new list: the old one may have missed something
  await ask("watch_runs", { revision });
}

function change({ changed, removed }) {
  if (!rows.value) return;
  const fresh = new Map(changed.map((row) => [row.id, row]));
  const kept = rows.value.filter((row) => !removed.includes(row.id)).map((row) => {
    const newer = fresh.get(row.id);
    fresh.delete(row.id);
    return newer ?? row;
  });
  const next = [...fresh.values(), ...kept];
  next.sort((a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : 0));
  rows.value = next;
}

/** The rows while a component that uses them is shown. */
export function useRows() {
  useEffect(() => {
    if (users++ === 0) {
      loading = load();
      loading.catch((problem) => toast(problem.message, "red"));
      const ends = [on("runs", change), onOpen(() => watch().catch(() => {}))];
      stop = () => ends.forEach((end) => end());
    }
    return () => {
      if (--users === 0) {
        stop();
        ask("unwatch", { what: "runs" }).catch(() => {});
      }
    };
  }, []);
  return rows.value;
}

/** What a run is called: its name, or the short form of its id. */
export const nameOf = (row) => row.name || row.token;

/** Its variant, or the algorithm where that says the same. */
export const algoOf = (row) => (row.variant && row.variant !== row.algo ? `${row.algo} (${row.variant})` : row.algo);

/** Where it is (or was) trained, if that is not this machine alone. */
export const placeOf = (row) => (row.on === "ray" ? "Ray on this machine" : row.on ? `${row.on === "modal" ? "" : "Ray at "}${row.on}` : null);
