/** The mitra's name and number, language and theme, devices, and the way out. */

import { actionButton } from "/try/kit/buttons.js";
import { icon } from "/try/kit/icons.js";
import { avatar, backLink, rowLink } from "/try/kit/links.js";
import { looks } from "/try/kit/looks.js";
import { confirmSheet } from "/try/kit/sheet.js";
import { topBar } from "/try/kit/shell.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

export function accountScreen({ app, client, scope }) {
  const { user } = client.state;
  const signOut = () =>
    confirmSheet(scope, {
      title: t("Sign out?"),
      text: t("You go offline and get no chat requests on this device."),
      submit: t("Sign out"),
      danger: true,
      act: async () => {
        if (client.state.status?.is_online) await client.goOffline();
        await client.signOut();
      },
    });
  return {
    title: t("Account"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("Account"), backLink("#/")),
      h(
        "div",
        { class: "card row-link" },
        avatar(user.display_name),
        h("span", { class: "row-main" }, h("strong", {}, user.display_name), h("small", {}, user.phone)),
      ),
      h(
        "ul",
        { class: "rows" },
        h("li", {}, rowLink("#/history", h("span", { class: "avatar" }, icon("clock")), t("Earlier chats"))),
        h("li", {}, rowLink("#/devices", h("span", { class: "avatar" }, icon("device")), t("Devices"))),
        h("li", {}, rowLink("#/blocks", h("span", { class: "avatar" }, icon("block")), t("Blocked people"))),
      ),
      h("div", { class: "card" }, looks(app.refresh)),
      actionButton(t("Sign out"), signOut, { icon: icon("leave") }),
    ),
  };
}
