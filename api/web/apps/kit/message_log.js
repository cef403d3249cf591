/** The messages of a chat. Nodes are added and never rendered again, so that screen readers read only what is new. */

import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { actionButton } from "./buttons.js";
import { explain } from "./errors.js";
import { icon } from "./icons.js";
import { dayHeading, timeOfDay } from "./times.js";

const NEAR_END_PX = 80;

const STATES = () => ({
  sending: t("Sending"),
  sent: t("Sent"),
  delivered: t("Delivered"),
  read: t("Read"),
  refused: t("Not sent"),
});

/** Return the text of a message, or what is shown when the service has removed it. */
export const textOf = (message) => (message.blanked ? t("This message was removed.") : message.content);

/** One message: its node, and what of it is shown. */
class Bubble {
  constructor(message, party, acts) {
    this.state = null;
    this.text = h("p", { class: "bubble", dir: "auto" });
    this.meta = h("span", { class: "message-meta" });
    this.more = h("div", { class: "message-refused" });
    this.acts = acts;
    this.element = h(
      "li",
      { class: `message ${message.own ? "own" : "theirs"}` },
      h("span", { class: "hidden-label" }, `${message.own ? t("You") : party}: `),
      this.text,
      this.meta,
      this.more,
    );
    this.update(message);
  }

  update(message) {
    const text = textOf(message);
    if (this.text.textContent !== text) this.text.textContent = text;
    if (this.state === message.state && this.at === message.createdAt) return;
    this.state = message.state;
    this.at = message.createdAt;
    this.element.dataset.state = message.state;
    const label = STATES()[message.state];
    this.meta.replaceChildren(
      message.createdAt ? h("time", { datetime: message.createdAt }, timeOfDay(message.createdAt)) : "",
      message.own ? h("span", { class: "message-state", role: "img", "aria-label": label }, icon(message.state)) : "",
    );
    this.more.replaceChildren(...(message.state === "refused" ? this.#refused(message) : []));
  }

  #refused(message) {
    return [
      h("p", {}, message.error ? explain(message.error) : t("This message was not sent.")),
      actionButton(t("Send again"), () => this.acts.resend(message), { kind: "quiet" }),
      actionButton(t("Discard"), () => this.acts.discard(message), { kind: "quiet" }),
    ];
  }
}

export class MessageLog {
  #bubbles = new Map(); // key of a message -> Bubble
  #days = new Map(); // day -> its heading
  #list = h("ol", { class: "messages" });
  #party = "";
  #newest = null;
  #started = false;
  #pinned = true; // whether the reader was at the end at the last scroll

  /** `acts` has `earlier()`, which loads earlier messages, `resend(message)`, `discard(message)` and `seen()`. */
  constructor(acts) {
    this.acts = acts;
    this.earlier = actionButton(t("Earlier messages"), () => this.#loadEarlier(), { kind: "quiet", hidden: true });
    this.toEnd = h(
      "button",
      { type: "button", class: "to-end", hidden: true, onclick: () => this.scrollToEnd() },
      icon("down"),
      h("span", {}, t("New messages")),
    );
    this.typing = h("p", { class: "typing", hidden: true });
    this.hint = h("p", { class: "log-hint" }, t("You can write now."));
    this.scroller = h(
      "div",
      { class: "log", role: "log", "aria-label": t("Messages"), "aria-relevant": "additions", tabindex: "0" },
      h("div", { class: "earlier" }, this.earlier),
      this.hint,
      this.#list,
      this.typing,
    );
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    // A notice or the keyboard takes room: readers at the end stay there.
    new ResizeObserver(() => this.#pinned && this.scrollToEnd()).observe(this.scroller);
    this.element = h("div", { class: "log-frame" }, this.scroller, this.toEnd);
  }

  get atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  scrollToEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#scrolled();
  }

  /** Show a chat's messages. `party` is the other party's name. */
  update(chat, party) {
    this.#party = party;
    const stay = !this.atEnd && this.#started;
    const keys = new Set();
    let next = this.#list.firstChild;
    let day = null;
    for (const message of chat.messages) {
      const heading = message.createdAt && dayHeading(message.createdAt);
      if (heading && heading !== day) {
        day = heading;
        next = this.#put(this.#heading(day), next);
        keys.add(day);
      }
      const key = message.clientMessageId;
      keys.add(key);
      next = this.#put(this.#bubble(key, message), next);
    }
    this.#removeOthers(keys);
    this.earlier.hidden = !chat.hasEarlier;
    this.hint.hidden = chat.messages.length > 0 || chat.session.status !== "active";
    this.#followEnd(chat.messages.at(-1), stay);
  }

  showTyping(text) {
    if (this.typing.hidden === (text === null) && this.typing.textContent === (text ?? "")) return;
    const follow = this.atEnd;
    this.typing.hidden = text === null;
    this.typing.textContent = text ?? "";
    if (follow) this.scrollToEnd();
  }

  #bubble(key, message) {
    const known = this.#bubbles.get(key);
    if (known) {
      known.update(message);
      return known.element;
    }
    const made = new Bubble(message, this.#party, this.acts);
    this.#bubbles.set(key, made);
    return made.element;
  }

  #heading(day) {
    if (!this.#days.has(day)) this.#days.set(day, h("li", { class: "day" }, h("span", {}, day)));
    return this.#days.get(day);
  }

  /** Put a node before `next`, unless it is there already. Return the node that follows it. */
  #put(node, next) {
    if (node === next) return node.nextSibling;
    this.#list.insertBefore(node, next);
    return next;
  }

  #removeOthers(keys) {
    for (const [key, { element }] of this.#bubbles) {
      if (keys.has(key)) continue;
      element.remove();
      this.#bubbles.delete(key);
    }
    for (const [day, node] of this.#days) {
      if (keys.has(day)) continue;
      node.remove();
      this.#days.delete(day);
    }
  }

  /** Scroll to a new last message, but only for readers who are at the end or wrote it themselves. */
  #followEnd(last, stay) {
    const key = last?.clientMessageId;
    const isNew = key !== this.#newest;
    this.#newest = key;
    if (!this.#started) {
      this.#started = Boolean(last);
      requestAnimationFrame(() => this.scrollToEnd());
    } else if (isNew && last) {
      if (stay && !last.own) this.toEnd.hidden = false;
      else this.scrollToEnd();
    } else if (!stay) this.scrollToEnd();
  }

  #scrolled() {
    this.#pinned = this.atEnd;
    if (!this.#pinned) return;
    this.toEnd.hidden = true;
    this.acts.seen();
  }

  async #loadEarlier() {
    this.scroller.ariaBusy = "true";
    const { scrollHeight, scrollTop } = this.scroller;
    try {
      await this.acts.earlier();
    } finally {
      this.scroller.ariaBusy = "false";
      requestAnimationFrame(() => {
        this.scroller.scrollTop = scrollTop + this.scroller.scrollHeight - scrollHeight;
      });
    }
  }
}
