/** The overview: the present state, and the work that waits for an operator. It is read again every few seconds. */

import { api, serviceNow } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { h } from "../shared/dom.js";
import { duration, moment, number, rupiah } from "../shared/format.js";
import { address } from "../shared/router.js";
import { t } from "../shared/words.js";
import "../parts/chart.js";
import { nameOf } from "../parts/linked.js";
import { Page } from "../parts/page.js";
import { problems } from "../parts/problems.js";
import { paidOf } from "../parts/refund.js";
import { causeChip, chip, reason, result } from "../parts/status.js";
import { messagesOf } from "../parts/who_wrote.js";
import { age } from "../shared/time.js";

const SHOWN = 8;
const DAY_MS = 86_400_000;
// What each name in `not_set_up` means.
const GAPS = {
  support_handles: "The contacts for help are placeholders: set support_handles on the page Settings.",
  gateway_enabled: "The payment gateway is disabled, so customers can't pay: GATEWAY_ENABLED.",
  otp_sender: "Sign-in codes are only logged, so they reach no phone: OTP_SENDER.",
  push_sender: "Pushes are only logged, so they reach no phone: PUSH_SENDER.",
};
const LISTS_MS = 60_000; // in which the lists are read again if no count has changed
// The names of the parts of the service, as operators say them.
const PARTS = {
  api: "requests of apps",
  realtime: "chats and pushes",
  jobs: "timers",
  database: "database",
  replica: "copy of the database",
  redis: "signals between processes",
  gateway: "payment gateway",
  code_provider: "sign-in codes",
  push_provider: "pushes to phones",
  webhooks: "calls of the payment gateway",
};
const WRONG = ["error", "conflict", "unknown_external_id"]; // results that an operator must look at; calls without a token carry no money

class OverviewPage extends Page {
  everyMs = 5_000;

  get heading() {
    return t("Overview");
  }

  async load(signal) {
    const maybe = (area, path, query) => (session.may(area) ? api.get(path, query, signal) : null);
    const from = new Date(serviceNow() - DAY_MS).toISOString();
    const counts = await api.get("/internal/worklist", {}, signal);
    const [numbers, health, waiting, errors] = await Promise.all([
      maybe("activity", "/internal/overview"),
      maybe("activity", "/internal/health"),
      this.#waiting(counts, maybe),
      session.may("webhooks")
        ? Promise.all(
            WRONG.map((one) =>
              api.get("/internal/webhook-logs", { processing_result: one, from, limit: SHOWN, bodies: false }, signal),
            ),
          )
        : null,
    ]);
    const calls = errors
      ?.flatMap((one) => one.items)
      .sort((a, b) => (a.received_at < b.received_at ? 1 : -1))
      .slice(0, SHOWN);
    return { numbers, health, counts, ...waiting, errors: calls && { items: calls } };
  }

  /** The newest of each kind of work. They are read again when a count has changed, and once a minute. */
  async #waiting(counts, maybe) {
    const seen = JSON.stringify(counts);
    const isOld = performance.now() - this.waitingAt > LISTS_MS;
    if (this.seen === seen && !isOld) return this.waiting;
    const newest = { limit: SHOWN, texts: false };
    const open = { ...newest, operator_action: "none", snoozed: false };
    const [failures, reports, silent] = await Promise.all([
      maybe("failed_pairings", "/internal/failed-pairings", open),
      counts.reports ? maybe("reports", "/internal/reports", { ...newest, status: "open" }) : null,
      counts.no_reply ? maybe("sessions", "/internal/sessions", { ...newest, no_reply: true }) : null,
    ]);
    this.seen = seen;
    this.waitingAt = performance.now();
    this.waiting = { failures, reports, silent };
    return this.waiting;
  }

  /** Replace only the parts that have changed, so that a link keeps the focus. */
  show(data) {
    document.title = `${this.heading} · Sesi`;
    const made = {
      health: data.health && (() => this.#health(data.health.parts)),
      now: data.numbers && (() => this.#now(data.numbers, data.counts)),
      needs: () => this.#needs(data),
      day: data.numbers && (() => this.#day(data.numbers.hours)),
    };
    const keys = {
      health: JSON.stringify(data.health),
      now: JSON.stringify([{ ...data.numbers, hours: null }, data.counts]),
      needs: JSON.stringify([
        data.counts,
        data.failures,
        data.reports,
        data.silent,
        data.errors,
        data.numbers?.sweeps,
        data.numbers?.not_set_up,
      ]),
      day: JSON.stringify(data.numbers?.hours),
    };
    this.parts ??= {};
    if (!this.frame?.isConnected) {
      this.parts = {};
      this.frame = h("div", { class: "stack" });
      for (const name of Object.keys(made)) this.frame.append(h("div", { "data-part": name }));
      this.body.replaceChildren(this.frame);
    }
    for (const [name, make] of Object.entries(made)) {
      if (!make || this.parts[name] === keys[name]) continue;
      this.parts[name] = keys[name];
      const part = this.frame.querySelector(`[data-part="${name}"]`);
      const held = part.contains(document.activeElement) ? document.activeElement : null;
      part.replaceChildren(...[make()].flat());
      if (held) this.twin(held).focus();
    }
  }

  #now(numbers, counts) {
    const open = counts.failures ?? numbers.failures_open; // the list leaves out what is under way or put aside
    const tile = (words, value, { to, area, bad = false, note } = {}) =>
      h(
        to && session.may(area) ? "a" : "div",
        { class: bad ? "tile bad" : "tile", href: to && session.may(area) ? to : null },
        h("span", { class: "value" }, value),
        h("span", {}, words),
        note && h("small", {}, note),
      );
    const chats = (status) => ({ to: address("/sessions", { status }), area: "sessions" });
    return h(
      "section",
      { class: "tiles", "aria-label": t("Now") },
      tile(t("mitras online"), number(numbers.mitras_online), {
        to: address("/mitras", { is_online: "true" }),
        area: "mitras",
        note: [
          t("{busy} in a chat, {free} available", {
            busy: number(numbers.mitras_busy),
            free: number(numbers.mitras_free),
          }),
          ...(numbers.mitras_unavailable > 0
            ? [t("{n} not reachable", { n: number(numbers.mitras_unavailable) })]
            : []),
        ].join(", "),
      }),
      tile(t("customers searching"), number(numbers.searching), chats("searching")),
      tile(t("chats active"), number(numbers.active), {
        ...chats("active"),
        note: [
          t("{expired} with time up, {closing} in goodbyes", {
            expired: number(numbers.expired),
            closing: number(numbers.closing),
          }),
          ...(numbers.absent > 0 ? [t("{n} with a party away", { n: number(numbers.absent) })] : []),
        ].join(", "),
      }),
      tile(t("payments pending"), number(numbers.pending_payments), {
        to: address("/payments", { status: "pending" }),
        area: "payments",
      }),
      tile(t("paid in 24 hours"), rupiah(numbers.confirmed_amount_24h), { to: address("/payments"), area: "payments" }),
      tile(t("failures to act on"), number(open), {
        to: address("/failed-pairings"),
        area: "failed_pairings",
        bad: open > 0,
        note: counts.late > 0 ? t("{n} late", { n: number(counts.late) }) : null,
      }),
      tile(t("webhook errors in the last hour"), number(numbers.webhook_errors_last_hour), {
        to: address("/webhooks"),
        area: "webhooks",
        bad: numbers.webhook_errors_last_hour > 0,
      }),
      numbers.operators_locked > 0 &&
        tile(t("operators locked out"), number(numbers.operators_locked), {
          to: address("/operators"),
          area: "operators",
          bad: true,
        }),
    );
  }

  #needs({ numbers, counts, failures, reports, silent, errors }) {
    const late = (numbers?.sweeps ?? []).filter((sweep) => sweep.overdue > 0);
    const parts = [
      silent?.items.length > 0 && this.#silent(silent, counts),
      failures?.items.length > 0 && this.#failures(failures, counts),
      reports?.items.length > 0 && this.#reports(reports, counts),
      errors?.items.length > 0 && this.#errors(errors),
      late.length > 0 && this.#late(late),
      numbers?.not_set_up.length > 0 && this.#gaps(numbers.not_set_up),
    ].filter(Boolean);
    return [
      h("h2", {}, t("Needs attention")),
      parts.length
        ? h("div", { class: "cards" }, parts)
        : h("p", { class: "notice good" }, t("Nothing needs your attention.")),
    ];
  }

  /** Every part of the service: what fails comes first, in red, with what is wrong and since when. */
  #health(parts) {
    const isUnwell = ({ status }) => status === "degraded" || status === "down";
    const unwell = parts.filter(isUnwell);
    const said = ({ name, status, since }) => [
      t(PARTS[name] ?? name),
      ": ",
      status === "off" ? t("off") : t("ok"),
      since && [", ", age(since)],
    ];
    const line = (part) =>
      h(
        "li",
        {},
        h("span", {}, h("strong", {}, t(PARTS[part.name] ?? part.name)), part.message && [": ", part.message]),
        h(
          "span",
          {},
          chip(t(part.status), part.status === "down" ? "bad" : "warn"),
          part.since && [" ", h("small", {}, age(part.since))],
        ),
      );
    return h(
      "section",
      { class: unwell.length ? "card unwell" : "card well" },
      h("h2", {}, unwell.length ? t("Parts of the service that fail") : t("All parts of the service work")),
      unwell.length > 0 && h("ul", { class: "plain-list" }, unwell.map(line)),
      h(
        "ul",
        { class: "presets", "aria-label": t("Parts of the service") },
        parts
          .filter((part) => !isUnwell(part))
          .map((part) => h("li", { class: part.status === "off" ? "chip" : "chip good" }, said(part))),
      ),
    );
  }

  /** Running chats whose customer waits for a reply. */
  #silent({ items }, counts) {
    const lines = items.map((one) =>
      h(
        "li",
        {},
        h("a", { href: address(`/sessions/${one.id}`) }, nameOf(one.customer), " · ", nameOf(one.mitra)),
        h("small", {}, messagesOf(one)),
      ),
    );
    return h(
      "section",
      { class: "card" },
      h("h3", {}, t("Running chats without a reply")),
      h("ul", { class: "plain-list" }, lines),
      this.#all(items, counts.no_reply, address("/sessions", { no_reply: "true" })),
    );
  }

  #reports({ items }, counts) {
    const lines = items.map((one) => {
      const other = one.reporter === "customer" ? one.mitra : one.customer;
      return h(
        "li",
        {},
        h(
          "a",
          { href: address(`/reports/${one.id}`) },
          t("{one} about {other}", { one: nameOf(one[one.reporter]), other: nameOf(other) }),
        ),
        h("span", {}, reason.chip(one.reason), " ", h("small", {}, age(one.created_at))),
      );
    });
    return h(
      "section",
      { class: "card" },
      h("h3", {}, t("Open reports")),
      h("ul", { class: "plain-list" }, lines),
      this.#all(items, counts.reports, address("/reports")),
    );
  }

  /** A link to all of a kind, if not all are shown. */
  #all(items, count, href) {
    return count > items.length && h("a", { href }, t("All {n}", { n: number(count) }));
  }

  #failures({ items }, counts) {
    const lines = items.map((one) =>
      h(
        "li",
        {},
        h("a", { href: address(`/failed-pairings/${one.id}`) }, nameOf(one.customer), ", ", paidOf(one)),
        h(
          "span",
          {},
          one.assigned_to && [chip(nameOf(one.assigned_to), "busy"), " "],
          causeChip(one),
          " ",
          h("small", {}, age(one.created_at)),
        ),
      ),
    );
    return h(
      "section",
      { class: "card" },
      h("h3", {}, t("Paid without a chat, newest first")),
      problems(counts),
      h("ul", { class: "plain-list" }, lines),
      this.#all(items, counts.failures, address("/failed-pairings")),
    );
  }

  #errors({ items }) {
    const why = (one) => (session.may("customers.pii") && one.processing_error) || result.say(one.processing_result);
    const lines = items.map((one) =>
      h(
        "li",
        {},
        h("a", { href: address(`/webhooks/${one.id}`) }, why(one)),
        h("span", {}, result.chip(one.processing_result), " ", h("small", {}, age(one.received_at))),
      ),
    );
    return h(
      "section",
      { class: "card" },
      h("h3", {}, t("Webhook calls that failed")),
      h("ul", { class: "plain-list" }, lines),
    );
  }

  #late(sweeps) {
    const lines = sweeps.map((one) =>
      h(
        "li",
        {},
        h("span", {}, t(one.name)),
        h(
          "span",
          {},
          chip(t("{n} late", { n: number(one.overdue) }), "bad"),
          " ",
          h("small", {}, duration(one.late_seconds)),
        ),
      ),
    );
    return h(
      "section",
      { class: "card" },
      h("h3", {}, t("Late timers")),
      h("ul", { class: "plain-list" }, lines),
      h("p", { class: "quiet" }, t("If this lasts, the jobs process is not running or the database is slow.")),
    );
  }

  #gaps(names) {
    const lines = names.map((name) => h("li", {}, t(GAPS[name])));
    return h("section", { class: "card" }, h("h3", {}, t("Not set up")), h("ul", { class: "plain-list" }, lines));
  }

  #day(hours) {
    const chart = (name, key, told, look = "") => {
      const drawn = h("sesi-chart", { class: look });
      const sum = told(hours.reduce((total, hour) => total + hour[key], 0));
      drawn.show(
        `${name}: ${sum}`,
        hours.map((hour) => ({ label: moment(hour.at), value: hour[key] })),
        told,
      );
      return h(
        "section",
        { class: "card" },
        h("div", { class: "row spread" }, h("h3", {}, name), h("strong", {}, sum)),
        drawn,
      );
    };
    return [
      h("h2", {}, t("The last 24 hours, by the hour")),
      h(
        "div",
        { class: "cards" },
        chart(t("Chats started"), "chats", number),
        chart(t("Paid"), "paid_amount", rupiah),
        chart(t("Failures"), "failures", number, "bad"),
      ),
    ];
  }
}

customElements.define("overview-page", OverviewPage);
