/** Waiting for a payment: the payment page in a sheet, a countdown, and the way out. */

import { actionButton, showProblem } from "/try/kit/buttons.js";
import { countdown } from "/try/kit/countdown.js";
import { icon } from "/try/kit/icons.js";
import { backLink } from "/try/kit/links.js";
import { scene } from "/try/kit/scenes.js";
import { confirmSheet } from "/try/kit/sheet.js";
import { topBar } from "/try/kit/shell.js";
import { h } from "/try/shared/dom.js";
import { rupiah } from "/try/shared/format.js";
import { preferences } from "/try/shared/preferences.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { usualWait } from "../availability.js";
import { unopened } from "../pay.js";
import { openWebView } from "../web_view.js";

const READ_EVERY_MS = 4_000;

const METHODS = (qrisFirst) => {
  const others = [t("Bank transfer"), t("E-wallet")];
  return qrisFirst ? ["QRIS", ...others] : [...others, "QRIS"];
};

/**
 * Return the address of a payment page. The service's own page for development is opened at the address by which this
 * device reaches the service, which may be another one than the service knows, and takes the language and the theme.
 */
function pageAddress(invoice) {
  const { pathname } = new URL(invoice);
  if (!pathname.startsWith("/dev/pay/")) return invoice;
  const url = new URL(pathname, location.origin);
  url.searchParams.set("lang", preferences.language);
  url.searchParams.set("theme", preferences.theme);
  return url.href;
}

/**
 * Open the payment page of a request in a sheet. The request is read every 4 s while it is pending, because an event or
 * a webhook may be lost; the sheet closes when the request is no longer pending.
 */
export function openPaymentPage(scope, request) {
  const { client } = scope;
  const id = request.payment_request_id;
  const sheet = openWebView(scope, {
    title: t("Pay {amount}", { amount: rupiah(request.amount) }),
    url: pageAddress(request.gateway_invoice_url),
    message: () => client.readPayment(id).catch(() => {}), // the page says that something happened, but not what
  });
  const watching = scope.child();
  sheet.closed.then(() => watching.end());
  watching.watch((state) => state.payments[id]?.status !== "pending" && queueMicrotask(() => sheet.close()));
  return sheet;
}

function over(request) {
  const text =
    request.status === "expired" ? t("The time to pay is over. Nothing was charged.") : t("You gave this payment up.");
  return [
    h(
      "div",
      { class: "grow stack centered" },
      scene("cup"),
      h("h2", {}, t("No payment was made")),
      h("p", { class: "lead" }, text),
    ),
    h("a", { class: "button primary", href: "#/prices" }, t("Choose again")),
  ];
}

function waiting({ app, client, scope }, request) {
  const id = request.payment_request_id;
  const payable = () => request.gateway_invoice_url !== null && client.secondsUntil(request.expires_at) > 0;
  const open = actionButton(t("Open the payment page"), () => openPaymentPage(scope, request), {
    kind: "primary",
    hidden: !payable(),
  });
  const left = countdown(scope, () => request.expires_at, {
    label: t("Time left to pay"),
    ended: () => {
      open.hidden = true;
    },
  });
  const abandon = () =>
    confirmSheet(scope, {
      title: t("Give this payment up?"),
      text: t("Nothing was charged. You can choose again at any time."),
      submit: t("Give it up"),
      cancel: t("Keep waiting"),
      act: () => client.abandonPayment(id),
    });
  return [
    h(
      "div",
      { class: "grow stack centered" },
      h("p", { class: "amount" }, rupiah(request.amount)),
      h(
        "p",
        { class: "lead" },
        t("{n} minutes", { n: request.duration_minutes }),
        " · ",
        request.mode === "call" ? t("Call") : t("Chat"),
      ),
      h("p", { class: "pill" }, icon("clock"), h("span", {}, t("Pay within"), " "), left),
      h(
        "section",
        { class: "methods" },
        h("h2", {}, t("Ways to pay")),
        h(
          "ol",
          {},
          METHODS(app.service.config.payment_method_qris_first).map((name) => h("li", {}, name)),
        ),
      ),
      request.promised && h("p", { class: "quiet" }, usualWait(request.promised)),
      h("p", { class: "quiet" }, t("This page goes on when your payment has arrived.")),
    ),
    h("div", { class: "stack-buttons" }, open, actionButton(t("Give this payment up"), abandon, { kind: "quiet" })),
  ];
}

export function paymentScreen(context) {
  const { client, params, scope } = context;
  const { id } = params;
  const place = h("div", { class: "screen-part" }, h("p", { class: "empty" }, t("Loading")));
  const content = h("div", { class: "screen" }, topBar(t("Payment"), backLink("#/")), place);
  let shown = null;
  scope.watch((state) => {
    const request = state.payments[id];
    if (!request || request.status === shown) return;
    shown = request.status;
    if (request.is_extension && request.session_id) go(`/chat/${request.session_id}`, {}, { replace: true });
    else if (request.status === "pending") {
      place.replaceChildren(...waiting(context, request));
      if (unopened.delete(id) && request.gateway_invoice_url) openPaymentPage(scope, request);
    } else if (["expired", "abandoned"].includes(request.status)) place.replaceChildren(...over(request));
    else go(`/search/${id}`, {}, { replace: true });
  });
  const read = () => client.readPayment(id).catch((error) => !scope.ended && showProblem(content, error));
  scope.every(READ_EVERY_MS, () => (shown === null || shown === "pending") && read(), { visible: true });
  scope.listen(document, "visibilitychange", () => document.visibilityState === "visible" && read());
  return { title: t("Payment"), content };
}
