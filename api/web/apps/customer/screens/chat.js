/** A chat of the customer: running, frozen, in goodbyes, or over. */

import { actionButton, showProblem } from "/try/kit/buttons.js";
import { chatView } from "/try/kit/chat_view.js";
import { goodbyeForm, goodbyeOf, goodbyes } from "/try/kit/goodbyes.js";
import { icon } from "/try/kit/icons.js";
import { backLink } from "/try/kit/links.js";
import { receiptButton } from "/try/kit/receipt.js";
import { safetyButtons } from "/try/kit/safety.js";
import { confirmSheet, openSheet } from "/try/kit/sheet.js";
import { announce } from "/try/kit/status_line.js";
import { h } from "/try/shared/dom.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { ExtensionWatch, extensionNotices, openExtensionSheet } from "../extension.js";
import { helpButton } from "../help_sheet.js";

const EXTENDABLE = ["active", "expired"];
const SPOKEN = () => ({
  active: t("The chat goes on."),
  expired: t("The time is up."),
  closing: t("The chat has ended."),
  completed: t("The chat is over."),
});

/** End the chat, after one question or two, as the service's configuration says. */
async function endChat({ app, client, scope }, session) {
  const sure = await confirmSheet(scope, {
    title: t("End the chat?"),
    text: t("The time that is left is not given back."),
    submit: t("End the chat"),
    cancel: t("Go on talking"),
    danger: true,
    act: app.service.config.end_session_two_step_confirm ? undefined : () => client.end(session.id),
  });
  if (!sure || !app.service.config.end_session_two_step_confirm) return;
  await confirmSheet(scope, {
    title: t("Are you sure?"),
    text: t("You can read this chat later, but write no more in it."),
    submit: t("Yes, end it now"),
    cancel: t("Go on talking"),
    danger: true,
    act: () => client.end(session.id),
  });
}

function menu(context, session, watch) {
  const { app, scope } = context;
  const { status } = session;
  const extendable = EXTENDABLE.includes(status) && !watch.payment && !watch.pending;
  const endable = status === "expired" || (status === "active" && app.service.config.early_end_customer_enabled);
  openSheet(scope, {
    title: t("This chat"),
    content: (sheet) =>
      h(
        "div",
        { class: "stack-buttons" },
        extendable
          ? actionButton(
              t("More time"),
              async () => {
                await openExtensionSheet(scope, session);
                sheet.close();
              },
              { icon: icon("plus") },
            )
          : null,
        endable
          ? actionButton(
              t("End the chat"),
              () => {
                sheet.close();
                endChat(context, session);
              },
              { icon: icon("leave") },
            )
          : null,
        helpButton(scope, { kind: "plain" }),
        session.mitra ? safetyButtons(scope, session.id, session.mitra.display_name, sheet.close) : null,
      ),
  });
}

const section = (label, className, ...content) =>
  h("section", { class: `notice ${className}`, "aria-label": label }, content);

function extendButton(scope, session, kind) {
  return actionButton(t("More time"), () => openExtensionSheet(scope, session), { kind, icon: icon("plus") });
}

/** Return the notices below the messages: what the customer can do now. `scope` ends with them; sheets stay open. */
function notices(context, scope, { session, warned }, watch, party) {
  const { status } = session;
  const asked = extensionNotices(scope, context.scope, watch, party);
  const busy = watch.payment || watch.pending;
  if (status === "active") {
    if (!warned || busy || watch.refused) return asked;
    const text = h("p", {}, t("Less than three minutes are left. Do you want to go on?"));
    return [...asked, section(t("Warning"), "warn", text, extendButton(context.scope, session, "primary"))];
  }
  const own = goodbyeOf(session, "customer");
  if (status === "expired" || status === "closing") {
    const title = status === "expired" ? t("The time is up.") : t("The chat has ended.");
    const text = own
      ? t("Your goodbye is on its way. We wait for {name}'s.", { name: party })
      : t("You can still say goodbye.");
    return [
      ...asked,
      section(
        t("Goodbye"),
        "",
        h("p", {}, h("strong", {}, title), " ", text),
        goodbyes(session, "customer", party),
        status === "expired" && !busy ? extendButton(context.scope, session, "plain") : null,
        own ? null : goodbyeForm(scope, session.id, party),
      ),
    ];
  }
  return [
    section(
      t("The chat is over."),
      "good",
      h("p", {}, h("strong", {}, t("Thank you for talking with us."))),
      goodbyes(session, "customer", party),
      h(
        "div",
        { class: "stack-buttons" },
        h("a", { class: "button", href: "#/" }, t("To the start")),
        session.mitra ? againButton(context, session.mitra) : null,
        session.status === "completed" ? receiptButton(context.scope, session.id) : null,
      ),
    ),
  ];
}

function againButton({ app }, mitra) {
  return actionButton(
    t("Talk again"),
    async () => {
      await app.draft.set({ mitra, starting: true });
      go(`/history/${mitra.id}`);
    },
    { kind: "primary" },
  );
}

export function chatScreen(context) {
  const { client, params, scope } = context;
  const { id } = params;
  let noticeScope = scope.child();
  let shownKey = null;
  let status = null;
  const watch = new ExtensionWatch(scope, id, () => update(client.state.chats[id], view.notices));

  function update(chat, place) {
    const { session } = chat;
    if (status !== null && status !== session.status) announce(SPOKEN()[session.status] ?? "");
    status = session.status;
    const key = JSON.stringify([
      session.status,
      chat.warned,
      session.closures,
      watch.payment?.payment_request_id,
      watch.pending?.id,
      watch.refused?.id,
    ]);
    if (key === shownKey) return;
    shownKey = key;
    noticeScope.end();
    noticeScope = scope.child();
    const writing = document.activeElement?.closest(".notices") !== null;
    place.replaceChildren(...notices(context, noticeScope, chat, watch, session.mitra?.display_name ?? ""));
    if (writing) place.querySelector("textarea")?.focus();
  }

  const open = () => client.state.chats[id] && menu(context, client.state.chats[id].session, watch);
  const more = h(
    "button",
    { type: "button", class: "icon-button", "aria-label": t("More"), onclick: open },
    icon("more"),
  );
  const view = chatView(scope, id, { party: "mitra", back: backLink("#/"), end: [more], update });
  client.openChat(id).catch((error) => !scope.ended && showProblem(view.element, error));
  return { title: t("Chat"), className: "chat-screen", content: view.element };
}
