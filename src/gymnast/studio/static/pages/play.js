import { Empty, html } from "../ui.js";

export default function Play() {
  return html`<${Empty} title="Play">This page is not there yet.</${Empty}>`;
}
