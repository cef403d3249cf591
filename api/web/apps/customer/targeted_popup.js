/** The popup when the chosen mitra is offline or declines: another mitra they know, or someone new. */

import { actionButton } from "/try/kit/buttons.js";
import { explain } from "/try/kit/errors.js";
import { avatar } from "/try/kit/links.js";
import { pagedList } from "/try/kit/paged_list.js";
import { openSheet } from "/try/kit/sheet.js";
import { day } from "/try/kit/times.js";
import { h } from "/try/shared/dom.js";
import { go } from "/try/shared/router.js";
import { toast } from "/try/shared/toast.js";
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
 * Try again with a payment that was made. If an operator was faster, the sheet closes, and the payment says what was done.
 */
async function tryAgain(client, paid, sheet, act) {
  try {
    await act();
  } catch (error) {
    if (error.code !== "FAILURE_ACTIONED") throw error;
    toast(explain(error));
    await client.readPayment(paid);
  }
  sheet.close();
}

/** Open the list of the mitras of earlier chats: one who is online is asked with the payment that was made. */
function openKnownMitras({ app, client, scope }, { paid, asked }) {
  const last = client.state.payments[paid]?.targeted_mitra_id;

  async function ask({ mitra_id: id, display_name }, sheet) {
    const before = app.draft.choices.mitra;
    asked();
    await app.draft.set({ mitra: { id, display_name } }); // the search shows their name
    try {
      await tryAgain(client, paid, sheet, () => client.retarget(paid, id));
    } catch (error) {
      await app.draft.set({ mitra: before });
      throw error;
    }
  }

  const row = (one, sheet) =>
    h(
      "div",
      { class: "row-link" },
      avatar(one.display_name, one.mitra_is_online),
      h(
        "span",
        { class: "row-main" },
        h("strong", { dir: "auto" }, one.display_name),
        h("small", {}, day(one.last_session_at)),
      ),
      one.mitra_id === last || !one.mitra_is_online
        ? h("span", { class: "badge" }, one.mitra_id === last ? t("Asked already") : t("Offline"))
        : actionButton(t("Ask"), () => ask(one, sheet), { name: t("Ask {name}", { name: one.display_name }) }),
    );
  openSheet(scope, {
    title: t("Ask another mitra you know"),
    content: (sheet) => [
      h("p", {}, t("Your payment counts; you don't pay again.")),
      pagedList(scope, {
        read: (cursor) => client.call("GET /api/client/chat/history", { query: cursor ? { cursor } : {} }),
        row: (one) => row(one, sheet),
        empty: h("p", { class: "empty" }, t("Your chats will be here.")),
      }),
    ],
  });
}

/**
 * Open the popup. `cause` is the search's cause tag, or the code with which the mitra could not be asked. After a payment,
 * `paid` is its id: someone new, or another mitra that the customer knows, is then asked with the same money. `asked()` is
 * called before that.
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
          await tryAgain(client, paid, sheet, () => client.fallBackToBlast(paid));
        },
        "primary",
      ),
      variant(
        scope,
        t("A mitra you know"),
        paid
          ? t("You choose another mitra of your earlier chats. Your payment counts; you don't pay again.")
          : t("Look who of your earlier mitras is online."),
        t("Choose another mitra"),
        () => (paid ? openKnownMitras({ app, client, scope }, { paid, asked }) : leave(sheet, "/history")),
        "plain",
      ),
    ],
  });
}
