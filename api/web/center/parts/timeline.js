/** The timeline of a payment, and why it led to no chat, if so. */

import { session } from "../kernel/session.js";
import { h } from "../shared/dom.js";
import { preferences } from "../shared/preferences.js";
import { address } from "../shared/router.js";
import { clock, time } from "../shared/time.js";
import { t } from "../shared/words.js";

// Kind of entry -> [label, style]. The service's sentence, with names, in the operator's language, follows the label.
const KINDS = {
  created: ["Payment requested", ""],
  deadline: ["Payment expired", ""],
  webhook: ["The gateway called", ""],
  confirmed_by_operator: ["Confirmed by hand", "good"],
  paid: ["Paid", "good"],
  session: ["Session to be extended", ""],
  tried_again: ["Asked all mitras instead", ""],
  search_began: ["Search started", ""],
  round_ended: ["Round ended", ""],
  mitra_asked: ["Mitra invited", ""],
  mitra_answered: ["Mitra answered", ""],
  paired: ["Chat started", "good"],
  party_absent: ["Party away", "bad"],
  party_returned: ["Party back", "good"],
  extension_asked: ["Extension requested", ""],
  ended_by_operator: ["Ended by an operator", "bad"],
  extension_answered: ["Extension answered", ""],
  extension_tripped: ["Extension too late", "bad"],
  time_credited: ["Time given back", "good"],
  earned: ["Money earned", "good"],
  search_cancelled: ["Search cancelled", "bad"],
  search_failed: ["Search failed", "bad"],
  failed: ["No chat", "bad"],
  session_expired: ["Time is up", ""],
  goodbye: ["Goodbye", ""],
  session_closing: ["Session closing", ""],
  session_completed: ["Session completed", ""],
  refund_requested: ["Refund requested", ""],
  refund_failed: ["Refund failed", "bad"],
  refunded: ["Money given back", "good"],
  operator_acted: ["Resolved by an operator", "good"],
};

/** Keep Rp with its amount. */
const unbroken = (text) => text.replaceAll(/Rp (?=\d)/g, "Rp\u00a0");

function entry({ at, kind, text, webhook_log_id }) {
  const [what, look] = KINDS[kind] ?? [kind, ""];
  const call = webhook_log_id && session.may("webhooks");
  return h(
    "li",
    { class: look },
    h("span", { class: "row" }, h("span", { class: "what" }, t(what)), h("small", {}, time(at))),
    h("span", {}, unbroken(text)),
    call && h("a", { href: address(`/webhooks/${webhook_log_id}`) }, t("View the call")),
  );
}

const IN_ROUND = ["mitra_asked", "mitra_answered"];
const OPEN_ENTRIES = 3; // a round with more invitations and answers is closed at first

/** Return the entries, those of each long round in one array: invitations, answers, and how the round ended, if it has. */
function grouped(entries) {
  const found = [];
  let running = null; // the entries of the present round
  for (const one of entries) {
    const isOfRound = IN_ROUND.includes(one.kind);
    if (isOfRound && running === null) {
      running = [];
      found.push(running);
    }
    if (running && (isOfRound || one.kind === "round_ended")) running.push(one);
    else found.push(one);
    if (!isOfRound) running = null;
  }
  return found.flatMap((one) => (Array.isArray(one) && one.length > OPEN_ENTRIES ? [one] : one));
}

/** A round in one line, which opens to its invitations and answers. */
function round(entries) {
  const asked = entries.filter((one) => one.kind === "mitra_asked").length;
  const { kind, at, text } = entries[entries.length - 1];
  const summary =
    kind === "round_ended"
      ? [h("span", { class: "what" }, t("Round ended")), " ", h("small", {}, time(at)), h("div", {}, unbroken(text))]
      : [h("span", { class: "what" }, t("{n} mitras invited", { n: asked })), " ", h("small", {}, time(entries[0].at))];
  const parts = entries.filter((one) => one.kind !== "round_ended");
  return h(
    "li",
    {},
    h("details", {}, h("summary", {}, summary), h("ol", { class: "timeline small" }, parts.map(entry))),
  );
}

// Stage of an event on a device -> [label, style].
const STAGES = {
  sent: ["sent", ""],
  acknowledged: ["acknowledged", "good"],
  pushed: ["pushed", ""],
  opened: ["opened", "good"],
  given_up: ["given up", "bad"],
};
const OPEN_EVENTS = 40; // more are closed at first

/** Show what happened to an event on each device: "android 1.4.0: sent 10:01:02, acknowledged 10:01:03". */
function event({ event, recipient, stages }) {
  const devices = new Map();
  for (const one of stages) devices.set(one.device, [...(devices.get(one.device) ?? []), one]);
  const line = ([device, found]) =>
    h(
      "small",
      {},
      `${device ?? t("all devices")}: `,
      found.map(({ stage, at }, n) => [n > 0 && ", ", t(STAGES[stage]?.[0] ?? stage), " ", clock(at)]),
    );
  const last = stages[stages.length - 1].stage;
  return h(
    "li",
    { class: STAGES[last]?.[1] },
    h("span", { class: "row" }, h("code", {}, event), h("small", {}, t("to {to}", { to: recipient ?? "–" }))),
    [...devices].map(line),
  );
}

/** Show what happened to the events that the parties were sent. */
function deliveries(events) {
  return h(
    "details",
    { open: events.length <= OPEN_EVENTS },
    h("summary", {}, t("What the phones received ({n})", { n: events.length })),
    h("ol", { class: "timeline small" }, events.map(event)),
  );
}

/** Show a timeline, given as the service answers it. */
export function timeline({ entries, events, why_no_chat, why_no_chat_in_indonesian }) {
  const why = preferences.language === "id" ? why_no_chat_in_indonesian : why_no_chat;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, t("What happened")),
    why && h("p", { class: "notice warn why" }, h("strong", {}, t("Why there was no chat")), why),
    h(
      "ol",
      { class: "timeline" },
      grouped(entries).map((one) => (Array.isArray(one) ? round(one) : entry(one))),
    ),
    events.length > 0 && deliveries(events),
  );
}
