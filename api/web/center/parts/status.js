/** Labels of states, causes and results, as text and as chips. */

import { CAUSES, PAYMENTS, REFUNDS, RESULTS, SESSIONS, SUB_CAUSES } from "../kernel/words.core.js";
import { h } from "../shared/dom.js";
import { rupiah } from "../shared/format.js";
import { t } from "../shared/words.js";

/** Return a table of labels: value -> [English label, style]. A value without a style gets `other`. */
const styled = (labels, styles, other = "") =>
  Object.fromEntries(Object.entries(labels).map(([value, label]) => [value, [label, styles[value] ?? other]]));
const PAYMENT = styled(PAYMENTS, { pending: "busy", confirmed: "busy", consumed: "good", failed_pairing: "bad" });
const SESSION = styled(SESSIONS, {
  searching: "busy",
  active: "good",
  expired: "warn",
  closing: "warn",
  failed: "bad",
});
const REFUND = styled(REFUNDS, { requested: "busy", pending: "busy", succeeded: "good", failed: "bad" });
const CAUSE = styled(CAUSES, { customer_cancelled: "warn" }, "bad");
const ACTION = {
  refunded: ["refunded", "good"],
  credited: ["credited", "good"],
  no_action: ["no action needed", ""],
};
const REASON = {
  no_answer: ["no answer", ""],
  rude: ["rude", ""],
  harassment: ["harassment", ""],
  sexual: ["sexual", ""],
  self_harm: ["self-harm", ""],
  scam: ["scam", ""],
  other: ["another reason", ""],
};
const RESOLUTION = {
  dismissed: ["dismissed", ""],
  warned: ["warned", "warn"],
  blocked: ["blocked", "bad"],
  made_good: ["made good", "good"],
};
const RESPONSE = {
  ACCEPTED: ["accepted", "good"],
  REJECTED: ["rejected", "warn"],
  MISSED: ["another accepted", ""],
  IGNORED: ["no answer", "bad"],
  CANCELLED: ["withdrawn", ""],
};
const RESULT = styled(RESULTS, {
  confirmed: "good",
  refund_succeeded: "good",
  late_payment_recorded: "warn",
  paid_not_pairable: "warn",
  refund_failed: "warn",
  unknown_external_id: "warn",
  conflict: "bad",
  unauthorized: "bad",
  flood: "bad",
  invalid_payload: "bad",
  error: "bad",
});

const maker = (words) => ({
  /** The label as text. */
  say: (value) => t(words[value]?.[0] ?? value),
  /** The label as a chip. */
  chip: (value) => h("span", { class: `chip ${words[value]?.[1] ?? ""}` }, t(words[value]?.[0] ?? value)),
  /** Every value with its label, for a select. */
  options: () => Object.entries(words).map(([value, [word]]) => [value, t(word)]),
});

// What goes back of a payment's money -> [label, style]; the values are those of the list's filter.
const BACK = {
  to_refund: ["to refund", "bad"],
  refunding: ["refunding", "busy"],
  refunded: ["refunded", "good"],
  failed: ["refund failed", "bad"],
};
const OPEN_REFUND = ["requested", "pending"];

export const payment = maker(PAYMENT);
export const chat = maker(SESSION);
export const refund = maker(REFUND);
export const cause = maker(CAUSE);
export const action = maker(ACTION);
export const response = maker(RESPONSE);
export const result = maker(RESULT);

export const back = maker(BACK);
export const reason = maker(REASON);
export const resolution = maker(RESOLUTION);
/** What happened, as exactly as it is known. A short payment is that, whatever else was wrong with it. */
export const causeChip = ({ cause_tag: tag, sub_cause: sub }) =>
  tag !== "payment_short" && SUB_CAUSES[sub] ? chip(t(SUB_CAUSES[sub]), CAUSE[tag][1]) : cause.chip(tag);
export const chip = (words, look = "") => h("span", { class: `chip ${look}` }, words);
export const mode = (value) => t(value === "call" ? "call" : "chat");

/** What becomes of the money of a payment without a chat, as the state of a filter or an operator's action. */
function backOfFailure({ operator_action: acted, refund_status: refunding }) {
  if (acted) return action.chip(acted);
  if (OPEN_REFUND.includes(refunding)) return back.chip("refunding");
  return back.chip(refunding === "failed" ? "failed" : "to_refund");
}

/** What becomes of a failed pairing, for lists. */
export function failureState(one) {
  if (one.superseded_at) return chip(t("retried"));
  return backOfFailure({ operator_action: one.operator_action, refund_status: one.refund?.status });
}

/** What became of earned money that an operator gives back, in whole or in part. */
function backOfEarned({ status, refunded }, amount) {
  if (OPEN_REFUND.includes(status)) return back.chip("refunding");
  if (refunded === amount) return back.chip("refunded");
  if (refunded > 0) return chip(t("refunded {amount}", { amount: rupiah(refunded) }), "good");
  return back.chip("failed");
}

/** What goes back of a payment's money, as a chip; null for nothing. */
export function moneyBack({ failure, refund: newest, amount }) {
  if (failure) return backOfFailure(failure);
  return newest ? backOfEarned(newest, amount) : null;
}
