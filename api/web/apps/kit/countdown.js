/** Countdowns to a time of the service, by the service's clock. */

import { h } from "/try/shared/dom.js";
import { announce } from "./status_line.js";
import { clock } from "./times.js";

const TICK_MS = 250;

/**
 * Make a countdown. `until()` returns the time it counts down to, or null. `spoken` maps seconds to the text that screen
 * readers read when that many are left. `ended()` is called each time the count reaches zero.
 */
export function countdown(scope, until, { label, format = clock, spoken = {}, ended = null }) {
  const element = h("span", { role: "timer", class: "countdown", "aria-label": label });
  let before = null;
  const show = () => {
    const time = until();
    if (time === null || time === undefined) {
      element.textContent = "";
      before = null;
      return;
    }
    const left = scope.client.secondsUntil(time);
    const text = format(left);
    if (element.textContent !== text) element.textContent = text;
    if (before !== null) {
      for (const [seconds, words] of Object.entries(spoken)) {
        if (before > seconds && left <= seconds && left > 0) announce(words);
      }
      if (before > 0 && left <= 0) ended?.();
    }
    before = left;
  };
  scope.every(TICK_MS, show);
  return element;
}
