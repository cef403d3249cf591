/** How many mitras are available now, asked every 5 seconds while the page is visible. */

import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

const EVERY_MS = 5_000;

/** Make the line. It is empty until the first answer. */
export function availability(scope) {
  const text = h("span", {});
  const line = h(
    "p",
    { class: "availability", hidden: true },
    h("span", { class: "dot", "aria-hidden": "true" }),
    text,
  );
  scope.every(
    EVERY_MS,
    async () => {
      const answer = await scope.client.call("GET /api/client/mitras/availability").catch(() => null);
      if (answer === null || scope.ended) return;
      const { available } = answer;
      line.hidden = false;
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
  return line;
}
