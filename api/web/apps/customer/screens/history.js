/** Mitras of earlier chats, and the chats with one of them. */

import { actionButton, showProblem } from "/try/kit/buttons.js";
import { icon } from "/try/kit/icons.js";
import { avatar, backLink, rowLink } from "/try/kit/links.js";
import { pagedList } from "/try/kit/paged_list.js";
import { scene } from "/try/kit/scenes.js";
import { topBar } from "/try/kit/shell.js";
import { day, moment } from "/try/kit/times.js";
import { topicName } from "/try/kit/topics.js";
import { h } from "/try/shared/dom.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { targetedPopup } from "../targeted_popup.js";

const onlineBadge = (online) =>
  online ? h("span", { class: "badge good" }, t("Online")) : h("span", { class: "badge" }, t("Offline"));

/** Make the row of a mitra in the history. */
export const mitraRow = (row) =>
  rowLink(
    `#/history/${row.mitra_id}`,
    avatar(row.display_name, row.mitra_is_online),
    row.display_name,
    [day(row.last_session_at), ...(row.topics ?? []).slice(0, 2).map(topicName)].join(" · "),
    onlineBadge(row.mitra_is_online),
  );

export function historyScreen({ client, scope }) {
  return {
    title: t("Mitras you know"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("Mitras you know"), backLink("#/")),
      pagedList(scope, {
        read: (cursor) => client.call("GET /api/client/chat/history", { query: cursor ? { cursor } : {} }),
        row: mitraRow,
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

const STATES = () => ({
  active: t("Running"),
  expired: t("Time is up"),
  closing: t("Goodbyes"),
  completed: t("Ended"),
});

const sessionRow = (session) =>
  rowLink(
    `#/chat/${session.id}`,
    h("span", { class: "avatar" }, icon(session.mode === "call" ? "phone" : "chat")),
    moment(session.paired_at ?? session.created_at),
    [t("{n} minutes", { n: (session.duration_minutes ?? 0) + session.extended_minutes }), STATES()[session.status]]
      .filter(Boolean)
      .join(" · "),
    session.unread_count ? h("span", { class: "count" }, session.unread_count) : icon("next"),
  );

export function mitraScreen(context) {
  const { app, client, params, scope } = context;
  const { id } = params;
  const head = h("div", { class: "card mitra-card" }, h("p", { class: "empty" }, t("Loading")));
  const content = h(
    "div",
    { class: "screen" },
    topBar(t("Your mitra"), backLink("#/history")),
    head,
    h("h2", {}, t("Your chats")),
    pagedList(scope, {
      read: (cursor) =>
        client.call("GET /api/client/chat/sessions", { query: { mitra_id: id, ...(cursor && { cursor }) } }),
      row: sessionRow,
      empty: h("p", { class: "empty" }, t("Your chats will be here.")),
    }),
  );

  function show(row) {
    const mitra = { id, display_name: row.display_name };
    const again = actionButton(
      t("Chat with {name} again", { name: row.display_name }),
      async () => {
        if (!row.mitra_is_online) return targetedPopup(context, { name: row.display_name });
        await app.draft.set({ mitra, starting: true, topics: row.topics ?? app.draft.choices.topics });
        go("/prices");
      },
      { kind: "primary" },
    );
    head.replaceChildren(
      h(
        "div",
        { class: "row-link" },
        avatar(row.display_name, row.mitra_is_online),
        h(
          "span",
          { class: "row-main" },
          h("strong", {}, row.display_name),
          h("small", {}, row.sessions_count === 1 ? t("1 session") : t("{n} sessions", { n: row.sessions_count })),
        ),
        onlineBadge(row.mitra_is_online),
      ),
      row.topics?.length
        ? h(
            "p",
            { class: "badges" },
            row.topics.map((topic) => h("span", { class: "badge" }, topicName(topic))),
          )
        : "",
      again,
    );
  }

  client
    .call("GET /api/client/chat/history", { query: { limit: 200 } })
    .then(({ items }) => {
      const row = items.find((one) => one.mitra_id === id);
      if (!scope.ended && row) show(row);
      else head.hidden = true;
    })
    .catch((error) => !scope.ended && showProblem(head, error));
  return { title: t("Your mitra"), content };
}
