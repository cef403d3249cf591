/** Sheets: dialogs at the lower edge of the screen. Escape and the close button close them, and the focus returns. */

import { freshId, h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { actionButton, problemPlace } from "./buttons.js";
import { icon } from "./icons.js";

/**
 * Open a sheet. `content(sheet)` returns its nodes; `sheet.close(result)` closes it. With `closable` false only the
 * content's own buttons close it. `wide` uses the whole height, for pages inside the sheet. It closes with `scope`.
 *
 * @returns {{ element: HTMLDialogElement, close: (result?: unknown) => void, closed: Promise<unknown> }}
 */
export function openSheet(scope, { title, content, closable = true, wide = false, className = "" }) {
  const id = freshId();
  const before = document.activeElement;
  let result;
  let settle;
  const sheet = {
    element: h("dialog", { class: `sheet ${wide ? "wide" : ""} ${className}`, "aria-labelledby": id }),
    closed: new Promise((resolve) => {
      settle = resolve;
    }),
    close(value) {
      result = value;
      sheet.element.close();
    },
  };
  sheet.element.append(
    h(
      "header",
      { class: "sheet-head" },
      h("h2", { id, tabindex: "-1", autofocus: true }, title),
      closable
        ? h(
            "button",
            { type: "button", class: "icon-button", "aria-label": t("Close"), onclick: () => sheet.close() },
            icon("close"),
          )
        : null,
    ),
    h("div", { class: "sheet-body" }, problemPlace(), content(sheet)),
  );
  sheet.element.addEventListener("cancel", (event) => !closable && event.preventDefault());
  sheet.element.addEventListener("click", (event) => closable && event.target === sheet.element && sheet.close());
  sheet.element.addEventListener("close", () => {
    sheet.element.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    settle(result);
  });
  document.body.append(sheet.element);
  sheet.element.showModal();
  scope.add(() => sheet.element.close());
  return sheet;
}

/** Ask for a confirmation. `act` runs before the sheet closes; its error is shown. Resolves with whether it was done. */
export async function confirmSheet(scope, { title, text, submit, act, danger = false, cancel = t("Cancel") }) {
  const sheet = openSheet(scope, {
    title,
    content: (self) => [
      h("p", {}, text),
      h(
        "div",
        { class: "stack-buttons" },
        actionButton(
          submit,
          async () => {
            await act?.();
            self.close(true);
          },
          { kind: danger ? "danger" : "primary" },
        ),
        actionButton(cancel, () => self.close(false)),
      ),
    ],
  });
  return (await sheet.closed) === true;
}
