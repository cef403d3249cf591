/** Sessions: look one up. The timeline is on the page of its payment. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { ENDABLE } from "../kernel/words.core.js";
import "../parts/countdown.js";
import { linked, nameOf, written } from "../parts/linked.js";
import { instant, ListPage, pick, search } from "../parts/list.js";
import { makingGood } from "../parts/making_good.js";
import { Page } from "../parts/page.js";
import { chat, chip, mode } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { timeline } from "../parts/timeline.js";
import { messagesOf, whoWrote } from "../parts/who_wrote.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field } from "../shared/form.js";
import { duration, number, rupiah } from "../shared/format.js";
import { address } from "../shared/router.js";
import { service } from "../shared/service.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/sessions";
const MOST = 200; // running chats without a reply that are marked
const RUNNING = ["searching", "active", "expired", "closing"];
const person = (area, path, who) => who && linked(area, `${path}/${who.id}`, nameOf(who));

const isAway = (one) => one.customer_absent_since || one.mitra_absent_since;
const state = (one) =>
  h(
    "span",
    { class: "row" },
    chat.chip(one.status),
    isAway(one) && chip(t("away"), "warn"),
    one.has_no_reply && chip(t("no reply"), "bad"),
  );

/** Mark the running chats whose customer waits for a reply of the mitra. */
async function marked(chats, query, signal) {
  const found = await api.get(PATH, { ...query, no_reply: true, texts: false, limit: MOST }, signal);
  const waiting = new Set(found.items.map(({ id }) => id));
  return chats.map((one) => ({ ...one, has_no_reply: waiting.has(one.id) }));
}

class SessionsPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Sessions");
  }

  filters() {
    return [
      search("q", t("Name or id"), t("of a party, the session or its payment")),
      pick("status", t("State"), chat.options()),
      pick("no_reply", t("Without a reply"), [["true", t("only these")]]),
      instant("from", t("From")),
      instant("to", t("To")),
    ];
  }

  async load(signal) {
    const found = await super.load(signal);
    const isRunning = found.items.some(({ status }) => status === "active");
    return isRunning ? { ...found, items: await marked(found.items, {}, signal) } : found;
  }

  columns() {
    return [
      { label: t("Created"), cell: (one) => h("a", { href: address(`/sessions/${one.id}`) }, time(one.created_at)) },
      { label: t("Customer"), cell: (one) => person("customers", "/customers", one.customer) },
      { label: t("Mitra"), cell: (one) => person("mitras", "/mitras", one.mitra) },
      {
        label: t("Minutes"),
        cell: (one) =>
          one.extended_minutes ? `${one.duration_minutes} + ${one.extended_minutes}` : one.duration_minutes,
        number: true,
      },
      { label: t("Price"), cell: (one) => rupiah(one.price), number: true },
      { label: t("Messages"), cell: (one) => one.paired_at && messagesOf(one) },
      {
        label: t("First reply"),
        cell: (one) => (one.first_reply_seconds === null ? null : duration(one.first_reply_seconds)),
        number: true,
      },
      { label: t("State"), cell: state },
    ];
  }
}

const ENDED_BY = { customer: "the customer", mitra: "the mitra", timer: "the time", operator: "an operator" };
const MAX_REASON = 500;
const goodbye = (one) => `${t("Goodbye")}, ${t(one.user_type === "mitra" ? "Mitra" : "Customer")}`;

/** Return the receipt of a completed session; null if it was completed before there were receipts, "late" without an answer. */
async function receiptOf(id, signal) {
  try {
    return await api.get(`${PATH}/${id}/receipt`, {}, signal);
  } catch (error) {
    if (error.status === 404) return null;
    if ([401, 403].includes(error.status) || signal?.aborted) throw error;
    return "late";
  }
}

const receipt = (signed) =>
  h(
    "section",
    { class: "card" },
    h("h2", {}, t("Receipt")),
    signed === "late"
      ? h("p", {}, t("The receipt can't be read at the moment. Open the page again in a few seconds."))
      : receiptFacts(signed),
  );

const receiptFacts = ({ receipt: says, key_id: keyId }) =>
  facts([
    [t("Seconds paid"), number(says.seconds_paid)],
    [t("Seconds in which both could talk"), number(says.seconds_both_could_talk)],
    [t("Seconds given back"), number(says.seconds_credited)],
    [t("Messages"), number(says.messages)],
    [t("Digest of the chat"), h("span", { class: "id" }, says.digest ?? t("The text was removed."))],
    [t("Completed"), time(says.completed_at)],
    [t("Signed with the key"), keyId],
  ]);

class SessionPage extends Page {
  everyMs = 5_000; // while the session runs

  get heading() {
    return t("Session");
  }

  actions() {
    return [h("a", { class: "button", href: address("/sessions") }, t("All sessions"))];
  }

  async load(signal) {
    if (this.known) {
      const found = await this.#again(signal);
      if (found) return found;
    }
    const found = await api.get(`${PATH}/${this.params.id}`, {}, signal);
    const paid = found.payment_request_id;
    const story =
      paid && session.may("payments") ? await api.get(`/internal/payment-requests/${paid}/timeline`, {}, signal) : null;
    const signed = found.status === "completed" ? await receiptOf(found.id, signal) : null;
    if (!RUNNING.includes(found.status)) clearInterval(this.timer);
    this.known = { found: await this.#withMark(found, signal), story, signed };
    return this.known;
  }

  async refresh(options = {}) {
    if (!options.polling) this.known = null;
    await super.refresh(options);
  }

  /**
   * Read a running session again, without its texts: each reading of them leaves a row in the audit log. Return what to
   * show; null if more than the messages has changed, so that everything is read.
   */
  async #again(signal) {
    const { known } = this;
    const { found: before, ...rest } = known;
    const now = await api.get(`${PATH}/${this.params.id}`, { texts: false }, signal);
    const moved = ["status", "expires_at", "extended_minutes", "customer_absent_since", "mitra_absent_since"];
    if (moved.some((name) => now[name] !== before[name]) || now.closures.length !== before.closures.length) return null;
    const { topics, closures } = before;
    const next = { ...rest, found: await this.#withMark({ ...now, topics, closures }, signal) };
    if (this.known === known) this.known = next; // else everything was read in the meantime
    return next;
  }

  async #withMark(found, signal) {
    return found.status === "active" ? (await marked([found], { q: found.id }, signal))[0] : found;
  }

  /** The refunds of its payment. The element stays while the page is shown again with the same payment. */
  #good(story) {
    if (this.goodOf !== story) this.good = makingGood(story.payment, () => this.refresh({ quietly: true }));
    this.goodOf = story;
    return this.good;
  }

  /** The time that is left, counted down. */
  #left({ status, expires_at: end }) {
    if (status !== "active" || !end) return null;
    const seconds = Math.max(0, (Date.parse(end) - service.now()) / 1000);
    return [t("Time left"), h("sesi-countdown", { seconds })];
  }

  render({ found, story, signed }) {
    const paid = found.payment_request_id;
    const shown = h(
      "section",
      { class: "card" },
      h("h2", {}, nameOf(found.customer), found.mitra && ` · ${nameOf(found.mitra)}`),
      facts([
        [t("State"), state(found)],
        this.#left(found),
        [t("Kind"), mode(found.mode)],
        [t("Topic"), found.topic_sensitivity === "sensitive" ? chip(t("sensitive"), "warn") : t("regular")],
        found.topics?.length && [
          t("Topics"),
          found.topics.flatMap((one, n) => (n ? [", ", written(one)] : [written(one)])),
        ],
        [t("Customer"), person("customers", "/customers", found.customer)],
        [t("Mitra"), person("mitras", "/mitras", found.mitra)],
        [t("Minutes"), number(found.duration_minutes ?? 0)],
        found.extended_minutes > 0 && [t("Extended by"), t("{n} min", { n: found.extended_minutes })],
        [t("Price"), rupiah(found.price)],
        ...whoWrote(found),
        [t("Created"), time(found.created_at)],
        found.search && [t("Mitras invited"), number(found.search.asked)],
        found.search && [t("Search ends"), time(found.search.ends_at)],
        [t("Chat started"), time(found.paired_at)],
        found.customer_absent_since && [t("Customer away since"), time(found.customer_absent_since)],
        found.mitra_absent_since && [t("Mitra away since"), time(found.mitra_absent_since)],
        [t("Time up"), time(found.expires_at)],
        [t("Ended"), h("span", {}, time(found.ended_at), found.ended_by && `, ${t(ENDED_BY[found.ended_by])}`)],
        ...found.closures.map((one) => [goodbye(one), one.blanked ? t("The text was removed.") : written(one.message)]),
        paid && [t("Payment"), linked("payments", `/payments/${paid}`, paid, "id")],
        session.may("payments") && [
          t("Payments"),
          h("a", { href: address("/payments", { q: found.id }) }, t("With its extensions")),
        ],
        [t("Id"), h("span", { class: "id" }, found.id)],
      ]),
      session.may("sessions", "write") &&
        ENDABLE.includes(found.status) &&
        h(
          "div",
          { class: "row" },
          h("button", { class: "danger", type: "button", onclick: () => this.#end(found) }, t("End the session…")),
        ),
    );
    return h(
      "div",
      { class: "work" },
      h("div", { class: "page-body" }, shown, story && this.#good(story), signed && receipt(signed)),
      story && timeline(story),
    );
  }

  async #end({ id, status }) {
    const follows =
      status === "searching"
        ? t("The search ends without a mitra, and the payment becomes a failed pairing.")
        : t("The chat ends now, whatever time is left. Both sides are notified and can still say goodbye.");
    const done = await ask({
      title: t("End this session?"),
      content: [
        h("p", {}, follows, " ", t("This can't be undone. Your name is recorded.")),
        field(
          t("Reason"),
          h("textarea", { name: "reason", rows: "3", maxlength: String(MAX_REASON), required: true }),
          t("for the audit log; without names, phones and e-mails"),
        ),
      ],
      submit: t("End the session"),
      danger: true,
      send: (data) => api.post(`${PATH}/${id}/end`, { reason: data.get("reason").trim() }),
    });
    if (done) toast(t("Session ended."));
    await this.refresh({ quietly: true });
  }
}

customElements.define("sessions-page", SessionsPage);
customElements.define("session-page", SessionPage);
