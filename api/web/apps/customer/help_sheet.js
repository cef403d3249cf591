/** The admin-help sheet: two contacts of the team. */

import { actionButton } from "/try/kit/buttons.js";
import { icon } from "/try/kit/icons.js";
import { openSheet } from "/try/kit/sheet.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

async function openHelp(scope) {
  const { handles } = await scope.client.call("GET /api/client/support-handles");
  if (scope.ended) return;
  openSheet(scope, {
    title: t("Talk to our team"),
    content: () => [
      h("p", {}, t("We help you with payments, refunds and anything that went wrong.")),
      h(
        "div",
        { class: "stack-buttons" },
        handles.map(({ label, deeplink }) =>
          h("a", { class: "button", href: deeplink, target: "_blank", rel: "noopener noreferrer" }, label),
        ),
      ),
    ],
  });
}

/** Make the button that opens the sheet. */
export const helpButton = (scope, { kind = "quiet", name = null } = {}) =>
  actionButton(t("Ask our team for help"), () => openHelp(scope), { kind, name, icon: icon("help") });
