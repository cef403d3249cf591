/** The mitra's running chats: the last message, what is unread, and the time that is left. */

import { countsTo } from "/try/kit/chat_view.js";
import { countdown } from "/try/kit/countdown.js";
import { avatar } from "/try/kit/links.js";
import { textOf } from "/try/kit/message_log.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

const RUNNING = ["active", "expired", "closing"];

/** Return the chats that are not over, the oldest first. */
export const runningChats = (chats) =>
  Object.values(chats)
    .filter(({ session }) => RUNNING.includes(session.status))
    .sort((a, b) => Date.parse(a.session.paired_at) - Date.parse(b.session.paired_at));

/** Return the line below the name: what the chat waits for, or its last message. */
function preview({ session, extension, messages }) {
  if (extension?.status === "pending") return t("Asks for more time");
  if (session.status === "expired") return t("The time is up.");
  if (session.status === "closing") return t("Saying goodbye");
  const last = messages.at(-1);
  if (!last) return t("Say hello");
  return last.own ? t("You: {text}", { text: textOf(last) }) : textOf(last);
}

class ChatRow {
  constructor({ client, scope }, id, isOpen) {
    this.scope = scope.child();
    this.name = h("strong", { dir: "auto" });
    this.last = h("small", { dir: "auto" });
    this.count = h("span", { class: "count" });
    this.picture = h("span", {});
    const left = countdown(this.scope, () => client.state.chats[id] && countsTo(client.state.chats[id].session), {
      label: t("Time left"),
    });
    this.clock = h("span", { class: "row-clock" }, left);
    const link = h(
      "a",
      { class: "row-link", href: `#/chat/${id}`, "aria-current": isOpen && "page" },
      this.picture,
      h("span", { class: "row-main" }, this.name, this.last),
      h("span", { class: "row-end" }, this.clock, this.count),
    );
    this.element = h("li", {}, link);
  }

  update(chat) {
    const { session, unread, warned } = chat;
    const name = session.customer.display_name ?? t("No name");
    if (this.name.textContent !== name) {
      this.name.textContent = name;
      this.picture.replaceChildren(avatar(name));
    }
    this.last.textContent = preview(chat);
    this.clock.classList.toggle("urgent", warned || session.status !== "active");
    this.count.hidden = unread === 0;
    this.count.replaceChildren(...(unread ? [h("span", { class: "hidden-label" }, t("Unread:")), String(unread)] : []));
  }
}

/** Make the list. `openId` is the chat that is open next to it. */
export function chatRows(context, openId) {
  const { scope } = context;
  const list = h("ul", { class: "rows chat-rows" });
  const empty = h("p", { class: "empty" }, t("You have no chats now."));
  const rows = new Map(); // session id -> ChatRow
  scope.watch(({ chats }) => {
    const running = runningChats(chats);
    const ids = new Set(running.map(({ session }) => session.id));
    for (const [id, row] of rows) {
      if (ids.has(id)) continue;
      row.scope.end();
      row.element.remove();
      rows.delete(id);
    }
    for (const chat of running) {
      const { id } = chat.session;
      if (!rows.has(id)) {
        rows.set(id, new ChatRow(context, id, id === openId));
        list.append(rows.get(id).element);
      }
      rows.get(id).update(chat);
    }
    list.hidden = running.length === 0;
    empty.hidden = running.length > 0;
  });
  return h("section", { class: "stack", "aria-label": t("Your chats") }, h("h2", {}, t("Your chats")), list, empty);
}
