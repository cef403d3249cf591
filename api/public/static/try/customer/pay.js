/** Making a payment request, and where its refusals lead. */

import { go } from "/try/shared/router.js";
import { targetedPopup } from "./targeted_popup.js";

const MITRA_CODES = ["MITRA_OFFLINE", "MITRA_AT_CAPACITY"];

/** Payment requests whose payment page was not opened yet: it opens once, without a press of a button. */
export const unopened = new Set();

/**
 * Make a payment request with `make()` and go to its payment. A customer who has a live session or payment is led to it; if
 * the chosen mitra can't be asked, the popup is shown. Throws other refusals.
 */
export async function startPayment(context, make) {
  const { app } = context;
  try {
    const request = await make();
    unopened.add(request.payment_request_id);
    await app.draft.set({ starting: false });
    go(`/payment/${request.payment_request_id}`);
  } catch (error) {
    const { session_id: session, payment_request_id: payment } = error.details ?? {};
    if (error.code === "SESSION_IN_PROGRESS" && payment) go(`/search/${payment}`);
    else if (error.code === "SESSION_IN_PROGRESS" && session) go(`/chat/${session}`);
    else if (MITRA_CODES.includes(error.code)) targetedPopup(context, { name: app.draft.choices.mitra?.display_name });
    else throw error;
  }
}
