import { Empty, html } from "../ui.js";

export default function Runs() {
  return html`<${Empty} title="Runs">This page is not there yet.</${Empty}>`;
}
