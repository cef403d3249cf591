/**
 * A page: an element that reads something and shows it. It says when it is loading, what went wrong and how to try again,
 * and stops asking when it is left.
 */

import { ApiError } from "../kernel/api.js";
import { h } from "../kernel/dom.js";
import { t } from "../kernel/words.js";
import { explain } from "./form.js";

/** A notice of an error, with a way to try again. */
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
  /** Milliseconds after which it looks again by itself; none for never. */
  everyMs = null;

  /** The heading, in the operator's language. */
  get heading() {
    return "";
  }

  /** Read what the page shows; gets the signal that ends when the page is left. */
  async load(_signal) {
    return null;
  }

  /** Return what the page shows below its heading. */
  render(_data) {
    return [];
  }

  /** Buttons beside the heading. */
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

  /** Read again and show it; `quietly`: what is shown stays until the answer is there. */
  async refresh({ quietly = false, polling = false } = {}) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
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

  /** What is pressed stays until it is let go and its click has been: one on what has been replaced would be lost. */
  #hold() {
    this.released = new Promise((release) => {
      const once = { once: true, signal: this.life.signal };
      for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, () => setTimeout(release), once);
    });
  }

  /** What is shown when reading has failed. */
  failed(error) {
    return [trouble(error, () => this.refresh())];
  }

  /** Put what was read on the page. */
  show(data) {
    this.headline.textContent = this.heading;
    document.title = `${this.heading} · Sesi`;
    const held = this.body.contains(document.activeElement) ? document.activeElement : null;
    this.body.replaceChildren(...[this.render(data)].flat(Infinity).filter(Boolean));
    if (held) this.twin(held).focus();
  }

  /** What has taken the place of an element that had the focus; the heading if nothing has. */
  twin(held) {
    const NAMES = ["aria-label", "href", "name"];
    const name = (element) => NAMES.map((one) => element.getAttribute(one)).find(Boolean) ?? element.textContent;
    return [...this.body.querySelectorAll(held.tagName)].find((one) => name(one) === name(held)) ?? this.headline;
  }
}
