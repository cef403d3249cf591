/** `<service-clock>`: the service's date and time, which runs faster than the machine's clock with a time scale. */

import { h } from "./shared/dom.js";
import { exactly } from "./shared/format.js";
import { preferences } from "./shared/preferences.js";
import { t } from "./shared/words.js";

const TICK_MS = 200;
const ASK_MS = 30_000;

class ServiceClock extends HTMLElement {
  /** @type {import("/client/index.js").Client} */
  client;

  connectedCallback() {
    this.shown = h("time", {});
    this.replaceChildren(this.shown);
    this.timers = [setInterval(() => this.#show(), TICK_MS), setInterval(() => this.#ask(), ASK_MS)];
    this.#ask();
  }

  disconnectedCallback() {
    for (const timer of this.timers) clearInterval(timer);
  }

  /** Let the client read the service's time from an answer. */
  async #ask() {
    try {
      await this.client.call("GET /api/shared/config/app");
      this.known = true;
    } catch {
      this.known = false;
    }
    this.#show();
  }

  #show() {
    if (!this.known) {
      this.shown.textContent = t("The service can't be reached");
      return;
    }
    const now = new Date(this.client.now());
    const locale = preferences.language === "id" ? "id-ID" : "en-GB";
    /** @type {Intl.DateTimeFormatOptions} */
    const options = {
      weekday: "short",
      day: "numeric",
      month: "short",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    };
    this.shown.textContent = new Intl.DateTimeFormat(locale, options).format(now);
    this.shown.dateTime = now.toISOString();
    this.shown.title = exactly(now);
  }
}

customElements.define("service-clock", ServiceClock);

/** Make the clock, with the time scale below it. */
export function serviceClock(client, scale) {
  const clock = h("service-clock", { role: "timer", "aria-label": t("The service's clock") });
  clock.client = client;
  const speed =
    scale === 1
      ? t("Real time")
      : t("{n} × real time: a minute takes {s} s", { n: scale, s: +(60 / scale).toFixed(2) });
  return h("div", { class: "clock" }, clock, h("span", { class: "chip" }, speed));
}
