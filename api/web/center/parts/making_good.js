/**
 * `<making-good>`: gives earned money of a payment back, in whole or in part, and shows the refunds of it until they are
 * decided.
 */

import { ApiError, api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field, money, select } from "../shared/form.js";
import { rupiah } from "../shared/format.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";
import { written } from "./linked.js";
import { trouble } from "./page.js";
import { chip, refund } from "./status.js";
import { facts } from "./table.js";

const FOLLOW_MS = 3_000; // while a refund is open
const OPEN = ["requested", "pending"];

/** A random idempotency key. `crypto.randomUUID` needs HTTPS. */
const freshKey = () => crypto.getRandomValues(new BigUint64Array(2)).join("-");

/** A refusal that says how much is left, at the field of the amount. */
function withRest(error) {
  if (error.code !== "REFUND_EXCEEDS_PAID") return error;
  const message = t("At most {amount} can still go back.", { amount: rupiah(error.details.refundable) });
  return new ApiError(error.status, { ...error, message, details: { fields: [{ field: "amount", message }] } });
}

function fields(left) {
  const reference = h("input", { name: "reference", maxlength: "255", autocomplete: "off" });
  const byHand = field(t("Reference"), reference, t("of the transfer, for example its number"));
  byHand.hidden = true;
  const choose = ({ target }) => {
    byHand.hidden = target.value !== "hand";
    reference.required = !byHand.hidden;
  };
  const ways = [
    ["gateway", t("through the gateway")],
    ["hand", t("by hand: I have moved the money")],
  ];
  return [
    h("p", {}, t("The chat goes on, if it still runs. The customer sees the refund among their payments.")),
    field(
      t("Amount (Rp)"),
      h("input", { name: "amount", inputmode: "numeric", required: true, value: String(left), autocomplete: "off" }),
      t("at most {amount}", { amount: rupiah(left) }),
    ),
    field(
      t("Reason"),
      h("input", { name: "reason", maxlength: "500", required: true, autocomplete: "off" }),
      t("for other operators"),
    ),
    field(t("Way"), select({ name: "way", onchange: choose }, ways)),
    byHand,
  ];
}

class MakingGood extends HTMLElement {
  payment = null;
  again = null; // called when a refund was asked for or is decided
  isOpen = false; // whether a refund is not decided yet
  attempt = null; // the wish without an answer, with its idempotency key

  /** Read the refunds, once: a page that is shown again keeps the element. */
  connectedCallback() {
    this.life = new AbortController();
    if (!this.hasChildNodes()) this.#read();
    else if (this.isOpen) this.#wait();
  }

  disconnectedCallback() {
    this.life.abort();
    clearTimeout(this.following);
  }

  get #path() {
    return `/internal/payment-requests/${this.payment.payment_request_id}`;
  }

  /** Read the refunds, if there are any: each reading of their reasons leaves a row in the audit log. */
  async #read() {
    const { signal } = this.life;
    try {
      const found = this.payment.refund ? await api.get(`${this.#path}/refunds`, {}, signal) : { items: [] };
      if (!signal.aborted) this.#show(found.items);
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      if (!(error instanceof ApiError)) throw error;
      this.replaceChildren(trouble(error, () => this.#read()));
    }
  }

  /** Look whether an open refund is decided. */
  async #follow() {
    const { signal } = this.life;
    const before = JSON.stringify(this.payment);
    try {
      this.payment = await api.get(this.#path, {}, signal);
    } catch (error) {
      if (!signal.aborted && !(error instanceof ApiError)) throw error;
    }
    if (signal.aborted) return;
    if (JSON.stringify(this.payment) === before) {
      this.#wait();
      return;
    }
    await this.#read();
    this.again();
  }

  #wait() {
    clearTimeout(this.following);
    this.following = setTimeout(() => this.#follow(), FOLLOW_MS);
  }

  #show(refunds) {
    const left = this.payment.refundable_amount;
    this.isOpen = refunds.some(({ status }) => OPEN.includes(status));
    clearTimeout(this.following);
    if (this.isOpen) this.#wait();
    this.replaceChildren(
      h(
        "section",
        { class: "card" },
        h("h2", {}, t("Making good")),
        h(
          "p",
          {},
          t("{left} of {amount} can still go back.", { left: rupiah(left), amount: rupiah(this.payment.amount) }),
        ),
        refunds.map((one) => this.#refund(one)),
        left > 0 &&
          session.may("payments", "write") &&
          h(
            "div",
            { class: "row" },
            h("button", { type: "button", onclick: () => this.#give(left) }, t("Give money back…")),
          ),
      ),
    );
  }

  #refund(one) {
    const isPoor = one.failure_code === "INSUFFICIENT_BALANCE";
    return facts([
      [
        t("Refund"),
        h(
          "span",
          {},
          rupiah(one.amount),
          " ",
          one.is_stuck ? chip(t("refund not decided"), "bad") : refund.chip(one.status),
        ),
      ],
      [t("By"), h("span", {}, one.requested_by.display_name ?? "–", ", ", time(one.settled_at ?? one.requested_at))],
      [t("Way"), one.by_hand ? t("by hand") : t("through the gateway")],
      [t("Reference"), h("span", { class: "id" }, one.reference)],
      one.reason && [t("Reason"), written(one.reason)],
      one.failure_code && [t("The gateway's reason"), h("code", {}, one.failure_code)],
      isPoor && [t("What to do about it"), t("Top up your balance at the gateway, and give it back again.")],
    ]);
  }

  /** Ask for a refund. A repeat of a wish whose answer was lost has its key, so that the money goes back once. */
  async #send(body) {
    const wish = JSON.stringify(body);
    if (this.attempt?.wish !== wish) this.attempt = { wish, key: freshKey() };
    try {
      const done = await api.once(`${this.#path}/refund`, body, this.attempt.key);
      this.attempt = null;
      return done;
    } catch (error) {
      throw withRest(error);
    }
  }

  async #give(left) {
    const done = await ask({
      title: t("Give back money of {name}?", { name: this.payment.customer.display_name ?? t("the customer") }),
      content: fields(left),
      submit: t("Give back"),
      danger: true,
      send: async (data) => {
        const isByHand = data.get("way") === "hand";
        const body = {
          amount: money(data.get("amount")),
          reason: data.get("reason").trim(),
          ...(isByHand && { by_hand: true, reference: data.get("reference").trim() }),
        };
        return this.#send(body);
      },
    });
    if (done || this.attempt) this.again(); // the page may have replaced this element while the dialog was open
    if (!done) return;
    toast(done.by_hand ? t("The refund is recorded.") : t("The gateway is asked for the refund."));
  }
}

customElements.define("making-good", MakingGood);

/** The part about a payment's earned money; nothing if it was not earned. `again` reads the page again. */
export function makingGood(payment, again) {
  if (payment.status !== "consumed") return null;
  const made = document.createElement("making-good");
  return Object.assign(made, { payment, again });
}
