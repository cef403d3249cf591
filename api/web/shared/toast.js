/** Short messages at the edge of the page, read out by screen readers. */

import { h } from "./dom.js";

const SHOWN_MS = 6_000;

/** Show that something was done. */
export function toast(text) {
  const shown = h("div", { class: "toast" }, text);
  document.querySelector(".toasts")?.append(shown);
  setTimeout(() => shown.remove(), SHOWN_MS);
}
