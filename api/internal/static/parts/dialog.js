/** Dialogs: a form in a window above the page. Escape closes it, and the focus goes back to where it was. */

import { h, freshId } from "../kernel/dom.js";
import { t } from "../kernel/words.js";
import { form } from "./form.js";

/**
 * Ask for something; resolves with what `send` returned, or undefined when it was closed. `send` gets the form's data and
 * may throw an ApiError, which is shown in the dialog. `cancel` false leaves out the button that closes it unsent.
 */
export function ask({ title, content = [], submit, send, danger = false, cancel = true }) {
  return new Promise((resolve) => {
    const id = freshId();
    let answer;
    let sending = false; // what is on its way can't be taken back: the dialog stays until it is known what became of it
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
      dialog.closedBy = held ? "none" : "closerequest"; // a second Escape closes whatever `cancel` is told
    };
    const before = document.activeElement;
    const dialog = h("dialog", { "aria-labelledby": id }, asked);
    dialog.addEventListener("cancel", (event) => sending && event.preventDefault());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before?.isConnected) before.focus();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Ask whether something is to be done, then do it. */
export const confirm = (title, explanation, submit, act, danger = true) =>
  ask({ title, content: [h("p", {}, explanation)], submit, send: act, danger });
