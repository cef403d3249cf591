/** Prices by mode, with the first-session discount, and the way to the payment. */

import { actionButton } from "/try/kit/buttons.js";
import { explain } from "/try/kit/errors.js";
import { icon } from "/try/kit/icons.js";
import { avatar, backLink, rowLink } from "/try/kit/links.js";
import { topBar } from "/try/kit/shell.js";
import { topicName } from "/try/kit/topics.js";
import { h } from "/try/shared/dom.js";
import { rupiah } from "/try/shared/format.js";
import { t } from "/try/shared/words.js";
import { availability } from "../availability.js";
import { startPayment } from "../pay.js";

const DISCOUNT = "discount"; // the value of the discounted offer; tiers have their minutes

/** Make one offer: a radio button that looks like a card. `before` is a crossed-out price. */
function offer({ value, minutes, price, before = null, tag = null, checked, choose }) {
  return h(
    "label",
    { class: `pick tier ${before ? "discounted" : ""}` },
    h("input", { type: "radio", name: "offer", value, checked, onchange: choose }),
    h(
      "span",
      { class: "tier-what" },
      h("span", { class: "tier-minutes" }, t("{n} minutes", { n: minutes })),
      tag && h("span", { class: "badge accent" }, tag),
    ),
    h(
      "span",
      { class: "tier-price" },
      before && h("s", {}, h("span", { class: "hidden-label" }, t("instead of")), rupiah(before)),
      h("strong", {}, rupiah(price)),
    ),
  );
}

/** Return the offers of a mode: [{ value, minutes, price, before, tag, body }]. */
export function offersOf(pricing, mode, { discounts = true } = {}) {
  const { first_session_discount: discount } = pricing;
  const offers = pricing[mode].tiers.map(({ minutes, price_idr: price, tag }) => ({
    value: String(minutes),
    minutes,
    price,
    tag,
    body: { duration_minutes: minutes },
  }));
  if (discounts && discount.enabled && discount.eligible && discount.modes.includes(mode)) {
    offers.unshift({
      value: DISCOUNT,
      minutes: discount.duration_minutes,
      price: discount.price_idr,
      before: discount.gimmick_price_idr,
      tag: t("First session"),
      body: { first_session_discount: true },
    });
  }
  return offers;
}

/** Make the list of offers. `changed(offer)` is called for the first one, and after each choice. */
export function offerList(offers, changed) {
  changed(offers[0] ?? null);
  if (offers.length === 0) return h("p", { class: "empty" }, t("There are no prices for this."));
  return h(
    "fieldset",
    { class: "tiers" },
    h("legend", { class: "hidden-label" }, t("How long?")),
    offers.map((one, n) => offer({ ...one, checked: n === 0, choose: () => changed(one) })),
  );
}

const topicsRow = (chosen) =>
  rowLink(
    "#/topics",
    h("span", { class: "avatar" }, icon("heart")),
    t("What is on your mind?"),
    chosen.map(topicName).join(", ") || t("Choose topics for your mitra, if you like."),
  );

export function pricesScreen(context) {
  const { app, client, scope } = context;
  const { draft, service } = app;
  const { mitra } = draft.choices;
  const place = h("div", { class: "grow stack" }, h("p", { class: "empty" }, t("Loading")));
  let chosen = null;
  const payButton = actionButton(
    t("Pay"),
    async () => {
      if (!(await startPayment(context, make))) load(); // the prices may have changed
    },
    { kind: "primary", hidden: true },
  );
  const label = payButton.querySelector("span");

  function make(more) {
    const { mode, topics } = draft.choices;
    const wish = { mode, expected_amount: chosen.price, ...(topics.length && { topics }), ...more };
    if (mitra) return client.payReturning({ ...wish, mitra_id: mitra.id, duration_minutes: chosen.minutes });
    return client.pay({ ...wish, ...chosen.body });
  }

  function changed(one) {
    chosen = one;
    payButton.hidden = one === null;
    if (one)
      label.textContent = one.price === 0 ? t("Start for free") : t("Pay {amount}", { amount: rupiah(one.price) });
  }

  function show(pricing) {
    const offers = h("div", {});
    const showMode = (mode) => {
      draft.set({ mode });
      offers.replaceChildren(offerList(offersOf(pricing, mode, { discounts: mitra === null }), changed));
    };
    const segment = (mode, name, text) =>
      h(
        "label",
        { class: "segment" },
        h("input", {
          type: "radio",
          name: "mode",
          value: mode,
          checked: draft.choices.mode === mode,
          onchange: () => showMode(mode),
        }),
        h("span", { class: "segment-label" }, icon(name), text),
      );
    showMode(draft.choices.mode);
    place.replaceChildren(
      h(
        "fieldset",
        { class: "choice" },
        h("legend", { class: "hidden-label" }, t("How do you want to talk?")),
        h("div", { class: "segments" }, segment("chat", "chat", t("Chat")), segment("call", "phone", t("Call"))),
      ),
      offers,
    );
  }

  const load = () =>
    client.call("GET /api/client/chat/pricing").then(
      (pricing) => !scope.ended && show(pricing),
      (error) => place.replaceChildren(h("p", { class: "empty" }, explain(error))),
    );
  load();
  const qris = t("QRIS");
  const others = t("bank transfer, e-wallet");
  const methods = service.config.payment_method_qris_first ? `${qris}, ${others}` : `${others}, ${qris}`;
  return {
    title: t("How long do you want to talk?"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("How long do you want to talk?"), backLink(mitra ? `#/history/${mitra.id}` : "#/")),
      mitra
        ? h(
            "div",
            { class: "card with-mitra" },
            avatar(mitra.display_name),
            h("p", {}, t("With {name}", { name: mitra.display_name })),
          )
        : h("div", { class: "rows" }, topicsRow(draft.choices.topics)),
      place,
      mitra ? null : availability(scope), // comes later: above the prices it would push them away from the finger
      h(
        "div",
        { class: "pay-bar stack-buttons" },
        h("p", { class: "quiet centered" }, t("You can pay by {methods}.", { methods })),
        payButton,
      ),
    ),
  };
}
