// One run, followed while it trains: its row and the curves a page asks for.
import { ask, get, on, onOpen } from "./api.js";
import { useEffect, useState } from "./ui.js";

const MOST = 4000; // points of a curve in the page; then the server makes them fewer

function appended(old, more) {
  if (!old) return more;
  const last = old.x[old.x.length - 1] ?? -Infinity;
  const next = { x: [...old.x, ...more.x], y: [...old.y, ...more.y] };
  if (old.low) {
    next.low = [...old.low, ...(more.low ?? more.y)];
    next.high = [...old.high, ...(more.high ?? more.y)];
  }
  if (old.bad || more.bad) next.bad = [...(old.bad ?? []), ...(more.bad ?? [])];
  if (more.x[0] >= last) return next;
  const order = next.x.map((_, index) => index).sort((a, b) => next.x[a] - next.x[b]); // an evaluation that came late
  return Object.fromEntries(Object.entries(next).map(([key, values]) => [key, key === "bad" ? values : order.map((index) => values[index])]));
}

/** {row, series, gone}: what is new of `run` is added while the component is shown. `names`: the metrics to draw. */
export function useLive(run, names, axis) {
  const [state, setState] = useState({ run: null, axis: null, row: null, series: {}, gone: null });
  const [again, setAgain] = useState(0);
  const wanted = names.join(",");
  useEffect(() => {
    if (!run) return undefined;
    let current = true;
    const load = async () => {
      const { series, rows } = wanted ? await get(`/run/${encodeURIComponent(run)}/metrics`, { names: wanted, axis }) : { series: {}, rows: undefined };
      if (!current) return;
      setState((old) => ({ ...old, run, axis, series, gone: null }));
      const { row } = await ask("watch_run", { run, names: wanted ? names : [], axis, have: rows });
      if (current) setState((old) => ({ ...old, row }));
    };
    const metrics = (message) => {
      if (message.run !== run) return;
      if (message.reset) return setAgain((n) => n + 1);
      setState((old) => {
        const series = { ...old.series };
        for (const [name, more] of Object.entries(message.series)) series[name] = appended(series[name], more);
        if (Object.values(series).some((one) => one.x.length > MOST)) setAgain((n) => n + 1);
        return { ...old, series };
      });
    };
    const ends = [
      on("metrics", metrics),
      on("run", ({ row }) => row.id === run && setState((old) => ({ ...old, row }))),
      on("gone", (message) => message.run === run && setState((old) => ({ ...old, gone: message.error }))),
      onOpen(() => load().catch((problem) => current && setState((old) => ({ ...old, gone: problem.message })))),
    ];
    return () => {
      current = false;
      ends.forEach((end) => end());
    };
  }, [run, wanted, axis, again]);
  useEffect(() => () => ask("unwatch", { what: "run" }).catch(() => {}), []);
  window.__studio.series = state.series; // for tests
  return state;
}
