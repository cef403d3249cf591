/**
 * Prices: the tiers of each mode in their order, and the first-session discount. If another operator has changed the
 * same row first, this operator decides which version stays.
 */

import { ApiError, api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { difference, sure, withDifference } from "../parts/changes.js";
import { localInput, zoneWords } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { called, told, words } from "../parts/price.js";
import { grip, sortable } from "../parts/sortable.js";
import { chip, mode } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { ask, confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { explain, field, integer, money, tick } from "../shared/form.js";
import { moment, rupiah } from "../shared/format.js";
import { address } from "../shared/router.js";
import { service } from "../shared/service.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const TIERS = "/internal/pricing/tiers";
const PROMOTION = "/internal/pricing/promotions/first-session";
const MODES = ["chat", "call"];
const AMOUNTS = { price_idr: money, gimmick_price_idr: money, duration_minutes: integer }; // of the discount
const EVERY_MS = 10_000; // in which the page sees that a scheduled price has started

/** The price that a tier has before a time, if nothing else changes it. */
const priceBefore = ({ price_idr, scheduled }, at) =>
  scheduled.filter(({ starts_at }) => Date.parse(starts_at) < at).at(-1)?.price_idr ?? price_idr;

/** The beginning of tomorrow, as the value of an input. */
function tomorrow() {
  const day = new Date(service.now());
  day.setHours(24, 0, 0, 0);
  return localInput(day.toISOString());
}

/**
 * Send a change. If another operator was faster, show both versions and let this operator decide. `values` are the
 * changed fields; `write(token)` sends them. Returns the row afterwards, or false if the other version stays.
 */
async function settle(values, token, write) {
  try {
    return await write(token);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "STALE_WRITE" || !error.details.current) throw error;
    const same = Object.entries(values).every(
      ([name, value]) => JSON.stringify(error.details.current[name]) === JSON.stringify(value),
    );
    return same ? error.details.current : await decide(values, error.details.current, write);
  }
}

async function decide(values, current, write) {
  const names = Object.keys(values);
  const version = (title, from) =>
    h(
      "section",
      { class: "card" },
      h("h3", {}, title),
      facts(names.map((name) => [words(name), told(name, from[name])])),
    );
  const mine = await ask({
    title: t("Another operator has changed this"),
    content: [
      h("p", {}, t("Another operator saved a change while you were editing. Which version should be kept?")),
      h("div", { class: "versions" }, version(t("Current version"), current), version(t("Your version"), values)),
    ],
    submit: t("Overwrite with mine"),
    danger: true,
    send: () => settle(values, current.updated_at, write),
  });
  if (!mine) toast(t("The other version was kept."));
  return mine ?? false;
}

class PricingPage extends Page {
  everyMs = EVERY_MS;
  /** Subject -> the operator's next action on it. Actions run one at a time. */
  next = new Map();
  /** Mode -> the ids of its tiers in the operator's order, until that is saved or refused. */
  moved = new Map();

  get heading() {
    return t("Pricing");
  }

  get may() {
    return session.may("pricing", "write");
  }

  actions() {
    return this.may
      ? [h("button", { class: "primary", type: "button", onclick: () => this.#add() }, t("Add a tier…"))]
      : [];
  }

  async load(signal) {
    const [tiers, promotion] = await Promise.all([
      api.get(TIERS, {}, signal),
      api.get(PROMOTION, {}, signal).catch((error) => {
        if (error.code === "NOT_FOUND") return null;
        throw error;
      }),
    ]);
    return { tiers: tiers.items, promotion };
  }

  /** Polling reads the prices once a scheduled one must have started, unless the operator is changing something. */
  async refresh(options = {}) {
    const isDue = ({ scheduled }) => scheduled.some(({ starts_at }) => Date.parse(starts_at) <= service.now());
    const isBusy = () => this.working || document.querySelector("dialog[open]");
    if (options.polling && (!this.tiers?.some(isDue) || isBusy())) return;
    await super.refresh(options);
  }

  render({ tiers, promotion }) {
    this.tiers = tiers;
    this.promotion = promotion;
    const lists = MODES.map((which) =>
      this.#list(
        which,
        tiers.filter((tier) => tier.mode === which),
      ),
    );
    return [h("div", { class: "cards" }, lists), promotion && this.#promotion(promotion)];
  }

  /**
   * Save, show a message, and read the page again. Actions run one at a time; of several waiting actions on one subject
   * only the last one runs. So `work` must look up its subject when it runs. It returns a false value if it has nothing
   * to do.
   */
  async #done(work, words, about = "dialog") {
    if (this.working) {
      this.next.set(about, () => this.#done(work, words, about));
      return;
    }
    this.working = true;
    try {
      if (await work()) toast(words);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(explain(error));
    } finally {
      await this.refresh({ quietly: true }).finally(() => {
        this.working = false;
      });
    }
    if (!this.isConnected) this.next.delete("dialog"); // the dialog would open on another page
    const [wanted] = this.next;
    if (!wanted) return;
    this.next.delete(wanted[0]);
    await wanted[1]();
  }

  /** Return a tier as it was last read, if it is still active or, for `active` false, still deleted. */
  #row(id, active) {
    return this.tiers.find((tier) => tier.id === id && tier.is_active === active);
  }

  #list(which, tiers) {
    const list = h(
      "ul",
      { class: "tiers", "data-mode": which },
      this.#ordered(which).map((tier) => this.#tier(tier)),
    );
    if (this.may) sortable(list, (ids) => this.#order(which, ids));
    const gone = tiers.filter((tier) => !tier.is_active);
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t(which === "call" ? "Calls" : "Chats")),
      list.children.length ? list : h("p", { class: "empty" }, t("No price is on the list.")),
      gone.length > 0 &&
        h(
          "details",
          {},
          h("summary", {}, t("Removed from the list ({n})", { n: gone.length })),
          h(
            "ul",
            { class: "tiers" },
            gone.map((tier) => this.#gone(tier)),
          ),
        ),
    );
  }

  #named(tier) {
    return h("span", { class: "name" }, t("{n} min", { n: tier.minutes }), tier.tag && [" ", chip(tier.tag, "busy")]);
  }

  #history(tier) {
    return h(
      "a",
      { href: address(`/pricing/tiers/${tier.id}`), "aria-label": t("History of {name}", { name: called(tier) }) },
      t("History"),
    );
  }

  #tier(tier) {
    const name = called(tier);
    return h(
      "li",
      { class: "tier", "data-id": tier.id },
      this.may && grip(name),
      this.#named(tier),
      h("span", { class: "price" }, rupiah(tier.price_idr)),
      h(
        "span",
        { class: "row" },
        this.#history(tier),
        this.may &&
          h(
            "button",
            {
              type: "button",
              "aria-label": t("Schedule a price of {name}", { name }),
              onclick: () => this.#schedule(tier.id),
            },
            t("Schedule…"),
          ),
        this.may &&
          h(
            "button",
            { type: "button", "aria-label": t("Edit {name}", { name }), onclick: () => this.#edit(tier.id) },
            t("Edit…"),
          ),
        this.may &&
          h(
            "button",
            {
              type: "button",
              class: "danger",
              "aria-label": t("Remove {name} from the list", { name }),
              onclick: () => this.#remove(tier.id),
            },
            t("Remove from list…"),
          ),
      ),
      tier.scheduled.length > 0 &&
        h(
          "ul",
          { class: "scheduled" },
          tier.scheduled.map((one) => this.#scheduled(tier, one)),
        ),
    );
  }

  /** "from 29 Nov 2026, 00:00: Rp 27.000 → Rp 48.000 (+77.8%)", with the price that holds before. */
  #scheduled(tier, planned) {
    const before = priceBefore(tier, Date.parse(planned.starts_at));
    const price = difference(before, planned.price_idr, rupiah) || rupiah(planned.price_idr);
    const from = moment(planned.starts_at);
    return h(
      "li",
      {},
      h("span", {}, t("from {moment}: {price}", { moment: from, price })),
      this.may &&
        h(
          "button",
          {
            type: "button",
            "aria-label": t("Cancel the price of {name} from {moment}", { name: called(tier), moment: from }),
            onclick: () => this.#cancel(tier.id, planned.id),
          },
          t("Cancel"),
        ),
    );
  }

  #schedule(id) {
    const work = () => {
      const tier = this.#row(id, true);
      if (!tier) return null;
      const price = h("input", { name: "price_idr", required: true, inputmode: "numeric" });
      const from = h("input", { name: "starts_at", type: "datetime-local", required: true, value: tomorrow() });
      const before = () => priceBefore(tier, Date.parse(from.value));
      from.addEventListener("input", () => price.dispatchEvent(new Event("input", { bubbles: true })));
      return ask({
        title: t("Schedule a price of {name}", { name: called(tier) }),
        content: [
          field(t("From"), from, `${zoneWords()} ${t("Payment requests from before keep their price.")}`),
          withDifference(field(t("Price (Rp)"), price, t("whole rupiah")), before, money, rupiah),
        ],
        submit: t("Schedule"),
        send: async (data) => {
          const price_idr = money(data.get("price_idr"));
          const starts_at = new Date(data.get("starts_at")).toISOString();
          await sure([[before(), price_idr, rupiah]]);
          return api.post(`${TIERS}/${tier.id}/schedule`, { price_idr, starts_at, updated_at: tier.updated_at });
        },
      });
    };
    return this.#done(work, t("Price scheduled."));
  }

  #cancel(id, planned) {
    const work = () => api.delete(`${TIERS}/${id}/schedule/${planned}`);
    return this.#done(work, t("The scheduled price was cancelled."), `schedule ${planned}`);
  }

  #gone(tier) {
    const back = () =>
      this.#done(
        () => {
          const row = this.#row(tier.id, false);
          const write = (token) => api.post(`${TIERS}/${tier.id}/reactivate`, { updated_at: token });
          return row && settle({ is_active: true }, row.updated_at, write);
        },
        t("Restored to the list."),
        `back ${tier.id}`,
      );
    return h(
      "li",
      { class: "tier" },
      this.#named(tier),
      h("span", { class: "price" }, rupiah(tier.price_idr)),
      this.#history(tier),
      this.may &&
        h(
          "button",
          { type: "button", "aria-label": t("Restore {name}", { name: called(tier) }), onclick: back },
          t("Restore"),
        ),
    );
  }

  #active(which) {
    return this.tiers.filter((tier) => tier.mode === which && tier.is_active);
  }

  /** Return the active tiers of a mode as the operator has ordered them; those that were added in between come last. */
  #ordered(which) {
    const ids = this.moved.get(which) ?? [];
    const place = ({ id }) => (ids.includes(id) ? ids.indexOf(id) : ids.length);
    return this.#active(which).sort((one, other) => place(one) - place(other));
  }

  /** Save a new order. A list that is drawn before it is saved shows it, so that the next move starts from it. */
  #order(which, moved) {
    this.moved.set(which, moved);
    const work = async () => {
      const saved = this.moved.get(which);
      const ids = this.#ordered(which).map(({ id }) => id);
      const before = this.#active(which).map(({ id }) => id);
      const tokens = Object.fromEntries(this.tiers.map((tier) => [tier.id, tier.updated_at]));
      try {
        if (before.join() === ids.join()) return false;
        return await api.put(`${TIERS}/order`, {
          mode: which,
          items: ids.map((id) => ({ id, updated_at: tokens[id] })),
        });
      } finally {
        if (this.moved.get(which) === saved) this.moved.delete(which);
      }
    };
    return this.#done(work, t("Order saved."), `order ${which}`);
  }

  #add() {
    const work = () => {
      const choice = MODES.map((one, n) =>
        h(
          "label",
          { class: "tick" },
          h("input", { type: "radio", name: "mode", value: one, checked: n === 0 }),
          mode(one),
        ),
      );
      return ask({
        title: t("Add a tier"),
        content: [
          h("fieldset", {}, h("legend", {}, t("For")), choice),
          field(t("Minutes"), h("input", { name: "minutes", required: true, inputmode: "numeric" })),
          field(
            t("Price (Rp)"),
            h("input", { name: "price_idr", required: true, inputmode: "numeric" }),
            t("whole rupiah"),
          ),
          field(t("Label"), h("input", { name: "tag", maxlength: "50" }), t("shown to customers; may be empty")),
        ],
        submit: t("Add"),
        send: (data) =>
          api.post(TIERS, {
            mode: data.get("mode"),
            minutes: integer(data.get("minutes")),
            price_idr: money(data.get("price_idr")),
            tag: data.get("tag").trim() || null,
          }),
      });
    };
    return this.#done(work, t("Tier added to the list."));
  }

  #edit(id) {
    const work = () => {
      const tier = this.#row(id, true);
      if (!tier) return null;
      const price = h("input", { name: "price_idr", required: true, inputmode: "numeric", value: tier.price_idr });
      return ask({
        title: called(tier),
        content: [
          withDifference(field(t("Price (Rp)"), price, t("whole rupiah")), () => tier.price_idr, money, rupiah),
          field(
            t("Label"),
            h("input", { name: "tag", maxlength: "50", value: tier.tag ?? "" }),
            t("shown to customers; may be empty"),
          ),
        ],
        submit: t("Save"),
        send: async (data) => {
          const values = { price_idr: money(data.get("price_idr")), tag: data.get("tag").trim() || null };
          await sure([[tier.price_idr, values.price_idr, rupiah]]);
          return settle(values, tier.updated_at, (token) =>
            api.patch(`${TIERS}/${tier.id}`, { ...values, updated_at: token }),
          );
        },
      });
    };
    return this.#done(work, t("Saved."));
  }

  #remove(id) {
    const work = () => {
      const tier = this.#row(id, true);
      if (!tier) return null;
      const title = t("Remove {name} from the list?", { name: called(tier) });
      const said = t("Customers no longer see it. You can restore it.");
      const act = () =>
        settle({ is_active: false }, tier.updated_at, (token) =>
          api.delete(`${TIERS}/${tier.id}`, { updated_at: token }),
        );
      return confirm(title, said, t("Remove from list"), act);
    };
    return this.#done(work, t("Removed from the list."));
  }

  #promotion(promotion) {
    const names = ["enabled", "price_idr", "gimmick_price_idr", "duration_minutes", "modes"];
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("First-session discount")),
      facts(names.map((name) => [words(name), told(name, promotion[name])])),
      h(
        "div",
        { class: "row" },
        this.may && h("button", { type: "button", onclick: () => this.#change() }, t("Change the discount…")),
        h("a", { href: address("/pricing/promotion") }, t("History of the discount")),
      ),
    );
  }

  #change() {
    const work = () => {
      const { promotion } = this;
      const say = (name) => (value) => told(name, value);
      const amount = (name) => {
        const input = h("input", { name, required: true, inputmode: "numeric", value: promotion[name] });
        return withDifference(field(words(name), input), () => promotion[name], AMOUNTS[name], say(name));
      };
      const modes = MODES.map((one) =>
        tick(mode(one), { name: "modes", value: one, checked: promotion.modes.includes(one) }),
      );
      return ask({
        title: t("First-session discount"),
        content: [
          tick(words("enabled"), { name: "enabled", checked: promotion.enabled }),
          Object.keys(AMOUNTS).map(amount),
          h("fieldset", {}, h("legend", {}, t("For")), modes),
        ],
        submit: t("Save"),
        send: async (data) => {
          const amounts = Object.entries(AMOUNTS).map(([name, read]) => [name, read(data.get(name))]);
          const values = {
            enabled: data.has("enabled"),
            ...Object.fromEntries(amounts),
            modes: data.getAll("modes"),
          };
          await sure(amounts.map(([name, value]) => [promotion[name], value, say(name)]));
          return settle(values, promotion.updated_at, (token) =>
            api.patch(PROMOTION, { ...values, updated_at: token }),
          );
        },
      });
    };
    return this.#done(work, t("Saved."));
  }
}

customElements.define("pricing-page", PricingPage);
