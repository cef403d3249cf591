/** The search for a mitra, and how it ended. */

import { actionButton, showProblem } from "/try/kit/buttons.js";
import { countdown } from "/try/kit/countdown.js";
import { backLink } from "/try/kit/links.js";
import { scene } from "/try/kit/scenes.js";
import { confirmSheet } from "/try/kit/sheet.js";
import { topBar } from "/try/kit/shell.js";
import { announce } from "/try/kit/status_line.js";
import { h } from "/try/shared/dom.js";
import { rupiah } from "/try/shared/format.js";
import { go } from "/try/shared/router.js";
import { toast } from "/try/shared/toast.js";
import { t } from "/try/shared/words.js";
import { usualWait } from "../availability.js";
import { helpButton } from "../help_sheet.js";
import { targetedPopup } from "../targeted_popup.js";

const READ_EVERY_MS = 5_000;

const CAUSES = () => ({
  no_mitra_available: t("No mitra was free in time."),
  all_mitras_rejected: t("All mitras who are online are busy now."),
  targeted_mitra_offline: t("Your mitra is offline now."),
  targeted_mitra_rejected: t("Your mitra can't take a chat now."),
  targeted_mitra_timeout: t("Your mitra did not answer in time."),
  payment_session_expired: t("Your payment came after its time was over."),
  customer_cancelled: t("You cancelled the search."),
});

const ACTIONS = () => ({
  refunded: t("Your money was refunded."),
  credited: t("Your money was credited to you."),
  no_action: t("Our team has looked at it."),
});

// State of a refund that is not decided -> what the customer reads.
const REFUNDS = () => ({
  requested: t("Your refund is under way."),
  pending: t("Your refund is under way."),
});

/** The state of the search of a payment request: what to show. */
function stageOf(state, id, ignoredEnd) {
  const request = state.payments[id];
  const search = state.search?.search?.payment_request_id === id ? state.search : null;
  const end = state.searchEnd?.payment_request_id === id && state.searchEnd !== ignoredEnd ? state.searchEnd : null;
  if (search) return { stage: "searching", search, request };
  if (end?.status === "paired") return { stage: "paired", session: end.session_id };
  if (request?.status === "consumed") return { stage: "paired", session: request.session_id };
  if (end || request?.status === "failed_pairing") {
    const cause = end?.cause_tag ?? request?.failure?.cause_tag ?? "customer_cancelled";
    return { stage: cause === "customer_cancelled" ? "cancelled" : "failed", cause, request };
  }
  if (!request) return { stage: "loading" };
  return { stage: request.status === "confirmed" ? "searching" : "unpaid", search: null, request };
}

function searching({ app, client, scope }, id) {
  const { mitra } = app.draft.choices;
  const current = () => (client.state.search?.search?.payment_request_id === id ? client.state.search.search : null);
  const targeted = () => client.state.payments[id]?.targeted_mitra_id ?? null;
  const title = h("h1", { tabindex: "-1" });
  const asked = h("p", { class: "lead" });
  const usual = h("p", { class: "quiet" });
  const left = countdown(scope, () => (targeted() ? current()?.answer_by : current()?.ends_at), {
    label: t("Time left to find a mitra"),
    spoken: { 60: t("One minute left.") },
  });
  const blast = actionButton(t("Ask all mitras instead"), () => client.fallBackToBlast(id), { kind: "plain" });
  const cancel = actionButton(
    t("Cancel the search"),
    () =>
      confirmSheet(scope, {
        title: t("Cancel the search?"),
        text: t("You have paid. Our team decides about the money and tells you."),
        submit: t("Cancel the search"),
        cancel: t("Keep searching"),
        danger: true,
        act: async () => {
          try {
            await client.cancelSearch(id);
          } catch (error) {
            const { session_id: session } = error.details ?? {};
            if (error.code !== "SESSION_NOT_SEARCHING" || !session) throw error;
            go(`/chat/${session}`, {}, { replace: true }); // a mitra was faster
          }
        },
      }),
    { kind: "quiet" },
  );
  scope.watch(() => {
    const search = current();
    const one = targeted() !== null;
    const known = one && mitra?.id === targeted() ? mitra.display_name : null;
    title.textContent = known
      ? t("Waiting for {name}", { name: known })
      : one
        ? t("Waiting for your mitra")
        : t("Looking for your mitra");
    const n = search?.asked ?? 0;
    const text = one
      ? t("They have a moment to answer.")
      : n === 0
        ? t("We ask every mitra who comes online.")
        : n === 1
          ? t("1 mitra was asked.")
          : t("{n} mitras were asked.", { n });
    if (asked.textContent !== text) asked.textContent = text;
    blast.hidden = !one;
    const promised = client.state.payments[id]?.promised ?? null;
    usual.hidden = promised === null;
    usual.textContent = usualWait(promised);
  });
  return [
    h(
      "div",
      { class: "grow stack centered" },
      h("div", { class: "pulse", "aria-hidden": "true" }, scene("listen")),
      title,
      asked,
      h("p", { class: "big-clock" }, left),
      usual,
    ),
    h("div", { class: "stack-buttons" }, blast, cancel),
  ];
}

/** Return what was done about a failed request, or null: the customer can still try again with its money. */
function doneAbout(request) {
  const { operator_action: done, refund_status: refund } = request?.failure ?? {};
  return ACTIONS()[done] ?? REFUNDS()[refund] ?? null;
}

/** Make the content of a failed search. With `tryAgain()` the customer can use its money for another one. */
function failed({ client, scope }, id, cause, tryAgain) {
  const money = h("p", { class: "notice" });
  const again = tryAgain && actionButton(t("Ask another mitra"), tryAgain, { kind: "primary" });
  scope.watch((state) => {
    const request = state.payments[id];
    const action = doneAbout(request);
    if (again) again.hidden = action !== null;
    const amount = request ? rupiah(request.amount) : "";
    money.hidden = !request || (request.amount === 0 && !action);
    money.textContent = action ?? t("Your {amount} is safe: our team gives it back to you.", { amount });
  });
  client.readPayment(id).catch(() => {}); // what is shown stays true without it
  return [
    h(
      "div",
      { class: "grow stack centered" },
      scene("cup"),
      h("h1", { tabindex: "-1" }, t("There is no chat this time")),
      h("p", { class: "lead" }, CAUSES()[cause] ?? t("It did not work out.")),
      money,
    ),
    h(
      "div",
      { class: "stack-buttons" },
      again,
      h("a", { class: `button ${again ? "plain" : "primary"}`, href: "#/" }, t("To the start")),
      helpButton(scope),
    ),
  ];
}

export function searchScreen(context) {
  const { app, client, params, scope } = context;
  const { id } = params;
  const place = h("div", { class: "screen-part" }, h("p", { class: "empty" }, t("Loading")));
  const content = h("div", { class: "screen" }, topBar(t("Your session"), backLink("#/")), place);
  let ignoredEnd = null; // how the targeted search ended, after the customer has asked all mitras
  let shown = null;
  let stageScope = scope.child();

  function popup(cause) {
    const { mitra } = app.draft.choices;
    const targeted = client.state.payments[id]?.targeted_mitra_id;
    targetedPopup(
      { ...context, scope: stageScope },
      {
        name: mitra?.id === targeted ? mitra?.display_name : null,
        cause,
        paid: id,
        asked: () => {
          ignoredEnd = client.state.searchEnd;
        },
      },
    );
  }

  function show(state) {
    const { stage, session, cause, request } = stageOf(state, id, ignoredEnd);
    if (stage === shown) return;
    const before = shown;
    shown = stage;
    stageScope.end();
    stageScope = scope.child();
    const inner = { ...context, scope: stageScope };
    if (stage === "searching") {
      place.replaceChildren(...searching(inner, id));
      if (before === "failed") place.querySelector("h1").focus(); // the button that was pressed is gone
    } else if (stage === "failed") {
      const tryAgain = cause.startsWith("targeted_") ? () => popup(cause) : null;
      place.replaceChildren(...failed(inner, id, cause, tryAgain));
      announce(t("There is no chat this time"));
      if (doneAbout(request) === null) tryAgain?.();
    } else if (stage === "paired") {
      app.draft.reset();
      go(`/chat/${session}`, {}, { replace: true });
    } else if (stage === "cancelled") {
      const isOurs = (read) => read?.failure?.sub_cause === "by_operator";
      const say = (read) =>
        toast(isOurs(read) ? t("Our team ended the search, and decides about your money.") : CAUSES()[cause]);
      client.readPayment(id).then(say, () => say(request));
      go("/", {}, { replace: true });
    } else if (stage === "unpaid") go(`/payment/${id}`, {}, { replace: true });
  }

  scope.watch(show);
  const read = () =>
    client.readPayment(id).catch((error) => !scope.ended && shown === null && showProblem(content, error));
  scope.every(READ_EVERY_MS, () => (shown === null || client.state.connection !== "open") && read(), { visible: true });
  return { title: t("Your session"), content };
}
