/** How many mitras are available now and the usual wait, asked every 5 seconds while the page is visible. */

import { h } from "/try/shared/dom.js";
import { wait } from "/try/shared/format.js";
import { t } from "/try/shared/words.js";

const EVERY_MS = 5_000;

/** The usual wait as a sentence, or "" without an estimate. `known` is { p50, p90 } in seconds. */
export const usualWait = (known) =>
  known
    ? t("Usually a mitra accepts within {p50}, for 9 of 10 customers within {p90}.", {
        p50: wait(known.p50),
        p90: wait(known.p90),
      })
    : "";

/** Make the lines. They are empty until the first answer. */
export function availability(scope) {
  const text = h("span", {});
  const line = h("p", { class: "availability" }, h("span", { class: "dot", "aria-hidden": "true" }), text);
  const usual = h("p", { class: "quiet" });
  const block = h("div", { hidden: true }, line, usual);
  scope.every(
    EVERY_MS,
    async () => {
      const answer = await scope.client.call("GET /api/client/mitras/availability").catch(() => null);
      if (answer === null || scope.ended) return;
      const { available, typical_wait_seconds: typical } = answer;
      block.hidden = false;
      usual.hidden = !typical;
      usual.textContent = usualWait(typical);
      line.classList.toggle("none", available === 0);
      text.textContent =
        available === 0
          ? t("No mitra is available at the moment")
          : available === 1
            ? t("1 mitra is available now")
            : t("{n} mitras are available now", { n: available });
    },
    { visible: true },
  );
  return block;
}
