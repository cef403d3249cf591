/** What customers were promised, and how long they waited: a table by day. */

import { instant, ListPage, sections } from "../parts/list.js";
import { h } from "../shared/dom.js";
import { number, percent, utcDay, wait } from "../shared/format.js";
import { t } from "../shared/words.js";

const judged = (one) => one.kept + one.late + one.not_found;
/** How many waits were at most as long as promised, and below it the promised and the actual wait. */
function compared(one, kept, promised, actual) {
  if (!judged(one)) return number(kept);
  const waits = `${wait(promised)} → ${actual === null ? t("no end") : wait(actual)}`;
  return [`${number(kept)} (${percent(kept / judged(one))})`, h("div", { class: "quiet" }, waits)];
}

class PromisesPage extends ListPage {
  path = "/internal/promises";

  get heading() {
    return t("Promises");
  }

  filters() {
    return [instant("from", t("From")), instant("to", t("To"))];
  }

  empty() {
    return t("No wait was promised in this time.");
  }

  columns() {
    const count = (label, name) => ({ label, cell: (one) => number(one[name]), number: true });
    return [
      { label: t("Day (UTC)"), cell: (one) => utcDay(one.day) },
      count(t("Promised"), "made"),
      {
        label: t("Half wait at most"),
        cell: (one) => compared(one, one.kept_p50, one.promised_p50_seconds, one.actual_p50_seconds),
        number: true,
      },
      {
        label: t("Nine of ten wait at most"),
        cell: (one) => compared(one, one.kept, one.promised_p90_seconds, one.actual_p90_seconds),
        number: true,
      },
      count(t("Later"), "late"),
      count(t("No mitra"), "not_found"),
      count(t("Cancelled"), "cancelled"),
      {
        label: t("Waiting"),
        cell: (one) => [
          number(one.waiting),
          one.not_searched > 0 && h("div", { class: "quiet" }, t("{n} not searched", { n: number(one.not_searched) })),
        ],
        number: true,
      },
      {
        label: t("Withheld"),
        cell: (one) => [
          number(one.withheld),
          one.withheld > 0 && h("div", { class: "quiet" }, t("{n} missed", { n: number(one.withheld_missed) })),
        ],
        number: true,
      },
    ];
  }

  render(data) {
    return [
      sections(),
      h(
        "p",
        { class: "quiet" },
        t(
          "Customers are promised how long half of them wait at most for a mitra after they pay, and nine of ten; below the numbers are the promised and the actual wait. Percentages are of the promises whose end is known. Waiting ones are not over yet. Withheld promises were not shown, because more than a quarter of the last ones were missed.",
        ),
        this.query.size ? null : ` ${t("The last 28 days.")}`,
      ),
      super.render(data),
    ];
  }
}

customElements.define("promises-page", PromisesPage);
