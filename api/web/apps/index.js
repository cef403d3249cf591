/** The page that shows a customer and two mitras side by side. On a narrow screen it links to the two apps. */

import { createClient, memoryStorage } from "/client/index.js";
import { codes } from "./codes.js";
import { phone } from "./phone.js";
import { serviceClock } from "./service_clock.js";
import { h } from "./shared/dom.js";
import { preferences } from "./shared/preferences.js";
import { addWords, t } from "./shared/words.js";
import { INDONESIAN } from "./words.id.js";

const WIDE = matchMedia("(min-width: 66rem)"); // three phones fit next to each other, as in index.css
const MITRAS = 2;
const PREFERENCES = "sesi:try:preferences";

/**
 * Return what each phone is: its title, the address of its app, the prefix of what the app stores, and for a mitra the
 * number and the code to sign in.
 */
function phonesOf({ mitras }) {
  const made = (role, frame, title, more = {}) => {
    const query = new URLSearchParams({ frame, ...(more.phone && { phone: more.phone }) });
    return { role, title, address: `/try/${role}/?${query}`, prefix: `sesi:${role}:${frame}:`, ...more };
  };
  const names = Array.from({ length: MITRAS }, (_, n) => t("Mitra {name}", { name: mitras[n]?.display_name ?? n + 1 }));
  return [
    made("customer", "c1", t("Customer")),
    ...names.map((name, n) => made("mitra", `m${n + 1}`, name, mitras[n])),
  ];
}

/** Set language or theme on this page and on all phones. */
function setPreferences(changes, phones) {
  for (const { prefix } of phones) {
    preferences.keepAt(`${prefix}preferences`);
    preferences.set(changes);
  }
  preferences.keepAt(PREFERENCES);
  preferences.set(changes);
}

function header(config, client, phones, again) {
  const other = preferences.language === "id" ? ["en", "English"] : ["id", "Bahasa Indonesia"];
  const themes = { system: t("Automatic"), light: t("Light"), dark: t("Dark") };
  const names = Object.keys(themes);
  const choose = (changes) => {
    setPreferences(changes, phones);
    again();
  };
  return h(
    "header",
    { class: "top" },
    h("img", { src: "/try/icon.svg", alt: "", width: 40, height: 40 }),
    h(
      "div",
      { class: "name" },
      h("h1", {}, t("Try Sesi")),
      h("p", { class: "quiet" }, t("A customer and two mitras, on one page")),
    ),
    serviceClock(client, config.time_scale),
    h(
      "nav",
      { class: "links", "aria-label": t("Elsewhere") },
      h("a", { class: "button", href: config.control_center, target: "_blank", rel: "noopener" }, t("Control center")),
      h("a", { class: "button", href: "/dev/inbox", target: "_blank", rel: "noopener" }, t("Inbox")),
    ),
    h(
      "div",
      { class: "row" },
      h(
        "button",
        { type: "button", class: "plain", lang: other[0], onclick: () => choose({ language: other[0] }) },
        other[1],
      ),
      h(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-label": t("Colours: {theme}", { theme: themes[preferences.theme] }),
          onclick: () => choose({ theme: names[(names.indexOf(preferences.theme) + 1) % names.length] }),
        },
        themes[preferences.theme],
      ),
    ),
  );
}

const STEPS = () => [
  t("Sign in on both mitra phones with the code above each, and go online."),
  t("On the customer's phone choose topics and minutes, and pay on the development payment page."),
  t("Both mitras are asked. The first one who accepts has the chat; the other sees that it is taken."),
  t("Write, extend, say goodbye. Reload or forget a phone at any moment: nothing that was paid for is lost."),
];

const guide = () =>
  h(
    "section",
    { class: "guide", "aria-label": t("What to do here") },
    h(
      "details",
      {},
      h("summary", {}, t("What to do here")),
      h(
        "ol",
        {},
        STEPS().map((step) => h("li", {}, step)),
      ),
    ),
  );

const APPS = () => ({ customer: t("The customer's app"), mitra: t("The mitra's app") });

const appLinks = (phones) =>
  h(
    "main",
    { class: "apps" },
    h("p", {}, t("This screen has no room for three phones. Open the apps in windows of their own:")),
    phones.map((one) =>
      h(
        "a",
        { class: "card app", href: one.address },
        h("img", { src: `/try/${one.role}/icon.svg`, alt: "", width: 48, height: 48 }),
        h("strong", {}, one.title),
        h(
          "span",
          { class: "quiet" },
          one.phone ? `${one.phone} · ${t("code {code}", { code: one.code })}` : APPS()[one.role],
        ),
      ),
    ),
  );

let ended = new AbortController();

/** Show the page in the present language. */
function show(config, client) {
  ended.abort();
  ended = new AbortController();
  const again = () => show(config, client);
  const phones = phonesOf(config);
  document.title = t("Try Sesi");
  const strip = h("div", { class: "strip" }, codes(ended.signal), guide());
  document.body.replaceChildren(
    header(config, client, phones, again),
    ...(WIDE.matches ? [strip, h("main", { class: "phones" }, phones.map(phone))] : [appLinks(phones), strip]),
    h("div", { class: "toasts", role: "status" }),
  );
}

async function start() {
  addWords(INDONESIAN);
  const query = new URLSearchParams(location.search);
  preferences.keepAt(PREFERENCES, { language: query.get("lang"), theme: query.get("theme") });
  preferences.apply();
  const response = await fetch("/try/config.json");
  const config = await response.json();
  const { api, sockets } = config;
  const client = createClient({ role: "customer", api, sockets, storage: memoryStorage() });
  WIDE.addEventListener("change", () => show(config, client));
  show(config, client);
}

start();
