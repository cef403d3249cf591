/** The mitra's earlier chats, newest first. */

import { icon } from "/try/kit/icons.js";
import { avatar, backLink, rowLink } from "/try/kit/links.js";
import { pagedList } from "/try/kit/paged_list.js";
import { scene } from "/try/kit/scenes.js";
import { topBar } from "/try/kit/shell.js";
import { moment } from "/try/kit/times.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

const STATES = () => ({
  active: t("Running"),
  expired: t("Time is up"),
  closing: t("Goodbyes"),
  completed: t("Ended"),
});

function row(session) {
  const name = session.customer.display_name ?? t("No name");
  const minutes = (session.duration_minutes ?? 0) + session.extended_minutes;
  const about = [moment(session.paired_at ?? session.created_at), t("{n} minutes", { n: minutes })];
  if (session.mode === "call") about.push(t("Call"));
  const state = h("span", { class: `badge ${session.status === "completed" ? "" : "good"}` }, STATES()[session.status]);
  return rowLink(
    `#/chat/${session.id}`,
    avatar(name),
    name,
    about.join(" · "),
    session.status === "completed" ? icon("next") : state,
  );
}

export function historyScreen({ client, scope }) {
  return {
    title: t("Earlier chats"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("Earlier chats"), backLink("#/")),
      pagedList(scope, {
        read: (cursor) => client.call("GET /api/mitra/chat/history", { query: cursor ? { cursor } : {} }),
        row,
        empty: h(
          "div",
          { class: "stack centered" },
          scene("cup"),
          h("p", { class: "empty" }, t("Your chats will be here.")),
        ),
      }),
    ),
  };
}
