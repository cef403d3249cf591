/** The receipt of a completed session: what was paid, and whether the service's keys verify it. */

import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { actionButton } from "./buttons.js";
import { icon } from "./icons.js";
import { openSheet } from "./sheet.js";
import { clock, moment } from "./times.js";

const VERIFIED = (verified) =>
  verified === null
    ? t("This browser can't verify the signature.")
    : verified
      ? t("The signature is valid.")
      : t("The signature is not valid.");

const COMPARED = () => ({
  equal: t("The messages on this device are the ones of the service."),
  different: t("The messages on this device differ from those of the service."),
  unchecked: null,
});

/** Make the link that stores a receipt as a file. `scope` frees its memory. */
function download(scope, signed) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(signed, null, 2)], { type: "application/json" }));
  scope.add(() => URL.revokeObjectURL(url));
  return h("a", { class: "button", href: url, download: `sesi-${signed.receipt.session_id}.json` }, t("Download"));
}

/** Make the button that reads, verifies and shows the receipt of a session. */
export const receiptButton = (scope, sessionId) =>
  actionButton(
    t("Receipt"),
    async () => {
      const { client } = scope;
      const signed = await client.receipt(sessionId);
      const verified = await client.verifyReceipt(signed);
      const { receipt } = signed;
      const compared = COMPARED()[client.state.chats[sessionId]?.digest ?? "unchecked"];
      const rows = [
        [t("Time paid"), clock(receipt.seconds_paid)],
        [t("Time in which you both could talk"), clock(receipt.seconds_both_could_talk)],
        [t("Time given back"), clock(receipt.seconds_credited)],
        [t("Messages"), String(receipt.messages)],
        [t("Completed"), moment(receipt.completed_at)],
        [t("Digest of the chat"), receipt.digest ? h("code", { class: "digest" }, receipt.digest) : t("removed")],
      ];
      openSheet(scope, {
        title: t("Receipt"),
        content: () =>
          h(
            "div",
            { class: "stack" },
            h(
              "dl",
              { class: "receipt-facts" },
              ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
            ),
            h("p", { class: `receipt-verified ${verified === false ? "bad" : ""}` }, VERIFIED(verified)),
            ...(compared ? [h("p", { class: "receipt-compared" }, compared)] : []),
            download(scope, signed),
          ),
      });
    },
    { icon: icon("wallet") },
  );
