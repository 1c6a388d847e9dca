import { Empty, html } from "../ui.js";

export default function Inspect() {
  return html`<${Empty} title="Inspect">This page is not there yet.</${Empty}>`;
}
