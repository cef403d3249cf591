/** More time: the offer, its payment, and what the mitra answers. */

import { actionButton } from "/try/kit/buttons.js";
import { countdown } from "/try/kit/countdown.js";
import { openSheet } from "/try/kit/sheet.js";
import { h } from "/try/shared/dom.js";
import { rupiah } from "/try/shared/format.js";
import { t } from "/try/shared/words.js";
import { helpButton } from "./help_sheet.js";
import { openPaymentPage } from "./screens/payment.js";
import { offerList, offersOf } from "./screens/prices.js";

const FAILED = () => ({
  rejected: t("Your mitra can't go on now. Our team gives your money back."),
  safeguard_tripped: t("The session could not be extended. Our team gives your money back."),
});

/** The extension of one chat, from the payment request to the mitra's answer. */
export class ExtensionWatch {
  /** `changed()` is called when there is something else to show. */
  constructor(scope, sessionId, changed) {
    this.scope = scope;
    this.sessionId = sessionId;
    this.changed = changed;
    this.extension = null; // as the service knows it, once it was paid
    this.answer = null; // the last answer, until the customer has closed it
    this.#asked = new Set();
    scope.events((frame) => {
      if (frame.type !== "extension_resolved" || frame.extension.session_id !== sessionId) return;
      this.extension = null;
      this.answer = frame.extension;
      this.changed();
    });
    scope.watch((state) => this.#follow(state));
  }

  #asked;

  /** Return the pending payment request of an extension of this chat, or null. */
  get payment() {
    return (
      Object.values(this.scope.client.state.payments).find(
        (one) => one.is_extension && one.session_id === this.sessionId && one.status === "pending",
      ) ?? null
    );
  }

  /** After the payment, ask for the extension: the answer has the time by which the mitra must decide. */
  #follow(state) {
    for (const request of Object.values(state.payments)) {
      const id = request.payment_request_id;
      const paid = request.is_extension && request.session_id === this.sessionId && request.status === "confirmed";
      if (!paid || this.#asked.has(id)) continue;
      this.#asked.add(id);
      const { client } = this.scope;
      client
        .call("POST /api/shared/chat/sessions/{session_id}/extensions", {
          path: { session_id: this.sessionId },
          body: { payment_request_id: id },
        })
        .then((extension) => {
          if (extension.status === "pending" && this.answer?.id !== extension.id) this.extension = extension;
          this.changed();
        })
        .catch(() => {}); // it is asked without this call too, and the answer comes as an event
    }
  }
}

/** Open the sheet with the prices of more minutes, in the session's mode and without discount. */
export async function openExtensionSheet(scope, session) {
  const { client } = scope;
  const pricing = await client.call("GET /api/client/chat/pricing");
  if (scope.ended) return;
  let chosen = null;
  openSheet(scope, {
    title: t("More time"),
    content: (sheet) => {
      const pay = actionButton(
        t("Pay"),
        async () => {
          const request = await client.extend(session.id, chosen.minutes);
          sheet.close();
          if (request.status === "pending" && request.gateway_invoice_url) openPaymentPage(scope, request);
        },
        { kind: "primary" },
      );
      const list = offerList(offersOf(pricing, session.mode, { discounts: false }), (one) => {
        chosen = one;
        pay.hidden = one === null;
        if (one) pay.querySelector("span").textContent = t("Pay {amount}", { amount: rupiah(one.price) });
      });
      return [h("p", {}, t("Your mitra is asked after you have paid.")), list, pay];
    },
  });
}

/** Return the notices about an extension: its payment, the wait for the answer, or a refusal. */
export function extensionNotices(scope, watch, party) {
  const { payment, extension, answer } = watch;
  if (payment) {
    return [
      h(
        "section",
        { class: "notice", "aria-label": t("More time") },
        h(
          "p",
          {},
          t("Pay {amount} for {n} more minutes.", { amount: rupiah(payment.amount), n: payment.duration_minutes }),
          " ",
          countdown(scope, () => payment.expires_at, { label: t("Time left to pay") }),
        ),
        h(
          "div",
          { class: "stack-buttons" },
          actionButton(t("Give it up"), () => scope.client.abandonPayment(payment.payment_request_id)),
          payment.gateway_invoice_url
            ? actionButton(t("Pay"), () => openPaymentPage(scope, payment), { kind: "primary" })
            : null,
        ),
      ),
    ];
  }
  if (extension) {
    return [
      h(
        "section",
        { class: "notice", "aria-label": t("More time") },
        h(
          "p",
          {},
          t("We ask {name} for {n} more minutes.", { name: party, n: extension.requested_duration_minutes }),
          " ",
          countdown(scope, () => extension.answer_by, { label: t("Time left to answer") }),
        ),
      ),
    ];
  }
  const text = FAILED()[answer?.status];
  if (!text) return [];
  return [
    h(
      "section",
      { class: "notice warn", "aria-label": t("More time") },
      h("p", {}, text),
      h(
        "div",
        { class: "stack-buttons" },
        helpButton(scope),
        actionButton(t("All right"), () => {
          watch.answer = null;
          watch.changed();
        }),
      ),
    ),
  ];
}
