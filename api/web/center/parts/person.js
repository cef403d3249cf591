/** What the pages of a customer and of a mitra share: sums, the newest rows of each list, devices, export and erasure. */

import { ApiError, api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { ask, confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field } from "../shared/form.js";
import { number, rupiah } from "../shared/format.js";
import { address } from "../shared/router.js";
import { age, time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";
import { save } from "./download.js";
import { linked, nameOf, written } from "./linked.js";
import { causeChip, chat, chip, failureState, moneyBack, payment, reason, resolution } from "./status.js";
import { table } from "./table.js";

const FEW = 5; // rows of each list; a link leads to all of them
const EXPORT_MS = 300_000; // long chats take a while
const TAIL = 6; // characters of an id that stand for a missing name

/** Read a page of a list that the role may see; null if it may not. */
const newest = (area, path, query, signal, limit = FEW) =>
  session.may(area) ? api.get(path, { ...query, limit }, signal) : null;

/** Read all that is known of a person. `path` is that of the person, such as `/internal/customers/<id>`. */
export async function caseOf(path, id, signal) {
  const [sums, payments, refunding, refunded, chats, failures, reports, devices] = await Promise.all([
    session.may("payments") ? api.get(`${path}/sums`, {}, signal) : null,
    newest("payments", "/internal/payment-requests", { q: id }, signal),
    newest("payments", "/internal/payment-requests", { q: id, refund: "refunding" }, signal),
    newest("payments", "/internal/payment-requests", { q: id, refund: "refunded" }, signal),
    newest("sessions", "/internal/sessions", { q: id }, signal),
    newest("failed_pairings", "/internal/failed-pairings", { q: id }, signal),
    newest("reports", "/internal/reports", { user_id: id }, signal),
    api.get(`${path}/auth-sessions`, { limit: 20 }, signal),
  ]);
  return { sums, payments, refunding, refunded, chats, failures, reports, devices };
}

/** The sums of a person, as tiles. */
export function sumTiles({ paid, earned, refunded, chats }) {
  const tile = (words, value) =>
    h("div", { class: "tile" }, h("span", { class: "value" }, value), h("span", {}, words));
  return h(
    "section",
    { class: "tiles", "aria-label": t("Sums") },
    tile(t("paid"), rupiah(paid)),
    tile(t("earned"), rupiah(earned)),
    tile(t("refunded"), rupiah(refunded)),
    tile(t("chats"), number(chats)),
  );
}

/** A list of a person: its newest rows, and a link to all of them. Nothing if the role may not see the list. */
function section(heading, columns, found, all, none) {
  if (found === null) return null;
  return h(
    "section",
    { class: "stack" },
    h("h2", {}, heading),
    found.items.length ? table(heading, columns, found.items) : h("p", { class: "quiet" }, none),
    found.next_cursor && h("a", { href: all }, t("All of them: {list}", { list: heading })),
  );
}

const link = (path, at) => h("a", { href: address(path) }, time(at));
const paymentColumns = () => [
  { label: t("Created"), cell: (one) => link(`/payments/${one.payment_request_id}`, one.created_at) },
  { label: t("Amount"), cell: (one) => rupiah(one.amount), number: true },
  { label: t("Minutes"), cell: (one) => one.duration_minutes, number: true },
  { label: t("State"), cell: (one) => h("span", { class: "row" }, payment.chip(one.status), moneyBack(one)) },
];
const refundColumns = () => [
  ...paymentColumns().slice(0, 2),
  { label: t("State"), cell: moneyBack },
  { label: t("Reference"), cell: (one) => one.refund_reference && h("span", { class: "id" }, one.refund_reference) },
];
const failureColumns = () => [
  { label: t("Failed"), cell: (one) => link(`/failed-pairings/${one.id}`, one.created_at) },
  { label: t("Amount"), cell: (one) => rupiah(one.amount), number: true },
  { label: t("Cause"), cell: (one) => causeChip(one) },
  { label: t("State"), cell: failureState },
];
const reportColumns = () => [
  { label: t("Reported"), cell: (one) => link(`/reports/${one.id}`, one.created_at) },
  { label: t("By"), cell: (one) => t(one.reporter === "mitra" ? "the mitra" : "the customer") },
  { label: t("Reason"), cell: (one) => reason.say(one.reason) },
  { label: t("Message"), cell: (one) => one.message && written(one.message) },
  { label: t("State"), cell: (one) => (one.resolution ? resolution.chip(one.resolution) : chip(t("open"), "bad")) },
  { label: t("Session"), cell: (one) => linked("sessions", `/sessions/${one.session_id}`, t("the chat")) },
];

/** The columns of a person's chats; `other` is the field of the other party, and `area` that of their page. */
const chatColumns = (other, area) => [
  { label: t("Created"), cell: (one) => link(`/sessions/${one.id}`, one.created_at) },
  {
    label: t(other === "mitra" ? "Mitra" : "Customer"),
    cell: (one) => one[other] && linked(area, `/${area}/${one[other].id}`, nameOf(one[other])),
  },
  { label: t("Minutes"), cell: (one) => one.duration_minutes, number: true },
  { label: t("Price"), cell: (one) => rupiah(one.price), number: true },
  { label: t("State"), cell: (one) => chat.chip(one.status) },
];

/** The lists of a person. `isMitra`: of a mitra, whose payments are those of customers who chose them. */
export function lists(id, found, { isMitra }) {
  const both = found.refunding && [...found.refunding.items, ...found.refunded.items];
  const backs = both && {
    items: [...new Map(both.map((one) => [one.payment_request_id, one])).values()], // one may be in both
    next_cursor: found.refunding.next_cursor ?? found.refunded.next_cursor,
  };
  const of = (path, query = {}) => address(path, { q: id, ...query });
  const chats = isMitra ? chatColumns("customer", "customers") : chatColumns("mitra", "mitras");
  return [
    section(t("Chats"), chats, found.chats, of("/sessions"), t("No chats.")),
    section(
      isMitra ? t("Payments for this mitra") : t("Payments"),
      paymentColumns(),
      found.payments,
      of("/payments"),
      t("No payments."),
    ),
    section(
      t("Failed pairings"),
      failureColumns(),
      found.failures,
      of("/failed-pairings", { operator_action: "all" }),
      t("No failed pairings."),
    ),
    section(t("Refunds"), refundColumns(), backs, of("/payments", { refund: "refunded" }), t("No refunds.")),
    section(t("Reports"), reportColumns(), found.reports, address("/reports", { user_id: id }), t("No reports.")),
  ];
}

/** Ask, and end sign-ins by `send(confirm)`. The last way into an account is asked about once more. */
async function signOut(title, said, send) {
  let isLast = false;
  const done = await confirm(title, said, t("Sign out"), async () => {
    try {
      await send(false);
    } catch (error) {
      if (error.code !== "LAST_SIGN_IN_METHOD") throw error;
      isLast = true;
    }
  });
  if (!done || !isLast) return done;
  const lost = t(
    "This customer is anonymous and has no other device. They can never enter this account again, not even to see a refund.",
  );
  return confirm(t("End the only way into this account?"), lost, t("Sign out for good"), () => send(true));
}

const device = ({ device_info: { platform, app_version: version, user_agent: agent } }) =>
  [platform, version].filter(Boolean).join(" ") || agent || t("unknown device");

/** The devices of a person, with their ends. `may`: the role may sign them out; `again` reads the page again. */
export function devices(path, found, { may, name, again }) {
  const end = async (title, said, send) => {
    if (await signOut(title, said, send)) toast(t("Signed out."));
    await again();
  };
  const one = (row) =>
    end(t("Sign out this device?"), device(row), (sure) =>
      api.delete(`${path}/auth-sessions/${row.id}`, { confirm: sure }),
    );
  const all = () =>
    end(
      t("Sign {name} out everywhere?", { name }),
      t("All devices are signed out within a second. Running chats continue."),
      (sure) => api.post(`${path}/sign-out`, { confirm: sure }),
    );
  const columns = [
    { label: t("Device"), cell: device },
    { label: t("Since"), cell: (row) => time(row.created_at) },
    { label: t("Last used"), cell: (row) => age(row.last_used_at) },
    { label: t("Ends"), cell: (row) => time(row.expires_at) },
  ];
  const button = (row) =>
    h(
      "button",
      { type: "button", class: "danger", "aria-label": `${t("Sign out…")} ${device(row)}`, onclick: () => one(row) },
      t("Sign out…"),
    );
  if (may) columns.push({ label: t("Change"), cell: button });
  const shown = found.items.length
    ? table(t("Devices"), columns, found.items)
    : h("p", { class: "quiet" }, t("Not signed in on any device."));
  const everywhere =
    may &&
    found.items.length > 0 &&
    h("p", { class: "row" }, h("button", { type: "button", class: "danger", onclick: all }, t("Sign out everywhere…")));
  return h("section", { class: "stack" }, h("h2", {}, t("Devices")), shown, everywhere);
}

/** Ask, and save a file with all data of a person. Resolves with whether that was done. */
export function exportData(path, one, said) {
  const act = async () => {
    const copy = await api.post(`${path}/export`, undefined, EXPORT_MS);
    save(new Blob([JSON.stringify(copy, null, 2)], { type: "application/json" }), `sesi-${one.id}.json`);
  };
  return confirm(t("Export the data of {name}?", { name: nameOf(one) }), said, t("Download"), act, false);
}

/** Ask for the name of a person, and erase their data. Resolves with whether that was done. */
export function eraseData(path, one, said) {
  const wanted = one.display_name ?? one.id.slice(-TAIL);
  const label = one.display_name ? t("Type the name") : t("Type the last 6 characters of the id");
  return ask({
    title: t("Erase {name}?", { name: nameOf(one) }),
    content: [
      h("p", {}, said),
      field(label, h("input", { name: "confirmation", required: true, autocomplete: "off" }), wanted),
    ],
    submit: t("Erase"),
    danger: true,
    send: (data) => {
      if (data.get("confirmation").trim() === wanted) return api.post(`${path}/erase`);
      const message = "This is not what is asked for.";
      throw new ApiError(0, {
        code: "NOT_CONFIRMED",
        message,
        details: { fields: [{ field: "confirmation", message }] },
      });
    },
  });
}
