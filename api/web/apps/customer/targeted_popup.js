/** The popup when the chosen mitra is offline or declines: another mitra they know, or someone new. */

import { actionButton } from "/try/kit/buttons.js";
import { openSheet } from "/try/kit/sheet.js";
import { h } from "/try/shared/dom.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { helpButton } from "./help_sheet.js";

const REASONS = () => ({
  MITRA_OFFLINE: t("They are offline now."),
  MITRA_AT_CAPACITY: t("They are in other chats now."),
  targeted_mitra_offline: t("They are offline now."),
  targeted_mitra_rejected: t("They can't take a chat now."),
  targeted_mitra_timeout: t("They did not answer in time."),
});

function variant(scope, title, text, label, act, kind) {
  return h(
    "section",
    { class: "card", "aria-label": title },
    h("h3", {}, title),
    h("p", { class: "quiet" }, text),
    actionButton(label, act, { kind }),
    helpButton(scope, { name: `${t("Ask our team for help")}: ${title}` }),
  );
}

/**
 * Open the popup. `cause` is the search's cause tag, or the code with which the mitra could not be asked. After a payment,
 * `paid` is its id: someone new is then asked with the same money. The returning variant leads to the list of known mitras.
 */
export function targetedPopup(
  { app, client, scope },
  { name, cause = "MITRA_OFFLINE", paid = null, asked = () => {} },
) {
  const leave = async (sheet, path) => {
    await app.draft.set({ mitra: null, starting: true });
    sheet.close();
    go(path);
  };
  return openSheet(scope, {
    title: name ? t("{name} is not available", { name }) : t("Your mitra is not available"),
    content: (sheet) => [
      h("p", {}, REASONS()[cause]),
      variant(
        scope,
        t("Someone new"),
        paid
          ? t("We ask all free mitras. Your payment counts; you don't pay again.")
          : t("The first mitra who is free takes your chat."),
        t("Find someone new"),
        async () => {
          if (!paid) return leave(sheet, "/prices");
          asked();
          await client.fallBackToBlast(paid);
          sheet.close();
        },
        "primary",
      ),
      variant(
        scope,
        t("A mitra you know"),
        paid
          ? t("You choose and pay for a new session. Our team looks after the payment that you made.")
          : t("Look who of your earlier mitras is online."),
        t("Choose another mitra"),
        () => leave(sheet, "/history"),
        "plain",
      ),
    ],
  });
}
