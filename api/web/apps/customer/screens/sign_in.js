/** Sign-in: by phone, by the enabled identity providers, or anonymously. */

import { actionButton } from "/try/kit/buttons.js";
import { codeSignIn } from "/try/kit/code_sign_in.js";
import { explain } from "/try/kit/errors.js";
import { icon } from "/try/kit/icons.js";
import { backLink } from "/try/kit/links.js";
import { languageButton } from "/try/kit/looks.js";
import { scene } from "/try/kit/scenes.js";
import { openSheet } from "/try/kit/sheet.js";
import { topBar } from "/try/kit/shell.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { PROVIDERS, withIdentity } from "../identity.js";

const SIGNED_OUT = () => ({
  revoked: t("You were signed out on another device."),
  expired: t("Your sign-in has ended. Please sign in again."),
});

/** Make the button that signs in by a provider; `signedIn()` is called at the end. */
export function providerButton({ client, scope }, provider, signedIn) {
  const use = (...proof) => client.signInWithIdentity(...proof);
  return actionButton(
    t("Continue with {provider}", { provider: PROVIDERS[provider] }),
    async () => {
      if (await withIdentity(scope, provider, use)) await signedIn();
    },
    { icon: h("span", { class: "provider", "aria-hidden": "true" }, provider.toUpperCase()) },
  );
}

const anonymousButton = ({ app, client }, kind, closed = () => {}) =>
  actionButton(
    t("Continue without an account"),
    async () => {
      await client.signInAnonymously();
      closed();
      await app.signedIn();
    },
    { kind },
  );

export function signInScreen(context) {
  const { app, client } = context;
  const { providers } = app.service;
  const anonymous = client.state.user === null;
  const why = SIGNED_OUT()[client.state.signedOut];
  return {
    title: t("Sign in"),
    content: h(
      "div",
      { class: "screen" },
      topBar(
        anonymous ? t("How do you want to begin?") : t("Keep your chats"),
        backLink(anonymous ? "#/topics" : "#/"),
        anonymous ? languageButton(app.refresh) : null,
      ),
      why && h("p", { class: "notice warn" }, why),
      h(
        "p",
        { class: "lead" },
        anonymous
          ? t("With an account you find your chats again on any device.")
          : t("Sign in once, and you find your chats again on any device. What you have stays."),
      ),
      h("div", { class: "grow centered stack" }, scene("private")),
      h(
        "div",
        { class: "stack-buttons" },
        h("a", { class: "button primary", href: "#/sign-in/phone" }, icon("device"), t("Continue with your phone")),
        ["a", "b"]
          .filter((one) => providers[`identity_${one}`].enabled)
          .map((one) => providerButton(context, one, app.signedIn)),
        anonymous ? anonymousButton(context, "quiet") : null,
      ),
    ),
  };
}

/** The popup when no code can be sent or tried for some time. It offers to go on anonymously; all choices stay. */
function blockedSheet(context, error) {
  const anonymous = context.client.state.user === null;
  openSheet(context.scope, {
    title: t("Sign-in by code is paused"),
    content: (sheet) => [
      h("p", {}, explain(error)),
      anonymous ? h("p", {}, t("You can go on without an account. Your choices stay.")) : null,
      h(
        "div",
        { class: "stack-buttons" },
        anonymous ? anonymousButton(context, "primary", () => sheet.close()) : null,
        actionButton(t("Wait"), () => sheet.close()),
      ),
    ],
  });
}

export function phoneScreen(context) {
  const { app, client, scope } = context;
  return {
    title: t("Your phone number"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("Your phone number"), backLink("#/sign-in"), client.state.user ? null : languageButton(app.refresh)),
      h("p", { class: "lead" }, t("We send you a code by SMS. Your mitra never sees your number.")),
      codeSignIn(scope, { signedIn: () => app.signedIn(), blocked: (error) => blockedSheet(context, error) }),
    ),
  };
}
