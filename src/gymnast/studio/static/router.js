// The URL is the state of the page: `route` follows it, `go` and `setQuery` change it.
import { computed, signal } from "./vendor/signals.js";

const read = () => {
  const parts = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { page: parts[0] || "runs", id: parts[1] ?? null, query: new URLSearchParams(location.search) };
};

export const route = signal(read());
export const query = computed(() => route.value.query);

addEventListener("popstate", () => (route.value = read()));

export function go(url, { replace = false } = {}) {
  if (url === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  route.value = read();
}

/** A URL of `path` with the parameters that have a value; a list becomes several parameters of one name. */
export function url(path, params = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") search.append(name, one);
    }
  }
  const text = search.toString().replaceAll("%40", "@").replaceAll("%3A", ":").replaceAll("%2F", "/");
  return text ? `${path}?${text}` : path;
}

/** Change some parameters of the present URL; null removes one. */
export function setQuery(changes, { replace = true } = {}) {
  const now = {};
  for (const name of route.value.query.keys()) now[name] = route.value.query.getAll(name);
  go(url(location.pathname, { ...now, ...changes }), { replace });
}

/** Clicks on links inside the page change the route instead of loading the page again. */
export function followLinks(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  if (link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
  if (link.pathname.startsWith("/api/") || link.pathname.startsWith("/static/")) return;
  event.preventDefault();
  go(link.pathname + link.search);
  scrollTo(0, 0);
}
