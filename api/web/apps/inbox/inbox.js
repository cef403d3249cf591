/** `<sesi-inbox>`: the newest items of `/dev/inbox.json`, read each second while the page is visible. */

import { INDONESIAN } from "/try/inbox/words.id.js";
import { h } from "/try/shared/dom.js";
import { field, select } from "/try/shared/form.js";
import { exactly } from "/try/shared/format.js";
import { preferences } from "/try/shared/preferences.js";
import { addWords, t } from "/try/shared/words.js";

const AGAIN_MS = 1_000;
// kind -> [the filter's English label, the item's, the colour of its chip]
const KINDS = {
  code: ["Codes", "Code", "good"],
  push: ["Pushes", "Push", "busy"],
  invoice: ["Invoices", "Invoice", "warn"],
  webhook: ["Webhook calls", "Webhook call", ""],
};
const THEMES = ["system default", "light", "dark"];

/** Return a time of day with its seconds; the exact time is its title. */
function time(at) {
  const locale = preferences.language === "id" ? "id-ID" : "en-GB";
  const text = new Intl.DateTimeFormat(locale, { timeStyle: "medium" }).format(new Date(at));
  return h("time", { datetime: at, title: exactly(at) }, text);
}

/** Return the address of a development payment page on this origin, or an invoice's own address. */
function payment(url) {
  const { pathname, href } = new URL(url);
  return pathname.startsWith("/dev/pay/") ? pathname : href;
}

/** A link that opens an app as a tap on the push does. The push does not say whose phone it was sent to. */
const opening = ({ event_id }, role, words) =>
  h("a", { href: `/try/${role}/?push=${event_id}`, target: "_blank", rel: "noopener" }, words);

class Inbox extends HTMLElement {
  #kind = null; // the kind that is shown; null: all
  #items = [];
  #shown = new Map(); // id of an item -> its element

  connectedCallback() {
    addWords(INDONESIAN);
    preferences.apply();
    this.#frame();
    this.#read();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
  }

  async #read() {
    if (!document.hidden) {
      try {
        const answer = await fetch("/dev/inbox.json", { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        this.#items = (await answer.json()).items;
        this.#say("");
        this.#show();
      } catch {
        this.#say(t("The service does not answer. Trying again."));
      }
    }
    if (this.isConnected) this.timer = setTimeout(() => this.#read(), AGAIN_MS);
  }

  /** Show a message about the connection, and only a changed one, because it is read out. */
  #say(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  #frame() {
    document.title = `Sesi: ${t("Inbox")}`;
    this.status = h("p", { class: "quiet", role: "status" });
    this.list = h("ol", { class: "items" });
    this.empty = h("p", { class: "empty" }, t("Nothing yet. Ask for a code or a payment."));
    this.#shown.clear();
    this.replaceChildren(
      h("header", { class: "row spread" }, h("h1", {}, t("Inbox")), this.#looks()),
      h(
        "main",
        {},
        h(
          "p",
          { class: "quiet" },
          t("What the service sends and receives outside production: codes, pushes, invoices and webhook calls."),
        ),
        this.#filters(),
        this.status,
        h("div", { role: "log", "aria-label": t("Items") }, this.list),
        this.empty,
      ),
    );
    this.#show();
  }

  #filters() {
    const button = (kind, words) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(this.#kind === kind),
          onclick: (event) => {
            this.#kind = kind;
            for (const other of this.querySelectorAll(".filters button")) other.setAttribute("aria-pressed", "false");
            event.currentTarget.setAttribute("aria-pressed", "true");
            this.#show();
          },
        },
        t(words),
      );
    return h(
      "div",
      { class: "filters", role: "group", "aria-label": t("Show") },
      button(null, "All"),
      Object.entries(KINDS).map(([kind, [words]]) => button(kind, words)),
    );
  }

  #looks() {
    const change = (name) => (event) => {
      preferences.set({ [name]: event.target.value });
      this.#frame();
      /** @type {HTMLElement} */ (this.querySelector(`[name=${name}]`)).focus();
    };
    const themes = ["system", "light", "dark"].map((value, place) => [value, t(THEMES[place])]);
    const languages = [
      ["en", "English"],
      ["id", "Bahasa Indonesia"],
    ];
    return h(
      "div",
      { class: "looks" },
      field(t("Colours"), select({ name: "theme", onchange: change("theme") }, themes, preferences.theme)),
      field(t("Language"), select({ name: "language", onchange: change("language") }, languages, preferences.language)),
    );
  }

  /** Show the items of the chosen kind. An item that is shown already keeps its element, which may be open. */
  #show() {
    const wanted = this.#items.filter((item) => this.#kind === null || item.kind === this.#kind);
    const ids = new Set(wanted.map((item) => item.id));
    for (const [id, element] of this.#shown) {
      if (ids.has(id)) continue;
      element.remove();
      this.#shown.delete(id);
    }
    let after = null;
    for (const item of wanted) {
      const element = this.#shown.get(item.id) ?? this.#element(item);
      this.#shown.set(item.id, element);
      const place = after === null ? this.list.firstElementChild : after.nextElementSibling;
      if (element !== place) this.list.insertBefore(element, place);
      after = element;
    }
    this.empty.hidden = wanted.length > 0;
  }

  #element({ at, kind, to, text, data }) {
    const [, words, colour] = KINDS[kind];
    const said = kind === "code" && !text ? t("The provider makes this code.") : text;
    return h(
      "li",
      { class: "card", "data-kind": kind },
      h(
        "div",
        { class: "row spread" },
        h("div", { class: "row" }, h("span", { class: `chip ${colour}` }, t(words)), to && t("to {to}", { to })),
        h("small", {}, time(at)),
      ),
      h("div", { class: kind === "code" && text ? "said code" : "said" }, said),
      kind === "invoice" &&
        data.url &&
        h("a", { href: payment(data.url), target: "_blank", rel: "noopener" }, t("Open the payment page")),
      kind === "push" &&
        h(
          "div",
          { class: "row" },
          opening(data, "customer", t("Open in the customer app")),
          opening(data, "mitra", t("Open in the mitra app")),
        ),
      h(
        "details",
        {},
        h("summary", {}, t("Details")),
        h(
          "dl",
          { class: "facts" },
          Object.entries(data).map(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value ?? "–"))]),
        ),
      ),
    );
  }
}

customElements.define("sesi-inbox", Inbox);
