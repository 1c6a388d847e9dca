// The shell: header, navigation, the page of the route.
import { connection, control, ask } from "./api.js";
import { followLinks, route } from "./router.js";
import { Button, Empty, Icon, Loading, Toasts, attempt, html, render, signal, useEffect, useErrorBoundary, useState } from "./ui.js";

const PAGES = [
  { id: "runs", label: "Runs", icon: "list" },
  { id: "compare", label: "Compare", icon: "chart" },
  { id: "sweeps", label: "Sweeps", icon: "dice" },
  { id: "inspect", label: "Inspect", icon: "search" },
  { id: "play", label: "Play", icon: "play" },
  { id: "start", label: "Start", icon: "plus" },
];
const FILES = { runs: "runs", compare: "compare", sweeps: "sweeps", inspect: "inspect", play: "play", start: "start" };

window.__studio = { ready: false, page: null, step: null, session: null, frames: 0 };

const theme = signal(document.documentElement.dataset.theme ?? "system");

function setTheme(next) {
  theme.value = next;
  if (next === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("gymnast.theme");
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem("gymnast.theme", next);
  }
  dispatchEvent(new Event("themechange"));
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));

function ThemeButton() {
  const dark = theme.value === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : theme.value === "dark";
  const label = dark ? "Use the light theme" : "Use the dark theme";
  return html`<${Button} quiet icon=${dark ? "sun" : "moon"} label=${label} onClick=${() => setTheme(dark ? "light" : "dark")} />`;
}

function Status() {
  if (connection.value === "lost") return html`<span class="badge red" role="status">Connection lost, trying again</span>`;
  if (connection.value === "open" && !control.value) {
    return html`<${Button} small onClick=${() => attempt(ask("take_control"))}
      title="Another window has control. This window only watches.">Take control</${Button}>`;
  }
  return null;
}

function Header() {
  const here = route.value.page;
  return html`<header class="top">
    <a class="brand" href="/runs" aria-label="Gymnast Studio, all runs"><img src="/static/icon.svg" alt="" width="22" height="22" /><span>Gymnast</span></a>
    <nav aria-label="Pages">
      ${PAGES.map((page) => html`<a key=${page.id} href="/${page.id}" aria-current=${here === page.id ? "page" : undefined}>
        <${Icon} name=${page.icon} /><span>${page.label}</span></a>`)}
    </nav>
    <div class="top-right"><${Status} /><${ThemeButton} /></div>
  </header>`;
}

function Page() {
  const { page, id, query } = route.value;
  const file = page === "runs" && id ? "run" : FILES[page];
  const [loaded, setLoaded] = useState({});
  const [error, clear] = useErrorBoundary();
  useEffect(() => {
    clear();
    if (!file) return;
    import(`./pages/${file}.js`).then(
      (module) => setLoaded({ file, Component: module.default }),
      (problem) => {
        console.error(problem);
        setLoaded({ file, problem });
      },
    );
  }, [file]);
  useEffect(() => {
    if (loaded.file === file) Object.assign(window.__studio, { ready: true, page: file });
  }, [loaded]);
  if (error) {
    console.error(error);
    return html`<${Empty} title="This page failed">${String(error.message ?? error)}
      <${Button} onClick=${() => location.reload()}>Load the page again</${Button}></${Empty}>`;
  }
  if (!file) return html`<${Empty} title="There is no such page"><a href="/runs">All runs</a></${Empty}>`;
  if (loaded.file !== file) return html`<${Loading} />`;
  if (loaded.problem) return html`<${Empty} title="This page could not be loaded">${loaded.problem.message}</${Empty}>`;
  return html`<${loaded.Component} id=${id} query=${query} />`;
}

function App() {
  return html`<${Header} /><main id="main" tabindex="-1"><${Page} /></main><${Toasts} />`;
}

document.addEventListener("click", followLinks);
render(html`<${App} />`, document.getElementById("app"));
