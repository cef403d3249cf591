/** The first screen of a signed-in customer: what goes on now, a new session, and mitras they know. */

import { actionButton } from "/try/kit/buttons.js";
import { countsTo } from "/try/kit/chat_view.js";
import { countdown } from "/try/kit/countdown.js";
import { icon } from "/try/kit/icons.js";
import { avatar, rowLink } from "/try/kit/links.js";
import { openSheet } from "/try/kit/sheet.js";
import { h } from "/try/shared/dom.js";
import { rupiah } from "/try/shared/format.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { availability } from "../availability.js";
import { mitraRow } from "./history.js";

const RUNNING = ["active", "expired", "closing"];
const SHOWN_MITRAS = 3;

/** The sheet for a customer who has a history: a mitra they know, or a new one. */
function choiceSheet({ app, scope }) {
  const choose = (path) => async (sheet) => {
    await app.draft.set({ mitra: null, starting: true });
    sheet.close();
    go(path);
  };
  const [known, fresh] = [choose("/history"), choose("/topics")];
  openSheet(scope, {
    title: t("With whom do you want to talk?"),
    content: (sheet) => [
      choiceButton("people", t("A mitra I know"), t("Choose from the mitras of your earlier chats"), () =>
        known(sheet),
      ),
      choiceButton("heart", t("Someone new"), t("The first mitra who is free takes your chat"), () => fresh(sheet)),
    ],
  });
}

const choiceButton = (picture, title, text, act) =>
  h(
    "button",
    { type: "button", class: "card choice-card row-link", onclick: act },
    h("span", { class: "avatar" }, icon(picture)),
    h("span", { class: "row-main" }, h("strong", {}, title), h("small", {}, text)),
    icon("next"),
  );

/** A card for a chat that runs, a search, or a payment that is awaited. */
function nowCard(scope, href, picture, title, until, badge = null) {
  const left = until ? countdown(scope, until, { label: t("Time left") }) : null;
  return h(
    "a",
    { class: "card now-card row-link", href },
    picture,
    h("span", { class: "row-main" }, h("strong", {}, title), h("small", {}, left)),
    badge ?? icon("next"),
  );
}

function nowCards(scope, state) {
  const cards = [];
  for (const { session, unread } of Object.values(state.chats)) {
    if (!RUNNING.includes(session.status)) continue;
    const name = session.mitra?.display_name ?? "";
    const badge = unread
      ? h("span", { class: "count" }, h("span", { class: "hidden-label" }, t("Unread:")), unread)
      : null;
    const until = () => countsTo(scope.client.state.chats[session.id]?.session ?? session);
    cards.push(
      nowCard(scope, `#/chat/${session.id}`, avatar(name), t("Your chat with {name}", { name }), until, badge),
    );
  }
  if (state.search?.search) {
    const { payment_request_id: id, ends_at: end } = state.search.search;
    const picture = h("span", { class: "avatar" }, icon("heart"));
    cards.push(nowCard(scope, `#/search/${id}`, picture, t("We are looking for a mitra"), () => end));
  }
  const pending = Object.values(state.payments).filter((one) => one.status === "pending" && !one.is_extension);
  for (const { payment_request_id: id, amount, expires_at: end } of pending) {
    const picture = h("span", { class: "avatar" }, icon("wallet"));
    cards.push(nowCard(scope, `#/payment/${id}`, picture, t("Pay {amount}", { amount: rupiah(amount) }), () => end));
  }
  return cards;
}

const cardsKey = (state) =>
  JSON.stringify([
    Object.values(state.chats).map(({ session, unread }) => [
      session.id,
      session.status,
      session.mitra?.display_name,
      unread,
    ]),
    state.search?.id,
    Object.values(state.payments).map((one) => [one.payment_request_id, one.status]),
  ]);

export function homeScreen(context) {
  const { app, client, scope } = context;
  const { user } = client.state;
  const now = h("section", { class: "stack", "aria-label": t("Now"), hidden: true });
  const known = h("section", { class: "stack", hidden: true });
  let history = [];
  const start = actionButton(
    t("Start a session"),
    async () => {
      await historyRead; // a press may come before the answer
      if (scope.ended) return;
      if (history.length > 0) return choiceSheet(context);
      await app.draft.set({ mitra: null, starting: true });
      go("/prices");
    },
    { kind: "primary", icon: icon("chat") },
  );

  let shownKey = null;
  let cardScope = scope.child();
  scope.watch((state) => {
    const key = cardsKey(state);
    if (key === shownKey) return;
    shownKey = key;
    cardScope.end();
    cardScope = scope.child();
    const cards = nowCards(cardScope, state);
    now.replaceChildren(...cards);
    now.hidden = cards.length === 0;
  });

  const historyRead = client
    .call("GET /api/client/chat/history")
    .then(({ items }) => {
      history = items;
      known.hidden = items.length === 0;
      known.replaceChildren(
        h("div", { class: "section-head" }, h("h2", {}, t("Mitras you know")), h("a", { href: "#/history" }, t("All"))),
        h(
          "ul",
          { class: "rows" },
          items.slice(0, SHOWN_MITRAS).map((row) => h("li", {}, mitraRow(row))),
        ),
      );
    })
    .catch(() => {}); // the screen is complete without it
  client.call("GET /api/client/payment/requests", { query: { limit: 1 } }).then(
    ({ items }) => items[0]?.status === "pending" && client.readPayment(items[0].payment_request_id),
    () => {},
  );

  return {
    title: t("Home"),
    content: h(
      "div",
      { class: "screen" },
      h(
        "header",
        { class: "home-head" },
        h("p", { class: "quiet" }, t("Hello,")),
        h("h1", { tabindex: "-1" }, user.display_name),
        h("a", { class: "icon-button", href: "#/profile", "aria-label": t("Profile") }, icon("person")),
      ),
      now,
      h(
        "section",
        { class: "hero" },
        h("h2", {}, t("Is there something on your mind?")),
        h("p", {}, t("A mitra listens, without judging.")),
        start,
        availability(scope), // comes later: above the button it would push it away from the finger
      ),
      known,
      user.is_anonymous
        ? h(
            "div",
            { class: "rows" },
            rowLink(
              "#/sign-in",
              h("span", { class: "avatar" }, icon("lock")),
              t("Keep your chats"),
              t("Sign in, so that you find them on any device"),
            ),
          )
        : null,
    ),
  };
}
