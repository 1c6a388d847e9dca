import { Empty, html } from "../ui.js";

export default function Start() {
  return html`<${Empty} title="Start">This page is not there yet.</${Empty}>`;
}
