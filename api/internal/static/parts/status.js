/** Labels of states, causes and results, as text and as chips. */

import { h } from "../kernel/dom.js";
import { CAUSES } from "../kernel/words.causes.js";
import { t } from "../kernel/words.js";

// Each entry is [English label, style].
const PAYMENT = {
  pending: ["waiting for payment", "busy"],
  confirmed: ["paid", "busy"],
  consumed: ["earned", "good"],
  failed_pairing: ["paid, no chat", "bad"],
  abandoned: ["given up", ""],
  expired: ["not paid in time", ""],
};
const SESSION = {
  searching: ["searching", "busy"],
  active: ["active", "good"],
  expired: ["time is up", "warn"],
  closing: ["closing", "warn"],
  completed: ["completed", ""],
  cancelled: ["cancelled by the customer", ""],
  failed: ["no mitra found", "bad"],
};
const CAUSE = Object.fromEntries(
  Object.entries(CAUSES).map(([tag, label]) => [tag, [label, tag === "customer_cancelled" ? "warn" : "bad"]]),
);
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
const RESULT = {
  confirmed: ["confirmed", "good"],
  duplicate: ["duplicate", ""],
  late_payment_recorded: ["late payment recorded", "warn"],
  paid_not_pairable: ["paid, can't be paired", "warn"],
  expired: ["expired", ""],
  ignored_status: ["status ignored", ""],
  ignored_non_uuid_external_id: ["not ours (id)", ""],
  ignored_foreign_app: ["another app's", ""],
  unknown_external_id: ["unknown payment", "warn"],
  conflict: ["conflict", "bad"],
  unauthorized: ["invalid token", "bad"],
  flood: ["many with an invalid token", "bad"],
  invalid_payload: ["unreadable", "bad"],
  error: ["error", "bad"],
};

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
export const cause = maker(CAUSE);
export const action = maker(ACTION);
export const response = maker(RESPONSE);
export const result = maker(RESULT);

export const chip = (words, look = "") => h("span", { class: `chip ${look}` }, words);
export const mode = (value) => t(value === "call" ? "call" : "chat");
