/** Buttons that carry out one request at a time, and the place where its error is shown. */

import { SesiError } from "/client/index.js";
import { h } from "/try/shared/dom.js";
import { explain } from "./errors.js";

/** Make the place where the errors of a screen or a sheet are shown. */
export const problemPlace = () => h("div", { class: "problem", role: "alert" });

/** Show an error at the nearest place for errors above `element`; null removes it. Other errors than the client's are thrown. */
export function showProblem(element, error) {
  if (error !== null && !(error instanceof SesiError)) throw error;
  const place = element.closest("dialog, main, body").querySelector(".problem");
  place?.replaceChildren(...(error === null ? [] : [h("p", {}, explain(error))]));
}

/**
 * Make a button. While `act()` runs the button is disabled, and an error that it throws is shown. `kind` is "primary",
 * "quiet", "danger" or "plain".
 * @param {string} label
 * @param {(...given: any[]) => unknown} act
 * @param {Record<string, any>} [properties] `kind`, `name`, `icon`, and others of the element
 */
export function actionButton(label, act, { kind = "plain", name = null, icon = null, ...more } = {}) {
  const button = h(
    "button",
    {
      type: "button",
      class: `button ${kind}`,
      "aria-label": name,
      async onclick() {
        if (button.ariaDisabled === "true") return;
        button.ariaDisabled = "true"; // `disabled` would lose the focus
        showProblem(button, null);
        try {
          await act(button);
        } catch (error) {
          if (button.isConnected) showProblem(button, error);
        } finally {
          button.ariaDisabled = "false";
        }
      },
      ...more,
    },
    icon,
    h("span", {}, label),
  );
  return button;
}
