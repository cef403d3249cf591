/** When customers searched and no mitra accepted: a table of the week by hour, coloured by the number. */

import { instant, ListPage, sections } from "../parts/list.js";
import { h } from "../shared/dom.js";
import { number } from "../shared/format.js";
import { preferences } from "../shared/preferences.js";
import { address } from "../shared/router.js";
import { t } from "../shared/words.js";

const HOURS = 24;
const WEEK = 7 * HOURS;
const MONDAY = Date.UTC(2024, 0, 1);
const LEVELS = 4; // of colour; the hours with the most have the last one

/** Return the 168 hours of the week in the operator's time zone; null for one without a search. */
export function week(items, offsetMinutes = -new Date().getTimezoneOffset()) {
  const shift = Math.floor(offsetMinutes / 60);
  const found = new Array(WEEK).fill(null);
  for (const one of items) {
    const utc = (one.weekday - 1) * HOURS + one.hour;
    found[(utc + shift + WEEK) % WEEK] = one;
  }
  return found;
}

const weekday = (day) =>
  new Intl.DateTimeFormat(preferences.language, { weekday: "short", timeZone: "UTC" }).format(
    MONDAY + day * HOURS * 3_600_000,
  );

function cell(one, most) {
  if (one === null) return h("td", { class: "quiet" }, "–");
  const level = one.unserved ? Math.ceil((one.unserved / most) * LEVELS) : 0;
  const words = t("{unserved} of {searches} searches", {
    unserved: number(one.unserved),
    searches: number(one.searches),
  });
  const numbers = h("span", { "aria-hidden": "true" }, h("b", {}, number(one.unserved)), ` / ${number(one.searches)}`);
  return h("td", { class: `heat-${level}` }, numbers, h("span", { class: "hidden-label" }, words));
}

class UnservedPage extends ListPage {
  path = "/internal/unserved";

  get heading() {
    return t("Unserved searches");
  }

  actions() {
    return [h("a", { class: "button", href: address("/activity") }, t("By mitra"))];
  }

  filters() {
    return [instant("from", t("From")), instant("to", t("To"))];
  }

  empty() {
    return t("No searches in this time.");
  }

  list(data) {
    const hours = week(data.items);
    const sum = (name) => number(data.items.reduce((total, one) => total + one[name], 0));
    const most = Math.max(...data.items.map((one) => one.unserved));
    const days = [...Array(7).keys()];
    return [
      h(
        "p",
        {},
        t("In all: {unserved} of {searches} searches were unserved.", {
          unserved: sum("unserved"),
          searches: sum("searches"),
        }),
      ),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": this.heading },
        h(
          "table",
          { class: "heat" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col" }, t("Hour")),
              days.map((day) => h("th", { scope: "col" }, weekday(day))),
            ),
          ),
          h(
            "tbody",
            {},
            [...Array(HOURS).keys()].map((hour) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, `${String(hour).padStart(2, "0")}:00`),
                days.map((day) => cell(hours[day * HOURS + hour], most)),
              ),
            ),
          ),
        ),
      ),
    ];
  }

  render(data) {
    return [
      sections(),
      h(
        "p",
        { class: "quiet" },
        t(
          "When customers searched and no mitra accepted, by hour of the week, in your time zone. The first number is unserved searches, the second all searches. Requests to one chosen mitra are left out.",
        ),
        this.query.size ? null : ` ${t("The last 28 days.")}`,
      ),
      super.render(data),
    ];
  }
}

customElements.define("unserved-page", UnservedPage);
