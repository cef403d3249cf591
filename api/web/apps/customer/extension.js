/** More time: the offer, its payment, and what the mitra answers. */

import { actionButton } from "/try/kit/buttons.js";
import { countdown } from "/try/kit/countdown.js";
import { openSheet } from "/try/kit/sheet.js";
import { h } from "/try/shared/dom.js";
import { rupiah } from "/try/shared/format.js";
import { t } from "/try/shared/words.js";
import { helpButton } from "./help_sheet.js";
import { makeAsking } from "./pay.js";
import { openPaymentPage } from "./screens/payment.js";
import { offerList, offersOf } from "./screens/prices.js";

const FAILED = () => ({
  rejected: t("Your mitra can't go on now. Our team gives your money back."),
  safeguard_tripped: t("The session could not be extended. Our team gives your money back."),
});

/** The extension of one chat, from the payment request to the mitra's answer. */
export class ExtensionWatch {
  #asked = new Set(); // payment requests whose extension was read
  #read = null; // the extension as it was answered; the client's state has what came as an event
  #closed = null; // id of the extension whose outcome the customer has closed

  /** `changed()` is called when there is something else to show. */
  constructor(scope, sessionId, changed) {
    this.client = scope.client;
    this.sessionId = sessionId;
    this.changed = changed;
    scope.watch((state) => this.#follow(state));
  }

  /** The extension that was asked last, or null. */
  get #last() {
    const known = this.client.state.chats[this.sessionId]?.extension ?? null;
    return known === null || (this.#read !== null && this.#read.id > known.id) ? this.#read : known;
  }

  /** The pending payment request of an extension of this chat, or null. */
  get payment() {
    const all = Object.values(this.client.state.payments);
    return all.find((one) => this.#isOurs(one) && one.status === "pending") ?? null;
  }

  /** The extension that the mitra is asked for, or null. */
  get pending() {
    return this.#last?.status === "pending" ? this.#last : null;
  }

  /** The extension that was refused, until the customer has closed the notice; else null. */
  get refused() {
    return ["rejected", "safeguard_tripped"].includes(this.#last?.status) && this.#last.id !== this.#closed
      ? this.#last
      : null;
  }

  close() {
    this.#closed = this.refused?.id ?? null;
    this.changed();
  }

  #isOurs(request) {
    return request.is_extension && request.session_id === this.sessionId;
  }

  /** After the payment, ask for the extension: the answer has the time by which the mitra must decide. */
  #follow(state) {
    for (const request of Object.values(state.payments)) {
      const id = request.payment_request_id;
      if (!this.#isOurs(request) || request.status !== "confirmed" || this.#asked.has(id)) continue;
      this.#asked.add(id);
      this.client
        .call("POST /api/shared/chat/sessions/{session_id}/extensions", {
          path: { session_id: this.sessionId },
          body: { payment_request_id: id },
        })
        .then((extension) => {
          this.#read = extension;
          this.changed();
        })
        .catch(() => {}); // it is asked without this call too, and the outcome comes as an event
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
          const make = ({ expected_amount: agreed = chosen.price }) =>
            client.extend(session.id, chosen.minutes, agreed);
          const request = await makeAsking(scope, make);
          sheet.close();
          if (request?.status === "pending" && request.gateway_invoice_url) openPaymentPage(scope, request);
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

/**
 * Return the notices about an extension: its payment, the wait for the answer, or a refusal. `scope` ends with the
 * notices, `screenScope` with the screen: sheets stay open when the notices change.
 */
export function extensionNotices(scope, screenScope, watch, party) {
  const { payment, pending, refused } = watch;
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
            ? actionButton(t("Pay"), () => openPaymentPage(screenScope, payment), { kind: "primary" })
            : null,
        ),
      ),
    ];
  }
  if (pending) {
    return [
      h(
        "section",
        { class: "notice", "aria-label": t("More time") },
        h(
          "p",
          {},
          t("We ask {name} for {n} more minutes.", { name: party, n: pending.requested_duration_minutes }),
          " ",
          countdown(scope, () => pending.answer_by, { label: t("Time left to answer") }),
        ),
      ),
    ];
  }
  if (!refused) return [];
  return [
    h(
      "section",
      { class: "notice warn", "aria-label": t("More time") },
      h("p", {}, FAILED()[refused.status]),
      h(
        "div",
        { class: "stack-buttons" },
        helpButton(screenScope),
        actionButton(t("All right"), () => watch.close()),
      ),
    ),
  ];
}
