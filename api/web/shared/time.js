/**
 * `<sesi-time at="…">`: a time in the reader's time zone; with `age`, how long ago it was. Its title is the exact
 * time.
 */

import { h } from "./dom.js";
import { ago, exactly, moment, timeOfDay } from "./format.js";
import { service } from "./service.js";

const AGAIN_MS = 15_000;

class Time extends HTMLElement {
  connectedCallback() {
    this.#show();
    if (this.hasAttribute("age")) this.timer = setInterval(() => this.#show(), AGAIN_MS);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
  }

  #show() {
    const at = this.getAttribute("at");
    const text = this.hasAttribute("age") ? ago(at, service.now()) : moment(at);
    this.replaceChildren(h("time", { datetime: at, title: exactly(at) }, text));
  }
}

customElements.define("sesi-time", Time);

/** A time; "–" without one. */
export const time = (at) => (at ? h("sesi-time", { at }) : "–");

/** How long ago a time was; "–" without one. */
export const age = (at) => (at ? h("sesi-time", { at, age: true }) : "–");

/** The time of day to the second; its title is the exact time. */
export const clock = (at) => h("time", { datetime: at, title: exactly(at) }, timeOfDay(at));
