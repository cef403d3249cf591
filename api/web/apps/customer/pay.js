/** Making a payment request, and where its refusals lead. */

import { explain } from "/try/kit/errors.js";
import { confirmSheet, openSheet } from "/try/kit/sheet.js";
import { h } from "/try/shared/dom.js";
import { rupiah } from "/try/shared/format.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { helpButton } from "./help_sheet.js";
import { targetedPopup } from "./targeted_popup.js";

const MITRA_CODES = ["MITRA_OFFLINE", "MITRA_AT_CAPACITY"];

/** Payment requests whose payment page was not opened yet: it opens once, without a press of a button. */
export const unopened = new Set();

/** The questions that a refusal leads to, by its code; `more` are the fields of the request after a yes. */
const QUESTIONS = {
  NO_MITRA_AVAILABLE: () => ({
    title: t("No mitra is available at the moment"),
    text: t(
      "Do you want to wait? We ask every mitra who comes online. If none accepts in time, you get your money back.",
    ),
    submit: t("Pay and wait"),
    more: { accept_wait: true },
  }),
  PRICE_CHANGED: ({ amount }) => ({
    title: t("The price has changed"),
    text: t("It is {amount} now. Do you want to go on?", { amount: rupiah(amount) }),
    submit: amount === 0 ? t("Start for free") : t("Pay {amount}", { amount: rupiah(amount) }),
    more: { expected_amount: amount },
  }),
};

/** Say that operators have blocked the account, until when, and who can help. */
function showBlocked(scope, error) {
  openSheet(scope, {
    title: t("Your account is blocked"),
    content: () => [
      h("p", {}, explain(error)),
      h("p", {}, t("A chat that runs goes on. You can still read your chats and payments.")),
      h("div", { class: "stack-buttons" }, helpButton(scope, { kind: "primary" })),
    ],
  });
}

/**
 * Return the answer of `make(more)`, or null if the customer doesn't want what has changed, or is blocked, which a sheet
 * says. While a refusal leads to a question, the customer is asked, and `make` is called again with what they agreed to.
 * Throws other refusals.
 */
export async function makeAsking(scope, make) {
  let more = {};
  for (;;) {
    try {
      return await make(more);
    } catch (error) {
      if (error.code === "ACCOUNT_BLOCKED") {
        showBlocked(scope, error);
        return null;
      }
      const question = QUESTIONS[error.code]?.(error.details);
      if (!question) throw error;
      if (!(await confirmSheet(scope, { ...question, cancel: t("Not now") }))) return null;
      more = { ...more, ...question.more };
    }
  }
}

/**
 * Make a payment request with `make(more)` and go to its payment. A customer who has a live session or payment is led to
 * it; if the chosen mitra can't be asked, the popup is shown. Return false if there is no request, as with `makeAsking`.
 * Throws other refusals.
 */
export async function startPayment(context, make) {
  const { app, scope } = context;
  try {
    const request = await makeAsking(scope, make);
    if (request === null) return false;
    unopened.add(request.payment_request_id);
    await app.draft.set({ starting: false });
    go(`/payment/${request.payment_request_id}`);
  } catch (error) {
    const { session_id: session, payment_request_id: payment } = error.details ?? {};
    if (error.code === "SESSION_IN_PROGRESS" && payment) go(`/search/${payment}`);
    else if (error.code === "SESSION_IN_PROGRESS" && session) go(`/chat/${session}`);
    else if (MITRA_CODES.includes(error.code))
      targetedPopup(context, { name: app.draft.choices.mitra?.display_name, cause: error.code });
    else throw error;
  }
  return true;
}
