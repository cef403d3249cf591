/** A chat of the mitra: running, frozen, in goodbyes, or over. */

import { actionButton, showProblem } from "/try/kit/buttons.js";
import { chatView } from "/try/kit/chat_view.js";
import { goodbyeForm, goodbyeOf, goodbyes } from "/try/kit/goodbyes.js";
import { icon } from "/try/kit/icons.js";
import { backLink } from "/try/kit/links.js";
import { receiptButton } from "/try/kit/receipt.js";
import { safetyButtons } from "/try/kit/safety.js";
import { confirmSheet, openSheet } from "/try/kit/sheet.js";
import { announce } from "/try/kit/status_line.js";
import { topicName } from "/try/kit/topics.js";
import { h } from "/try/shared/dom.js";
import { toast } from "/try/shared/toast.js";
import { t } from "/try/shared/words.js";
import { extensionNotice, extensionOutcome } from "../extension.js";
import { canMark, changeMark, confirmMark, markLabel } from "../sensitivity.js";

const SPOKEN = () => ({
  active: t("The chat goes on."),
  expired: t("The time is up."),
  closing: t("The chat has ended."),
  completed: t("The chat is over."),
});

const nameOf = (session) => session.customer.display_name ?? t("No name");

/** End the chat, after one question or two, as the service's configuration says. */
async function endChat({ app, client, scope }, session) {
  const twice = app.service.config.end_session_two_step_confirm;
  const question = { submit: t("End the chat"), cancel: t("Go on talking"), danger: true };
  const text = t("{name} can't write any more. Both of you can still say goodbye.", { name: nameOf(session) });
  const end = () => client.end(session.id);
  const sure = await confirmSheet(scope, {
    ...question,
    title: t("End the chat?"),
    text,
    act: twice ? undefined : end,
  });
  if (sure && twice) {
    const last = {
      title: t("Are you sure?"),
      text: t("The chat ends for both of you now."),
      submit: t("Yes, end it now"),
    };
    await confirmSheet(scope, { ...question, ...last, act: end });
  }
}

const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

function facts(session) {
  const minutes = t("{n} minutes", { n: session.duration_minutes ?? 0 });
  const extended = t("{n} minutes and {m} more", { n: session.duration_minutes ?? 0, m: session.extended_minutes });
  return h(
    "dl",
    { class: "chat-facts" },
    fact(t("Kind"), session.mode === "call" ? t("Call") : t("Chat")),
    fact(t("Paid time"), session.extended_minutes ? extended : minutes),
    session.topics?.length ? fact(t("Topics"), session.topics.map(topicName).join(", ")) : null,
  );
}

/** Open the sheet with the facts of the chat, the mark and the end. */
function menu(context, id) {
  const { app, client, scope } = context;
  const { session } = client.state.chats[id];
  const { config } = app.service;
  const endable = session.status === "expired" || (session.status === "active" && config.early_end_mitra_enabled);
  openSheet(scope, {
    title: t("This chat"),
    content: (sheet) => [
      facts(session),
      h(
        "div",
        { class: "stack-buttons" },
        canMark(session, config)
          ? actionButton(
              markLabel(session),
              async () => {
                if (config.sensitive_flip_confirmation_enabled) {
                  sheet.close();
                  await confirmMark(scope, session, config);
                } else {
                  await changeMark(client, session);
                  sheet.close();
                }
              },
              { icon: icon("lock") },
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
        safetyButtons(scope, session.id, nameOf(session), sheet.close),
      ),
    ],
  });
}

const section = (label, className, ...content) =>
  h("section", { class: `notice ${className}`, "aria-label": label }, content);

/** Return the notices below the messages: what the mitra can do now. `scope` ends with them; `sheets` stays. */
function notices(scope, chat, sheets) {
  const { session, warned } = chat;
  const { status } = session;
  const name = nameOf(session);
  const asked = extensionNotice(scope, chat, name);
  if (status === "active") {
    if (asked || !warned) return [asked].filter(Boolean);
    return [
      section(
        t("Warning"),
        "warn",
        h("p", {}, t("Less than three minutes are left. {name} can ask for more.", { name })),
      ),
    ];
  }
  const both = goodbyes(session, "mitra", name);
  if (status === "completed") {
    return [
      section(
        t("The chat is over."),
        "good",
        h("p", {}, h("strong", {}, t("The chat is over."))),
        both,
        h("div", { class: "stack-buttons" }, receiptButton(sheets, session.id)),
      ),
    ];
  }
  const own = goodbyeOf(session, "mitra");
  const title = status === "expired" ? t("The time is up.") : t("The chat has ended.");
  const text = own ? t("Your goodbye is on its way. We wait for {name}'s.", { name }) : t("You can still say goodbye.");
  const form = own ? null : goodbyeForm(scope, session.id, name);
  return [asked, section(t("Goodbye"), "", h("p", {}, h("strong", {}, title), " ", text), both, form)].filter(Boolean);
}

export function chatScreen(context) {
  const { client, params, scope } = context;
  const { id } = params;
  let noticeScope = scope.child();
  let shownKey = null;
  let status = null;

  function update(chat) {
    const { session, extension, warned } = chat;
    if (status !== null && status !== session.status) announce(SPOKEN()[session.status] ?? "");
    status = session.status;
    const key = JSON.stringify([session.status, warned, session.closures, extension?.id, extension?.status]);
    if (key === shownKey) return;
    shownKey = key;
    noticeScope.end();
    noticeScope = scope.child();
    const writing = view.notices.contains(document.activeElement);
    view.notices.replaceChildren(...notices(noticeScope, chat, scope));
    if (writing) (view.notices.querySelector("textarea") ?? view).focus(); // a removed field loses the focus
  }

  const open = () => client.state.chats[id] && menu(context, id);
  const more = h(
    "button",
    { type: "button", class: "icon-button", "aria-label": t("More"), onclick: open },
    icon("more"),
  );
  const view = chatView(scope, id, { party: "customer", back: backLink("#/"), end: [more] });
  scope.watch((state) => state.chats[id] && update(state.chats[id]));
  scope.events((frame) => {
    if (frame.type !== "extension_resolved" || frame.extension.session_id !== id) return;
    const words = extensionOutcome(frame.extension);
    if (words) toast(words);
  });
  client.openChat(id).catch((error) => {
    if (!scope.ended) showProblem(view.element, error);
  });
  return { title: t("Chat"), className: "chat-screen", content: view.element };
}
