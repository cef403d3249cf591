/** Making a payment request, and where its refusals lead. */

import { confirmSheet } from "/try/kit/sheet.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { targetedPopup } from "./targeted_popup.js";

const MITRA_CODES = ["MITRA_OFFLINE", "MITRA_AT_CAPACITY"];

/** Payment requests whose payment page was not opened yet: it opens once, without a press of a button. */
export const unopened = new Set();

/**
 * Make a payment request with `make()` and go to its payment. A customer who has a live session or payment is led to it; if
 * the chosen mitra can't be asked, the popup is shown. If no mitra is available, the customer is asked whether to wait,
 * and `make` is then called with `accept_wait`. Throws other refusals.
 */
export async function startPayment(context, make) {
  const { app, scope } = context;
  const start = async (more = {}) => {
    const request = await make(more);
    unopened.add(request.payment_request_id);
    await app.draft.set({ starting: false });
    return request;
  };
  const follow = (request) => go(`/payment/${request.payment_request_id}`);
  try {
    follow(await start());
  } catch (error) {
    const { session_id: session, payment_request_id: payment } = error.details ?? {};
    if (error.code === "SESSION_IN_PROGRESS" && payment) go(`/search/${payment}`);
    else if (error.code === "SESSION_IN_PROGRESS" && session) go(`/chat/${session}`);
    else if (MITRA_CODES.includes(error.code)) targetedPopup(context, { name: app.draft.choices.mitra?.display_name });
    else if (error.code === "NO_MITRA_AVAILABLE") {
      let request = null;
      const act = async () => {
        request = await start({ accept_wait: true });
      };
      await confirmSheet(scope, {
        title: t("No mitra is available at the moment"),
        text: t(
          "Do you want to wait? We ask every mitra who comes online. If none accepts in time, you get your money back.",
        ),
        submit: t("Pay and wait"),
        cancel: t("Not now"),
        act,
      });
      if (request) follow(request);
    } else throw error;
  }
}
