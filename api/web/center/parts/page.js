/**
 * A page: an element that reads data and shows it. It shows while it is loading, shows errors with a way to retry, and
 * stops its requests when the operator leaves it.
 */

import { ApiError } from "../kernel/api.js";
import { h } from "../shared/dom.js";
import { explain } from "../shared/form.js";
import { t } from "../shared/words.js";

/** A notice of an error, with a button to retry. */
export function trouble(error, again) {
  const lines = {
    OFFLINE: t("The service can't be reached. Is this device online, and is the service running?"),
    FORBIDDEN: t("Your role doesn't allow you to see this."),
    NOT_FOUND: t("Page not found."),
  };
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("p", {}, lines[error.code] ?? explain(error)),
    again && h("button", { type: "button", onclick: again }, t("Try again")),
  );
}

export class Page extends HTMLElement {
  params = {};
  query = new URLSearchParams();
  /** Milliseconds after which the page reads its data again; unset for never. */
  everyMs = null;

  /** The heading, in the operator's language. */
  get heading() {
    return "";
  }

  /** Read the page's data. The signal aborts when the operator leaves the page. */
  async load(_signal) {
    return null;
  }

  /** Return the content below the heading. */
  render(_data) {
    return [];
  }

  /** Return the buttons next to the heading. */
  actions() {
    return [];
  }

  connectedCallback() {
    this.life = new AbortController();
    document.title = `${this.heading} · Sesi`;
    this.headline = h("h1", { tabindex: "-1" }, this.heading);
    this.body = h("div", { class: "page-body" });
    this.note = h("div", { role: "status" });
    this.replaceChildren(
      h("div", { class: "row spread" }, this.headline, h("div", { class: "row" }, this.actions())),
      this.note,
      this.body,
    );
    this.body.addEventListener("pointerdown", () => this.#hold());
    this.refresh();
    if (this.everyMs)
      this.timer = setInterval(
        () => document.hidden || this.reading || this.refresh({ quietly: true, polling: true }),
        this.everyMs,
      );
  }

  disconnectedCallback() {
    this.life.abort();
    clearInterval(this.timer);
  }

  /** Read the data again and show it. `quietly`: keep the present content until the answer is there. */
  async refresh({ quietly = false, polling = false } = {}) {
    const turn = (this.turn ?? 0) + 1;
    this.turn = turn;
    this.reading = true;
    if (!quietly) {
      this.body.setAttribute("aria-busy", "true");
      if (!this.body.hasChildNodes()) this.body.replaceChildren(h("p", { class: "loading" }, t("Loading…")));
    }
    try {
      const data = await this.load(this.life.signal).finally(() => polling && this.released);
      if (this.life.signal.aborted || turn !== this.turn) return;
      this.note.replaceChildren();
      this.show(data);
    } catch (error) {
      if (this.life.signal.aborted || turn !== this.turn) return;
      if (!(error instanceof ApiError)) {
        this.body.replaceChildren(h("div", { class: "notice bad", role: "alert" }, t("This page has failed.")));
        throw error;
      }
      if (error.status === 401) return;
      if (!polling || this.body.querySelector(":scope > .notice")) this.body.replaceChildren(...this.failed(error));
      else if (!this.note.hasChildNodes())
        this.note.replaceChildren(
          h("p", { class: "notice warn" }, t("Showing older data; the latest could not be loaded.")),
        );
    } finally {
      if (turn === this.turn) {
        this.reading = false;
        this.body.removeAttribute("aria-busy");
      }
    }
  }

  /**
   * Delay updates while a pointer is pressed and until its click is handled: a click on a replaced element would be
   * lost.
   */
  #hold() {
    this.released = new Promise((release) => {
      const once = { once: true, signal: this.life.signal };
      for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, () => setTimeout(release), once);
    });
  }

  /** Return the content after a failed read. */
  failed(error) {
    return [trouble(error, () => this.refresh())];
  }

  /** Show the data on the page. What the operator has opened or closed, and the focus, stay. */
  show(data) {
    this.headline.textContent = this.heading;
    document.title = `${this.heading} · Sesi`;
    const held = this.body.contains(document.activeElement) ? document.activeElement : null;
    const summaries = () => [...this.body.querySelectorAll("details > summary")];
    const opened = new Map(summaries().map((one) => [one.textContent, one.parentElement.open]));
    this.body.replaceChildren(...[this.render(data)].flat(Infinity).filter(Boolean));
    for (const one of summaries()) one.parentElement.open = opened.get(one.textContent) ?? one.parentElement.open;
    if (held) this.twin(held).focus();
  }

  /** Return the element that replaces one that had the focus; the heading without such an element. */
  twin(held) {
    const NAMES = ["aria-label", "href", "name"];
    const name = (element) => NAMES.map((one) => element.getAttribute(one)).find(Boolean) ?? element.textContent;
    return [...this.body.querySelectorAll(held.tagName)].find((one) => name(one) === name(held)) ?? this.headline;
  }
}
