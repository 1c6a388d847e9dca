import { Empty, html } from "../ui.js";

export default function Compare() {
  return html`<${Empty} title="Compare">This page is not there yet.</${Empty}>`;
}
