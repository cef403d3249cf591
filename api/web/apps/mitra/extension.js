/** A customer's wish for more time, which the mitra accepts or rejects. */

import { actionButton } from "/try/kit/buttons.js";
import { countdown } from "/try/kit/countdown.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

/** Return the notice of a pending extension, or null. */
export function extensionNotice(scope, { session, extension }, name) {
  if (extension?.status !== "pending") return null;
  const answer = (accept) => () => scope.client.answerExtension(session.id, extension.id, accept);
  const left = countdown(scope, () => extension.answer_by, { label: t("Time left to answer") });
  return h(
    "section",
    { class: "notice extension", "aria-label": t("More time") },
    h(
      "p",
      {},
      h("strong", {}, t("{name} asks for {n} more minutes.", { name, n: extension.requested_duration_minutes })),
      " ",
      left,
    ),
    h(
      "div",
      { class: "stack-buttons" },
      actionButton(t("Not this time"), answer(false)),
      actionButton(t("Go on"), answer(true), { kind: "primary" }),
    ),
  );
}

/** Return the text about an extension that was answered. */
export function extensionOutcome({ status, requested_duration_minutes: n }) {
  const texts = {
    approved: t("{n} more minutes.", { n }),
    auto_approved: t("{n} more minutes, without your answer.", { n }),
    rejected: t("The chat is not extended."),
    safeguard_tripped: t("The chat could not be extended."),
  };
  return texts[status] ?? null;
}
