/** Payment requests with their states, and the transactions: what was charged. */

import { backLink } from "/try/kit/links.js";
import { pagedList } from "/try/kit/paged_list.js";
import { topBar } from "/try/kit/shell.js";
import { moment } from "/try/kit/times.js";
import { h } from "/try/shared/dom.js";
import { rupiah } from "/try/shared/format.js";
import { t } from "/try/shared/words.js";

// State of a payment request -> [name, kind of badge].
const STATES = () => ({
  pending: [t("Not paid yet"), "warn"],
  confirmed: [t("Paid"), "accent"],
  consumed: [t("Used"), "good"],
  failed_pairing: [t("Paid, no chat"), "bad"],
  abandoned: [t("Given up"), ""],
  expired: [t("Not paid in time"), ""],
});
const ACTIONS = () => ({
  refunded: [t("Refunded"), "good"],
  credited: [t("Credited"), "good"],
  no_action: [t("Closed"), ""],
});

const REFUNDS = () => ({
  requested: [t("Refund under way"), "accent"],
  pending: [t("Refund under way"), "accent"],
});

/** Return what went back of a payment that was earned, or undefined. */
function refundOf({ amount, refund }) {
  if (!refund) return undefined;
  if (refund.status in REFUNDS()) return REFUNDS()[refund.status];
  if (refund.refunded === 0) return undefined;
  return [
    refund.refunded < amount ? t("{amount} refunded", { amount: rupiah(refund.refunded) }) : t("Refunded"),
    "good",
  ];
}

const row = (title, text, amount, [name, kind] = [null, ""]) => [
  h("span", { class: "row-main" }, h("strong", {}, title), h("small", {}, text)),
  h(
    "span",
    { class: "row-amount" },
    h("strong", {}, amount < 0 ? `−${rupiah(-amount)}` : rupiah(amount)),
    name && h("span", { class: `badge ${kind}` }, name),
  ),
];

function requestRow(request) {
  const { payment_request_id: id, duration_minutes: minutes, is_extension: extension, status } = request;
  const state =
    ACTIONS()[request.failure?.operator_action] ??
    REFUNDS()[request.failure?.refund_status] ??
    refundOf(request) ??
    STATES()[status];
  const title = extension ? t("{n} more minutes", { n: minutes }) : t("{n} minutes", { n: minutes });
  const content = row(title, moment(request.created_at), request.amount, state);
  const href = extension && request.session_id ? `#/chat/${request.session_id}` : `#/payment/${id}`;
  return h("a", { class: "row-link amount-row", href }, content);
}

const TRANSACTIONS = () => ({ session: t("Session"), extension: t("More time"), refund: t("Refund") });

const transactionRow = (transaction) =>
  h(
    "a",
    { class: "row-link amount-row", href: `#/chat/${transaction.session_id}` },
    row(TRANSACTIONS()[transaction.type], moment(transaction.created_at), transaction.amount),
  );

export function paymentsScreen({ client, scope }) {
  const place = h("div", {});
  const lists = {
    requests: () =>
      pagedList(scope, {
        read: (cursor) => client.call("GET /api/client/payment/requests", { query: cursor ? { cursor } : {} }),
        row: requestRow,
        empty: h("p", { class: "empty" }, t("You have not paid for anything yet.")),
      }),
    transactions: () =>
      pagedList(scope, {
        read: (cursor) => client.call("GET /api/client/transactions", { query: cursor ? { cursor } : {} }),
        row: transactionRow,
        empty: h("p", { class: "empty" }, t("Nothing was charged yet.")),
      }),
  };
  const show = (name) => place.replaceChildren(lists[name]());
  const segment = (name, text) =>
    h(
      "label",
      { class: "segment" },
      h("input", {
        type: "radio",
        name: "list",
        value: name,
        checked: name === "requests",
        onchange: () => show(name),
      }),
      h("span", {}, text),
    );
  show("requests");
  return {
    title: t("Payments"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("Payments"), backLink("#/profile")),
      h(
        "fieldset",
        { class: "choice" },
        h("legend", { class: "hidden-label" }, t("Show")),
        h("div", { class: "segments" }, segment("requests", t("Requests")), segment("transactions", t("Charged"))),
      ),
      place,
    ),
  };
}
