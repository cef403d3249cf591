/**
 * The search of every page: a button in the bar, the key "/", and a dialog that shows what was found, by kind.
 *
 * It searches when the operator presses Enter, not while they type: each search leaves rows in the audit log, and phone
 * numbers that are looked up are counted.
 */

import { ApiError, api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { freshId, h, svg } from "../shared/dom.js";
import { explain, field } from "../shared/form.js";
import { rupiah, wait } from "../shared/format.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
import { t } from "../shared/words.js";
import { nameOf } from "./linked.js";
import { isForPage } from "./shortcuts.js";
import { causeChip, chat, chip, moneyBack, payment, result } from "./status.js";

const LONGEST = 200;
const MOST = 10; // of each kind, as the service answers

/** The kinds of results: [field of the answer, area, heading, path of the list and the pages, content of a result]. */
const kinds = () => [
  ["customers", "customers", t("Customers"), "/customers", (one) => [nameOf(one), one.phone ?? one.email]],
  ["mitras", "mitras", t("Mitras"), "/mitras", (one) => [one.display_name, one.phone]],
  [
    "payments",
    "payments",
    t("Payments"),
    "/payments",
    (one) => [
      `${nameOf(one.customer)}, ${rupiah(one.amount)}`,
      time(one.created_at),
      payment.chip(one.status),
      moneyBack(one),
    ],
  ],
  [
    "failures",
    "failed_pairings",
    t("Failed pairings"),
    "/failed-pairings",
    (one) => [`${nameOf(one.customer)}, ${rupiah(one.amount)}`, time(one.created_at), causeChip(one)],
  ],
  [
    "sessions",
    "sessions",
    t("Sessions"),
    "/sessions",
    (one) => [
      [nameOf(one.customer), one.mitra && nameOf(one.mitra)].filter(Boolean).join(" · "),
      time(one.created_at),
      chat.chip(one.status),
    ],
  ],
  [
    "webhook_calls",
    "webhooks",
    t("Webhook calls"),
    "/webhooks",
    (one) => [
      one.status ?? t("call"),
      time(one.received_at),
      one.processing_result ? result.chip(one.processing_result) : chip(t("not answered"), "warn"),
    ],
  ],
];

const idOf = (one) => one.id ?? one.payment_request_id;

/** The results of one kind, and a link to all of them if there may be more. */
function group([name, , heading, path, content], found, q) {
  const rows = found[name];
  if (!rows.length) return null;
  const link = (one) => {
    const [main, ...details] = content(one);
    return h("a", { href: address(`${path}/${idOf(one)}`) }, h("span", { dir: "auto" }, main), h("small", {}, details));
  };
  const id = freshId();
  return h(
    "section",
    { "aria-labelledby": id },
    h("h3", { id }, heading),
    h(
      "ul",
      { class: "results" },
      rows.map((one) => h("li", {}, link(one))),
    ),
    rows.length >= MOST && h("a", { href: address(path, { q }) }, t("More: {kind}", { kind: heading })),
  );
}

/** Why the search was refused. Only look-ups of phone numbers are counted. */
function refused(error) {
  if (error.code !== "RATE_LIMITED") return explain(error);
  return t(
    "You have looked up 30 phone numbers within an hour. Search by a name, an id or an amount, or look the number up in {time}.",
    { time: wait(error.retryAfter ?? 0) },
  );
}

/** Open the search, unless a dialog is open. Closing it returns the focus to where it was. */
export function openSearch() {
  if (document.querySelector("dialog[open]")) return;
  const life = new AbortController();
  let shown = null; // the text whose results are shown
  const id = freshId();
  // Its type is not "search": there, Escape empties the field and leaves the dialog open.
  const input = h("input", {
    type: "text",
    name: "q",
    autocomplete: "off",
    maxlength: LONGEST,
    enterkeyhint: "search",
  });
  const said = h("p", { role: "status", class: "quiet" });
  const results = h("div", { class: "stack" });
  const links = () => [...results.querySelectorAll("a")];

  function show(found, q) {
    const groups = kinds().map((kind) => group(kind, found, q));
    const unseen = kinds().filter(([, area]) => !session.may(area));
    results.replaceChildren(
      ...groups.filter(Boolean),
      ...(unseen.length
        ? [
            h(
              "p",
              { class: "quiet" },
              t("Your role doesn't see: {kinds}.", { kinds: unseen.map(([, , heading]) => heading).join(", ") }),
            ),
          ]
        : []),
    );
    const n = Object.values(found).flat().length;
    said.textContent = n ? t("{n} found. Choose with the arrow keys.", { n }) : t("Nothing found.");
    shown = q;
  }

  async function search(event) {
    event.preventDefault();
    const q = input.value.trim();
    if (!q) return;
    if (q === shown && links().length) {
      links()[0].click();
      return;
    }
    said.textContent = t("Searching…");
    results.replaceChildren();
    try {
      const found = await api.get("/internal/search", { q }, life.signal);
      if (input.value.trim() === q) show(found, q);
    } catch (error) {
      if (life.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      said.replaceChildren(h("span", { class: "notice bad" }, refused(error)));
    }
  }

  function move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const places = [input, ...links()];
    const at = places.indexOf(document.activeElement) + step;
    places[Math.min(Math.max(at, 0), places.length - 1)].focus();
  }

  const hint = session.may("customers.pii")
    ? t("a name, phone, e-mail, id, invoice or amount")
    : t("a name, id, invoice, amount, or a whole phone number (30 an hour)");
  const dialog = h(
    "dialog",
    { class: "search", "aria-labelledby": id, onkeydown: move },
    h(
      "div",
      { class: "row spread" },
      h("h2", { id }, t("Find anything")),
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, t("Close")),
    ),
    h(
      "form",
      { role: "search", onsubmit: search },
      h("div", { class: "row" }, field(t("Search for"), input, hint), h("button", { class: "primary" }, t("Search"))),
    ),
    said,
    results,
  );
  dialog.closedBy = "any";
  results.addEventListener("click", ({ target }) => target.closest("a")?.hash === location.hash && dialog.close());
  dialog.addEventListener("close", () => {
    life.abort();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
}

const glass = () =>
  svg(
    "svg",
    { viewBox: "0 0 24 24", "aria-hidden": "true" },
    svg("circle", { cx: 10, cy: 10, r: 6 }),
    svg("line", { x1: 15, y1: 15, x2: 21, y2: 21 }),
  );

/** `<search-button>`: opens the search, as the key "/" does. On a phone it is only an icon. */
class SearchButton extends HTMLElement {
  connectedCallback() {
    this.life = new AbortController();
    const words = t("Find anything");
    this.replaceChildren(
      h(
        "button",
        {
          type: "button",
          "aria-label": words,
          "aria-keyshortcuts": "/",
          "aria-haspopup": "dialog",
          onclick: openSearch,
        },
        glass(),
        h("span", {}, words),
        h("kbd", { "aria-hidden": "true" }, "/"),
      ),
    );
    const press = (event) => {
      if (event.key !== "/" || !isForPage(event)) return;
      event.preventDefault();
      openSearch();
    };
    document.addEventListener("keydown", press, { signal: this.life.signal });
  }

  disconnectedCallback() {
    this.life.abort();
  }
}

customElements.define("search-button", SearchButton);
