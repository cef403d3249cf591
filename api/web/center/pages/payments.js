/** Payments: look one up, read its timeline, confirm one by hand. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { linked, nameOf } from "../parts/linked.js";
import { instant, ListPage, pick, search } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { action, cause, chip, mode, payment, refund } from "../parts/status.js";
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

/** The state of a payment, and what became of its money if it led to no chat. */
const state = ({ status, failure }) => {
  const { operator_action: acted, refund_status: refunding } = failure ?? {};
  const money = acted ? action.chip(acted) : refunding && chip(t("refund: {state}", { state: refund.say(refunding) }));
  return h("span", { class: "row" }, payment.chip(status), money);
};

class PaymentsPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Payments");
  }

  filters() {
    return [
      search("q", t("Name or id"), t("of the request, customer, mitra, session or invoice")),
      pick("status", t("State"), payment.options()),
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
      { label: t("Customer"), cell: (one) => nameOf(one.customer) },
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
      h("div", { class: "page-body" }, this.#facts(one), this.#byHand(one)),
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
        one.failure && [t("Cause"), cause.chip(one.failure.cause_tag)],
        one.failure?.actioned_at && [t("Resolved"), time(one.failure.actioned_at)],
        [t("For"), `${kind(one)}, ${t("{n} min", { n: one.duration_minutes })}, ${mode(one.mode)}`],
        [t("Customer"), linked("customers", `/customers/${one.customer.id}`, nameOf(one.customer))],
        one.targeted_mitra_id && [
          t("Chosen mitra"),
          linked("mitras", `/mitras/${one.targeted_mitra_id}`, one.targeted_mitra_id),
        ],
        one.session_id && [t("Session"), linked("sessions", `/sessions/${one.session_id}`, one.session_id)],
        [t("Created"), time(one.created_at)],
        [t("Payable until"), time(one.expires_at)],
        one.promised && [
          t("Promised wait"),
          t("p50 {p50}, p90 {p90}", { p50: wait(one.promised.p50), p90: wait(one.promised.p90) }),
        ],
        [t("Paid"), time(one.confirmed_at)],
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
