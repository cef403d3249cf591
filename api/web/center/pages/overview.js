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
import { cause, chip, result } from "../parts/status.js";
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
    const open = { operator_action: "none", limit: SHOWN };
    const [numbers, health, failures, errors] = await Promise.all([
      maybe("activity", "/internal/overview"),
      maybe("activity", "/internal/health"),
      maybe("failed_pairings", "/internal/failed-pairings", open),
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
    const unwell = health?.parts.filter((one) => one.status === "degraded" || one.status === "down") ?? [];
    return { numbers, unwell, failures, errors: calls && { items: calls } };
  }

  /** Replace only the parts that have changed, so that a link keeps the focus. */
  show(data) {
    document.title = `${this.heading} · Sesi`;
    const made = {
      now: data.numbers && (() => this.#now(data.numbers)),
      needs: () => this.#needs(data),
      day: data.numbers && (() => this.#day(data.numbers.hours)),
    };
    const keys = {
      now: JSON.stringify({ ...data.numbers, hours: null }),
      needs: JSON.stringify([data.unwell, data.failures, data.errors, data.numbers?.sweeps, data.numbers?.not_set_up]),
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

  #now(numbers) {
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
        note: t("{busy} in a chat, {free} available", {
          busy: number(numbers.mitras_busy),
          free: number(numbers.mitras_free),
        }),
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
      tile(t("failures to act on"), number(numbers.failures_open), {
        to: address("/failed-pairings"),
        area: "failed_pairings",
        bad: numbers.failures_open > 0,
        note: numbers.failures_open > 0 ? rupiah(numbers.failures_open_amount) : null,
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

  #needs({ numbers, unwell, failures, errors }) {
    const late = (numbers?.sweeps ?? []).filter((sweep) => sweep.overdue > 0);
    const parts = [
      unwell.length > 0 && this.#health(unwell),
      failures?.items.length > 0 && this.#failures(failures, numbers),
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

  /** The parts of the service that don't work, or only in part. */
  #health(parts) {
    const lines = parts.map(({ name, status, since, message }) =>
      h(
        "li",
        {},
        h("span", {}, h("strong", {}, t(PARTS[name] ?? name)), message && [": ", message]),
        h("span", {}, chip(t(status), status === "down" ? "bad" : "warn"), since && [" ", h("small", {}, age(since))]),
      ),
    );
    return h(
      "section",
      { class: "card" },
      h("h3", {}, t("Parts of the service that fail")),
      h("ul", { class: "plain-list" }, lines),
    );
  }

  #failures({ items }, numbers) {
    const lines = items.map((one) =>
      h(
        "li",
        {},
        h("a", { href: address(`/failed-pairings/${one.id}`) }, nameOf(one.customer), ", ", rupiah(one.amount)),
        h("span", {}, cause.chip(one.cause_tag), " ", h("small", {}, age(one.created_at))),
      ),
    );
    const more = (numbers?.failures_open ?? 0) > items.length;
    return h(
      "section",
      { class: "card" },
      h("h3", {}, t("Paid without a chat, newest first")),
      h("ul", { class: "plain-list" }, lines),
      more && h("a", { href: address("/failed-pairings") }, t("All {n}", { n: number(numbers.failures_open) })),
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
