/** Reporting and blocking the other party of a chat, while it runs and after it. */

import { freshId, h } from "/try/shared/dom.js";
import { toast } from "/try/shared/toast.js";
import { t } from "/try/shared/words.js";
import { actionButton } from "./buttons.js";
import { icon } from "./icons.js";
import { confirmSheet, openSheet } from "./sheet.js";

const MAX_CHARACTERS = 1000;
const REASONS = () => ({
  no_answer: t("No answer"),
  rude: t("Rude or without respect"),
  harassment: t("Harassment or threats"),
  sexual: t("Sexual content"),
  self_harm: t("Danger of self-harm"),
  scam: t("Scam, or asking for money"),
  other: t("Something else"),
});
const BLOCKING = () =>
  t(
    "You two are never paired again. A chat that runs goes on, without more time. You can lift the block in your account.",
  );

/** Ask whether to block the other party of a session, and do it. */
async function block(scope, sessionId, name, question) {
  const done = await confirmSheet(scope, {
    ...question,
    submit: t("Block {name}", { name }),
    cancel: t("Not now"),
    danger: true,
    act: () => scope.client.block(sessionId),
  });
  if (done) toast(t("{name} is blocked.", { name }));
}

/** Send a report. One that the service has already counts as sent. */
async function send(client, ...report) {
  try {
    await client.report(...report);
  } catch (error) {
    if (error.code !== "ALREADY_REPORTED") throw error;
  }
}

const reasonPick = ([value, text]) =>
  h("label", { class: "reason" }, h("input", { type: "radio", name: "reason", value }), h("span", {}, text));

/** Make the form of a report. `sent()` is called when the service has it. */
function reportForm(client, sessionId, name, sent) {
  const id = freshId();
  const missing = h("p", { class: "field-problem", id: `${id}-missing`, role: "alert" });
  const message = h("textarea", { id, rows: 3, dir: "auto", maxlength: MAX_CHARACTERS });
  const submit = actionButton(
    t("Send the report"),
    async () => {
      const reason = /** @type {HTMLInputElement | null} */ (form.querySelector("input:checked"));
      missing.textContent = reason ? "" : t("Choose a reason.");
      if (!reason) return form.querySelector("input").focus();
      await send(client, sessionId, reason.value, message.value.trim() || null);
      sent();
    },
    { kind: "primary", type: "submit" },
  );
  const form = h(
    "form",
    { class: "stack", novalidate: true, onsubmit: (event) => event.preventDefault() },
    h("p", {}, t("Our team reads your report. {name} isn't told.", { name })),
    h(
      "fieldset",
      { class: "choice", "aria-describedby": missing.id },
      h("legend", {}, t("Why do you report this chat?")),
      missing,
      h("div", { class: "reasons" }, Object.entries(REASONS()).map(reasonPick)),
    ),
    h("div", { class: "field" }, h("label", { for: id }, t("What happened? (if you like)")), message),
    submit,
  );
  return form;
}

/** Open the form of a report. Afterwards offer to block the other party. */
async function report(scope, sessionId, name) {
  const sheet = openSheet(scope, {
    title: t("Report {name}", { name }),
    content: (self) => reportForm(scope.client, sessionId, name, () => self.close(true)),
  });
  if (await sheet.closed) {
    await block(scope, sessionId, name, {
      title: t("Our team has your report"),
      text: `${t("Do you also want to block {name}?", { name })} ${BLOCKING()}`,
    });
  }
}

/** Make the buttons of a chat's menu that report and block the other party. `close()` closes the menu. */
export function safetyButtons(scope, sessionId, name, close) {
  const button = (label, picture, act) =>
    actionButton(
      label,
      () => {
        close();
        act();
      },
      { icon: icon(picture) },
    );
  return [
    button(t("Report {name}", { name }), "report", () => report(scope, sessionId, name)),
    button(t("Block {name}", { name }), "block", () =>
      block(scope, sessionId, name, {
        title: t("Block {name}?", { name }),
        text: `${t("{name} isn't told.", { name })} ${BLOCKING()}`,
      }),
    ),
  ];
}
