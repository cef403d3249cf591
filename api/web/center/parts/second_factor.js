/** Dialogs of the second factor: set it up, remove it, and enter a code when the service needs a fresh one. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field } from "../shared/form.js";
import { t } from "../shared/words.js";
import { qr } from "./qr.js";

const TOTP = "/internal/auth/totp";

/** An input for a code: the digits of an authenticator, or the letters of a recovery code. */
export const codeInput = (name = "code") =>
  h("input", { name, autocomplete: "one-time-code", autocapitalize: "none", spellcheck: "false", required: true });

const password = () => [
  h("input", { type: "text", name: "username", autocomplete: "username", value: session.operator.email, hidden: true }),
  field(
    t("Current password"),
    h("input", { type: "password", name: "password", autocomplete: "current-password", required: true }),
  ),
];

/** Set up or replace the caller's second factor. Resolves with whether that was done. */
export async function setUp({ totp_enabled, totp_required }) {
  const title = t("Set up the second factor");
  const code = totp_enabled
    ? field(t("Code"), codeInput(), t("from your authenticator app, or a recovery code"))
    : totp_required && field(t("One-time code"), codeInput(), t("that an administrator gave you"));
  const begun = await ask({
    title,
    content: [password(), code],
    submit: t("Continue"),
    send: (data) =>
      api.post(`${TOTP}/begin`, {
        password: data.get("password"),
        ...(code && { code: data.get("code").trim() }),
      }),
  });
  if (!begun) return false;
  const done = await ask({
    title,
    content: [
      h(
        "p",
        {},
        t("Scan this with an authenticator app, or type the secret into it. Then enter the code that it shows."),
      ),
      qr(begun.otpauth_uri, t("QR code of the secret")),
      h("p", {}, t("Secret"), ": ", h("code", { class: "id" }, begun.secret.replaceAll(/(.{4})(?=.)/g, "$1 "))),
      field(t("Code"), codeInput()),
    ],
    submit: t("Confirm"),
    send: (data) => api.post(`${TOTP}/confirm`, { code: data.get("code").trim() }),
  });
  if (!done) return false;
  await ask({
    title: t("Recovery codes"),
    content: [
      h(
        "p",
        {},
        t("Each of these signs you in once without the app. Keep them in a safe place: they are not shown again."),
      ),
      h(
        "ul",
        { class: "codes" },
        done.recovery_codes.map((one) => h("li", {}, h("code", {}, one))),
      ),
    ],
    submit: t("I have saved them"),
    cancel: false,
    send: () => true,
  });
  return true;
}

/** Remove the caller's second factor. Resolves with whether that was done. */
export const remove = () =>
  ask({
    title: t("Remove the second factor"),
    content: [password(), field(t("Code"), codeInput(), t("from your authenticator app, or a recovery code"))],
    submit: t("Remove"),
    danger: true,
    send: (data) => api.delete(TOTP, undefined, { password: data.get("password"), code: data.get("code").trim() }),
  });

/** Ask for a fresh code. Resolves with whether the service has accepted one. */
export const stepUp = () =>
  ask({
    title: t("Enter a code"),
    content: [
      h("p", {}, t("This needs a new code from your second factor. The confirmation lasts 5 minutes.")),
      field(t("Code"), codeInput(), t("from your authenticator app, or a recovery code")),
    ],
    submit: t("Confirm"),
    send: (data) => api.post("/internal/auth/step-up", { code: data.get("code").trim() }),
  });

/**
 * Show the one-time code that an operator needs to set up a second factor, if the answer `done` has one. Returns `done`.
 */
export async function handOver(done, name) {
  if (done?.enrolment_code)
    await ask({
      title: t("One-time code for {name}", { name }),
      content: [
        h("p", {}, t("Give it to them in person or by phone. It is valid for 24 hours and is not shown again.")),
        h("p", {}, h("code", { class: "code" }, done.enrolment_code)),
      ],
      submit: t("Done"),
      cancel: false,
      send: () => true,
    });
  return done;
}
