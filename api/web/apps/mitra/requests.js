/** Chat requests, each with the time that is left, until it was answered or closed. */

import { SesiError } from "/client/index.js";
import { actionButton } from "/try/kit/buttons.js";
import { countdown } from "/try/kit/countdown.js";
import { explain } from "/try/kit/errors.js";
import { icon } from "/try/kit/icons.js";
import { avatar } from "/try/kit/links.js";
import { announce } from "/try/kit/status_line.js";
import { topicName } from "/try/kit/topics.js";
import { h } from "/try/shared/dom.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";

const CLOSED_SHOWN_MS = 6_000;
const BAR_MS = 500;
const CLOSING = ["REQUEST_TAKEN", "REQUEST_CLOSED", "NOT_FOUND"]; // the client then closes the request

const CLOSED = () => ({
  taken: t("Another mitra was faster."),
  cancelled: t("The customer has left."),
  timeout: t("The time to answer is over."),
  accepted: t("You accepted it on another device."),
});

const badge = (className, ...content) => h("span", { class: `badge ${className}` }, content);

const badges = (request) =>
  h(
    "span",
    { class: "badges" },
    request.kind === "targeted" ? badge("accent", icon("heart"), t("Asks for you")) : null,
    request.mode === "call" ? badge("call", icon("phone"), t("Call")) : null,
    request.topic_sensitivity === "sensitive" ? badge("sensitive", t("Sensitive")) : null,
  );

/** The card of one request. */
class RequestCard {
  constructor({ client, scope }, request) {
    this.client = client;
    this.outer = scope;
    this.id = request.session_id;
    this.answeredHere = false;
    this.name = request.customer_display_name ?? t("No name");
    this.note = h("p", { class: "request-note", role: "alert" });
    this.buttons = h(
      "div",
      { class: "request-buttons" },
      actionButton(t("Reject"), () => this.#reject(), { name: `${t("Reject")}: ${this.name}` }),
      actionButton(t("Accept"), () => this.#accept(), { kind: "primary", name: `${t("Accept")}: ${this.name}` }),
    );
    this.content = h("div", { class: "request-content" });
    this.element = h("li", { class: "card request" }, this.content, this.note, this.buttons);
    this.update(request);
  }

  /** Show a request, also one that was asked again. */
  update(request) {
    if (request === this.request) return;
    this.request = request;
    this.end();
    this.scope = this.outer.child();
    const total = Date.parse(request.answer_by) - Date.parse(request.notified_at);
    const bar = h("progress", { max: total, "aria-hidden": "true" });
    const left = countdown(this.scope, () => this.request.answer_by, { label: t("Time left to answer") });
    this.scope.every(BAR_MS, () => {
      bar.value = this.client.secondsUntil(request.answer_by) * 1000;
    });
    const topics = (request.topics ?? []).map((topic) => h("li", { class: "badge" }, topicName(topic)));
    this.content.replaceChildren(
      h(
        "div",
        { class: "request-head" },
        avatar(this.name),
        h(
          "div",
          { class: "row-main" },
          h("strong", {}, this.name),
          h("small", {}, t("{n} minutes", { n: request.duration_minutes })),
        ),
        left,
      ),
      badges(request),
      topics.length ? h("ul", { class: "request-topics", "aria-label": t("Topics") }, topics) : "",
      bar,
    );
  }

  /** Stop the countdown. */
  end() {
    this.scope?.end();
  }

  /** Show why it can no longer be answered. */
  close(reason) {
    this.element.classList.add("closed");
    this.note.textContent = CLOSED()[reason] ?? CLOSED().timeout;
    this.buttons.remove();
    this.end();
  }

  async #accept() {
    this.note.replaceChildren();
    this.answeredHere = true;
    try {
      const session = await this.client.accept(this.id);
      go(`/chat/${session.id}`);
    } catch (error) {
      this.answeredHere = false;
      if (!(error instanceof SesiError)) throw error;
      if (!CLOSING.includes(error.code)) this.#refused(error);
    }
  }

  async #reject() {
    this.answeredHere = true;
    try {
      await this.client.reject(this.id);
    } catch (error) {
      this.answeredHere = false;
      throw error;
    }
  }

  /** Show an error after which the request can still be accepted. */
  #refused(error) {
    if (error.code === "MITRA_OFFLINE") {
      const online = actionButton(
        t("Go online and accept"),
        async () => {
          await this.client.goOnline();
          await this.#accept();
        },
        { kind: "quiet" },
      );
      this.note.replaceChildren(t("You are offline."), online);
    } else if (error.code === "MITRA_AT_CAPACITY") {
      this.note.textContent = t("All your places are taken. Accept when a chat has ended.");
    } else this.note.textContent = explain(error);
  }
}

/** Make the list of requests. A closed one stays for some seconds with the reason, so that nothing moves under a finger. */
export function requestCards(context) {
  const { scope } = context;
  const list = h("ul", { class: "requests" });
  const heading = h("h2", { tabindex: "-1" }, t("Chat requests"));
  const empty = h("p", { class: "empty" });
  const cards = new Map(); // session id -> RequestCard

  function remove(card) {
    const focused = card.element.contains(document.activeElement);
    card.end();
    card.element.remove();
    if (cards.get(card.id) === card) cards.delete(card.id);
    if (focused) heading.focus();
  }

  function close(card, reason) {
    if (card.closed) return;
    card.closed = true;
    if (card.answeredHere || reason === null || reason === "rejected") {
      remove(card);
      return;
    }
    card.close(reason);
    const timer = setTimeout(() => {
      remove(card);
      empty.hidden = cards.size > 0;
    }, CLOSED_SHOWN_MS);
    scope.add(() => clearTimeout(timer));
  }

  function show(state) {
    const open = new Set();
    for (const request of state.requests) {
      const { session_id: id } = request;
      open.add(id);
      const known = cards.get(id);
      if (known && !known.closed) known.update(request);
      else {
        if (known) remove(known);
        const card = new RequestCard(context, request);
        cards.set(id, card);
        list.append(card.element);
        announce(t("Chat request of {name}", { name: card.name }));
      }
    }
    for (const card of [...cards.values()]) {
      if (open.has(card.id)) continue;
      close(card, state.closedRequests.find((one) => one.session_id === card.id)?.reason ?? null);
    }
    empty.textContent = state.status?.is_online
      ? t("Nobody is waiting now. A new request appears here.")
      : t("Go online to get chat requests.");
    empty.hidden = cards.size > 0;
  }

  scope.watch(show);
  return h("section", { class: "stack", "aria-label": t("Chat requests") }, heading, list, empty);
}
