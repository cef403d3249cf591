/** The customer's name, account, language and theme, and the way out. */

import { actionButton } from "/try/kit/buttons.js";
import { icon } from "/try/kit/icons.js";
import { avatar, backLink, rowLink } from "/try/kit/links.js";
import { looks } from "/try/kit/looks.js";
import { confirmSheet, openSheet } from "/try/kit/sheet.js";
import { topBar } from "/try/kit/shell.js";
import { h } from "/try/shared/dom.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { helpButton } from "../help_sheet.js";
import { nameForm } from "./name.js";

const picture = (name) => h("span", { class: "avatar" }, icon(name));

export function profileScreen({ app, client, scope }) {
  const { user } = client.state;
  const rename = () =>
    openSheet(scope, {
      title: t("Change your name"),
      content: (sheet) => nameForm(client, t("Save"), () => sheet.close()),
    });
  const signOut = () =>
    confirmSheet(scope, {
      title: t("Sign out?"),
      text: user.is_anonymous
        ? t("You have no account: your chats can't be found again after this.")
        : t("You can sign in again at any time."),
      submit: t("Sign out"),
      danger: user.is_anonymous,
      act: async () => {
        await client.signOut();
        await app.draft.reset();
        go("/");
      },
    });
  return {
    title: t("Profile"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("Profile"), backLink("#/")),
      h(
        "div",
        { class: "card profile-card row-link" },
        avatar(user.display_name),
        h(
          "span",
          { class: "row-main" },
          h("strong", {}, user.display_name),
          h("small", {}, user.phone ?? user.email ?? t("Without an account")),
        ),
        actionButton(t("Change"), rename, { kind: "quiet", name: t("Change your name") }),
      ),
      h(
        "ul",
        { class: "rows" },
        user.is_anonymous
          ? h(
              "li",
              {},
              rowLink(
                "#/sign-in",
                picture("lock"),
                t("Keep your chats"),
                t("Sign in, so that you find them on any device"),
              ),
            )
          : h("li", {}, rowLink("#/ways", picture("lock"), t("Ways to sign in"))),
        h("li", {}, rowLink("#/history", picture("people"), t("Mitras you know"))),
        h("li", {}, rowLink("#/payments", picture("wallet"), t("Payments"))),
        h("li", {}, rowLink("#/devices", picture("device"), t("Devices"))),
        h("li", {}, rowLink("#/blocks", picture("block"), t("Blocked people"))),
      ),
      h("div", { class: "card" }, looks(app.refresh)),
      h(
        "div",
        { class: "stack-buttons" },
        helpButton(scope),
        actionButton(t("Sign out"), signOut, { icon: icon("leave") }),
      ),
    ),
  };
}
