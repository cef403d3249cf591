/** The refund of a failed pairing through the gateway: whether it is possible, its state, and the dialog that asks for it. */

import { api } from "../kernel/api.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field } from "../shared/form.js";
import { rupiah } from "../shared/format.js";
import { age, time } from "../shared/time.js";
import { t } from "../shared/words.js";
import { linked, nameOf, written } from "./linked.js";
import { refund } from "./status.js";

const OPEN = ["requested", "pending"];
const OUTLOOKS = () => ({
  refunds: t("The channel refunds through the gateway."),
  some_issuers: t("The channel refunds for some banks and wallets only; GoPay does not."),
  unknown: t("It is not known whether the channel refunds. The gateway may decline."),
  too_late: t("The time in which the channel refunds is over."),
  no_refunds: t("The channel does not refund. Transfer the money."),
  not_paid_there: t("The money did not come through the gateway."),
});

/** Whether the result of the refund is not known yet. */
export const isOpen = (failure) => OPEN.includes(failure.refund?.status);

/** Whether a refund failed because our own balance at the gateway was too low, so that another try can succeed. */
export const canRetry = (failure) => failure.may_refund && failure.refund?.failure_code === "INSUFFICIENT_BALANCE";

/** The amount paid; for a short payment also the amount of the invoice: "Rp 12.000 of Rp 25.000". */
export const paidOf = ({ amount, asked_amount: asked }) =>
  asked ? t("{paid} of {asked}", { paid: rupiah(amount), asked: rupiah(asked) }) : rupiah(amount);

/** Whether the channel refunds, in a word, for the list; nothing once an operator has acted. */
export const outlookChip = ({ refundable, operator_action: acted }) => {
  if (acted) return null;
  if (refundable === null) return h("span", { class: "chip" }, t("not known"));
  return h("span", { class: `chip ${refundable ? "good" : "warn"}` }, refundable ? t("yes") : t("no"));
};

/** The lines about the payment's channel and the refund, for the facts of a failure. */
export function refundFacts(failure) {
  const { refund: made, payment_channel: channel, refundable_until: until } = failure;
  const outlook = h("span", {}, OUTLOOKS()[failure.refundability], until && [" ", t("Until"), " ", time(until), "."]);
  return [
    failure.twin_id && [t("Paid twice"), linked("payments", `/payments/${failure.twin_id}`, t("the other payment"))],
    [t("Channel"), channel ?? t("not known")],
    !failure.operator_action && [t("Refund possible"), outlook],
    made && [
      t("Refund"),
      h(
        "span",
        {},
        refund.chip(made.status),
        " ",
        made.requested_by.display_name ?? "–",
        ", ",
        time(made.settled_at ?? made.requested_at),
        isOpen(failure) && [" (", age(made.requested_at), ")"],
      ),
    ],
    made?.gateway_refund_id && [t("Refund at the gateway"), h("span", { class: "id" }, made.gateway_refund_id)],
    made?.reason && [t("Reason"), written(made.reason)],
    made?.failure_code && [t("The gateway's reason"), h("code", {}, made.failure_code)],
  ];
}

/** Ask for the refund of a failure. Resolves with whether that was done. */
export function askForRefund(failure, name) {
  const amount = rupiah(failure.amount);
  return ask({
    title: t("Refund {amount} to {name} through the gateway?", { amount, name }),
    content: [
      h("p", {}, OUTLOOKS()[failure.refundability]),
      h("p", {}, t("The gateway moves the money. This can't be taken back.")),
      field(t("Reason"), h("input", { name: "reason", maxlength: 500, autocomplete: "off" }), t("for other operators")),
    ],
    submit: t("Refund"),
    danger: true,
    send: (data) =>
      api.post(`/internal/failed-pairings/${failure.id}/refund`, { reason: data.get("reason").trim() || null }),
  });
}

/** Ask for the refunds of several failures, then show what became of each. */
export async function askForRefunds(failures) {
  const sum = rupiah(failures.reduce((total, one) => total + one.amount, 0));
  const done = await ask({
    title: t("Refund {n} payments, {amount}, through the gateway?", { n: failures.length, amount: sum }),
    content: [
      h("p", {}, t("The gateway moves the money. This can't be taken back.")),
      field(t("Reason"), h("input", { name: "reason", maxlength: 500, autocomplete: "off" }), t("for other operators")),
    ],
    submit: t("Refund"),
    danger: true,
    send: (data) =>
      api.post("/internal/failed-pairings/refund", {
        ids: failures.map(({ id }) => id),
        reason: data.get("reason").trim() || null,
      }),
  });
  if (!done) return;
  const known = new Map(failures.map((one) => [one.id, one]));
  const line = ({ id, requested, message }) =>
    h(
      "li",
      {},
      h("span", {}, nameOf(known.get(id).customer), ", ", rupiah(known.get(id).amount)),
      requested ? h("span", { class: "chip busy" }, t("asked for")) : h("span", { class: "chip bad" }, message),
    );
  await ask({
    title: t("{n} of {m} refunds are asked for", {
      n: done.items.filter((one) => one.requested).length,
      m: done.items.length,
    }),
    content: h("ul", { class: "plain-list" }, done.items.map(line)),
    submit: t("Done"),
    cancel: false,
    send: () => true,
  });
}
