/** The people that the user has blocked; each block can be lifted. */

import { actionButton } from "/try/kit/buttons.js";
import { avatar, backLink } from "/try/kit/links.js";
import { pagedList } from "/try/kit/paged_list.js";
import { confirmSheet } from "/try/kit/sheet.js";
import { topBar } from "/try/kit/shell.js";
import { day } from "/try/kit/times.js";
import { h } from "/try/shared/dom.js";
import { toast } from "/try/shared/toast.js";
import { t } from "/try/shared/words.js";

/** Return the screen of an app. `back` is the address of the screen before it. */
export const blocksScreen =
  (back) =>
  ({ client, scope }) => {
    const place = h("div", {});
    const heading = topBar(t("Blocked people"), backLink(back));

    function row({ session_id: sessionId, display_name: known, blocked_at: at }) {
      const name = known ?? t("No name");
      const unblock = async () => {
        const done = await confirmSheet(scope, {
          title: t("Unblock {name}?", { name }),
          text: t("You two can be paired again."),
          submit: t("Unblock"),
          act: () => client.unblock(sessionId),
        });
        if (!done || scope.ended) return;
        show();
        toast(t("{name} is no longer blocked.", { name }));
        heading.querySelector("h1").focus(); // the button is gone
      };
      return h(
        "div",
        { class: "row-link" },
        avatar(name),
        h(
          "span",
          { class: "row-main" },
          h("strong", { dir: "auto" }, name),
          h("small", {}, t("Blocked on {day}", { day: day(at) })),
        ),
        actionButton(t("Unblock"), unblock, { kind: "quiet", name: `${t("Unblock")}: ${name}` }),
      );
    }

    function show() {
      place.replaceChildren(
        pagedList(scope, {
          read: (cursor) => client.blocks(cursor),
          row,
          empty: h("p", { class: "empty" }, t("You have not blocked anyone.")),
        }),
      );
    }

    show();
    return {
      title: t("Blocked people"),
      content: h(
        "div",
        { class: "screen" },
        heading,
        h("p", { class: "lead" }, t("You are not paired with these people. They don't know of it.")),
        place,
      ),
    };
  };
