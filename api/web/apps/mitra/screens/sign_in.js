/** The sign-in of a mitra: by a code to the number that an operator has registered. */

import { codeSignIn } from "/try/kit/code_sign_in.js";
import { languageButton } from "/try/kit/looks.js";
import { scene } from "/try/kit/scenes.js";
import { topBar } from "/try/kit/shell.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

const SIGNED_OUT = () => ({
  // The notice of a deactivation can come too late, so this text has to fit both.
  revoked: t("You were signed out: on another device, or because an operator has deactivated your account."),
  expired: t("Your sign-in has ended. Please sign in again."),
});

export function signInScreen({ app, client, scope }) {
  const why = app.deactivated
    ? t("An operator has deactivated your account, so you were signed out.")
    : SIGNED_OUT()[client.state.signedOut];
  return {
    title: t("Sign in"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("For mitras"), null, languageButton(app.refresh)),
      h("div", { class: "centered stack" }, scene("listen")),
      why && h("p", { class: "notice warn" }, why),
      h("p", { class: "lead" }, t("Sign in with the number that your operator knows. We send a code to it.")),
      codeSignIn(scope, { phone: app.phone, signedIn: () => {} }),
    ),
  };
}
