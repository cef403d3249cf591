/** Failed pairings: the list, and one of them with its timeline, the action, and a link to the next. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { linked, nameOf } from "../parts/linked.js";
import { ListPage, pick } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { action, cause, chip } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { timeline } from "../parts/timeline.js";
import { confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { rupiah } from "../shared/format.js";
import { address } from "../shared/router.js";
import { age, time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/failed-pairings";
const WAITING = { operator_action: "none", order: "oldest" };
const stand = (failure) =>
  failure.operator_action
    ? action.chip(failure.operator_action)
    : failure.superseded_at
      ? chip(t("retried"))
      : chip(t("to act on"), "bad");

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
    ];
  }

  /** By default the list has the failures without an action, the oldest first. */
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

  async load(signal) {
    const failure = await api.get(`${PATH}/${this.params.id}`, {}, signal);
    const story = session.may("payments")
      ? await api.get(`/internal/payment-requests/${failure.payment_request_id}/timeline`, {}, signal)
      : null;
    return { failure, story };
  }

  render({ failure, story }) {
    return h(
      "div",
      { class: "work" },
      h("div", { class: "page-body" }, this.#facts(failure), this.#act(failure)),
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
        [t("Customer"), linked("customers", `/customers/${failure.customer.id}`, nameOf(failure.customer))],
        [t("Payment"), linked("payments", `/payments/${id}`, id, "id")],
        [t("Action"), stand(failure)],
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
    if (failure.operator_action) return this.#next();
    if (!session.may("failed_pairings", "write"))
      return h("p", { class: "notice" }, t("Your role can view this but not act on it."));
    const name = failure.customer.display_name ?? t("the customer");
    const amount = rupiah(failure.amount);
    const choices = [
      ["refunded", t("Refunded"), t("Record that {amount} was refunded to {name}?", { amount, name })],
      ["credited", t("Credited"), t("Record that {name} was credited {amount}?", { amount, name })],
      ["no_action", t("No action needed"), t("Record that {name} is owed nothing for {amount}?", { amount, name })],
    ];
    const buttons = choices.map(([value, words, question]) =>
      h("button", { type: "button", onclick: () => this.#carryOut(failure, value, words, question) }, words),
    );
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("What was done for the customer?")),
      h("div", { class: "row" }, buttons),
    );
  }

  async #carryOut(failure, value, words, question) {
    const said = t("This is recorded once, with your name, and can't be changed. Move the money first.");
    const done = await confirm(
      question,
      said,
      words,
      () => api.patch(`${PATH}/${failure.id}`, { operator_action: value }),
      false,
    );
    this.acted = Boolean(done);
    await this.refresh({ quietly: true });
    if (done) toast(t("Recorded: {what}.", { what: action.say(value) }));
  }

  /** The link to the next open failure. It gets the focus after an action on this one. */
  #next() {
    const box = h("section", { class: "card" }, h("p", { class: "loading" }, t("Loading…")));
    api.get(PATH, { ...WAITING, limit: 1 }, this.life.signal).then(
      ({ items: [next] }) => {
        const words =
          next &&
          t("Next: {name}, {amount}", {
            name: nameOf(next.customer),
            amount: rupiah(next.amount),
          });
        const way = next
          ? h("a", { class: "button", href: address(`/failed-pairings/${next.id}`) }, words)
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
