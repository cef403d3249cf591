/** Dialogs with a form. Escape closes them, and the focus returns to where it was. */

import { freshId, h } from "./dom.js";
import { form } from "./form.js";
import { t } from "./words.js";

/**
 * Open a dialog. Resolves with the result of `send`, or undefined if the dialog was closed. `send` gets the form's
 * data; a `service.Failure` that it throws is shown in the dialog. With `cancel` false it has no button to close it without
 * sending.
 */
export function ask({ title, content = [], submit, send, danger = false, cancel = true }) {
  return new Promise((resolve) => {
    const id = freshId();
    let answer;
    let sending = false; // a request in progress can't be undone, so the dialog stays open until the answer
    const close = h("button", { type: "button", onclick: () => dialog.close() }, t("Cancel"));
    const asked = form({
      fields: [h("h2", { id }, title), content],
      submit,
      danger,
      other: cancel ? [close] : [],
      async send(data) {
        hold(true);
        try {
          answer = (await send(data)) ?? true;
        } finally {
          hold(false);
        }
        dialog.close();
      },
    });
    const hold = (held) => {
      sending = close.disabled = held;
      dialog.ariaBusy = String(held);
      dialog.closedBy = held ? "none" : "closerequest"; // a second Escape closes the dialog even if `cancel` is prevented
    };
    const before = document.activeElement;
    const dialog = h("dialog", { "aria-labelledby": id }, asked);
    dialog.addEventListener("cancel", (event) => sending && event.preventDefault());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Ask for a confirmation, then act. */
export const confirm = (title, explanation, submit, act, danger = true) =>
  ask({ title, content: [h("p", {}, explanation)], submit, send: act, danger });
