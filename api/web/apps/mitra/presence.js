/** The switch with which a mitra goes online and offline, and why they are offline. */

import { showProblem } from "/try/kit/buttons.js";
import { moment } from "/try/kit/times.js";
import { freshId, h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { runningChats } from "./chat_rows.js";

const REASONS = () => ({
  stale: t("Your phone was silent for too long, so you were taken offline."),
  operator: t("An operator took you offline."),
});

/** Return the sentence below the switch. */
function explanation({ status, statusReason, chats }) {
  if (status === null) return t("Reading your status…");
  if (!status.is_online) return REASONS()[statusReason] ?? t("You get no chat requests.");
  const taken = runningChats(chats).filter(({ session }) => session.status !== "closing").length;
  if (taken >= status.max_sessions) return t("All your places are taken: no new requests for now.");
  return t("{n} of {max} places are taken.", { n: taken, max: status.max_sessions });
}

/** Make the card with the switch. */
export function presenceCard({ client, scope }) {
  const label = freshId();
  const title = h("strong", { id: label });
  const text = h("p", { role: "status" });
  const sign = h("p", { hidden: true });
  const toggle = h(
    "button",
    { type: "button", class: "switch", role: "switch", "aria-label": t("Online"), onclick: change },
    h("span", { class: "knob" }),
  );
  const card = h(
    "section",
    { class: "card presence", "aria-labelledby": label },
    h("div", {}, title, text, sign),
    toggle,
  );

  async function change() {
    if (toggle.ariaDisabled === "true") return;
    toggle.ariaDisabled = "true"; // `disabled` would lose the focus
    showProblem(card, null);
    try {
      await (client.state.status?.is_online ? client.goOffline() : client.goOnline());
    } catch (error) {
      if (card.isConnected) showProblem(card, error);
    } finally {
      toggle.ariaDisabled = "false";
    }
  }

  scope.watch((state) => {
    const online = state.status?.is_online ?? false;
    card.classList.toggle("online", online);
    card.classList.toggle("taken-offline", !online && state.statusReason in REASONS());
    toggle.ariaChecked = String(online);
    title.textContent = online ? t("You are online") : t("You are offline");
    const words = explanation(state);
    if (text.textContent !== words) text.textContent = words;
    const at = state.status?.reachable_at;
    sign.hidden = !(online && at);
    sign.textContent = sign.hidden
      ? ""
      : t("Your phone last gave a sign during a check on {time}.", { time: moment(at) });
  });
  return card;
}
