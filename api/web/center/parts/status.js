/** Labels of states, causes and results, as text and as chips. */

import { CAUSES, PAYMENTS, REFUNDS, RESULTS, SESSIONS } from "../kernel/words.core.js";
import { h } from "../shared/dom.js";
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

export const payment = maker(PAYMENT);
export const chat = maker(SESSION);
export const refund = maker(REFUND);
export const cause = maker(CAUSE);
export const action = maker(ACTION);
export const response = maker(RESPONSE);
export const result = maker(RESULT);

export const chip = (words, look = "") => h("span", { class: `chip ${look}` }, words);
export const mode = (value) => t(value === "call" ? "call" : "chat");
