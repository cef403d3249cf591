/** A chat: its head with the time that is left, its messages, a place for notices, and the composer. */

import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { composer } from "./composer.js";
import { countdown } from "./countdown.js";
import { icon } from "./icons.js";
import { firstLetter } from "./links.js";
import { MessageLog } from "./message_log.js";
import { clock as minutes, timeOfDay } from "./times.js";

/** Return the time that the chat counts down to: the end of the paid time, or of the goodbyes. */
export function countsTo(session) {
  if (session.status === "active") return session.expires_at;
  return session.status === "expired" || session.status === "closing" ? session.grace_ends_at : null;
}

const FROZEN = () => ({
  searching: t("The chat has not begun."),
  expired: t("The time is up."),
  closing: t("The chat has ended."),
  completed: t("The chat is over."),
  cancelled: t("The chat is over."),
  failed: t("The chat is over."),
});

/** Say that paid time was given back, and why. */
function creditText({ addedSeconds, reason }) {
  const time = minutes(addedSeconds);
  return reason === "mitra_absent"
    ? t("{time} was added, because the mitra was away.", { time })
    : t("{time} was added, because the service was out.", { time });
}

/**
 * Make the view of a session. `party` is the other one, "mitra" or "customer". `back` is the node at the left of the head, `end` nodes at its right. `update(chat)`, if
 * given, is called with each state: `update(chat, notices)`; the app puts its own nodes into `notices`. `frozen(chat)` may replace the text that
 * stands in a frozen composer.
 *
 * @returns {{ element: HTMLElement, notices: HTMLElement, log: MessageLog, focus: () => void }}
 */
export function chatView(scope, sessionId, { party, back = null, end = [], update = null, frozen = (_chat) => null }) {
  const client = scope.client;
  const chatOf = (state) => state.chats[sessionId];
  const name = h("h1", { tabindex: "-1", dir: "auto" });
  const avatar = h("span", { class: "avatar", "aria-hidden": "true" });
  const badges = h("span", { class: "badges" });
  const notices = h("div", { class: "notices" });
  const away = h("p", { class: "peer-away", role: "status", hidden: true });
  const left = countdown(scope, () => chatOf(client.state) && countsTo(chatOf(client.state).session), {
    label: t("Time left"),
    spoken: { 180: t("Three minutes left."), 60: t("One minute left.") },
  });
  const clock = h("span", { class: "chat-clock" }, left);
  const credit = h("p", { class: "chat-credit", role: "status", hidden: true });
  const field = composer(sessionId, {
    send: (text) => client.send(sessionId, text),
    typing: () => client.typing(sessionId),
  });
  const log = new MessageLog({
    earlier: () => client.loadEarlier(sessionId),
    resend: (message) => client.resend(message.clientMessageId),
    discard: (message) => client.discard(message.clientMessageId),
    seen: () => seen(),
  });

  function seen() {
    const chat = chatOf(client.state);
    if (chat?.unread > 0 && log.atEnd && document.visibilityState === "visible" && document.hasFocus()) {
      client.markRead(sessionId);
    }
  }

  let shownBadges = null;
  function showBadges({ mode, topic_sensitivity: sensitivity }, digest) {
    const key = mode + sensitivity + digest;
    if (shownBadges === key) return;
    shownBadges = key;
    badges.replaceChildren(
      ...(mode === "call" ? [h("span", { class: "badge call" }, icon("phone"), t("Call"))] : []),
      ...(sensitivity === "sensitive" ? [h("span", { class: "badge sensitive" }, t("Sensitive"))] : []),
      ...(digest === "different" ? [h("span", { class: "badge sensitive" }, t("Messages differ"))] : []),
    );
  }

  let frozenAs;
  function show(state) {
    const chat = chatOf(state);
    if (!chat) return;
    const { session } = chat;
    const other = session[party]?.display_name;
    name.textContent = other ?? t("No name");
    avatar.textContent = firstLetter(other ?? "?");
    showBadges(session, chat.digest);
    clock.hidden = countsTo(session) === null;
    clock.classList.toggle("urgent", session.status === "active" && chat.warned);
    clock.dataset.status = session.status;
    credit.hidden = !chat.credit || session.status !== "active";
    const given = credit.hidden ? "" : creditText(chat.credit);
    if (credit.textContent !== given) credit.textContent = given;
    const { absent } = chat.peer;
    away.hidden = absent === null;
    const isAway = absent ? t("{name} is away since {time}.", { name: name.textContent, time: timeOfDay(absent) }) : "";
    if (away.textContent !== isAway) away.textContent = isAway; // a screen reader reads it again when it is set
    log.update(chat, name.textContent);
    const reason = session.status === "active" ? null : (frozen(chat) ?? FROZEN()[session.status]);
    if (reason !== frozenAs) field.freeze(reason);
    frozenAs = reason;
    update?.(chat, notices);
    seen();
  }

  const element = h(
    "div",
    { class: "chat" },
    h(
      "header",
      { class: "chat-head" },
      back,
      avatar,
      h("div", { class: "chat-who" }, name, badges),
      clock,
      end,
      credit,
    ),
    log.element,
    away,
    notices,
    field.element,
  );
  scope.watch(show);
  scope.every(500, () => {
    const chat = chatOf(client.state);
    const typing = chat?.typingUntil && chat.typingUntil > client.now();
    log.showTyping(typing ? t("{name} is writing…", { name: name.textContent }) : null);
  });
  scope.listen(document, "visibilitychange", seen);
  scope.listen(window, "focus", seen);
  return { element, notices, log, focus: field.focus };
}
