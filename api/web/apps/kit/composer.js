/** The field in which a message is written. The focus stays in it; a frozen one is read-only, because `disabled` loses the focus. */

import { freshId, h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { showProblem } from "./buttons.js";
import { icon } from "./icons.js";

const MAX_CHARACTERS = 4000;
const TYPING_EVERY_MS = 3000;
const drafts = new Map(); // session id -> text that was not sent

/** Make the composer of a session. `send(text)` and `typing()` are called while it is open. */
export function composer(sessionId, { send, typing }) {
  const id = freshId();
  let told = 0;
  const input = h("textarea", {
    id,
    rows: 1,
    dir: "auto",
    maxlength: MAX_CHARACTERS,
    enterkeyhint: "send",
    placeholder: t("Write a message…"),
    value: drafts.get(sessionId) ?? "",
    oninput() {
      drafts.set(sessionId, input.value);
      grow();
      if (input.value === "" || performance.now() - told < TYPING_EVERY_MS) return;
      told = performance.now();
      typing();
    },
    onkeydown(event) {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      submit();
    },
  });
  const button = h("button", { type: "submit", class: "send", "aria-label": t("Send") }, icon("send"));
  const form = h(
    "form",
    {
      class: "composer",
      onsubmit(event) {
        event.preventDefault();
        submit();
      },
      // Keeps the focus, and the keyboard of a phone, in the field.
      onpointerdown: (event) => event.target.closest(".send") && event.preventDefault(),
    },
    h("label", { for: id, class: "hidden-label" }, t("Message")),
    input,
    button,
  );

  function grow() {
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight}px`;
    button.ariaDisabled = String(input.readOnly || input.value.trim() === "");
  }

  function submit() {
    const text = input.value.trim();
    if (text === "" || input.readOnly) return;
    try {
      send(text);
    } catch (error) {
      return showProblem(form, error); // the text stays
    }
    showProblem(form, null);
    input.value = "";
    drafts.delete(sessionId);
    told = 0;
    grow();
    input.focus({ preventScroll: true });
  }

  return {
    element: form,
    /** Freeze the field, with the reason as its placeholder, or open it again (null). */
    freeze(reason) {
      input.readOnly = reason !== null;
      input.placeholder = reason ?? t("Write a message…");
      form.classList.toggle("frozen", reason !== null);
      grow();
    },
    focus: () => input.focus({ preventScroll: true }),
  };
}
