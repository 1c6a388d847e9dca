import { Empty, html } from "../ui.js";

export default function Run() {
  return html`<${Empty} title="Run">This page is not there yet.</${Empty}>`;
}
