/**
 * The mitra's desk: their status, chat requests and chats. On a wide screen it stands at the left of every screen; on a
 * phone it is the first screen, and the other screens have a line that says when a request waits.
 */

import { icon } from "/try/kit/icons.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { chatRows } from "./chat_rows.js";
import { presenceCard } from "./presence.js";
import { requestCards } from "./requests.js";
import { requestsLine } from "./requests_line.js";

export const WIDE = matchMedia("(min-width: 60rem)"); // as in mitra.css

/** Make the desk. `openId` is the session that is open next to it, if any; `heading` is the tag of the mitra's name. */
export function desk(context, { openId = null, heading = "h1" } = {}) {
  const { user } = context.client.state;
  const head = h(
    "header",
    { class: "home-head" },
    h("p", { class: "quiet" }, t("Hello,")),
    h(heading, { tabindex: "-1" }, user.display_name),
    h(
      "nav",
      { class: "home-links", "aria-label": t("Menu") },
      h("a", { class: "icon-button", href: "#/history", "aria-label": t("Earlier chats") }, icon("clock")),
      h("a", { class: "icon-button", href: "#/account", "aria-label": t("Account") }, icon("person")),
    ),
  );
  return h("div", { class: "desk" }, head, presenceCard(context), requestCards(context), chatRows(context, openId));
}

/** Return a screen that has the desk or the line of waiting requests, too. */
export function withDesk(screen) {
  const shown = (context) => {
    const made = screen(context);
    const beside = WIDE.matches
      ? h(
          "aside",
          { class: "desk-side", "aria-label": t("Desk") },
          desk(context, { openId: context.params.id, heading: "h2" }),
        )
      : null;
    const line = WIDE.matches || made.isDesk ? null : requestsLine(context);
    return {
      ...made,
      content: h(
        "div",
        { class: `with-desk ${WIDE.matches ? "wide" : ""}` },
        beside,
        h("div", { class: "beside-desk" }, line, made.content),
      ),
    };
  };
  return shown;
}
