/** Links to the failed pairings that an operator should look at first, with their numbers. */

import { h } from "../shared/dom.js";
import { number } from "../shared/format.js";
import { address } from "../shared/router.js";
import { t } from "../shared/words.js";
import { cause } from "./status.js";

/** Stands for the operator in the address, so that a link shows all operators their own. */
export const MINE = "mine";

/** The links; without `all` only those to some. */
export function problems(counts, { all = false } = {}) {
  const kinds = [
    ["late", t("late"), { problem: "late" }, "bad"],
    ["stuck", t("refund not decided"), { problem: "stuck" }, "bad"],
    ["refund_failed", t("refund failed"), { problem: "refund_failed" }, "bad"],
    ["short", cause.say("payment_short"), { cause_tag: "payment_short" }, "bad"],
    ["mine", t("taken by you"), { assigned_to: MINE }, ""],
    ["snoozed", t("put aside"), { snoozed: "true" }, ""],
  ];
  const shown = kinds.filter(([kind]) => all || counts[kind] > 0);
  if (!shown.length) return null;
  const link = ([kind, words, query, look]) => {
    const href = address("/failed-pairings", query);
    return h(
      "a",
      { class: `preset ${counts[kind] ? look : ""}`, href, "aria-current": href === location.hash ? "true" : null },
      h("strong", {}, number(counts[kind])),
      " ",
      words,
    );
  };
  return h("nav", { class: "presets", "aria-label": t("What to look at first") }, shown.map(link));
}
