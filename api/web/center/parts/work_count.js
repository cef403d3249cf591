/**
 * `<work-count kind="failures">`: how much work of a kind waits, for the menu. All of them are read together, every few
 * seconds, and when the operator goes to another page.
 */

import { ApiError, api } from "../kernel/api.js";
import { h } from "../shared/dom.js";
import { number } from "../shared/format.js";
import { t } from "../shared/words.js";

const EVERY_MS = 15_000;
const shown = new Set();
let timer = null;

/** Read the counts. After an error they stay as they are: the page itself shows errors. */
async function read() {
  if (document.hidden || !shown.size) return;
  try {
    const counts = await api.get("/internal/worklist");
    for (const one of shown) one.show(counts[one.getAttribute("kind")]);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

class WorkCount extends HTMLElement {
  connectedCallback() {
    shown.add(this);
    if (shown.size > 1) return;
    timer = setInterval(read, EVERY_MS);
    addEventListener("hashchange", read);
    queueMicrotask(read); // once for all that are connected now
  }

  disconnectedCallback() {
    shown.delete(this);
    if (shown.size) return;
    clearInterval(timer);
    removeEventListener("hashchange", read);
  }

  show(count) {
    const isNew = this.textContent !== (count ? number(count) : "");
    if (isNew)
      this.replaceChildren(
        ...(count ? [h("span", { title: t("{n} to act on", { n: number(count) }) }, number(count))] : []),
      );
  }
}

customElements.define("work-count", WorkCount);
