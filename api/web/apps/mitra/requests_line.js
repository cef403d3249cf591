/** The line at the top of a phone's screen that says when a chat request or another chat waits. */

import { countdown } from "/try/kit/countdown.js";
import { icon } from "/try/kit/icons.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

/** Make the line. It leads to the desk, and is hidden while nothing waits. */
export function requestsLine({ client, scope, params }) {
  const first = () => client.state.requests[0];
  const text = h("span", {});
  const left = countdown(scope, () => first()?.answer_by, { label: t("Time left to answer") });
  const line = h("a", { class: "requests-line", href: "#/" }, text, left, icon("next"));
  scope.watch((state) => {
    const { length: waiting } = state.requests;
    const others = Object.values(state.chats).filter(({ session, unread }) => unread > 0 && session.id !== params.id);
    line.hidden = waiting + others.length === 0;
    left.hidden = waiting === 0;
    line.classList.toggle("urgent", waiting > 0);
    const name = waiting ? first().customer_display_name : others[0]?.session.customer.display_name;
    const words = waiting
      ? t("Chat request of {name}", { name: name ?? t("No name") })
      : t("New messages of {name}", { name: name ?? t("No name") });
    if (text.textContent !== words) text.textContent = words;
  });
  return h("div", { role: "status" }, line);
}
