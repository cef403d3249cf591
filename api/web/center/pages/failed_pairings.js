/** Failed pairings: the work list, and one of them with its timeline, the actions, and links to its neighbours. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { linked, nameOf, written } from "../parts/linked.js";
import { ListPage, localInput, pick, search } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { MINE, problems } from "../parts/problems.js";
import { askForRefund, askForRefunds, canRetry, isOpen, outlookChip, paidOf, refundFacts } from "../parts/refund.js";
import { followKeys, keyed, keyHelp, keySwitch } from "../parts/shortcuts.js";
import { action, cause, causeChip, chip, refund } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { timeline } from "../parts/timeline.js";
import { ask, confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field } from "../shared/form.js";
import { moment, rupiah } from "../shared/format.js";
import { address } from "../shared/router.js";
import { service } from "../shared/service.js";
import { age, time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/failed-pairings";
const WAITING = { operator_action: "none", snoozed: "false", texts: "false" }; // newest first
const MOST = 200; // rows in which the next failure is looked for
const FOLLOW_MS = 3_000; // while a refund is open
const EVERY_MS = 10_000; // in which the list sees that something has changed
const HOUR_MS = 3_600_000;

const isWaiting = (failure) => !failure.operator_action && !failure.superseded_at && !isOpen(failure);
const isMine = ({ assigned_to: worker }) => worker?.id === session.operator.id;
const isAside = ({ snoozed_until: until }) => until !== null && Date.parse(until) > service.now();
const stand = (failure) => {
  if (failure.operator_action) return action.chip(failure.operator_action);
  if (failure.superseded_at) return chip(t("retried"));
  if (isOpen(failure))
    return failure.refund.is_stuck ? chip(t("refund not decided"), "bad") : chip(t("refund under way"), "busy");
  return chip(failure.refund ? t("refund failed") : t("to act on"), failure.refund ? "bad" : "");
};
/** The amount paid; for a short payment on two lines: "Rp 12.000" and "of Rp 25.000". */
const sums = ({ amount, asked_amount: asked }) => {
  const lines = [rupiah(amount), asked && t("of {amount}", { amount: rupiah(asked) })];
  return asked ? h("span", { class: "sums" }, h("span", {}, lines[0]), " ", h("span", {}, lines[1])) : lines[0];
};
const chips = (content) => h("div", { class: "chips" }, content);
const isLate = (failure) => isWaiting(failure) && Date.parse(failure.due_at) <= service.now();
const due = (failure) => [time(failure.due_at), isLate(failure) && [" ", chip(t("late"), "bad")]];
const worker = (failure) =>
  failure.assigned_to || isAside(failure)
    ? h(
        "span",
        { class: "row" },
        failure.assigned_to && chip(isMine(failure) ? t("you") : nameOf(failure.assigned_to), "busy"),
        isAside(failure) && chip(t("put aside"), "warn"),
      )
    : null;

class FailedPairingsPage extends ListPage {
  path = PATH;
  everyMs = EVERY_MS;
  chosen = new Set(); // the ids of the failures to refund together

  get heading() {
    return t("Failed pairings");
  }

  filters() {
    return [
      search("q", t("Name or id"), t("or a phone or an amount")),
      pick("operator_action", t("Action"), [...action.options(), ["all", t("all")]], t("to act on")),
      pick("cause_tag", t("Cause"), cause.options()),
      pick("assigned_to", t("Taken by"), [
        [MINE, t("you")],
        ["none", t("no one")],
      ]),
      pick(
        "sort",
        t("Order"),
        [
          ["oldest", t("oldest first")],
          ["amount", t("largest amount first")],
        ],
        t("newest first"),
      ),
    ];
  }

  /** By default the list has the failures that wait: without an action, and not put aside; those of today first. */
  fixed() {
    const { operator_action: which, assigned_to: worker, snoozed, q } = Object.fromEntries(this.query);
    return {
      operator_action: which === "all" ? null : (which ?? "none"),
      snoozed: which || q ? snoozed : (snoozed ?? "false"),
      assigned_to: worker === MINE ? session.operator.id : worker,
    };
  }

  async load(signal) {
    const counts = await api.get("/internal/worklist", {}, signal);
    const seen = JSON.stringify(counts);
    if (this.isPolling && this.seen === seen) return this.found;
    const found = await super.load(signal);
    this.seen = seen;
    this.found = { ...found, counts };
    return this.found;
  }

  empty() {
    return t("No payment needs an action. Every customer got a chat or what they are owed.");
  }

  lead({ counts, items }) {
    return [problems(counts, { all: true }), this.#bulk(items)];
  }

  #refundable(items) {
    return session.may("failed_pairings", "write") ? items.filter((one) => one.may_refund) : [];
  }

  /** Choose several failures, and refund them at once. */
  #bulk(items) {
    const able = this.#refundable(items);
    this.chosen = new Set(able.map(({ id }) => id).filter((id) => this.chosen.has(id)));
    if (able.length < 2) return null;
    const chosen = able.filter(({ id }) => this.chosen.has(id));
    const sum = chosen.reduce((total, one) => total + one.amount, 0);
    const all = h("input", {
      type: "checkbox",
      id: "choose-all",
      checked: chosen.length === able.length,
      onchange: ({ target }) => this.#choose(able, target.checked),
    });
    return h(
      "div",
      { class: "row" },
      h(
        "div",
        { class: "tick" },
        all,
        h("label", { for: "choose-all" }, t("Choose all that can be refunded ({n})", { n: able.length })),
      ),
      chosen.length > 0 &&
        h(
          "button",
          { type: "button", class: "primary", onclick: () => this.#refund(chosen) },
          t("Refund {n}, {amount}…", { n: chosen.length, amount: rupiah(sum) }),
        ),
    );
  }

  #choose(failures, isChosen) {
    for (const { id } of failures) {
      if (isChosen) this.chosen.add(id);
      else this.chosen.delete(id);
    }
    this.show(this.found);
  }

  async #refund(chosen) {
    await askForRefunds(chosen);
    this.chosen.clear();
    await this.refresh({ quietly: true });
  }

  columns() {
    const box = (one) =>
      h("input", {
        type: "checkbox",
        "aria-label": t("Choose {name}, {amount}", { name: nameOf(one.customer), amount: rupiah(one.amount) }),
        checked: this.chosen.has(one.id),
        onchange: ({ target }) => this.#choose([one], target.checked),
      });
    return [
      this.#refundable(this.found.items).length > 1 && {
        label: t("Choose"),
        cell: (one) => (one.may_refund ? box(one) : ""),
      },
      {
        label: t("Failed"),
        cell: (one) => h("a", { href: address(`/failed-pairings/${one.id}`) }, age(one.created_at)),
      },
      {
        label: t("Customer"),
        cell: (one) => linked("customers", `/customers/${one.customer.id}`, nameOf(one.customer)),
      },
      { label: t("Amount"), cell: sums, number: true },
      { label: t("Cause"), cell: (one) => chips(causeChip(one)) },
      { label: t("Due"), cell: due },
      { label: t("Refundable"), cell: (one) => chips(outlookChip(one) ?? "–") },
      { label: t("Taken by"), cell: worker },
      { label: t("Action"), cell: (one) => chips(stand(one)) },
    ].filter(Boolean);
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
      h("h2", {}, nameOf(failure.customer), ", ", paidOf(failure)),
      facts([
        [t("Cause"), causeChip(failure)],
        [t("Failed"), h("span", {}, time(failure.created_at), " (", age(failure.created_at), ")")],
        !failure.operator_action && !failure.superseded_at && [t("Due"), h("span", {}, due(failure))],
        [t("Customer"), linked("customers", `/customers/${failure.customer.id}`, nameOf(failure.customer))],
        [t("Payment"), linked("payments", `/payments/${id}`, id, "id")],
        ...refundFacts(failure),
        [t("Action"), stand(failure)],
        isWaiting(failure) && failure.assigned_to && [t("Taken by"), worker(failure)],
        isWaiting(failure) && isAside(failure) && [t("Put aside until"), time(failure.snoozed_until)],
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
    return [this.#money(failure), this.#done(failure), this.#plan(failure)];
  }

  /** What moves the money, or earns it: the gateway's refund, and the acceptance of a short payment. */
  #money(failure) {
    const name = failure.customer.display_name ?? t("the customer");
    const isShort = failure.cause_tag === "payment_short" && session.may("payments", "write");
    if (!failure.may_refund && !isShort) return null;
    const words = canRetry(failure) ? t("Try the refund again…") : t("Refund through the gateway…");
    const gateway = failure.may_refund && button("G", words, () => this.#refund(failure, name));
    if (gateway) gateway.classList.add("primary");
    return h(
      "section",
      { class: "card" },
      canRetry(failure) &&
        h("p", {}, t("Your balance at the gateway was too low. Top it up there, and try the refund again.")),
      h(
        "div",
        { class: "row" },
        gateway,
        isShort && button("A", t("Accept {amount}…", { amount: rupiah(failure.amount) }), () => this.#accept(failure)),
      ),
    );
  }

  #done(failure) {
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
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("What was done for the customer?")),
      h(
        "div",
        { class: "row" },
        choices.map(([key, value, words, question]) =>
          button(key, words, () => this.#carryOut(failure, value, words, question)),
        ),
      ),
    );
  }

  /** Who works on it, and when. */
  #plan(failure) {
    const take = isMine(failure) ? t("Give it back") : failure.assigned_to ? t("Take it over…") : t("Take it");
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("Who works on it, and when?")),
      h(
        "div",
        { class: "row" },
        button("T", take, () => this.#take(failure)),
        button("S", t("Put aside…"), () => this.#snooze(failure)),
        isAside(failure) &&
          button("W", t("No longer aside"), () => this.#change(failure, { snoozed_until: null }, t("It waits again."))),
      ),
      h("div", { class: "row spread" }, keySwitch(), keyHelp(this)),
    );
  }

  async #refund(failure, name) {
    const asked = await askForRefund(failure, name);
    await this.refresh({ quietly: true });
    if (asked) toast(t("The gateway is asked for the refund."));
  }

  async #accept(failure) {
    const said = t("The search for a mitra starts at once, for all the minutes. The customer owes nothing more.");
    const done = await confirm(
      t("Accept {amount}?", { amount: paidOf(failure) }),
      `${said} ${t("Your name is recorded.")}`,
      t("Accept"),
      () => api.post(`/internal/payment-requests/${failure.payment_request_id}/confirm`),
    );
    await this.refresh({ quietly: true });
    if (done)
      toast(t(done.status === "failed_pairing" ? "The payment can't become a chat." : "The payment is accepted."));
  }

  async #take(failure) {
    if (isMine(failure)) {
      await this.#change(failure, { assigned_to: null }, t("You have given it back."));
      return;
    }
    const mine = { assigned_to: session.operator.id };
    if (!failure.assigned_to) {
      await this.#change(failure, mine, t("You have taken it."));
      return;
    }
    const name = nameOf(failure.assigned_to);
    const done = await confirm(
      t("{name} works on this. Take it over?", { name }),
      t("Ask them first: two people may otherwise answer the same customer."),
      t("Take it over"),
      async () => {
        await api.patch(`${PATH}/${failure.id}`, { assigned_to: null });
        return api.patch(`${PATH}/${failure.id}`, mine);
      },
      false,
    );
    await this.refresh({ quietly: true });
    if (done) toast(t("You have taken it."));
  }

  /** Change the plan. A refusal, such as that a colleague was faster, is said. */
  async #change(failure, change, said) {
    try {
      await api.patch(`${PATH}/${failure.id}`, change);
      toast(said);
    } catch (error) {
      if (!(error instanceof service.Failure)) throw error;
      toast(service.message(error));
    }
    await this.refresh({ quietly: true });
  }

  async #snooze(failure) {
    const tomorrow = new Date(service.now() + 24 * HOUR_MS);
    tomorrow.setHours(9, 0, 0, 0);
    const until = localInput(tomorrow.toISOString());
    const done = await ask({
      title: t("Put this aside?"),
      content: [
        h("p", {}, t("It comes back by itself. Its due time stays.")),
        field(t("Until"), h("input", { type: "datetime-local", name: "snoozed_until", required: true, value: until })),
        field(
          t("Note"),
          h("input", { name: "note", maxlength: 500, autocomplete: "off" }),
          t("what you wait for, for other operators"),
        ),
      ],
      submit: t("Put aside"),
      send: (data) =>
        api.patch(`${PATH}/${failure.id}`, {
          snoozed_until: new Date(data.get("snoozed_until")).toISOString(),
          note: data.get("note").trim() || null,
        }),
    });
    this.acted = Boolean(done);
    await this.refresh({ quietly: true });
    if (done) toast(t("Put aside until {time}.", { time: moment(done.snoozed_until) }));
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
   * The links to the failures after and before this one in the list, also if this one stays as it is; after the last one
   * it begins again. Those that other operators work on are left out. The next one gets the focus after an action.
   */
  #next(failure) {
    const box = h("section", { class: "card" }, h("p", { class: "loading" }, t("Loading…")));
    api.get(PATH, { ...WAITING, limit: MOST }, this.life.signal).then(
      ({ items }) => {
        const others = items.filter(
          (one) => one.id !== failure.id && !isOpen(one) && (!one.assigned_to || isMine(one)),
        );
        const next = others.find((one) => one.created_at < failure.created_at) ?? others[0];
        const previous = others.findLast((one) => one.created_at > failure.created_at) ?? others[others.length - 1];
        if (!next && isWaiting(failure)) {
          box.remove();
          return;
        }
        const link = (key, one, words) =>
          keyed(
            key,
            h(
              "a",
              { class: "button", href: address(`/failed-pairings/${one.id}`) },
              t(words, { name: nameOf(one.customer), amount: rupiah(one.amount) }),
            ),
          );
        const way = next
          ? link("J", next, "Next: {name}, {amount}")
          : h("p", { tabindex: "-1" }, t("That was the last one."));
        const back = others.length > 1 && link("K", previous, "Previous: {name}, {amount}");
        box.replaceChildren(h("div", { class: "row" }, way, back));
        if (this.acted) way.focus();
      },
      () => box.remove(),
    );
    return box;
  }
}

function button(key, words, onclick) {
  return keyed(key, h("button", { type: "button", onclick }, words));
}

customElements.define("failed-pairings-page", FailedPairingsPage);
customElements.define("failed-pairing-page", FailedPairingPage);
