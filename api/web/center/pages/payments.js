/** Payments: look one up, read its timeline, confirm one by hand. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { linked, nameOf } from "../parts/linked.js";
import { instant, ListPage, pick, search } from "../parts/list.js";
import { makingGood } from "../parts/making_good.js";
import { Page } from "../parts/page.js";
import { back, causeChip, mode, moneyBack, payment, refund } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { timeline } from "../parts/timeline.js";
import { confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { rupiah, wait } from "../shared/format.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/payment-requests";
const kind = (one) =>
  t(one.is_extension ? "extension" : one.is_first_session_discount ? "first session, discount" : "session");

/** The state of a payment, and what goes back of its money. */
const state = (one) => h("span", { class: "row" }, payment.chip(one.status), moneyBack(one));
const customer = (one) => linked("customers", `/customers/${one.customer.id}`, nameOf(one.customer));

class PaymentsPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Payments");
  }

  filters() {
    return [
      search("q", t("Name or id"), t("of the request, customer, mitra, session or invoice")),
      pick("status", t("State"), payment.options()),
      pick("refund", t("Refunds"), back.options()),
      instant("from", t("From")),
      instant("to", t("To")),
    ];
  }

  columns() {
    return [
      {
        label: t("Created"),
        cell: (one) => h("a", { href: address(`/payments/${one.payment_request_id}`) }, time(one.created_at)),
      },
      { label: t("Customer"), cell: customer },
      {
        label: t("For"),
        cell: (one) => `${kind(one)}, ${t("{n} min", { n: one.duration_minutes })}, ${mode(one.mode)}`,
      },
      { label: t("Amount"), cell: (one) => rupiah(one.amount), number: true },
      { label: t("State"), cell: state },
    ];
  }
}

class PaymentPage extends Page {
  get heading() {
    return t("Payment");
  }

  actions() {
    return [h("a", { class: "button", href: address("/payments") }, t("All payments"))];
  }

  load(signal) {
    return api.get(`${PATH}/${this.params.id}/timeline`, {}, signal);
  }

  render(story) {
    const one = story.payment;
    return h(
      "div",
      { class: "work" },
      h(
        "div",
        { class: "page-body" },
        this.#facts(one),
        this.#byHand(one),
        makingGood(one, () => this.refresh({ quietly: true })),
      ),
      timeline(story),
    );
  }

  #facts(one) {
    return h(
      "section",
      { class: "card" },
      h("h2", {}, nameOf(one.customer), ", ", rupiah(one.amount)),
      facts([
        [t("State"), state(one)],
        ...this.#failure(one),
        ...this.#refund(one),
        [t("For"), `${kind(one)}, ${t("{n} min", { n: one.duration_minutes })}, ${mode(one.mode)}`],
        [t("Customer"), customer(one)],
        one.asked_amount && [t("Asked for"), rupiah(one.asked_amount)],
        one.twin_id && [t("Paid twice"), linked("payments", `/payments/${one.twin_id}`, t("the other payment"))],
        one.targeted_mitra_id && [
          t("Chosen mitra"),
          linked("mitras", `/mitras/${one.targeted_mitra_id}`, one.targeted_mitra_id),
        ],
        one.session_id && [t("Session"), linked("sessions", `/sessions/${one.session_id}`, one.session_id)],
        [t("Created"), time(one.created_at)],
        [t("Payable until"), time(one.expires_at)],
        one.promised && [
          t("Promised wait"),
          t("half wait at most {p50}, nine of ten {p90}", { p50: wait(one.promised.p50), p90: wait(one.promised.p90) }),
        ],
        [t("Paid"), time(one.confirmed_at)],
        one.payment_channel && [t("Channel"), one.payment_channel],
        [t("Earned"), time(one.consumed_at)],
        [t("Invoice"), h("span", { class: "id" }, one.gateway_invoice_id ?? "–")],
        [t("Id"), h("span", { class: "id" }, one.payment_request_id)],
        session.may("webhooks") && [
          t("Calls"),
          h("a", { href: address("/webhooks", { q: one.payment_request_id }) }, t("Webhook calls about it")),
        ],
      ]),
    );
  }

  #failure({ failure, failure_id: id }) {
    if (!failure) return [];
    return [
      [t("Cause"), causeChip(failure)],
      [t("Failed pairing"), linked("failed_pairings", `/failed-pairings/${id}`, t("What to do about it"))],
      failure.actioned_at && [t("Resolved"), time(failure.actioned_at)],
    ];
  }

  /** The newest refund, with what the customer can ask their bank or wallet about. */
  #refund({ refund: newest, refund_reference: reference, gateway_refund_id: id }) {
    if (!newest) return [];
    return [
      [
        t("Newest refund"),
        h("span", {}, refund.chip(newest.status), " ", rupiah(newest.amount), ", ", time(newest.settled_at)),
      ],
      reference && [t("Reference of the refund"), h("span", { class: "id" }, reference)],
      id && [t("Refund at the gateway"), h("span", { class: "id" }, id)],
    ];
  }

  #byHand(one) {
    if (one.status !== "pending" || !session.may("payments", "write")) return null;
    const act = async () => {
      const question = t("Confirm {amount} by hand?", { amount: rupiah(one.amount) });
      const follows = one.is_extension
        ? t("The mitra is asked for more minutes at once.")
        : t("The search for a mitra starts at once.");
      const said = `${t("Only if you have seen the money elsewhere.")} ${follows} ${t("Your name is recorded.")}`;
      const done = await confirm(question, said, t("Confirm the payment"), () =>
        api.post(`${PATH}/${one.payment_request_id}/confirm`),
      );
      if (done) toast(t(done.status === "failed_pairing" ? "The payment can't become a chat." : "Payment confirmed."));
      await this.refresh({ quietly: true });
    };
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("Money seen elsewhere?")),
      h("div", { class: "row" }, h("button", { type: "button", onclick: act }, t("Confirm by hand…"))),
    );
  }
}

customElements.define("payments-page", PaymentsPage);
customElements.define("payment-page", PaymentPage);
