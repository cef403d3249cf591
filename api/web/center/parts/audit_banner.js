/** A banner on every page while rows break a rule of the ledger audit: which rule, how many rows, and since when. */

import { ApiError, api } from "../kernel/api.js";
import { h } from "../shared/dom.js";
import { moment, number } from "../shared/format.js";
import { address } from "../shared/router.js";
import { t } from "../shared/words.js";

const EVERY_MS = 60_000; // as often as the service checks the rules about open work
const SHOWN = 3;

class AuditBanner extends HTMLElement {
  connectedCallback() {
    this.life = new AbortController();
    this.#read();
    this.timer = setInterval(() => document.hidden || this.#read(), EVERY_MS);
  }

  disconnectedCallback() {
    this.life.abort();
    clearInterval(this.timer);
  }

  /** Read the broken rules. After an error the banner stays as it is: the page itself shows errors. */
  async #read() {
    try {
      const { items } = await api.get("/internal/ledger/broken-rules", {}, this.life.signal);
      if (!this.life.signal.aborted) this.#show(items);
    } catch (error) {
      if (!this.life.signal.aborted && !(error instanceof ApiError)) throw error;
    }
  }

  #show(items) {
    const key = JSON.stringify(items.map(({ rule, violations, since_at }) => [rule, violations, since_at]));
    if (this.shown === key) return;
    this.shown = key;
    const lines = items
      .slice(0, SHOWN)
      .map((one) =>
        h(
          "li",
          {},
          h(
            "span",
            {},
            h("span", { lang: "en" }, one.rule),
            ": ",
            t("{n} since {moment}", { n: number(one.violations), moment: moment(one.since_at) }),
          ),
        ),
      );
    const more = items.length - lines.length;
    this.replaceChildren(
      ...(items.length
        ? [
            h(
              "section",
              { class: "notice bad", "aria-label": t("Ledger audit"), role: "alert" },
              h("strong", {}, t("The ledger audit has found violations")),
              h("ul", { class: "plain-list" }, lines),
              more > 0 && h("p", {}, t("and {n} more rules", { n: number(more) })),
              h("a", { href: address("/ledger") }, t("Ledger audit")),
            ),
          ]
        : []),
    );
  }
}

customElements.define("audit-banner", AuditBanner);
