/** Failed pairings: the list, and one of them with its timeline, the action, and a link to the next. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { linked, nameOf, written } from "../parts/linked.js";
import { ListPage, pick } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { askForRefund, isOpen, outlookChip, refundFacts } from "../parts/refund.js";
import { followKeys, keyed, keySwitch } from "../parts/shortcuts.js";
import { action, cause, chip, refund } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { timeline } from "../parts/timeline.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field } from "../shared/form.js";
import { rupiah } from "../shared/format.js";
import { address } from "../shared/router.js";
import { service } from "../shared/service.js";
import { age, time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/failed-pairings";
const WAITING = { operator_action: "none" }; // newest first, so that those of today come first
const MOST = 200; // rows in which the next failure is looked for
const FOLLOW_MS = 3_000; // while a refund is open
const stand = (failure) => {
  if (failure.operator_action) return action.chip(failure.operator_action);
  if (failure.superseded_at) return chip(t("retried"));
  if (isOpen(failure))
    return failure.refund.is_stuck ? chip(t("refund not decided"), "bad") : chip(t("refund under way"), "busy");
  return chip(failure.refund ? t("refund failed") : t("to act on"), "bad");
};
const isLate = (failure) =>
  !failure.operator_action && !failure.superseded_at && !isOpen(failure) && Date.parse(failure.due_at) <= service.now();
const due = (failure) => [time(failure.due_at), isLate(failure) && [" ", chip(t("late"), "bad")]];

class FailedPairingsPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Failed pairings");
  }

  filters() {
    return [
      pick("operator_action", t("Action"), [...action.options(), ["all", t("all")]], t("to act on")),
      pick("cause_tag", t("Cause"), cause.options()),
      pick("superseded", t("Retried"), [["true", t("only these")]], t("without these")),
      pick("order", t("Order"), [["oldest", t("oldest first")]], t("newest first")),
    ];
  }

  /** By default the list has the failures without an action, those of today first. */
  load(signal) {
    const query = Object.fromEntries(this.query);
    const which = query.operator_action;
    if (!which) return api.get(PATH, { ...query, ...WAITING }, signal);
    return api.get(PATH, { ...query, operator_action: which === "all" ? null : which }, signal);
  }

  empty() {
    return t("No payment needs an action. Every customer got a chat or what they are owed.");
  }

  columns() {
    return [
      {
        label: t("Customer"),
        cell: (one) => h("a", { href: address(`/failed-pairings/${one.id}`) }, nameOf(one.customer)),
      },
      { label: t("Amount"), cell: (one) => rupiah(one.amount), number: true },
      { label: t("Cause"), cell: (one) => cause.chip(one.cause_tag) },
      { label: t("Age"), cell: (one) => age(one.created_at) },
      { label: t("Due"), cell: due },
      { label: t("Refundable"), cell: outlookChip },
      { label: t("Action"), cell: stand },
    ];
  }
}

class FailedPairingPage extends Page {
  get heading() {
    return t("Failed pairing");
  }

  actions() {
    return [h("a", { class: "button", href: address("/failed-pairings") }, t("All failed pairings"))];
  }

  connectedCallback() {
    super.connectedCallback();
    followKeys(this, this.life.signal);
  }

  async load(signal) {
    const failure = await api.get(`${PATH}/${this.params.id}`, {}, signal);
    const story = session.may("payments")
      ? await api.get(`/internal/payment-requests/${failure.payment_request_id}/timeline`, {}, signal)
      : null;
    clearTimeout(this.following);
    if (isOpen(failure)) this.following = setTimeout(() => this.#follow(), FOLLOW_MS);
    return { failure, story };
  }

  #follow() {
    if (!this.life.signal.aborted) this.refresh({ quietly: true, polling: true });
  }

  render({ failure, story }) {
    return h(
      "div",
      { class: "work" },
      h("div", { class: "page-body" }, this.#facts(failure), this.#act(failure), this.#next(failure)),
      story && timeline(story),
    );
  }

  #facts(failure) {
    const id = failure.payment_request_id;
    return h(
      "section",
      { class: "card" },
      h("h2", {}, nameOf(failure.customer), ", ", rupiah(failure.amount)),
      facts([
        [t("Cause"), cause.chip(failure.cause_tag)],
        [t("Failed"), h("span", {}, time(failure.created_at), " (", age(failure.created_at), ")")],
        !failure.operator_action && !failure.superseded_at && [t("Due"), h("span", {}, due(failure))],
        [t("Customer"), linked("customers", `/customers/${failure.customer.id}`, nameOf(failure.customer))],
        [t("Payment"), linked("payments", `/payments/${id}`, id, "id")],
        ...refundFacts(failure),
        [t("Action"), stand(failure)],
        failure.note && [t("Note"), written(failure.note)],
        failure.actioned_at && [
          t("By"),
          h("span", {}, failure.actioned_by?.display_name ?? "–", ", ", time(failure.actioned_at)),
        ],
      ]),
    );
  }

  #act(failure) {
    if (failure.superseded_at)
      return h("p", { class: "notice" }, t("The customer used this payment for a new search. No action is needed."));
    if (failure.operator_action) return null;
    if (isOpen(failure))
      return h(
        "p",
        { class: "notice" },
        t("The refund is under way: {state}.", { state: refund.say(failure.refund.status) }),
        failure.refund.is_stuck && [
          " ",
          t(
            "The gateway has not decided about it. Look for it there by its reference {id}. Do not pay in another way: the customer could get the money twice.",
            { id: failure.id },
          ),
        ],
      );
    if (!session.may("failed_pairings", "write"))
      return h("p", { class: "notice" }, t("Your role can view this but not act on it."));
    const name = failure.customer.display_name ?? t("the customer");
    const amount = rupiah(failure.amount);
    const choices = [
      ["R", "refunded", t("Refunded"), t("Record that {amount} was refunded to {name}?", { amount, name })],
      ["C", "credited", t("Credited"), t("Record that {name} was credited {amount}?", { amount, name })],
      [
        "N",
        "no_action",
        t("No action needed"),
        t("Record that {name} is owed nothing for {amount}?", { amount, name }),
      ],
    ];
    const button = (key, words, onclick) => keyed(key, h("button", { type: "button", onclick }, words));
    const buttons = choices.map(([key, value, words, question]) =>
      button(key, words, () => this.#carryOut(failure, value, words, question)),
    );
    const gateway = button("G", t("Refund through the gateway…"), () => this.#refund(failure, name));
    gateway.classList.add("primary");
    return [
      failure.may_refund && h("section", { class: "card" }, h("div", { class: "row" }, gateway)),
      h(
        "section",
        { class: "card" },
        h("h2", {}, t("What was done for the customer?")),
        h("div", { class: "row" }, buttons),
        keySwitch(),
      ),
    ];
  }

  async #refund(failure, name) {
    const asked = await askForRefund(failure, name);
    await this.refresh({ quietly: true });
    if (asked) toast(t("The gateway is asked for the refund."));
  }

  async #carryOut(failure, value, words, question) {
    const done = await ask({
      title: question,
      content: [
        h("p", {}, t("This is recorded once, with your name, and can't be changed. Move the money first.")),
        field(t("Note"), h("input", { name: "note", maxlength: 500, autocomplete: "off" }), t("for other operators")),
      ],
      submit: words,
      send: (data) =>
        api.patch(`${PATH}/${failure.id}`, { operator_action: value, note: data.get("note").trim() || null }),
    });
    this.acted = Boolean(done);
    await this.refresh({ quietly: true });
    if (done) toast(t("Recorded: {what}.", { what: action.say(value) }));
  }

  /**
   * The link to the failure after this one in the list, also if this one stays as it is; after the last one it begins
   * again. It gets the focus after an action on this one.
   */
  #next(failure) {
    const box = h("section", { class: "card" }, h("p", { class: "loading" }, t("Loading…")));
    api.get(PATH, { ...WAITING, limit: MOST }, this.life.signal).then(
      ({ items }) => {
        const others = items.filter((one) => one.id !== failure.id && !isOpen(one));
        const next = others.find((one) => one.created_at < failure.created_at) ?? others[0];
        const done = failure.operator_action || failure.superseded_at || isOpen(failure);
        if (!next && !done) {
          box.remove();
          return;
        }
        const words =
          next &&
          t("Next: {name}, {amount}", {
            name: nameOf(next.customer),
            amount: rupiah(next.amount),
          });
        const way = next
          ? keyed("J", h("a", { class: "button", href: address(`/failed-pairings/${next.id}`) }, words))
          : h("p", { tabindex: "-1" }, t("That was the last one."));
        box.replaceChildren(way);
        if (this.acted) way.focus();
      },
      () => box.remove(),
    );
    return box;
  }
}

customElements.define("failed-pairings-page", FailedPairingsPage);
customElements.define("failed-pairing-page", FailedPairingPage);
