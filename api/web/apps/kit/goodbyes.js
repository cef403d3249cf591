/** Goodbyes: the field for the last message, and both texts when they may be seen. */

import { freshId, h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { actionButton } from "./buttons.js";

const MAX_CHARACTERS = 1000;
const drafts = new Map(); // session id -> text that was not sent

/** Return the goodbye that a side ("customer" or "mitra") has written and the reader may see, or null. */
export const goodbyeOf = (session, side) => session.closures?.find((one) => one.user_type === side) ?? null;

/** Make the form for the goodbye of a session. */
export function goodbyeForm(scope, sessionId, party) {
  const id = freshId();
  const input = h("textarea", {
    id,
    rows: 2,
    dir: "auto",
    maxlength: MAX_CHARACTERS,
    value: drafts.get(sessionId) ?? "",
    oninput: () => drafts.set(sessionId, input.value),
  });
  const send = actionButton(
    t("Send the goodbye"),
    async () => {
      if (input.value.trim() === "") return input.focus();
      await scope.client.sayGoodbye(sessionId, input.value.trim());
      drafts.delete(sessionId);
    },
    { kind: "primary", type: "submit" },
  );
  return h(
    "form",
    { class: "stack", novalidate: true, onsubmit: (event) => event.preventDefault() },
    h("div", { class: "field" }, h("label", { for: id }, t("Your goodbye to {name}", { name: party })), input),
    send,
  );
}

/** Make the list of the goodbyes that the reader may see; `own` is their side. Null without any. */
export function goodbyes(session, own, party) {
  const seen = (session.closures ?? []).map((one) =>
    h(
      "div",
      { class: `goodbye ${one.user_type === own ? "own" : "theirs"}` },
      h("dt", {}, one.user_type === own ? t("Your goodbye") : t("{name}'s goodbye", { name: party })),
      h("dd", { dir: "auto" }, one.blanked ? t("This message was removed.") : one.message),
    ),
  );
  return seen.length ? h("dl", { class: "goodbyes" }, seen) : null;
}
